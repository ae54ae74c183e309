//! The stored combinations, and our program run with one of them.
//! Not the comparison.

use std::{
    fs,
    io::{Read, Seek},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use crate::built_shims;

pub const BUSBW: &str = env!("CARGO_BIN_EXE_busbw");

/// No run here takes more than a second or two, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(60);

/// Who moves the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Fake,
    Host,
    /// GPUs, by the shims of tests/shims.
    Gpu,
}

/// One stored run of the original.
pub struct Case {
    pub name: String,
    /// The whole line.
    pub command: String,
    /// NAME=value words in front of it.
    pub variables: Vec<(String, String)>,
    pub program: String,
    pub arguments: Vec<String>,
    pub stdout: String,
    pub report: Option<String>,
}

/// What a program did.
pub struct Finished {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// What ours did: the run, its report, and its record shown again.
pub struct Ran {
    pub finished: Finished,
    pub report: Option<String>,
    pub record: String,
    pub shown: Finished,
}

impl Case {
    /// Every stored run, by name.
    pub fn all() -> Vec<Case> {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|e| e == "cmd"));
        paths.sort();
        paths.iter().map(|path| Case::read(path)).collect()
    }

    fn read(path: &Path) -> Case {
        let command = fs::read_to_string(path).unwrap().trim().to_owned();
        let mut words = command.split_whitespace().map(str::to_owned).peekable();
        let mut variables = Vec::new();
        while let Some((name, value)) = words.peek().and_then(|word| word.split_once('=')) {
            variables.push((name.to_owned(), value.to_owned()));
            words.next();
        }
        Case {
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            variables,
            program: words.next().unwrap(),
            arguments: words.collect(),
            stdout: fs::read_to_string(path.with_extension("out")).unwrap(),
            report: fs::read_to_string(path.with_extension("json")).ok(),
            command,
        }
    }

    /// A short option's value.
    pub fn value(&self, option: &str) -> Option<&str> {
        let at = self.arguments.iter().rposition(|word| word == option)?;
        self.arguments.get(at + 1).map(String::as_str)
    }

    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Ranks, by the original's device lines.
    pub fn ranks(&self) -> usize {
        self.stdout.lines().filter(|line| line.starts_with("#  Rank")).count()
    }

    /// On the machine's own memory only what is small; and not what the original decides by -G,
    /// which is waived there: that -G switches -I and -z 3 off.
    pub fn runs_on(&self, backend: Backend) -> bool {
        let large = |option: &str| self.value(option).is_some_and(|size| size.contains('G'));
        let by_graph = self.value("-G").is_some()
            && (self.value("-I").is_some() || self.value("-z") == Some("3"));
        let small = self.ranks() <= 8 && !large("-b") && !large("-e");
        match backend {
            Backend::Fake => true,
            Backend::Host => small && !by_graph,
            // Types, operators and sizes differ by nothing that a backend does; options do. CUDA
            // refuses to wait within a graph.
            Backend::Gpu => {
                small
                    && self.asks_of_gpus()
                    && !(self.value("-G").is_some() && self.value("-z") == Some("1"))
            }
        }
    }

    /// Whether an option is given that GPUs answer in their own way, or a layout, or a report.
    fn asks_of_gpus(&self) -> bool {
        let options = [
            "-C", "-D", "-G", "-I", "-J", "-M", "-N", "-R", "-S", "-m", "-p", "-t", "-u", "-x",
            "-y", "-z",
        ];
        options.iter().any(|option| self.value(option).is_some())
            || self.variable("NCCL_TESTS_DEVICE").is_some()
            || self.name.starts_with("plain_")
    }

    /// Runs ours: as `busbw PROGRAM`, or by a link of the program's name with a suffix.
    pub fn run(&self, backend: Backend, link_suffix: Option<&str>) -> Ran {
        let outside = tempfile::tempdir().unwrap();
        // The original ran in a folder beside its matrices.
        let inside = outside.path().join("run");
        fs::create_dir(&inside).unwrap();
        for matrix in ["m2.txt", "m3.txt"] {
            fs::copy(folder().join("matrices").join(matrix), outside.path().join(matrix)).unwrap();
        }
        let mut command = match link_suffix {
            None => {
                let mut command = Command::new(BUSBW);
                command.arg(&self.program);
                command
            }
            Some(suffix) => {
                let link = outside.path().join(format!("{}{suffix}", self.program));
                symlink(BUSBW, &link).unwrap();
                Command::new(link)
            }
        };
        let record = outside.path().join("run.jsonl");
        command.current_dir(&inside).env_clear();
        command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        // One that must be kept, one whose value must not be, and one that is nobody's business.
        command.envs([("NCCL_DEBUG", "WARN"), ("NCCL_API_TOKEN", "secret"), ("OTHER", "secret")]);
        // Ours go in front: words behind `--` are not options.
        match backend {
            Backend::Fake => command.args(["--backend", "fake"]),
            Backend::Host => command.args(["--backend", "host"]),
            Backend::Gpu => {
                command.env("LD_LIBRARY_PATH", built_shims::folder()).args(["--backend", "nccl"])
            }
        };
        if self.variable("STUB_WRONG").is_some() {
            // The library that the original ran on made errors; ours makes one.
            command.args(["--fault", "rank=0,phase=verify,row=0,do=corrupt:0"]);
        }
        command.arg("--record").arg(&record).args(&self.arguments);
        let written = self.stdout.lines().next().unwrap_or_default();
        let written = written.strip_prefix("# Writing JSON output to ");
        if let Some(taken) = written.and_then(|name| name.strip_suffix(".0")) {
            fs::write(inside.join(taken), "somebody's").unwrap();
        }
        let finished = bounded(&mut command);
        let shown = bounded(Command::new(BUSBW).arg("show").arg(&record));
        let report = written.and_then(|name| fs::read_to_string(inside.join(name)).ok());
        let record = fs::read_to_string(record).unwrap_or_default();
        Ran { finished, report, record, shown }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Runs a program to its end, which must come before the limit.
pub fn bounded(command: &mut Command) -> Finished {
    // Files, not pipes: nobody has to empty them meanwhile.
    let (mut out, mut err) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    command.stdout(out.try_clone().unwrap()).stderr(err.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("still running after {LIMIT:?}: {command:?}");
        }
        sleep(Duration::from_millis(2));
    };
    let read = |file: &mut fs::File| {
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    };
    let (stdout, stderr) = (read(&mut out), read(&mut err));
    Finished { code: status.code().unwrap_or(-1), stdout, stderr }
}
