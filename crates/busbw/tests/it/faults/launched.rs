//! Processes of a launched run that are stopped: the busbw that started it names them and ends the run. ssh is a program
//! that starts everything on this machine; mpirun is a shell.
//! Not real launchers (tests/stopped.py), and not ranks of this process (`matrix`).

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::Duration,
};

use rustix::process::Signal;

use crate::processes::{
    aftermath,
    bench::{Bench, Ended, Running, SOON},
    cells::{all_passed, run_cells},
};

/// Each case waits most of the time.
const POOL: usize = 4;

/// Who is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Process0,
    Agent,
    Ssh,
    Worker,
    Rank0,
}

const EVERYBODY: [Who; 5] = [Who::Process0, Who::Agent, Who::Ssh, Who::Worker, Who::Rank0];

/// A program that stands for ssh: it stays as the parent of what it starts.
fn ssh() -> &'static Path {
    static SSH: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (path, new) = (folder.join("ssh"), folder.join(format!("ssh-{}", std::process::id())));
        let script = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nsh -c \"$3\"\nexit $?\n";
        fs::write(&new, script).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&new, &path).unwrap();
        path
    });
    &SSH
}

/// Two ranks through ssh. `words` are options of the benchmark.
fn through_ssh(words: &str) -> Bench {
    let launcher = format!("--launcher ssh --launcher-command {} -H node9:2", ssh().display());
    Bench::new(&format!("all_reduce {launcher} --backend host -b 64 -e 64 -n 5 {words}"))
}

/// A process's words, and its number in the job, if it is of the job.
fn describe(pid: u32) -> (Vec<String>, Option<String>) {
    let read = |what: &str| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
    let parts = |bytes: Vec<u8>| {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        text.split('\0').map(str::to_owned).collect::<Vec<_>>()
    };
    let rank =
        parts(read("environ")).iter().find_map(|v| Some(v.strip_prefix("RANK=")?.to_owned()));
    (parts(read("cmdline")), rank)
}

impl Who {
    fn find(self, running: &Running) -> u32 {
        let is = |pid: &u32| {
            let (words, rank) = describe(*pid);
            let has = |word: &str| words.iter().any(|other| other == word);
            let of_job = |number: &str| {
                words.get(1).is_some_and(|w| w == "all_reduce") && rank.as_deref() == Some(number)
            };
            match self {
                Who::Process0 => of_job("0"),
                Who::Worker => of_job("1"),
                Who::Agent => words.get(1).is_some_and(|word| word == "__agent"),
                Who::Ssh => has("node9") && has("-T"),
                Who::Rank0 => words.get(1).is_some_and(|word| word == "__rank"),
            }
        };
        aftermath::until(SOON, "the process", || {
            aftermath::processes(&running.mark).into_iter().find(is)
        })
    }
}

/// It is named by number, the rows so far are kept, and nothing is left.
fn is_named(ended: &Ended, pid: u32) {
    ended.exits(6).is_cut_short_and_shown_again();
    assert!(ended.rows().len() >= 3);
    let named = |line: &str| {
        line.contains(&format!("(process {pid} "))
            && (line.contains("stopped for") || line.contains("not answered for"))
    };
    assert!(ended.stderr.lines().any(named), "{pid} is not named:\n{}", ended.stderr);
}

#[test]
fn whoever_is_stopped_is_named_and_ended() {
    let outcomes = run_cells(&EVERYBODY, POOL, |who: Who| {
        let mut running = through_ssh("-N 0").start();
        running.at_row(3);
        let pid = who.find(&running);
        aftermath::signal(pid, Signal::STOP);
        is_named(&running.end_leaving_nothing_after(2 * SOON, SOON), pid);
    });
    all_passed(&outcomes, |who| format!("{who:?}"));
}

/// A debugger, for example: the run goes on as if nothing had been. So does one of which a rank needs longer than a
/// process may be silent.
#[test]
fn nobody_is_named_too_early() {
    let cells = [Some(Who::Process0), Some(Who::Agent), Some(Who::Ssh), None];
    let outcomes = run_cells(&cells, POOL, |who: Option<Who>| {
        let Some(who) = who else {
            let slow = "-n 12 -N 2 --batches 1 --fault rank=1,phase=timed,row=1,do=slow:1e6us";
            through_ssh(slow).start().end(2 * SOON).exits(0);
            return;
        };
        let mut running = through_ssh("-N 600").start();
        running.at_row(3);
        let pid = who.find(&running);
        aftermath::signal(pid, Signal::STOP);
        std::thread::sleep(Duration::from_secs(2));
        aftermath::signal(pid, Signal::CONT);
        let ended = running.end(2 * SOON);
        ended.exits(0);
        assert_eq!(ended.rows().len(), 600);
    });
    all_passed(&outcomes, |who| format!("{who:?}"));
}

/// The busbw that the user started is gone, and an agent is stopped, so that it does not see that. Its processes do.
#[test]
fn a_stopped_agent_is_left_by_nobody() {
    let mut running = through_ssh("-N 0").start();
    running.at_row(3);
    aftermath::signal(Who::Agent.find(&running), Signal::STOP);
    aftermath::signal(running.pid(), Signal::KILL);
    running.end_leaving_nothing_after(SOON, SOON);
}

const BY_HAND: &str = "export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$$
    RANK=0 LOCAL_RANK=0 \"$@\" & RANK=1 LOCAL_RANK=1 \"$@\" >/dev/null & wait $!";

/// Nobody but the workers hears process 0 where a launcher starts busbw.
#[test]
fn a_worker_names_process_0() {
    let words = "all_reduce --backend host -b 64 -e 64 -n 5 -N 0";
    let mut running = Bench::in_shell(BY_HAND, words).start();
    running.at_row(3);
    let pid = Who::Process0.find(&running);
    aftermath::signal(pid, Signal::STOP);
    let ended = running.end_leaving_nothing_after(SOON, SOON);
    ended.exits(6).says(&format!("process 0 of this run (process {pid} on "));
    assert!(ended.read_record().rows.len() >= 3);
}

/// A process 0 that is not stopped, but writes its record to a disk that does not answer: a pipe that nobody reads.
#[test]
fn a_worker_names_process_0_that_hangs() {
    let script =
        format!("mkfifo \"$HOME/record.jsonl\"; exec 9<>\"$HOME/record.jsonl\"; {BY_HAND}");
    let words = "all_reduce --backend host -b 64 -e 64 -n 5 -N 0";
    let ended = Bench::in_shell(&script, words).start().end_leaving_nothing_after(2 * SOON, SOON);
    ended.exits(6).says("process 0 of this run (process ").says("busy with one thing for ");
}
