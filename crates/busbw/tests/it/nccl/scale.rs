//! Hundreds of processes that a launcher started on many hosts, as far as they know: they join over TCP, none
//! of them costs process 0 a thread, and those that do not join are named with their host.
//! Not how fast: bench/world.rs.

use std::{
    fs::File,
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::{Duration, Instant},
};

use crate::built_shims::folder;
use crate::processes::bench::BUSBW;

/// Ranks of a host.
const ON_A_HOST: usize = 8;
/// Long enough for hundreds of processes on a busy machine.
const LONG: Duration = Duration::from_secs(150);
const WORDS: &str = "all_reduce -b 8 -e 8 -n 1 -w 0 -c 1 --batches 1";

/// A port that nobody listens on, below those that the kernel gives to whoever connects: it would give it to
/// one of hundreds that try before the first process listens.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 10_000 + (std::process::id() % 9_000) as u16;
    let mut ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed) % 1_000);
    ports.find(|port| TcpListener::bind(("0.0.0.0", *port)).is_ok()).unwrap()
}

/// Processes of one job. However its test ends, they end as well.
struct Job {
    processes: Vec<Child>,
    home: tempfile::TempDir,
}

impl Drop for Job {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Job {
    /// Starts `ranks` processes with `words`, but for those that are `absent`; the first one in a shell that has
    /// said `first` before.
    fn start(
        ranks: usize,
        absent: &[usize],
        first: &str,
        words: &str,
        variables: &[(&str, &str)],
    ) -> Job {
        let home = tempfile::tempdir().unwrap();
        let port = free_port();
        let file = |name: &str| File::create(home.path().join(name)).unwrap();
        let mut job = Job { processes: Vec::new(), home: tempfile::tempdir().unwrap() };
        for rank in (0..ranks).filter(|rank| !absent.contains(rank)) {
            let mut command = Command::new("sh");
            command.arg("-c").arg(format!("{first}\nexec \"$@\"")).arg("sh").arg(BUSBW);
            let (out, err) =
                if rank == 0 { (file("out"), file("err")) } else { (file("more"), file("more")) };
            if rank > 0 {
                command = Command::new(BUSBW);
            }
            command
                .args(words.split_whitespace())
                .env_clear()
                .env("PATH", std::env::var_os("PATH").unwrap_or_default())
                .env("HOME", home.path())
                .env("LD_LIBRARY_PATH", folder())
                .env("BUSBW_NO_RECORD", "1")
                .env("RANK", rank.to_string())
                .env("WORLD_SIZE", ranks.to_string())
                .env("LOCAL_RANK", (rank % ON_A_HOST).to_string())
                .env("LOCAL_WORLD_SIZE", ON_A_HOST.min(ranks - 1).to_string())
                .env("NCCL_HOSTID", format!("host-{}", rank / ON_A_HOST))
                .env("MASTER_ADDR", "127.0.0.1")
                .env("MASTER_PORT", port.to_string())
                .envs(variables.iter().copied())
                .stdin(Stdio::null())
                .stdout(out)
                .stderr(err);
            job.processes.push(command.spawn().unwrap());
        }
        Job { home, processes: std::mem::take(&mut job.processes) }
    }

    /// Waits for the end of all; their exit codes, and the most that the first one had of a field of its
    /// /proc/PID/status, for each of `fields`.
    fn end<const N: usize>(&mut self, fields: [&str; N]) -> (Vec<Option<i32>>, [u64; N]) {
        let by = Instant::now() + LONG;
        let (mut codes, mut most) = (vec![None; self.processes.len()], [0; N]);
        let path = format!("/proc/{}/status", self.processes[0].id());
        while codes.iter().any(Option::is_none) {
            let status = std::fs::read_to_string(&path).unwrap_or_default();
            for (field, most) in fields.iter().zip(&mut most) {
                let line =
                    status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
                let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
                *most = number.unwrap_or(0).max(*most);
            }
            for (process, code) in self.processes.iter_mut().zip(&mut codes) {
                if code.is_none() {
                    *code = process.try_wait().unwrap().map(|status| status.code().unwrap_or(-1));
                }
            }
            assert!(Instant::now() < by, "not over after {LONG:?}: {}", self.said("err"));
            std::thread::sleep(Duration::from_millis(20));
        }
        (codes, most)
    }

