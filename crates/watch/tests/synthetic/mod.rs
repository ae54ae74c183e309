//! A made-up training job: TP x PP x DP ranks with clocks of their own, one of which may be late; what each rank's profiler
//! would have written. Not a model of a real job's speed: only who waits for whom is meant to be right.
#![allow(dead_code, reason = "each user takes a part")]

use busbw_stats::Random;
use busbw_watch_file::{
    Call, Calls, Class, Communicator, GpuClock, Heartbeat, Line, Process, VERSION, WatchFile,
};

/// What is wrong with one rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Its GPU computes this many times as long.
    Compute(f64),
    /// Its program asks for each collective this much later, ns.
    Host(u64),
    /// The same, with its threads waiting for a core.
    Core(u64),
    /// It stands still once for 2 s.
    Stopped,
}

/// The shape of the job.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub tp: usize,
    pub pp: usize,
    pub dp: usize,
    pub steps: usize,
}

/// A rank as it goes along.
struct Rank {
    /// When its CPU is free to ask for the next call, and its GPU for the next kernel; true time, ns.
    cpu: f64,
    gpu: f64,
    /// Its clocks: true time of the beginning, and how much faster they run.
    began: f64,
    cpu_rate: f64,
    gpu_rate: f64,
    gpu_zero: f64,
    lines: Vec<(Class, Vec<Call>)>,
    counts: std::collections::HashMap<(u32, String, Option<u32>), u64>,
}

impl Rank {
    fn class(&mut self, communicator: u32, operation: &str, size: u64, peer: Option<u32>) -> usize {
        let class = Class {
            communicator,
            operation: operation.into(),
            count: size / 2,
            datatype: "ncclBfloat16".into(),
            size,
            algorithm: String::new(),
            protocol: String::new(),
            channels: 8,
            root: None,
            peer,
        };
        let at = self.lines.iter().position(|(one, _)| *one == class);
        at.unwrap_or_else(|| {
            self.lines.push((class, Vec::new()));
            self.lines.len() - 1
        })
    }

    fn called(&mut self, of: (u32, &str, u64, Option<u32>), asked: f64, began: f64, ended: f64) {
        let count = self.counts.entry((of.0, of.1.to_owned(), of.3)).or_default();
        let sequence = *count;
        *count += 1;
        let on_gpu = |time: f64| (time - self.gpu_zero) * self.gpu_rate;
        let call = Call {
            sequence,
            enqueued: ((asked - self.began) * self.cpu_rate) as u64,
            started: Some(on_gpu(began) as u64),
            duration: Some((on_gpu(ended) - on_gpu(began)) as u64),
        };
        let at = self.class(of.0, of.1, of.2, of.3);
        self.lines[at].1.push(call);
    }
}

const LAUNCH: f64 = 8_000.0;

/// All ranks take part in one call: each asks for it, and it ends everywhere when the last has begun and `time` is over.
fn together(
    ranks: &mut [Rank],
    members: &[usize],
    call: (u32, &str, u64),
    time: f64,
    late: &dyn Fn(usize) -> f64,
    rng: &mut Random,
) {
    let mut begins = Vec::new();
    for at in members {
        let rank = &mut ranks[*at];
        let asked = rank.cpu + late(*at) + 3_000.0 * rng.uniform();
        rank.cpu = asked + 20_000.0;
        begins.push((asked, rank.gpu.max(asked + LAUNCH)));
    }
    let end = begins.iter().map(|one| one.1).fold(0.0, f64::max) + time;
    for (at, (asked, began)) in members.iter().zip(begins) {
        // Ranks end a step apart.
        let ended = end + 4_000.0 * rng.uniform();
        ranks[*at].called((call.0, call.1, call.2, None), asked, began, ended);
        ranks[*at].gpu = ended;
    }
}

