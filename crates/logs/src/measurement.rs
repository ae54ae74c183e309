//! A measurement from any source: busbw's own record, or another program's output.
//! Not a verdict, and not how text is parsed (`import`).
//!
//! What a source does not state is absent. What follows from several figures together (ranks from counts
//! and factors, the collective from its columns) comes from `deduction` and has `Origin::Deduced`.

mod check;
mod deduction;
mod folded;
mod form;
mod from_record;
mod groups;
mod old_counting;
mod page;
mod plan;
mod precise;
mod variants;

use std::collections::BTreeMap;

use nccl_plugin_abi::net_stats::NetStats;
use serde::{Deserialize, Serialize};

pub use check::{Disagreement, disagreements, ranks_of_another_run, stated_average_differs};
pub use deduction::deduce;
pub use folded::{Folded, Imported, Outcome};
pub use form::{Form, FormFacts, NcclUse};
pub use from_record::version_text;
pub(crate) use groups::{first_group, hosts_of, hosts_of_cut_names};
pub use page::{Network, Page, StatedNics};

use busbw_core::{
    Collective, DataType,
    messages::Messages,
    pairs::Pairs,
    record::{DeviceCounters, Figures, HostCounters, Machine, VerbsFacts},
};
use busbw_library_logs::{failure::FailureFacts, mpi::MpiFacts, nccl::NcclFacts};

/// One run of one test: its rows, and how they were measured. Its JSON is that of `Folded`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measurement {
    /// Where it was read.
    pub source: Source,
    /// What was run.
    pub test: Test,
    /// Ranks of the communicator; of the first one where the run had several (`Row::group`).
    pub ranks: Option<Known<usize>>,
    /// Number of hosts.
    pub hosts: Option<usize>,
    /// Every rank's device, as far as it is listed.
    pub devices: Vec<Device>,
    /// NCCL's (or RCCL's) version, such as `2.28.9`.
    pub nccl: Option<String>,
    /// Unique name of the run, from a record.
    pub id: Option<String>,
    /// Start time as the source says it, such as `2026-11-20 10:00:00`.
    pub started: Option<String>,
    /// The command line, where the text shows it.
    pub command: Option<String>,
    /// How it was measured, as far as the source says: options by the name that nccl-tests gives them
    /// (`-n`), and `backend`.
    pub options: BTreeMap<String, String>,
    /// Settings of the environment that were recorded.
    pub environment: BTreeMap<String, String>,
    /// The machine of rank 0, from a record.
    pub machine: Option<Machine>,
    /// What the page around the table says of the run and its machine; it is not in the JSON.
    pub page: Option<Page>,
    /// The rows, in the order in which they were measured.
    pub rows: Vec<Row>,
    /// Rows beyond the number that is kept.
    pub rows_left_out: u64,
    /// Matrices of pairs, of which each is a row.
    pub pairs: Vec<Pairs>,
    /// "Out of bounds values".
    pub out_of_bounds: Option<u64>,
    /// The sizes that the head announces; none where a foot ends the table.
    pub announced: Option<Announced>,
    /// "Avg bus bandwidth" as stated, GB/s.
    pub stated_average: Option<f64>,
    /// How often the parameters were printed: more than 1 where several processes ran the whole test alone
    /// and printed into one text.
    pub copies: usize,
    /// What failed, by the lines around and without a table.
    pub failure: FailureFacts,
    /// Messages about a failure, word for word.
    pub errors: Vec<String>,
    /// What NCCL's log says.
    pub library: Vec<NcclFacts>,
    /// The transports that each process's MPI named in its log, from a record.
    pub mpi: Vec<MpiFacts>,
    /// Counters of busbw's net plugin, one entry for each process.
    pub paths: Vec<NetStats>,
    /// The RDMA device of each rank, from a record of the `verbs` backend.
    pub verbs: Vec<VerbsFacts>,
}

/// The sizes that a head announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announced {
    /// The largest, bytes.
    pub last: u64,
    /// From one size to the next: the factor, or bytes.
    pub step: u64,
    /// Whether it is a factor.
    pub is_factor: bool,
}

impl Announced {
    /// Whether a size follows this one.
    pub fn goes_on_behind(self, size: u64) -> bool {
        let next = match self.is_factor {
            true => size.checked_mul(self.step),
            false => size.checked_add(self.step),
        };
        next.is_some_and(|next| next > size && next <= self.last)
    }
}

/// Where a measurement was read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Source {
    /// The file as named, `-` for stdin.
    pub name: String,
    /// Line on which it begins, counted from 1; 0 where there are no lines.
    pub line: u64,
    /// Its format.
    pub form: Form,
    /// Version of the program that wrote it, where it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// What was run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Test {
    /// Its name as written: the program, or OSU's title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The collective; of nccl-tests' programs, and of OSU's where both mean the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collective: Option<Known<Collective>>,
    /// What a row's figure is.
    pub figure: Figure,
    /// Where the buffers were, if the source says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Known<Memory>>,
}