    /// What the first process has written.
    fn said(&self, stream: &str) -> String {
        std::fs::read_to_string(self.home.path().join(stream)).unwrap()
    }
}

/// More than the limit of open files that most systems give a process, if each took two.
#[test]
fn two_hundred_processes() {
    const RANKS: usize = 200;
    let mut job = Job::start(RANKS, &[], "ulimit -Sn 256", WORDS, &[]);
    let (codes, [threads, memory]) = job.end(["Threads", "VmHWM"]);
    let (out, err) = (job.said("out"), job.said("err"));
    assert!(codes.iter().all(|code| *code == Some(0)), "{codes:?}\n{out}\n{err}");
    assert_eq!(out.lines().filter(|line| line.starts_with("#  Rank")).count(), RANKS);
    assert!(out.contains("# Out of bounds values : 0 OK"), "{out}");
    assert!(err.contains("busbw: control over lo (127.0.0.1)"), "{err}");
    // A few of its own; kB.
    assert!((1..20).contains(&threads), "{threads} threads");
    assert!((1..128 << 10).contains(&memory), "{memory} kB");
}

#[test]
fn a_limit_that_cannot_be_raised_is_said() {
    let mut job = Job::start(40, &(1..40).collect::<Vec<_>>(), "ulimit -n 100", WORDS, &[]);
    let (codes, []) = job.end([]);
    assert_eq!(codes, [Some(5)]);
    let err = job.said("err");
    assert!(
        err.contains("40 ranks need 248 open files") && err.contains("hard limit is 100"),
        "{err}"
    );
}

/// Some of a host, and all of another one.
#[test]
fn missing_processes_are_named_with_their_hosts() {
    let absent: Vec<usize> = [9, 12, 13, 14].into_iter().chain(16..24).collect();
    let mut job = Job::start(32, &absent, "", WORDS, &[]);
    let (codes, []) = job.end([]);
    let err = job.said("err");
    assert!(codes.iter().all(|code| *code == Some(4)), "{codes:?}\n{err}");
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host = host.split('.').next().unwrap();
    let named = format!(
        "12 of 32 processes did not join within 30 s: ranks 9, 12-14 on {host}, ranks 16-23 on a host that the launcher does not name (rank 15 is on {host}, rank 24 is on {host}). Rank 0 accepts them at 127.0.0.1, port "
    );
    assert!(err.contains(&named), "{err}");
}

fn two(words: &str, variables: &[(&str, &str)]) -> (Vec<Option<i32>>, String) {
    let mut job = Job::start(2, &[], "", &format!("{WORDS} {words}"), variables);
    let (codes, []) = job.end([]);
    (codes, job.said("err"))
}

#[test]
fn interfaces_and_both_kinds_of_addresses() {
    let well = [Some(0), Some(0)];
    let mut cases = vec![
        ("", vec![("MASTER_ADDR", "localhost")], "control over lo ("),
        ("--interface lo", vec![], "control over lo (127.0.0.1)"),
        ("--interface 127.0.0.0/8", vec![], "control over lo (127.0.0.1)"),
        ("", vec![("BUSBW_INTERFACE", "127.0.0.1")], "control over lo (127.0.0.1)"),
    ];
    // A host may have no IPv6 at all.
    if TcpListener::bind("[::1]:0").is_ok() {
        cases.extend([
            ("", vec![("MASTER_ADDR", "::1")], "control over lo (::1)"),
            ("", vec![("MASTER_ADDR", "[::1]")], "control over lo (::1)"),
            // They come to 127.0.0.1, and are sent on.
            ("--interface ::1", vec![], "control over lo (::1)"),
        ]);
    }
    for (words, variables, says) in cases {
        let (codes, err) = two(words, &variables);
        assert_eq!(codes, well, "{words} {variables:?}: {err}");
        assert!(err.contains(says), "{words} {variables:?}: {err}");
    }
}

#[test]
fn an_interface_that_is_not_there() {
    let (codes, err) = two("--interface eth99", &[]);
    assert_eq!(codes, [Some(2), Some(2)], "{err}");
    assert!(
        err.contains(
            "--interface eth99 (or BUSBW_INTERFACE) matches no interface, network or address of"
        ),
        "{err}"
    );
    assert!(err.contains("lo (127.0.0.1"), "{err}");
}

#[test]
fn one_host_needs_no_interface() {
    let job = super::shims::run("all_reduce -g 2 -b 8 -e 8 --interface eth99", &[]);
    assert_eq!(job.code(), Some(0), "{}", job.stderr);
    job.says("--interface eth99 is waived: all ranks are on this host");
}
