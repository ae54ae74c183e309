//! The plan of a run: the typed result of parsing options, the same for every rank.
//! Not the options themselves (the grammar is cli's) and nothing about how ranks are started.

mod backend;
mod buffers;
mod calls;
mod messaging;
mod nccl_tests;
mod osu;
mod pairing;
mod partition;
mod rank_layout;
mod sampling;
mod variant;
mod verbs;

pub use backend::{
    BackendChoice, BackendSpec, BufferMemory, CheckedBy, GpuOptionUse, GpuOptions, Memory, MovedBy,
    RankHolder, Registration,
};
pub use buffers::Arrival;
pub use calls::{CallClass, Calls, LeftOut};
pub use messaging::{LargeMessages, Messaging};
pub use nccl_tests::NcclTestsRelease;
pub use osu::Osu;
pub use pairing::{PairSelection, Pairing};
pub use partition::Partition;
pub use rank_layout::RankLayout;
pub use sampling::{Average, Sampling};
pub use variant::{ALGORITHMS, AUTO, AlgorithmEvidence, CONFIGURABLE, Variant};
pub use verbs::{Connection, Verb, VerbsOptions};

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    Benchmark, Collective, DataType, ReduceOp,
    alltoallv::Traffic,
    collective::{Counts, OpColumn},
    fault::Fault,
    messages::Messages,
};

/// The program whose defaults and names apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// `busbw all_reduce`: busbw's defaults, several batches a row.
    Busbw,
    /// `all_reduce_perf`: nccl-tests' defaults in everything.
    NcclTests,
    /// `osu_allreduce`: OSU's defaults, loops and sizes, each of which is one message's.
    Osu,
}

/// How sizes grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Each size is this many times the one before (`-f`).
    Factor(u64),
    /// Each size is this many bytes more than the one before (`-i`).
    Bytes(u64),
}

/// Where ranks wait for each other (`-z`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blocking {
    /// 0: nowhere; iterations follow each other.
    #[default]
    None,
    /// 1: wait and barrier after each inner operation, within the time.
    InnerBarrier,
    /// 2: wait after each inner operation.
    Inner,
    /// 3: wait and barrier after each outer iteration; the barrier is not timed.
    Outer,
}

/// Out of place or in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Send and receive buffers differ.
    OutOfPlace,
    /// The operation works within one buffer.
    InPlace,
}

impl Placement {
    /// Both, in the order of a row.
    pub const BOTH: [Placement; 2] = [Placement::OutOfPlace, Placement::InPlace];
}

