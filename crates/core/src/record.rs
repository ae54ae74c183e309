//! The record of a run: JSON Lines of `run`, `row` … and `end`, or one folded object.
//! Not where it is stored and not how it is printed.

mod bounds;
mod counters;
mod end;
mod figures;
mod net;
mod pairs;
mod row;
mod run;
mod verbs;

pub use bounds::{MAX_RANKS, MOST_BYTES, MOST_EVENTS, within};
pub use counters::{Counted, DeviceCounters, DeviceKind, HostCounters, Meaning, Unread};
pub use end::{End, GpuMemory, Status};
pub use figures::Figures;
pub use net::{NetFacts, plugins_used};
pub use row::{
    Half, IterationReport, LatencyFigures, MessageFigures, PairFigure, PairsFigures, Row,
    RowVariant, Spread, WrongPlace,
};
pub use run::{Clock, Cpu, Device, Gpu, Machine, MemoryFigures, Nic, Run, Waiver};

pub use verbs::{BufferGpu, Slot, VerbsFacts, add_port, rdma_devices_used};

use nccl_plugin_abi::net_stats::NetStats;
use serde::{Deserialize, Serialize};

use busbw_library_logs::{mpi::MpiFacts, nccl::NcclFacts};

/// The version of the schema that is written. Readers refuse newer ones.
pub const SCHEMA: u32 = 1;

/// One line of a record. `busbw-store` reads it back.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Line {
    /// The first line: benchmark, machine and options.
    Run(Box<Run>),
    /// What a process's library logged during initialisation; none, or one for each process.
    Library(Box<NcclFacts>),
    /// The transports that a process's MPI logged; the last line of a rank counts.
    Mpi(Box<MpiFacts>),
    /// The net plugin of a process, and the device that it uses.
    Net(Box<NetFacts>),
    /// The statistics of busbw's net plugin in a process, at its end.
    Paths(Box<NetStats>),
    /// The RDMA device of a rank of the `verbs` backend.
    Verbs(Box<VerbsFacts>),
    /// One row.
    Row(Box<Row>),
    /// The last line: the status and the totals.
    End(Box<End>),
}

/// What a library reports about itself in one process.
#[derive(Debug, Clone, PartialEq)]
pub enum LibraryFacts {
    /// NCCL (or RCCL).
    Nccl(Box<NcclFacts>),
    /// MPI, with UCX below it.
    Mpi(Box<MpiFacts>),
    /// A net plugin.
    Net(Box<NetFacts>),
    /// The statistics of busbw's own net plugin.
    Paths(Box<NetStats>),
    /// The RDMA device of a rank.
    Verbs(Box<VerbsFacts>),
}

impl From<LibraryFacts> for Line {
    fn from(said: LibraryFacts) -> Line {
        match said {
            LibraryFacts::Nccl(facts) => Line::Library(facts),
            LibraryFacts::Mpi(facts) => Line::Mpi(facts),
            LibraryFacts::Net(facts) => Line::Net(facts),
            LibraryFacts::Paths(stats) => Line::Paths(stats),
            LibraryFacts::Verbs(facts) => Line::Verbs(facts),
        }
    }
}

/// A whole record as one object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Folded {
    /// The first line.
    pub run: Run,
    /// What the processes' libraries logged during initialisation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub library: Vec<NcclFacts>,
    /// The transports that the processes' MPI logged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mpi: Vec<MpiFacts>,
    /// The net plugin of each process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub net: Vec<NetFacts>,
    /// The statistics of busbw's net plugin in each process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<NetStats>,
    /// The RDMA device of each rank of the `verbs` backend.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<VerbsFacts>,
    /// Its rows, in the order in which they were measured.
    pub rows: Vec<Row>,
    /// The last line; missing when the writer was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
}

impl Folded {
    /// Rows of earlier launches without a combined row: their run was killed before it could
    /// combine all launches.
    pub fn unsettled(&self) -> usize {
        let shown: std::collections::HashSet<(u64, u64)> =
            self.rows.iter().filter(|row| row.shown).map(|row| (row.index, row.group)).collect();
        self.rows.iter().filter(|row| !shown.contains(&(row.index, row.group))).count()
    }
}

/// Figures that JSON has no number for: NaN and infinities become null and come back as NaN.
pub(crate) mod figure {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() { to.serialize_f64(*value) } else { to.serialize_none() }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
    }
}
