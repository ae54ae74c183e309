//! One run of busbw as these tests start, watch and end it. When it is over, nothing of it may be
//! left: no process, no shared memory, no file but its record.
//! Not what any one fault does.

use std::{
    io::Read,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use busbw_core::record::Folded;
use rustix::process::Signal;
use tempfile::TempDir;

use super::{aftermath, traces::Traces};

/// The program under test.
pub const BUSBW: &str = env!("CARGO_BIN_EXE_busbw");
/// What runs measure of this machine is kept here, so that not every run measures it again.
const CACHE: &str = env!("CARGO_TARGET_TMPDIR");

/// A watchdog: a run or a step of it that takes longer hangs. No test asserts how fast anything is.
pub const SOON: Duration = Duration::from_secs(60);

/// A run that has not been started.
pub struct Bench {
    pub command: Command,
    pub home: TempDir,
    pub mark: String,
    /// Whether the tests read its stdout and stderr; otherwise the command says where they go.
    pub reads: [bool; 2],
    /// A folder besides its home where it may write.
    pub also_writes: Option<PathBuf>,
    /// Whether to look for its sockets when it is over, which takes the kernel several milliseconds.
    pub looks_for_sockets: bool,
}

impl Bench {
    /// `busbw WORDS`, with a record in a home of its own.
    pub fn new(words: &str) -> Bench {
        let mut bench = Bench::of(Command::new(BUSBW), words);
        let record = bench.record();
        bench.command.arg("--record").arg(record);
        bench
    }

    /// The same, with the record where the environment says.
    pub fn without_record_option(words: &str) -> Bench {
        Bench::of(Command::new(BUSBW), words)
    }

    /// A shell that runs `script`, whose `"$@"` is the command of [`Bench::new`].
    pub fn in_shell(script: &str, words: &str) -> Bench {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg("sh").arg(BUSBW);
        let mut bench = Bench::of(command, words);
        let record = bench.record();
        bench.command.arg("--record").arg(record);
        bench
    }

    fn of(mut command: Command, words: &str) -> Bench {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{number}", std::process::id());
        let home = tempfile::tempdir().unwrap();
        command
            .args(words.split_whitespace())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home.path())
            .env("TMPDIR", home.path())
            .env("XDG_CACHE_HOME", CACHE)
            .env(aftermath::MARK, &mark)
            .stdin(Stdio::null())
            .process_group(0);
        Bench {
            command,
            home,
            mark,
            reads: [true, true],
            also_writes: None,
            looks_for_sockets: true,
        }
    }

    /// Where the record goes.
    pub fn record(&self) -> PathBuf {
        self.home.path().join("record.jsonl")
    }

    pub fn start(mut self) -> Running {
        if self.reads[0] {
            self.command.stdout(Stdio::piped());
        }
        if self.reads[1] {
            self.command.stderr(Stdio::piped());
        }
        let begun = Instant::now();
        let mut child = self.command.spawn().unwrap();
        let traces = Traces::of(child.id(), self.looks_for_sockets);
        let stdout = Stream::read(self.reads[0].then(|| child.stdout.take()).flatten());
        let stderr = Stream::read(self.reads[1].then(|| child.stderr.take()).flatten());
        let Bench { home, mark, also_writes, .. } = self;
        let next_look = Duration::ZERO;
        Running {
            child,
            home,
            mark,
            stdout,
            stderr,
            begun,
            traces,
            next_look,
            also_writes,
            over: false,
        }
    }

    /// From start to end, within [`SOON`].
    pub fn run(self) -> Ended {
        self.start().end(SOON)
    }
}

/// What a stream carried so far.
struct Stream {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Stream {
    fn read(from: Option<impl Read + Send + 'static>) -> Stream {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&bytes);
        let reader = from.map(|mut from| {
            std::thread::spawn(move || {
                let mut piece = [0; 1 << 16];
                while let Ok(len @ 1..) = from.read(&mut piece) {
                    into.lock().unwrap().extend_from_slice(&piece[..len]);
                }
            })
        });
        Stream { bytes, reader }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }
}

/// A run under way. However its test ends, its processes end as well, by their numbers.
pub struct Running {
    pub child: Child,
    pub home: TempDir,
    pub mark: String,
    stdout: Stream,
    stderr: Stream,
    begun: Instant,
    /// What it held, as far as that was seen.
    traces: Traces,
    /// When to look again, since it began: often at first, since some runs are short.
    next_look: Duration,
    also_writes: Option<PathBuf>,
    over: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.over {
            self.kill_all();
            let _ = self.child.wait();
        }
    }
}