/// The complete plan of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The benchmark.
    #[serde(alias = "collective")]
    pub benchmark: Benchmark,
    /// The name in the first and last lines, such as `all_reduce_perf`.
    pub program: String,
    /// The program whose defaults and names apply.
    pub style: Style,
    /// The backend.
    pub backend: BackendChoice,
    /// Where MPI's buffers are: those of the ranks that begin, and of those that answer
    /// (`--buffers`); in collectives both are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffers: Option<[Memory; 2]>,
    /// Threads a process (`-t`).
    pub threads: usize,
    /// Devices a thread (`-g`).
    pub devices: usize,
    /// Processes that a launcher started; 1 without one.
    #[serde(default = "one")]
    pub launched: usize,
    /// Which process and thread holds which ranks.
    #[serde(default)]
    #[serde(rename = "seating")]
    pub rank_layout: RankLayout,
    /// Whether rank threads stay on the processors next to their GPUs (`--bind`).
    #[serde(default)]
    pub bind: bool,
    /// First device (NCCL_TESTS_DEVICE).
    pub first_device: usize,
    /// First size in bytes.
    pub min_bytes: u64,
    /// Last size in bytes; buffers have this size.
    pub max_bytes: u64,
    /// How sizes grow.
    pub step: Step,
    /// Timed outer iterations a batch (`-n`).
    pub iterations: u32,
    /// Operations fused into one iteration (`-m`).
    pub aggregated: u32,
    /// Untimed operations a size before the sweep (`-w`).
    pub warmup: u32,
    /// Sweeps, each printed; 0 = until interrupted (`-N`).
    pub cycles: u64,
    /// Checked operations a row and placement; 0 = none (`-c`). See [`Plan::checks`].
    pub check: u32,
    /// Element types, one sweep each.
    pub datatypes: Vec<DataType>,
    /// Operators, one sweep each.
    pub ops: Vec<ReduceOp>,
    /// Roots, one sweep each.
    pub roots: Vec<usize>,
    /// Where ranks wait (`-z`).
    pub blocking: Blocking,
    /// The ranks whose time counts (`-a`).
    pub average: Average,
    /// The limit of one wait, in seconds (`-T`).
    pub timeout_s: Option<u64>,
    /// Launches of a captured graph, 0 = no graph (`-G`).
    pub graph: u32,
    /// The time column is that of the enqueueing thread (`-C`).
    pub cpu_time: bool,
    /// Rows end with a time stamp (`-S`).
    pub timestamps: bool,
    /// Report every iteration (`-I`).
    pub per_iteration: bool,
    /// Iterations left out of that report (`-K`).
    pub per_iteration_skip: u32,
    /// Threads initialise concurrently (`-p`).
    pub parallel_init: bool,
    /// Print the memory line (`-M`).
    pub memory_report: bool,
    /// Buffers start this many elements after an aligned address (`-u`).
    pub unalign: usize,
    /// Batches and launches.
    pub sampling: Sampling,
    /// Colour of every rank (NCCL_TESTS_SPLIT); empty = one communicator.
    pub colours: Vec<u64>,
    /// Gate on the average bus bandwidth, GB/s (NCCL_TESTS_MIN_BW).
    pub min_bandwidth: Option<f64>,
    /// Traffic of alltoallv.
    pub traffic: Traffic,
    /// Print alltoallv's summary (NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY).
    pub traffic_summary: bool,
    /// Seed of all patterns.
    pub seed: u64,
    /// An injected fault.
    pub fault: Option<Fault>,
    /// The number of nodes that the processes of this host show to NCCL (`--virtual-nodes`).
    #[serde(default = "one")]
    pub virtual_nodes: usize,
    /// Options of tests of messages alone, and of collectives in latency form.
    #[serde(default)]
    pub messaging: Messaging,
    /// Every iteration of a collective is timed alone on every rank, out of place (`--latency`).
    #[serde(default)]
    pub latency: bool,
    /// Options of the matrix of pairs alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairing: Option<Pairing>,
    /// The job's calls, of `replay` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<Calls>,
    /// Options of OSU's names alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub osu: Option<Osu>,
    /// The release of nccl-tests whose form the table has (`--nccl-tests-version`).
    #[serde(default, skip_serializing_if = "NcclTestsRelease::is_default")]
    pub nccl_tests_version: NcclTestsRelease,
    /// What calls are given (`--algorithm` and others), one row each; empty = plain calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
}

/// The default for records from before launchers were supported.
fn one() -> usize {
    1
}

/// One sweep over the sizes: types × operators × roots, in nccl-tests' order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sweep {
    /// Element type.
    pub datatype: DataType,
    /// Operator; ignored by collectives that only copy.
    pub op: ReduceOp,
    /// Root; ignored where there is none.
    pub root: usize,
}

/// One row to measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Case {
    /// The collective.
    pub collective: Collective,
    /// The sweep it belongs to.
    pub sweep: Sweep,
    /// Its element counts.
    pub counts: Counts,
    /// Which of the plan's variants it is; 0 where there are none.
    pub variant: usize,
}

