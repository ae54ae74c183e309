//! One row: a case, its results out of place and in place, and the check.
//! Not its printed form.

use serde::{Deserialize, Serialize};

use super::{DeviceCounters, Figures, HostCounters, figure};
use crate::{
    Benchmark, Collective, DataType,
    messages::Messages,
    pairs::assessment::PairsAssessment,
    plan::{AlgorithmEvidence, Variant},
};
use busbw_stats::Summary;

/// A row of the table, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Schema version.
    pub schema: u32,
    /// Index in the whole run, counted from 0; rows of other groups share it.
    pub index: u64,
    /// Sweep cycle (`-N`), counted from 0.
    pub cycle: u64,
    /// Launch (`--repeat`), counted from 0.
    pub launch: u32,
    /// Whether it is in the table: with several launches only the last one's rows are, with times
    /// over all of them.
    pub shown: bool,
    /// Colour of its communicator.
    pub group: u64,
    /// Ranks of its communicator.
    pub ranks: usize,
    /// The benchmark.
    #[serde(alias = "collective")]
    pub benchmark: Benchmark,
    /// The size column, bytes.
    pub size: u64,
    /// The count column, elements.
    pub count: u64,
    /// Element type.
    pub datatype: DataType,
    /// The redop column: a name, `none`, or blank.
    pub redop: String,
    /// The root column: a rank, or -1.
    pub root: i64,
    /// Local time at which the row was complete, `%Y-%m-%d %H:%M:%S`.
    pub finished: String,
    /// What its calls were given, where the run has variants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<RowVariant>,
    /// Why the case did not run; such a row has no halves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waived: Option<String>,
    /// Out of place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_place: Option<Half>,
    /// In place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_place: Option<Half>,
    /// The matrix of pairs. The half out of place is then the first look at all pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<Box<PairsFigures>>,
    /// Lines that belong to this row and follow it (alltoallv's summary).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The counters of devices of the supervisor's host, from before the first batch until after
    /// the last check; devices without a difference are left out. Communicators run at the same
    /// time: only the first one's row has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<DeviceCounters>,
    /// The same of every other host, where ranks are on several; a host that did not answer in time is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_hosts: Vec<HostCounters>,
}

impl Row {
    /// Bytes of one message, which is the size that OSU prints.
    pub fn message_bytes(&self) -> u64 {
        match self.benchmark {
            Benchmark::Messages(_) | Benchmark::Pairs | Benchmark::Replay => self.size,
            Benchmark::Collective(collective) => {
                collective.message_bytes(self.count, self.datatype.bytes(), self.ranks)
            }
        }
    }

    /// The halves that were measured and are meaningful: not the in-place time of a collective that
    /// is not defined in place, and not the speed of moving nothing.
    pub fn meaningful_halves(&self) -> impl Iterator<Item = &Half> {
        let valid = self.benchmark.collective().is_none_or(Collective::in_place_is_valid);
        let in_place = self.in_place.as_ref().filter(|_| valid);
        self.out_of_place.iter().chain(in_place).filter(|_| self.size > 0)
    }
}

/// The variant of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowVariant {
    /// What every call was given.
    #[serde(flatten)]
    pub given: Variant,
    /// Whether NCCL's log says that the algorithm ran which was asked for; none where the choice was NCCL's, or nothing ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<AlgorithmEvidence>,
}

/// One placement of a row: its figures, and what was measured for them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Half {
    /// Time, bandwidths, wrong elements and algorithm.
    #[serde(flatten, serialize_with = "Figures::in_record")]
    pub figures: Figures,
    /// The library's own prediction of the time, microseconds (ncclGroupSimulateEnd).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_us: Option<f64>,
    /// Median time of enqueueing one operation, microseconds (`-C`); messages have none.
    pub cpu_time_us: Option<f64>,
    /// Checks in which some rank found wrong elements, counted per rank and check.
    pub failed_checks: u64,
    /// The first wrong element of each rank.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrong_places: Vec<WrongPlace>,
    /// Every batch: one operation's time on every rank, microseconds.
    pub batches_us: Vec<Vec<f64>>,
    /// Iterations of each batch, where time did not allow those of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fewer_iterations: Option<u32>,
    /// Statistics over the batches' times; over the launches' medians, when the row stands for
    /// several.
    pub summary: Option<Summary>,
    /// Medians of the launches that the row combines, in microseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub launches_us: Vec<f64>,
    /// Every iteration's time (`-I`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<IterationReport>,
    /// Figures of messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<MessageFigures>,
    /// Figures of collectives in latency form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyFigures>,
}

/// A wrong element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrongPlace {
    /// World rank that found it.
    pub rank: usize,
    /// Element of the receive buffer.
    pub element: u64,
    /// Bits found, hexadecimal.
    pub got: String,
    /// Bits wanted, hexadecimal.
    pub want: String,
    /// The check: "check 1", "last timed iteration of batch 1".
    pub check: String,
}

/// The times of every outer iteration of the last batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IterationReport {
    /// Leading iterations left out of the summary (`-K`).
    pub skipped: usize,
    /// Every iteration, the slowest process each, microseconds.
    pub times_us: Vec<f64>,
    /// The same for every process; empty with one process.
    pub per_process_us: Vec<Vec<f64>>,
}

/// Figures of a collective whose iterations were timed one by one on every rank.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LatencyFigures {
    /// Mean time of one operation on the rank where it is smallest, microseconds: OSU's `Min Latency`. Over
    /// several batches the median of their means.
    #[serde(with = "figure")]
    pub fastest_rank_us: f64,
    /// The same on the rank where it is largest: OSU's `Max Latency`. A single slow iteration is in
    /// `spread.max`.
    #[serde(with = "figure")]
    pub slowest_rank_us: f64,
    /// Every iteration of every rank, over all batches.
    pub spread: Spread,
    /// Requested percentiles of the same: per cent, microseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub percentiles: Vec<(u8, f64)>,
}

/// Figures of messages.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MessageFigures {
    /// Messages of a pair in flight at once.
    #[serde(default)]
    pub window: u32,
    /// Messages a second, of all pairs together, in both directions: by their mean time, as the
    /// bandwidth.
    #[serde(with = "figure")]
    pub rate: f64,
    /// One message's time in each iteration of each pair, over all batches: half a round trip, or a
    /// window's time by its messages.
    pub spread: Spread,
    /// Requested percentiles: per cent, microseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub percentiles: Vec<(u8, f64)>,
    /// Every pair's own figure, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<PairFigure>,
}

/// The verdict on a matrix of pairs. The figures themselves are those of messages: batches are
/// passes, with a time for each ordered pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairsFigures {
    /// The unit of the figures.
    pub test: Messages,
    /// The slow subjects.
    pub verdict: PairsAssessment,
    /// Suspects that were measured again, and their controls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retest: Option<Half>,
}

/// Percentiles of many samples, microseconds; each within 0.1 % of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Spread {
    /// How many samples.
    pub samples: u64,
    /// The smallest.
    pub min: f64,
    /// Half are smaller.
    pub p50: f64,
    /// 90 % are smaller.
    pub p90: f64,
    /// 99 % are smaller.
    pub p99: f64,
    /// 99.9 % are smaller.
    pub p999: f64,
    /// The largest.
    pub max: f64,
}

/// One pair's figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PairFigure {
    /// World rank that begins.
    pub from: usize,
    /// World rank that answers.
    pub to: usize,
    /// The median over batches of one message's time, microseconds.
    pub time_us: f64,
}
