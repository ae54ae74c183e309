//! MPI as Debian installs it, under its own launchers and under the wrong one: every function on one to
//! four ranks, with what arrived checked. Not how fast any of it is.
//!
//! Each check is one line, `ok`, `FAILED` or `waived` with the reason; tests/launchers.sh installs both
//! MPIs, runs this program and compares the lines with the list that it expects.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod collectives;
mod memory;
mod messages;
mod rank;
mod started;

use std::{
    path::PathBuf,
    process::{Command, ExitCode, Output, Stdio},
    time::{Duration, Instant},
};

/// The variable that tells a test's process its part.
const PART_VARIABLE: &str = "BUSBW_TEST_PART";
/// The longest run of one launcher.
const LAUNCHER_TIMEOUT: Duration = Duration::from_secs(60);

struct Family {
    /// Words before the number of processes.
    launcher: Vec<String>,
    library: PathBuf,
    /// What the library calls itself.
    says: &'static str,
}

/// How a check ends other than well.
enum Not {
    Here(String),
    Right(String),
}

/// Runs checks and prints how they end; those whose names hold the word that cargo test was given.
struct Report {
    word: String,
    failed: bool,
}

impl Report {
    fn check(&mut self, name: &str, check: impl FnOnce() -> Result<(), Not>) {
        if !name.contains(&self.word) {
            return;
        }
        match check() {
            Ok(()) => println!("ok      {name}"),
            Err(Not::Here(why)) => println!("waived  {name}: {why}"),
            Err(Not::Right(why)) => {
                self.failed = true;
                println!("FAILED  {name}: {why}");
            }
        }
    }
}

fn main() -> ExitCode {
    if let Ok(part) = std::env::var(PART_VARIABLE) {
        return rank::run(&part);
    }
    let word = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let mut report = Report { word: word.unwrap_or_default(), failed: false };
    let (open, mpich) = (open_mpi(), mpich());
    for (name, family, other) in [("Open MPI", &open, &mpich), ("MPICH", &mpich, &open)] {
        for (check, ranks, part) in [
            ("1 rank", 1, "everything"),
            ("2 ranks", 2, "everything"),
            ("3 ranks", 3, "everything"),
            ("4 ranks", 4, "everything"),
            ("rank 0 in a child", 3, "child"),
            ("deadline", 2, "deadline"),
        ] {
            report.check(&format!("{name}'s library: {check}"), || {
                whole(here(family)?, ranks, part).map_err(Not::Right)
            });
        }
        report.check(&format!("{name}'s library: under the wrong launcher"), || {
            copies(here(family)?, here(other)?).map_err(Not::Right)
        });
    }
    if report.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The family, where it is installed.
fn here(family: &Result<Family, String>) -> Result<&Family, Not> {
    family.as_ref().map_err(|why| Not::Here(why.clone()))
}

/// Every one of `ranks` processes does `part` and says so.
fn whole(family: &Family, ranks: usize, part: &str) -> Result<(), String> {
    let output = launch(family, &family.library, ranks, part)?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for rank in 0..ranks {
        let line = format!("{part}: rank {rank} of {ranks} under {}", family.says);
        if said.lines().filter(|l| **l == line).count() != 1 {
            return Err(format!("not once {line:?}: {}", shown(&output)));
        }
    }
    if output.status.success() { Ok(()) } else { Err(shown(&output)) }
}

/// One family's library under the other's launcher: each process is alone, and knows it.
fn copies(family: &Family, other: &Family) -> Result<(), String> {
    let output = launch(other, &family.library, 2, "meeting")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = format!("{}'s library under {}'s", family.says, other.says);
    let copies = |l: &&str| l.contains("2 copies instead of 2 ranks") && l.contains(&words);
    match said.lines().filter(copies).count() {
        2 if output.status.success() => Ok(()),
        n => Err(format!("{n} of 2 processes know: {}", shown(&output))),
    }
}

fn shown(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    format!("{}, {}", output.status, text.chars().take(2000).collect::<String>())
}

fn launch(family: &Family, library: &PathBuf, ranks: usize, part: &str) -> Result<Output, String> {
    let mut words = family.launcher.iter();
    let mut command = Command::new(words.next().unwrap());
    command.args(words).arg(ranks.to_string()).arg(std::env::current_exe().unwrap());
    command.env(PART_VARIABLE, part).env("BUSBW_MPI", library);
    // Through files: a launcher's helpers may keep a pipe open beyond its end.
    let folder = tempfile::tempdir().unwrap();
    let (out, err) = (folder.path().join("out"), folder.path().join("err"));
    let file = |path| Stdio::from(std::fs::File::create(path).unwrap());
    command.stdin(Stdio::null()).stdout(file(&out)).stderr(file(&err));
    let mut child = command.spawn().map_err(|e| format!("{}: {e}", family.launcher[0]))?;
    let deadline = Instant::now() + LAUNCHER_TIMEOUT;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            break status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            let said = [out, err].map(|p| std::fs::read_to_string(p).unwrap_or_default());
            return Err(format!("not done after {LAUNCHER_TIMEOUT:?}: {}", said.concat()));
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let read = |path| std::fs::read(path).unwrap_or_default();
    Ok(Output { status, stdout: read(out), stderr: read(err) })
}

fn open_mpi() -> Result<Family, String> {
    let words = |program: &str| {
        [program, "--allow-run-as-root", "--oversubscribe", "-n"].map(str::to_owned).to_vec()
    };
    let mpirun = on_path("mpirun.openmpi").or_else(|| {
        let version = Command::new("mpirun").arg("--version").output().ok()?;
        String::from_utf8_lossy(&version.stdout).contains("Open MPI").then(|| "mpirun".to_owned())
    });
    let mpirun = mpirun.ok_or("there is no mpirun of Open MPI")?;
    let library = library("ompi_mpi_comm_self", true).ok_or("there is no library of Open MPI")?;
    Ok(Family { launcher: words(&mpirun), library, says: "Open MPI" })
}

fn mpich() -> Result<Family, String> {
    let mpiexec = on_path("mpiexec.hydra").ok_or("there is no mpiexec.hydra")?;
    let library = library("ompi_mpi_comm_self", false).ok_or("there is no library of MPICH")?;
    Ok(Family { launcher: vec![mpiexec, "-n".to_owned()], library, says: "MPICH" })
}

/// The first usable copy that has the symbol, or has not.
fn library(symbol: &str, has: bool) -> Option<PathBuf> {
    use busbw_ffi::search::{Environment, Kind, Standing, candidates};
    let found = candidates(Kind::Mpi, &Environment::of_process(), "/".as_ref());
    let usable = found.into_iter().filter(|c| !matches!(c.standing, Standing::Refused(_)));
    let mut fits = usable.filter(|c| c.symbols.iter().any(|s| s == symbol) == has);
    fits.next().map(|c| c.path)
}

fn on_path(program: &str) -> Option<String> {
    let folders = std::env::var_os("PATH")?;
    let found =
        std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|p| p.is_file());
    found.map(|path| path.to_string_lossy().into_owned())
}
