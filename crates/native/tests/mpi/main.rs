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

/// What a rank is to do; set by this program for the processes that a launcher starts.
const PART: &str = "BUSBW_TEST_PART";
/// Longest run of one launcher.
const LIMIT: Duration = Duration::from_secs(60);

struct Family {
    /// Words before the number of processes.
    launcher: Vec<String>,
    library: PathBuf,
    /// What the library calls itself.
    says: &'static str,
}

fn main() -> ExitCode {
    if let Ok(part) = std::env::var(PART) {
        return rank::run(&part);
    }
    let (open, mpich) = (open_mpi(), mpich());
    let mut failed = false;
    let mut verdict = |name: String, result: Result<(), String>| match result {
        Ok(()) => println!("ok      {name}"),
        Err(why) => {
            failed = true;
            println!("FAILED  {name}: {why}");
        }
    };
    for (name, family, other) in [("Open MPI", &open, &mpich), ("MPICH", &mpich, &open)] {
        let of = |check: &str| format!("{name}'s library: {check}");
        let checks = ["1 rank", "2 ranks", "3 ranks", "4 ranks", "rank 0 in a child", "deadline"];
        match family {
            Ok(family) => {
                for (ranks, check) in (1..=4).zip(checks) {
                    verdict(of(check), whole(family, ranks, "everything"));
                }
                verdict(of(checks[4]), whole(family, 3, "child"));
                verdict(of(checks[5]), whole(family, 2, "deadline"));
            }
            Err(why) => checks.iter().for_each(|check| println!("waived  {}: {why}", of(check))),
        }
        let wrong = of("under the wrong launcher");
        match (family, other) {
            (Ok(family), Ok(other)) => verdict(wrong, copies(family, other)),
            (Err(why), _) | (_, Err(why)) => println!("waived  {wrong}: {why}"),
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
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
    command.env(PART, part).env("BUSBW_MPI", library);
    // Through files: a launcher's helpers may keep a pipe open beyond its end.
    let folder = tempfile::tempdir().unwrap();
    let (out, err) = (folder.path().join("out"), folder.path().join("err"));
    let file = |path| Stdio::from(std::fs::File::create(path).unwrap());
    command.stdin(Stdio::null()).stdout(file(&out)).stderr(file(&err));
    let mut child = command.spawn().map_err(|e| format!("{}: {e}", family.launcher[0]))?;
    let deadline = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            break status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            let said = [out, err].map(|p| std::fs::read_to_string(p).unwrap_or_default());
            return Err(format!("not done after {LIMIT:?}: {}", said.concat()));
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
    use native::search::{Environment, Kind, Standing, candidates};
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