/// The files of a job in which `straggler` has `fault`.
pub fn job(shape: Shape, seed: u64, straggler: usize, fault: Fault) -> Vec<(String, WatchFile)> {
    let Shape { tp, pp, dp, steps } = shape;
    let mut rng = Random::new(seed);
    let count = tp * pp * dp;
    let index = |d: usize, p: usize, t: usize| (d * pp + p) * tp + t;
    let mut ranks: Vec<Rank> = (0..count)
        .map(|_| Rank {
            cpu: 2e9,
            gpu: 2e9,
            began: 1e9 * rng.uniform(),
            cpu_rate: 1.0 + 40e-6 * (rng.uniform() - 0.5),
            gpu_rate: 1.0 + 40e-6 * (rng.uniform() - 0.5),
            gpu_zero: 2e9 * rng.uniform() - 5e9,
            lines: Vec::new(),
            counts: std::collections::HashMap::new(),
        })
        .collect();
    let host_late = |at: usize| match fault {
        Fault::Host(ns) | Fault::Core(ns) if at == straggler => ns as f64,
        _ => 0.0,
    };
    let mut stopped_at = 0.0;
    for step in 0..steps {
        if fault == Fault::Stopped && step == steps / 2 {
            let rank = &mut ranks[straggler];
            stopped_at = rank.cpu.max(rank.gpu);
            rank.cpu = stopped_at + 2e9;
            // What was asked for before it goes on.
        }
        for stage in 0..pp {
            for replica in 0..dp {
                let members: Vec<usize> = (0..tp).map(|t| index(replica, stage, t)).collect();
                for from in members.iter().filter(|_| stage > 0) {
                    pass(&mut ranks, (from - tp, *from), stage, &mut rng);
                }
                for _ in 0..2 {
                    for at in &members {
                        let times = match fault {
                            Fault::Compute(times) if *at == straggler => times,
                            _ => 1.0,
                        };
                        ranks[*at].gpu += 1e6 * times * (1.0 + 0.03 * rng.normal());
                    }
                    together(
                        &mut ranks,
                        &members,
                        (0, "AllReduce", 16 << 20),
                        2e5,
                        &host_late,
                        &mut rng,
                    );
                }
            }
        }
        for stage in 0..pp {
            for t in 0..tp {
                let members: Vec<usize> = (0..dp).map(|d| index(d, stage, t)).collect();
                together(
                    &mut ranks,
                    &members,
                    (2, "AllReduce", 64 << 20),
                    3e6,
                    &host_late,
                    &mut rng,
                );
            }
        }
        // The program looks at the loss: it runs ahead of its GPU by one step at most.
        for rank in &mut ranks {
            rank.cpu = rank.cpu.max(rank.gpu - 1e6);
        }
    }
    let files = ranks.iter().enumerate().map(|(at, rank)| {
        let faulty = at == straggler;
        let core = matches!(fault, Fault::Core(_)) && faulty;
        let stopped = (faulty && stopped_at > 0.0).then_some(stopped_at);
        (format!("h{}.{at}.jsonl", at / 8), file(rank, at, shape, core, stopped))
    });
    files.collect()
}

/// A message from one stage to the next: it ends when both have come.
fn pass(ranks: &mut [Rank], (from, to): (usize, usize), stage: usize, rng: &mut Random) {
    let mut begin = |at: usize| {
        let rank = &mut ranks[at];
        let asked = rank.cpu + 2_000.0 * rng.uniform();
        rank.cpu = asked + 10_000.0;
        (asked, rank.gpu.max(asked + LAUNCH))
    };
    let (sent, received) = (begin(from), begin(to));
    let end = sent.1.max(received.1) + 1e5;
    let size = 8 << 20;
    ranks[from].called((1, "Send", size, Some(stage as u32)), sent.0, sent.1, end);
    ranks[to].called((1, "Recv", size, Some(stage as u32 - 1)), received.0, received.1, end);
    ranks[from].gpu = end;
    ranks[to].gpu = end;
}

fn file(rank: &Rank, at: usize, shape: Shape, core: bool, stopped: Option<f64>) -> WatchFile {
    let Shape { tp, pp, dp, .. } = shape;
    let (d, p, t) = (at / (tp * pp), at / tp % pp, at % tp);
    let process = Process {
        version: VERSION,
        busbw: "test".into(),
        host: format!("h{}", at / 8),
        pid: 1000 + at as u32,
        boot: None,
        pid_namespace: None,
        job: None,
        rank: Some(at as u32),
        began: rank.began as u64,
        gpu_origin: 1,
        interface: 6,
        mask: 70,
    };
    let communicator = |number, id: String, ranks: usize, rank: usize| {
        Line::Communicator(Communicator {
            number,
            id,
            name: String::new(),
            nodes: 0,
            ranks: ranks as u32,
            rank: rank as u32,
            at: 0,
        })
    };
    let mut lines = vec![
        communicator(0, format!("tp-{d}-{p}"), tp, t),
        communicator(1, format!("pp-{d}-{t}"), pp, p),
        communicator(2, format!("dp-{p}-{t}"), dp, d),
    ];
    let to_own = |time: f64| ((time - rank.began) * rank.cpu_rate) as u64;
    let (begin, end) = (2e9, rank.gpu);
    let mut time = begin;
    while time < end + 1e9 {
        let within = stopped.filter(|at| (time..time + 1e9).contains(at));
        let late = if within.is_some() { 2_000_000_000 } else { 3_000_000 };
        let core_wait = Some(if core { 400_000_000 } else { 4_000_000 });
        let beat = Heartbeat { at: to_own(time), late, core_wait, ..Heartbeat::default() };
        lines.push(Line::Heartbeat(beat));
        for communicator in 0..3 {
            let on_gpu = (time - rank.gpu_zero) * rank.gpu_rate;
            let ahead = (time - rank.began) * rank.cpu_rate - on_gpu;
            let clock = GpuClock { communicator, at: to_own(time), ahead: ahead as i64 + 2_000 };
            lines.push(Line::Clock(clock));
        }
        time += 1e9;
    }
    lines.extend(
        rank.lines.iter().map(|(class, calls)| {
            Line::Calls(Calls { class: class.clone(), calls: calls.clone() })
        }),
    );
    WatchFile { process, lines, unread: 0, torn: false }
}