impl Plan {
    /// A small whole plan: an all_reduce of two ranks on `host`, 8 to 64 bytes. Examples and tests begin with it.
    pub fn example() -> Plan {
        Plan {
            benchmark: Benchmark::Collective(Collective::AllReduce),
            program: "all_reduce_perf".to_owned(),
            style: Style::NcclTests,
            backend: BackendChoice::Host,
            buffers: None,
            threads: 1,
            devices: 2,
            launched: 1,
            rank_layout: RankLayout::Processes,
            bind: false,
            first_device: 0,
            min_bytes: 8,
            max_bytes: 64,
            step: Step::Factor(2),
            iterations: 20,
            aggregated: 1,
            warmup: 1,
            cycles: 1,
            check: 1,
            datatypes: vec![DataType::Float],
            ops: vec![ReduceOp::Sum],
            roots: vec![0],
            blocking: Blocking::None,
            average: Average::Mean,
            timeout_s: None,
            graph: 0,
            cpu_time: false,
            timestamps: false,
            per_iteration: false,
            per_iteration_skip: 0,
            parallel_init: false,
            memory_report: false,
            unalign: 0,
            sampling: Sampling {
                min_batches: 1,
                precision: None,
                max_time: 1.0,
                launches: 1,
                row_time: None,
            },
            colours: Vec::new(),
            min_bandwidth: None,
            traffic: Traffic::default(),
            traffic_summary: false,
            seed: 1,
            fault: None,
            virtual_nodes: 1,
            messaging: Messaging::default(),
            latency: false,
            pairing: None,
            calls: None,
            osu: None,
            nccl_tests_version: NcclTestsRelease::default(),
            variants: Vec::new(),
        }
    }

    /// Types × operators × roots. A collective without operator or root has one of each.
    pub fn sweeps(&self) -> Vec<Sweep> {
        let collective = self.benchmark.collective();
        let ops = match collective.map_or(OpColumn::None, Collective::op_column) {
            OpColumn::Name => self.ops.as_slice(),
            OpColumn::None | OpColumn::Blank => &[ReduceOp::Sum],
        };
        let rooted = collective.is_some_and(Collective::rooted);
        let roots = if rooted { self.roots.as_slice() } else { &[0] };
        let mut sweeps = Vec::new();
        for &datatype in &self.datatypes {
            for &op in ops {
                sweeps.extend(roots.iter().map(|&root| Sweep { datatype, op, root }));
            }
        }
        sweeps
    }

    /// The sizes of one sweep, in bytes.
    pub fn sizes(&self) -> impl Iterator<Item = u64> + use<> {
        stepped(self.min_bytes, self.max_bytes, self.step)
    }

    /// The number of sizes of one sweep.
    pub fn size_count(&self) -> u64 {
        match self.step {
            Step::Factor(_) => self.sizes().count() as u64,
            Step::Bytes(0) => 1,
            Step::Bytes(bytes) => (self.max_bytes - self.min_bytes) / bytes + 1,
        }
    }

    /// The sizes of the warm-up: doubling from the first (nccl-tests src/common.cu:925).
    pub fn warmup_sizes(&self) -> impl Iterator<Item = u64> + use<> {
        stepped(self.min_bytes, self.max_bytes, Step::Factor(2))
    }

    /// The case of a collective at a requested size within a communicator of `ranks`.
    pub fn case(&self, collective: Collective, sweep: Sweep, bytes: u64, ranks: usize) -> Case {
        let element = sweep.datatype.bytes();
        let counts = match self.style {
            Style::Osu => collective.counts_of_message(bytes as usize, element, ranks),
            Style::Busbw | Style::NcclTests => {
                collective.counts(bytes as usize, element, ranks, &self.traffic)
            }
        };
        Case { collective, sweep, counts, variant: 0 }
    }

    /// Timed and untimed iterations of a batch with this size in bytes.
    pub fn loops(&self, bytes: u64) -> (u32, u32) {
        match self.messaging.large {
            Some(large) if bytes > large.above => (large.iterations, large.warmup),
            _ => (self.iterations, self.warmup),
        }
    }

