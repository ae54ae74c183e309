//! How soon many ranks are one world, and what that costs the process that holds it together.
//! `cargo bench -p busbw --bench world -- 1000`, with tests/shims on LD_LIBRARY_PATH for whole runs. Not speed of
//! collectives.
#![forbid(unsafe_code)]

use std::{
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use busbw_job::world::{Hub, HubEvent, JoinParameters, ListenScope, Member, World};
use busbw_shm::{Control, WaitPolicy};
use busbw_stats::median;

/// Barriers and exchanges of each world.
const MEASURED_ROUNDS: usize = 21;
/// Whole runs.
const WHOLE_RUNS: usize = 5;
/// Ranks of a host, as the launcher says.
const RANKS_PER_HOST: usize = 8;
/// Set for processes that are members only: the hub's address and the rank.
const MEMBER_VARIABLE: &str = "BUSBW_BENCH_MEMBER";

type Anyhow<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Anyhow<()> {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let ranks: usize = words.next().map_or(Ok(1000), |word| word.parse())?;
    if let Ok(text) = std::env::var(MEMBER_VARIABLE) {
        let (rank, hub) = text.split_once(' ').ok_or("garbled")?;
        return member(rank.parse()?, hub, ranks);
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised)?;
    engine_alone(ranks)?;
    for ranks in [8, ranks] {
        whole_runs(ranks)?;
    }
    Ok(())
}

/// Members that are processes of this program, of hosts of their own as far as the hub knows.
fn engine_alone(ranks: usize) -> Anyhow<()> {
    let (sender, events) = mpsc::channel::<HubEvent>();
    let before = status("self", "VmRSS")?;
    let hub = Hub::open(ranks, ranks, ListenScope::Host, "secret", b"begin", sender)?;
    let begun = Instant::now();
    let mut children = Vec::new();
    for rank in 0..ranks {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(ranks.to_string()).env(MEMBER_VARIABLE, format!("{rank} {}", hub.address()));
        let stdout = if rank == 0 { Stdio::piped() } else { Stdio::null() };
        children.push(command.stdout(stdout).spawn()?);
    }
    let started = begun.elapsed();
    let mut joined = 0;
    while joined < ranks {
        let event = events.recv_timeout(Duration::from_secs(60))?;
        joined += usize::from(matches!(event, HubEvent::Joined { .. }));
    }
    let complete = begun.elapsed();
    let mut said = String::new();
    children[0].stdout.take().ok_or("no stdout")?.read_to_string(&mut said)?;
    for mut child in children {
        child.wait()?;
    }
    let memory = status("self", "VmHWM")?.saturating_sub(before);
    println!(
        "engine, {ranks} processes: started in {:.2} s, all had joined {:.2} s after the last start; {}; the hub's process grew by {} kB at most, {} B a rank, and has {} threads",
        started.as_secs_f64(),
        (complete - started).as_secs_f64(),
        said.trim(),
        memory,
        memory * 1024 / ranks as u64,
        status("self", "Threads")?,
    );
    Ok(())
}

/// One of them.
fn member(rank: usize, hub: &str, ranks: usize) -> Anyhow<()> {
    let parameters = JoinParameters {
        hub: hub.to_owned(),
        token: "secret".to_owned(),
        rank,
        size: ranks,
        host: "here".to_owned(),
        sharing: Some(vec![rank]),
    };
    let control = Control::map(Control::create(ranks)?, ranks)?;
    let policy = WaitPolicy::new(1, 1);
    let (mut member, _) = Member::join(parameters, b"", Arc::clone(&control), policy)?;
    // The first one waits for everybody to start.
    member.barrier(None)?;
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..MEASURED_ROUNDS {
        let begun = Instant::now();
        member.barrier(None)?;
        times[0].push(begun.elapsed().as_secs_f64() * 1e3);
        let begun = Instant::now();
        if member.allgather(&[7; 64], None)?.len() != ranks {
            return Err("not everybody's bytes".into());
        }
        times[1].push(begun.elapsed().as_secs_f64() * 1e3);
    }
    if rank == 0 {
        let [barrier, allgather] = times.map(|times| median(&times).unwrap_or(f64::NAN));
        println!(
            "barrier {barrier:.1} ms, allgather of 64 B {allgather:.1} ms (medians of {MEASURED_ROUNDS})"
        );
    }
    member.leave();
    Ok(())
}

/// The program itself, its processes joining over TCP as workers do.
fn whole_runs(ranks: usize) -> Anyhow<()> {
    let mut figures: [Vec<f64>; 7] = Default::default();
    for _ in 0..WHOLE_RUNS {
        let seen = whole_run(ranks)?;
        figures.iter_mut().zip(seen).for_each(|(figures, seen)| figures.push(seen));
    }
    let [started, met, complete, over, memory, threads, files] =
        figures.map(|figures| median(&figures).unwrap_or(f64::NAN));
    println!(
        "whole run, {ranks} processes: started in {started:.2} s; after the last start, everybody was in {met:.2} s, the world complete {complete:.2} s, everything over {over:.2} s; supervisor: {memory:.0} kB at most, {threads:.0} threads, {files:.0} open files (medians of {WHOLE_RUNS})"
    );
    Ok(())
}

fn whole_run(ranks: usize) -> Anyhow<[f64; 7]> {
    // Below those that the kernel gives to whoever connects, among them a thousand who try too early.
    let mut ports = 10_000..20_000u16;
    let port = ports.find(|port| TcpListener::bind(("0.0.0.0", *port)).is_ok());
    let port = port.ok_or("no free port")?.to_string();
    let begun = Instant::now();
    let mut children: Vec<Child> = Vec::new();
    for rank in 0..ranks {
        let mut command = Command::new(env!("CARGO_BIN_EXE_busbw"));
        command
            .args(
                "all_reduce --backend nccl -b 8 -e 8 -n 1 -w 0 -c 0 --batches 1 -T 120".split(' '),
            )
            .env("BUSBW_NO_RECORD", "1")
            .env("RANK", rank.to_string())
            .env("WORLD_SIZE", ranks.to_string())
            .env("LOCAL_RANK", (rank % RANKS_PER_HOST).to_string())
            // Unlike the number of all: so they are not known to be on one host.
            .env("LOCAL_WORLD_SIZE", RANKS_PER_HOST.min(ranks - 1).to_string())
            .env("NCCL_HOSTID", format!("host-{}", rank / RANKS_PER_HOST))
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", &port)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if rank == 0 {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        children.push(command.spawn()?);
    }
    let started = begun.elapsed().as_secs_f64();
    let supervisor = children[0].id().to_string();
    let (out, err) = (children[0].stdout.take(), children[0].stderr.take());
    let (out, err) = (out.ok_or("no stdout")?, err.ok_or("no stderr")?);
    let met = std::thread::spawn(move || {
        let (mut met, mut said) = (None, String::new());
        for line in BufReader::new(err).lines().map_while(Result::ok) {
            if line.contains("control over") {
                met = Some(begun.elapsed().as_secs_f64());
            }
            said = said + &line + "\n";
        }
        (met, said)
    });
    let (mut complete, mut most) = (None, [0u64; 3]);
    for line in BufReader::new(out).lines().map_while(Result::ok) {
        if line.starts_with("#  Rank") {
            complete.get_or_insert(begun.elapsed().as_secs_f64());
        }
        if line.contains(" float ") {
            let files = std::fs::read_dir(format!("/proc/{supervisor}/fd"))?.count() as u64;
            most = [status(&supervisor, "VmHWM")?, status(&supervisor, "Threads")?, files];
        }
    }
    let mut codes = Vec::new();
    for mut child in children {
        codes.push(child.wait()?.code());
    }
    let over = begun.elapsed().as_secs_f64();
    let (met, said) = met.join().map_err(|_| "the reader of stderr failed")?;
    let (Some(met), Some(complete)) = (met, complete) else {
        return Err(format!("a run of {ranks} failed: {said}").into());
    };
    if let Some(code) = codes.iter().find(|code| **code != Some(0)) {
        return Err(format!("a run of {ranks} ended with {code:?}: {said}").into());
    }
    let since = |moment: f64| moment - started;
    let [memory, threads, files] = most.map(|most| most as f64);
    Ok([started, since(met), since(complete), since(over), memory, threads, files])
}

/// A number of /proc/PID/status; kB for memory.
fn status(pid: &str, field: &str) -> Anyhow<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let word = line.and_then(|line| line.split_whitespace().next()).ok_or("no such field")?;
    Ok(word.parse()?)
}