impl Running {
    fn kill_all(&self) {
        for pid in aftermath::processes(&self.mark) {
            aftermath::signal(pid, Signal::KILL);
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until so many rows are on stdout, and returns the rank processes.
    pub fn at_row(&mut self, count: usize) -> Vec<u32> {
        aftermath::until(SOON, &format!("{count} rows"), || {
            self.look();
            (rows(&self.stdout.text()).len() >= count).then_some(())
        });
        self.ranks()
    }

    /// The rank processes; what they hold is noted.
    pub fn ranks(&mut self) -> Vec<u32> {
        self.traces.look();
        aftermath::rank_processes(&self.mark)
    }

    /// Notes what the run holds, when it is time for that.
    fn look(&mut self) {
        if self.begun.elapsed() >= self.next_look {
            self.traces.look();
            let longer = Duration::from_millis(2) + self.begun.elapsed() / 3;
            self.next_look = self.begun.elapsed() + longer.min(Duration::from_millis(500));
        }
    }

    /// What stderr has so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// What stdout has so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for the end, which must leave nothing.
    pub fn end(self, limit: Duration) -> Ended {
        self.end_leaving_nothing_after(limit, Duration::ZERO)
    }

    /// The same, with some time for the ranks after the supervisor's own end.
    pub fn end_leaving_nothing_after(mut self, limit: Duration, after: Duration) -> Ended {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if self.begun.elapsed() >= limit {
                self.kill_all();
                let (stdout, stderr) = (self.stdout.text(), self.stderr.text());
                panic!("still running after {limit:?}\n{stdout}\n{stderr}");
            }
            self.look();
            std::thread::sleep(Duration::from_millis(1));
        };
        let took = self.begun.elapsed();
        let ended = Instant::now();
        let reacted = self.traces.struck.map_or(Duration::ZERO, |struck| struck.elapsed());
        let left = loop {
            let left = self.traces.left(&self.mark);
            if left.is_empty() || ended.elapsed() >= after {
                break left;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        self.kill_all();
        assert!(left.is_empty(), "the run left {left:?}: {}", self.stderr.text());
        self.over = true;
        let own = [self.home.path(), Path::new(CACHE)];
        let folders = own.into_iter().chain(self.also_writes.as_deref());
        let elsewhere = self.traces.written_outside(&folders.collect::<Vec<_>>());
        assert!(elsewhere.is_empty(), "the run wrote to {elsewhere:?}");
        // Nobody is left to hold the other ends of the pipes.
        for stream in [&mut self.stdout, &mut self.stderr] {
            if let Some(reader) = stream.reader.take() {
                reader.join().unwrap();
            }
        }
        let files = files(self.home.path());
        let strays: Vec<_> =
            files.iter().filter(|path| path.extension().is_none_or(|e| e != "jsonl")).collect();
        assert!(strays.is_empty(), "the run left {strays:?}");
        let (stdout, stderr) = (self.stdout.text(), self.stderr.text());
        let record = self.home.path().join("record.jsonl");
        // The record must outlive this for the test to look at it.
        let home = std::mem::replace(&mut self.home, tempfile::tempdir().unwrap());
        let seen = [!self.traces.memory.is_empty(), !self.traces.sockets.is_empty()];
        Ended { status, took, stdout, stderr, record, files, reacted, seen, _home: home }
    }
}

/// A run that is over.
#[derive(Debug)]
pub struct Ended {
    status: ExitStatus,
    pub took: Duration,
    pub stdout: String,
    pub stderr: String,
    pub record: PathBuf,
    /// Files in its home.
    pub files: Vec<PathBuf>,
    /// From the moment when one of its processes was seen stopped or gone to its end.
    pub reacted: Duration,
    /// Whether it was seen while it held shared memory, and sockets.
    pub seen: [bool; 2],
    _home: TempDir,
}

impl Ended {
    /// The exit code.
    #[track_caller]
    pub fn exits(&self, code: i32) -> &Ended {
        assert_eq!(self.status.code(), Some(code), "{}\n{}", self.stdout, self.stderr);
        self
    }

    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// That stderr has a text.
    #[track_caller]
    pub fn says(&self, text: &str) -> &Ended {
        assert!(self.stderr.contains(text), "no '{text}' in:\n{}", self.stderr);
        self
    }

    pub fn rows(&self) -> Vec<&str> {
        rows(&self.stdout)
    }

    /// The record, of which every line must be whole.
    #[track_caller]
    pub fn read_record(&self) -> Folded {
        let text = std::fs::read_to_string(&self.record).unwrap();
        assert!(text.ends_with('\n'), "{text}");
        busbw_store::parse(&text, "the record").unwrap()
    }

    /// That nobody can take the table for a whole one, and that the record alone gives it again.
    #[track_caller]
    pub fn is_cut_short_and_shown_again(&self) -> &Ended {
        assert!(!self.stdout.contains("Out of bounds"), "{}", self.stdout);
        assert!(!self.stdout.contains("Avg bus bandwidth"), "{}", self.stdout);
        assert_eq!(self.shown(), self.stdout);
        self
    }

    /// What `busbw show` prints of the record.
    #[track_caller]
    pub fn shown(&self) -> String {
        let (shown, said, code) = self.show();
        assert_eq!(code, Some(0), "{said}");
        shown
    }

    /// What `busbw show` prints of the record, what it says, and its exit code.
    pub fn show(&self) -> (String, String, Option<i32>) {
        let shown = Command::new(BUSBW).arg("show").arg(&self.record).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&shown.stdout), text(&shown.stderr), shown.status.code())
    }
}

/// The rows of a table.
pub fn rows(table: &str) -> Vec<&str> {
    // The last line may be under way.
    let whole = table.rfind('\n').map_or("", |at| &table[..at]);
    whole.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}