/// What a row's main figure is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Time, algbw and busbw of a collective.
    #[default]
    Bandwidths,
    /// Time of one operation.
    Latency,
    /// Bytes a second from one process to another.
    PointToPoint,
    /// Bytes a second in both directions together.
    BothDirections,
    /// Bytes a second of several pairs together.
    Pairs,
}

impl From<Messages> for Figure {
    fn from(test: Messages) -> Figure {
        match test {
            Messages::Latency | Messages::MultiLatency => Figure::Latency,
            Messages::Bandwidth => Figure::PointToPoint,
            Messages::BiBandwidth => Figure::BothDirections,
            Messages::MultiBandwidth => Figure::Pairs,
        }
    }
}

/// Where buffers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// In the host's memory.
    Host,
    /// In a GPU's memory.
    Device,
}

/// A value, and whether the source states it or it follows from other figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known<T> {
    /// The value.
    pub value: T,
    /// How it is known.
    pub origin: Origin,
}

/// How something is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The source states it.
    #[serde(rename = "said")]
    Stated,
    /// It follows from figures of the source.
    Deduced,
    /// A file's name suggests it.
    FileName,
}

impl<T> Known<T> {
    /// A value that the source states.
    pub fn stated(value: T) -> Known<T> {
        Known { value, origin: Origin::Stated }
    }

    /// A value that follows from other figures.
    pub(crate) fn deduced(value: T) -> Known<T> {
        Known { value, origin: Origin::Deduced }
    }
}

/// A rank's device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Device {
    /// Rank.
    pub rank: usize,
    /// Host, up to the first dot.
    pub host: String,
    /// Number of the device.
    pub device: usize,
    /// PCI address as written.
    pub address: String,
    /// Its name, such as `NVIDIA H200`.
    pub name: String,
    /// Colour of its communicator (NCCL_TESTS_SPLIT), if the source says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
}

/// A row.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Row {
    /// Bytes.
    pub size: u64,
    /// Colour of its communicator, where the run had several (NCCL_TESTS_SPLIT).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
    /// Elements: the count column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Element type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datatype: Option<DataType>,
    /// The redop column; none where it is blank or `none`.
    #[serde(default, rename = "redop", skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// The root column; none where it is absent or -1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<i64>,
    /// The label of what its calls were given, where the run had variants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Out of place; of a program that knows no places, its figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_place: Option<Figures>,
    /// In place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_place: Option<Figures>,
    /// Device counters while the row was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<DeviceCounters>,
    /// The same of the other hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_hosts: Vec<HostCounters>,
}

impl Measurement {
    /// The largest busbw (bandwidth, where the program prints only one) of all valid placements. Of equal
    /// ones the first, and out of place before in place.
    pub fn peak(&self) -> Option<Peak<'_>> {
        let halves = self.rows.iter().flat_map(|row| {
            self.halves(row).map(move |(in_place, half)| Peak { row, half, in_place })
        });
        halves
            .filter(|at| at.figure().is_some_and(f64::is_finite))
            .reduce(|best, next| if next.figure() > best.figure() { next } else { best })
    }

    /// The valid placements of a row: `(in_place, figures)`. In place is left out where the collective has no
    /// valid in-place result.
    pub fn halves<'a>(&self, row: &'a Row) -> impl Iterator<Item = (bool, &'a Figures)> {
        let valid = self.collective().is_none_or(Collective::in_place_is_valid);
        let in_place = row.in_place.as_ref().filter(|_| valid);
        let out = row.out_of_place.as_ref().map(|half| (false, half));
        out.into_iter().chain(in_place.map(|half| (true, half)))
    }

    /// The collective, however it is known.
    pub fn collective(&self) -> Option<Collective> {
        self.test.collective.map(|known| known.value)
    }

    /// The ranks, however they are known.
    pub fn rank_count(&self) -> Option<usize> {
        self.ranks.map(|known| known.value)
    }

    /// The name to call the test by.
    pub fn test_name(&self) -> &str {
        match (self.collective(), &self.test.name) {
            (Some(collective), _) => collective.name(),
            (None, Some(name)) => name,
            (None, None) => "a test that is not named",
        }
    }
}

/// The figures of one placement, with their row.
#[derive(Debug, Clone, Copy)]
pub struct Peak<'a> {
    /// The row.
    pub row: &'a Row,
    /// The figures.
    pub half: &'a Figures,
    /// Whether they are in place.
    pub in_place: bool,
}

impl Peak<'_> {
    /// busbw where there is one, else the bandwidth, GB/s.
    pub fn figure(&self) -> Option<f64> {
        self.half.busbw.or(self.half.algbw)
    }
}
