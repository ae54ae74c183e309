//! 1,024 made-up ranks, TP8 × PP8 × DP16 on 128 hosts with skewed clocks: one fault is planted, and the job runs until
//! nothing moves. Files are written as PyTorch's flight recorder or busbw's profiler would, and read by their readers.
//! Not real libraries: tests/hang.sh has those.
//!
//! Each rank runs a program of sends, receives and collectives. It enqueues up to some calls ahead of its GPU, which runs them
//! in their order; a call ends when it is at the head of all its ranks.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use busbw_logs::hang::Reader;

use super::report::blamed_ranks;
use super::{HangReport, Verdict, judge};

const TP: usize = 8;
const PP: usize = 8;
const DP: usize = 16;
const RANKS: usize = TP * PP * DP;
const MICROBATCHES: usize = 2;
const STEPS: usize = 2;

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, many: usize) -> usize {
        (self.next() % many as u64) as usize
    }
}

/// A group: its kind and its number among those of the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    World,
    Tensor(usize),
    Data(usize),
    Pipeline(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Collective { of: Of, name: &'static str, elements: u64 },
    Message { of: Of, peer: usize, is_send: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    NeverComes,
    Gone,
    OtherSize,
    OtherOperation,
    Network,
}

const FAULTS: [Fault; 5] =
    [Fault::NeverComes, Fault::Gone, Fault::OtherSize, Fault::OtherOperation, Fault::Network];

fn place(rank: usize) -> (usize, usize, usize) {
    (rank / (TP * PP), rank / TP % PP, rank % TP)
}

fn rank_at(dp: usize, pp: usize, tp: usize) -> usize {
    dp * TP * PP + pp * TP + tp
}

fn members(of: Of) -> Vec<usize> {
    match of {
        Of::World => (0..RANKS).collect(),
        Of::Tensor(n) => (0..TP).map(|tp| n * TP + tp).collect(),
        Of::Data(n) => (0..DP).map(|dp| rank_at(dp, n / TP, n % TP)).collect(),
        Of::Pipeline(n) => (0..PP).map(|pp| rank_at(n / TP, pp, n % TP)).collect(),
    }
}

fn name(of: Of) -> String {
    match of {
        Of::World => "0".to_owned(),
        Of::Tensor(n) => format!("{}", 1 + n),
        Of::Data(n) => format!("{}", 1000 + n),
        Of::Pipeline(n) => format!("{}", 2000 + n),
    }
}

fn groups(rank: usize) -> [Of; 4] {
    let (dp, pp, tp) = place(rank);
    [Of::World, Of::Tensor(dp * PP + pp), Of::Data(pp * TP + tp), Of::Pipeline(dp * TP + tp)]
}

fn program(rank: usize) -> Vec<Op> {
    let (dp, pp, tp) = place(rank);
    let [world, tensor, data, pipeline] = groups(rank);
    let collective = |of, name, elements| Op::Collective { of, name, elements };
    let message =
        |pp: usize, is_send| Op::Message { of: pipeline, peer: rank_at(dp, pp, tp), is_send };
    let mut all = Vec::new();
    for _ in 0..STEPS {
        for _ in 0..MICROBATCHES {
            all.extend((pp > 0).then(|| message(pp - 1, false)));
            all.push(collective(tensor, "all_reduce", 1 << 20));
            all.extend((pp + 1 < PP).then(|| message(pp + 1, true)));
        }
        for _ in 0..MICROBATCHES {
            all.extend((pp + 1 < PP).then(|| message(pp + 1, false)));
            all.push(collective(tensor, "all_reduce", 1 << 20));
            all.extend((pp > 0).then(|| message(pp - 1, true)));
        }
        all.push(collective(data, "reduce_scatter", 1 << 22));
        all.push(collective(data, "all_gather", 1 << 18));
        all.push(collective(world, "all_reduce", 1));
    }
    all
}

/// A job in which nothing moves any more.
struct Stuck {
    programs: Vec<Vec<Op>>,
    /// Calls that are over, and that were made, of each rank.
    over: Vec<usize>,
    made: Vec<usize>,
    fault: Fault,
    rank: usize,
    at: usize,
    skew_ns: Vec<i64>,
    timed: bool,
}

fn run(seed: u64) -> Stuck {
    let mut random = Random(seed);
    let fault = FAULTS[seed as usize % FAULTS.len()];
    let rank = random.below(RANKS);
    let mut programs: Vec<Vec<Op>> = (0..RANKS).map(program).collect();
    let length = programs[rank].len();
    let mut at = length / STEPS + random.below(length / STEPS);
    // These are of collectives, and of some that all members give as much for.
    while fault != Fault::NeverComes
        && fault != Fault::Gone
        && !matches!(programs[rank][at], Op::Collective { .. })
    {
        at = length / STEPS + random.below(length / STEPS);
    }
    if let Op::Collective { name, elements, .. } = &mut programs[rank][at] {
        match fault {
            Fault::OtherSize => *elements += 8,
            Fault::OtherOperation => *name = "broadcast",
            _ => {}
        }
    }
    let ahead = random.below(4);
    let stops = matches!(fault, Fault::NeverComes | Fault::Gone);
    let (mut over, mut made) = (vec![0; RANKS], vec![0; RANKS]);
    let mut moved = true;
    while moved {
        moved = false;
        for one in 0..RANKS {
            let limit = if stops && one == rank { at } else { programs[one].len() };
            made[one] = (over[one] + 1 + ahead).min(limit);
        }
        for one in 0..RANKS {
            if over[one] >= made[one] {
                continue;
            }
            let ranks = match programs[one][over[one]] {
                Op::Collective { of, .. } => members(of),
                Op::Message { peer, .. } => vec![one, peer],
            };
            let here = programs[one][over[one]];
            let meets = |other: &usize| {
                over[*other] < made[*other]
                    && match (here, programs[*other][over[*other]]) {
                        (Op::Collective { of: a, .. }, Op::Collective { of: b, .. }) => a == b,
                        (Op::Message { is_send: a, .. }, Op::Message { peer, is_send: b, .. }) => {
                            *other == one || (a != b && peer == one)
                        }
                        _ => false,
                    }
            };
            let is_broken = !stops && ranks.contains(&rank) && over[rank] == at && meets(&rank);
            if ranks.iter().all(meets) && !is_broken {
                ranks.iter().for_each(|other| over[*other] += 1);
                moved = true;
            }
        }
    }
    // A minute either way: NTP is off.
    let skew_ns = (0..RANKS / TP)
        .map(|_| random.below(120_000) as i64 * 1_000_000 - 60_000_000_000)
        .collect();
    Stuck { programs, over, made, fault, rank, at, skew_ns, timed: random.below(2) == 0 }
}

const SECOND: i64 = 1_000_000_000;
const BEGAN: i64 = 1_795_000_000 * SECOND;

impl Stuck {
    /// When a call was made, ns: by the clock of the rank's host.
    fn made_at(&self, rank: usize, index: usize) -> i64 {
        BEGAN + self.skew_ns[rank / TP] + index as i64 * SECOND / 10 + (rank as i64 % 97) * 1000
    }

    fn written_at(&self, rank: usize) -> u64 {
        (BEGAN + self.skew_ns[rank / TP] + 600 * SECOND) as u64
    }

    fn is_gone(&self, rank: usize) -> bool {
        self.fault == Fault::Gone && self.rank == rank
    }

    /// A dump of the flight recorder.
    fn dump(&self, rank: usize) -> String {
        let mut config = String::new();
        for of in groups(rank) {
            let list: Vec<String> = members(of).iter().map(usize::to_string).collect();
            let comma = if config.is_empty() { "" } else { "," };
            let name = name(of);
            write!(
                config,
                "{comma}\"{name}\":{{\"name\":\"{name}\",\"desc\":\"pg\",\"ranks\":\"[{}]\"}}",
                list.join(", ")
            )
            .unwrap();
        }
        let mut entries = String::new();
        let mut numbers: BTreeMap<(Of, bool), u64> = BTreeMap::new();
        for (index, op) in self.programs[rank].iter().enumerate().take(self.made[rank]) {
            let (of, is_p2p) = match op {
                Op::Collective { of, .. } => (*of, false),
                Op::Message { of, .. } => (*of, true),
            };
            let number = numbers.entry((of, is_p2p)).or_default();
            *number += 1;
            let (called, elements) = match op {
                Op::Collective { name, elements, .. } => ((*name).to_owned(), *elements),
                Op::Message { of, peer, is_send } => {
                    let own = |rank| members(*of).iter().position(|one| *one == rank).unwrap();
                    let (own, peer) = (own(rank), own(*peer));
                    (
                        if *is_send {
                            format!("send {own}->{peer}")
                        } else {
                            format!("recv {own}<-{peer}")
                        },
                        4096,
                    )
                }
            };
            let state = match index.cmp(&self.over[rank]) {
                std::cmp::Ordering::Less => "completed",
                std::cmp::Ordering::Equal if self.timed => "started",
                _ => "scheduled",
            };
            let started =
                if self.timed && state != "scheduled" { self.made_at(rank, index) } else { 0 };
            let comma = if entries.is_empty() { "" } else { "," };
            write!(
                entries,
                "{comma}{{\"record_id\":{index},\"pg_id\":1,\"process_group\":[\"{}\",\"pg\"],\"collective_seq_id\":{},\"p2p_seq_id\":{},\
                 \"profiling_name\":\"nccl:{called}\",\"time_created_ns\":{},\"input_sizes\":[[{elements}]],\"input_dtypes\":[\"Float\"],\
                 \"state\":\"{state}\",\"time_discovered_started_ns\":{started},\"is_p2p\":{is_p2p}}}",
                name(of),
                if is_p2p { 0 } else { *number },
                if is_p2p { *number } else { 0 },
                self.made_at(rank, index),
            )
            .unwrap();
        }
        format!("{{\"version\":\"2.10\",\"pg_config\":{{{config}}},\"entries\":[{entries}]}}")
    }

    /// A file of busbw's profiler.
    fn watch(&self, rank: usize) -> String {
        let began = BEGAN + self.skew_ns[rank / TP];
        let mut out = format!(
            "{{\"kind\":\"process\",\"version\":1,\"busbw\":\"0.1.0\",\"host\":\"node-{}\",\"pid\":{},\"rank\":{rank},\"began\":{began},\"interface\":6,\"mask\":70}}\n",
            rank / TP,
            1000 + rank
        );
        let own = |of: Of| members(of).iter().position(|one| *one == rank).unwrap();
        for (number, of) in groups(rank).into_iter().enumerate() {
            writeln!(
                out,
                "{{\"kind\":\"communicator\",\"number\":{number},\"id\":\"0xc{}\",\"nodes\":1,\"ranks\":{},\"rank\":{},\"at\":1}}",
                name(of),
                members(of).len(),
                own(of)
            )
            .unwrap();
        }
        let quiet = self.is_gone(rank);
        let end = if quiet { self.made[rank] as i64 * SECOND / 10 } else { 600 * SECOND };
        let mut numbers: BTreeMap<(Of, String), u64> = BTreeMap::new();
        for (index, op) in self.programs[rank].iter().enumerate().take(self.made[rank]) {
            let (of, operation, elements, peer) = match op {
                Op::Collective { of, name, elements } => {
                    let operation = match *name {
                        "all_reduce" => "AllReduce",
                        "reduce_scatter" => "ReduceScatter",
                        "broadcast" => "Broadcast",
                        _ => "AllGather",
                    };
                    (*of, operation, *elements, String::new())
                }
                Op::Message { of, peer, is_send } => {
                    let peer = members(*of).iter().position(|one| one == peer).unwrap();
                    (*of, if *is_send { "Send" } else { "Recv" }, 4096, format!(",\"peer\":{peer}"))
                }
            };
            let communicator = groups(rank).iter().position(|one| *one == of).unwrap();
            let number = numbers.entry((of, format!("{operation}{peer}"))).or_default();
            let class = format!(
                "\"communicator\":{communicator},\"operation\":\"{operation}\",\"count\":{elements},\"datatype\":\"ncclFloat32\",\"size\":16{peer}"
            );
            let asked = self.made_at(rank, index) - began;
            if index < self.over[rank] {
                let started = if self.timed { "7,8" } else { "null,null" };
                writeln!(
                    out,
                    "{{\"kind\":\"calls\",{class},\"calls\":[[{number},{asked},{started}]]}}"
                )
                .unwrap();
            } else if !quiet {
                let channels = u32::from(self.timed && index == self.over[rank]);
                writeln!(
                    out,
                    "{{\"kind\":\"open\",{class},\"sequence\":{number},\"enqueued\":{asked},\"at\":{end},\"channels_started\":{channels},\"channels_ended\":0}}"
                )
                .unwrap();
            }
            *number += 1;
        }
        writeln!(
            out,
            "{{\"kind\":\"heartbeat\",\"at\":{end},\"clock\":0,\"late\":0,\"dropped_calls\":0,\"dropped_steps\":0}}"
        )
        .unwrap();
        out
    }

    fn judged(&self, by_watch: bool) -> HangReport {
        let mut reader = Reader::default();
        for rank in 0..RANKS {
            if by_watch {
                reader.read(self.watch(rank).as_bytes(), &format!("{rank}.jsonl"), None).unwrap();
            } else if !self.is_gone(rank) {
                let written = Some(self.written_at(rank));
                reader.read(self.dump(rank).as_bytes(), &format!("rank_{rank}"), written).unwrap();
            }
        }
        judge(&reader.finish())
    }

    /// Whether the verdict is right: kind and rank, or of a network that stops the call. The second: nobody else is accused.
    fn score(&self, report: &HangReport) -> (bool, bool) {
        let named: BTreeSet<u32> = blamed_ranks(report).into_iter().collect();
        let alone = named == BTreeSet::from([self.rank as u32]);
        let kind = match self.fault {
            Fault::NeverComes => Verdict::NeverCame,
            Fault::Gone => Verdict::Silent,
            Fault::OtherSize => Verdict::OtherSize,
            Fault::OtherOperation => Verdict::OtherOperation,
            Fault::Network => Verdict::NetworkStopped,
        };
        let Op::Collective { of, .. } = self.programs[self.rank][self.at] else {
            return (report.verdict == kind && alone, named.is_empty() || alone);
        };
        if self.fault == Fault::Network {
            let communicator = report.communicator.as_deref().unwrap_or_default();
            let here = [format!("group {} (pg)", name(of)), format!("0xc{}", name(of))];
            return (
                report.verdict == kind && here.iter().any(|one| communicator.ends_with(one)),
                named.is_empty(),
            );
        }
        (report.verdict == kind && alone, named.is_empty() || alone)
    }
}

/// Runs seeds, prints a line each, and gives how many were right and how many accused somebody else.
fn seeds(range: std::ops::Range<u64>) -> (usize, usize) {
    let (mut right, mut wrong) = (0, 0);
    for seed in range {
        let stuck = run(seed);
        let by_watch = seed / FAULTS.len() as u64 % 2 == 1;
        let report = stuck.judged(by_watch);
        let (is_right, is_harmless) = stuck.score(&report);
        right += usize::from(is_right);
        wrong += usize::from(!is_harmless);
        println!(
            "seed {seed:>3} {:<14} rank {:>4} call {:>2} by {:<8} {:<15} {:<5} {} of {} wait: {}",
            format!("{:?}", stuck.fault),
            stuck.rank,
            stuck.at,
            if by_watch { "profiler" } else { "recorder" },
            report.verdict.name(),
            if is_right { "right" } else { "WRONG" },
            report.waiting,
            RANKS,
            report.sentence
        );
    }
    (right, wrong)
}

#[test]
fn one_of_each_fault() {
    assert_eq!(seeds(0..2 * FAULTS.len() as u64), (2 * FAULTS.len(), 0));
}

/// The bar of 50 (bench/results): `cargo test --release -p busbw-analysis fifty_jobs -- --ignored --nocapture`.
#[test]
#[ignore = "takes a minute: its output is committed"]
fn fifty_jobs() {
    let (right, wrong) = seeds(100..150);
    println!("{right} of 50 right; {wrong} accused a rank that is not to blame");
    assert!(right >= 48, "{right} of 50");
    assert_eq!(wrong, 0);
}

/// Writes the files of a job into a folder, to measure how long `busbw explain` takes.
#[test]
#[ignore = "writes into the folder that BUSBW_HANG_FILES names"]
fn write_files() {
    let Some(folder) = std::env::var_os("BUSBW_HANG_FILES").map(std::path::PathBuf::from) else {
        return;
    };
    std::fs::create_dir_all(&folder).unwrap();
    let stuck = run(0);
    for rank in 0..RANKS {
        std::fs::write(folder.join(format!("rank_{rank}.json")), stuck.dump(rank)).unwrap();
    }
}