    /// Checked operations of a row whose batches have `timed` iterations; under OSU's names the
    /// same number.
    pub fn checks(&self, timed: u32) -> u32 {
        match self.style {
            Style::Osu if self.check > 0 => timed,
            _ => self.check,
        }
    }

    /// Whether the end that begins fetches messages instead of sending them: RDMA reads.
    pub fn fetches(&self) -> bool {
        self.backend.verbs_options().is_some_and(|options| options.verb == Verb::Read)
    }

    /// Messages of one iteration of one pair that its time is divided by. An RDMA read goes one way in a round trip.
    pub fn messages_each(&self, test: Messages, window: u32) -> u64 {
        if self.fetches() && test.is_latency() { 1 } else { test.messages(window) }
    }

    /// The message size of a matrix of pairs, in bytes: the first size for latency, the last for
    /// bandwidth.
    pub fn bytes_of(&self, test: Messages) -> u64 {
        if test.is_latency() { self.min_bytes } else { self.max_bytes }
    }

    /// The ranks that `rank` exchanges messages with; none in collectives.
    pub fn peers(&self, rank: usize) -> BTreeSet<usize> {
        let other = |(first, second): (usize, usize)| match rank {
            rank if rank == first => Some(second),
            rank if rank == second => Some(first),
            _ => None,
        };
        let all: BTreeSet<usize> = match self.benchmark {
            Benchmark::Messages(test) => self.pairs(test).into_iter().filter_map(other).collect(),
            Benchmark::Pairs => (0..self.ranks()).collect(),
            Benchmark::Collective(_) | Benchmark::Replay => BTreeSet::new(),
        };
        all.into_iter().filter(|peer| *peer != rank).collect()
    }

    /// The ranks of each pair of a test of messages, the one that begins first.
    pub fn pairs(&self, test: Messages) -> Vec<(usize, usize)> {
        match self.messaging.pairs {
            Some(pairs) => (0..pairs).map(|first| (first, first + pairs)).collect(),
            None => test.pairs(self.ranks()).unwrap_or_default(),
        }
    }
}

/// Sizes from `min` to `max`; the sequence ends where a step does not grow.
fn stepped(min: u64, max: u64, step: Step) -> impl Iterator<Item = u64> + use<> {
    let next = move |size: &u64| {
        let grown = match step {
            Step::Factor(factor) => size.checked_mul(factor),
            Step::Bytes(bytes) => size.checked_add(bytes),
        };
        grown.filter(|g| g > size)
    };
    std::iter::successors(Some(min), next).take_while(move |size| *size <= max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_of_a_rank() {
        let plan = |benchmark, devices| Plan { benchmark, devices, ..Plan::example() };
        let of = |plan: Plan, rank| plan.peers(rank).into_iter().collect::<Vec<_>>();
        assert_eq!(of(plan(Messages::MultiBandwidth.into(), 4), 1), [3]);
        assert_eq!(of(plan(Messages::MultiBandwidth.into(), 4), 2), [0]);
        assert_eq!(of(plan(Benchmark::Pairs, 3), 1), [0, 2]);
        assert_eq!(of(plan(Collective::AllReduce.into(), 3), 1), [0; 0]);
    }

    #[test]
    fn sizes_step_and_end() {
        let sizes = |min, max, step| stepped(min, max, step).collect::<Vec<_>>();
        assert_eq!(sizes(8, 64, Step::Factor(2)), [8, 16, 32, 64]);
        assert_eq!(sizes(8, 100, Step::Factor(3)), [8, 24, 72]);
        assert_eq!(sizes(1, 3, Step::Bytes(1)), [1, 2, 3]);
        assert_eq!(sizes(0, 64, Step::Factor(2)), [0]);
        assert_eq!(sizes(5, 9, Step::Bytes(0)), [5]);
        assert_eq!(sizes(u64::MAX - 1, u64::MAX, Step::Factor(2)), [u64::MAX - 1]);
    }
}
