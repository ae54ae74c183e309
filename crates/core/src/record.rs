//! What is written down about a run: JSON Lines of `run`, `row` … and `end`, or one folded object.
//! Not where it is stored and not how it is printed.

mod counters;
mod end;
mod net;
mod row;
mod run;

pub use counters::{Counted, DeviceCounters, DeviceKind, Meaning, Unread};
pub use end::{End, GpuMemory, Status};
pub use net::{NetFacts, plugins_used};
pub use row::{
    Half, IterationReport, LatencyFigures, MessageFigures, PairFigure, PairsFigures, Row, Spread,
    WrongPlace,
};
pub use run::{Clock, Cpu, Device, Gpu, Machine, MemoryFigures, Nic, Run, Waiver};

use nccl_plugin_abi::net_stats::NetStats;
use serde::{Deserialize, Serialize};

use busbw_library_logs::{mpi::MpiFacts, nccl::NcclFacts};

/// The version of the schema that is written. Readers refuse newer ones.
pub const SCHEMA: u32 = 1;

/// One line of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Line {
    /// The first line: what runs, where, with what.
    Run(Box<Run>),
    /// What a process's library said while it came up; none, or one for each process.
    Library(Box<NcclFacts>),
    /// What a process's MPI said of who carries messages; of several of one rank the last counts.
    Mpi(Box<MpiFacts>),
    /// What a process's net plugin is, and which of its devices is used.
    Net(Box<NetFacts>),
    /// What busbw's net plugin counted in a process, at its end.
    Paths(Box<NetStats>),
    /// One row.
    Row(Box<Row>),
    /// The last line: how it ended.
    End(Box<End>),
}

/// What a library reports about itself in one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum LibraryFacts {
    /// NCCL (or RCCL).
    Nccl(Box<NcclFacts>),
    /// MPI, with UCX below it.
    Mpi(Box<MpiFacts>),
    /// A net plugin.
    Net(Box<NetFacts>),
    /// busbw's own one, of its paths.
    Paths(Box<NetStats>),
}

impl From<LibraryFacts> for Line {
    fn from(said: LibraryFacts) -> Line {
        match said {
            LibraryFacts::Nccl(facts) => Line::Library(facts),
            LibraryFacts::Mpi(facts) => Line::Mpi(facts),
            LibraryFacts::Net(facts) => Line::Net(facts),
            LibraryFacts::Paths(stats) => Line::Paths(stats),
        }
    }
}

/// A whole record as one object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Folded {
    /// What ran.
    pub run: Run,
    /// What the processes' libraries said while they came up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub library: Vec<NcclFacts>,
    /// What the processes' MPI said of who carries messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mpi: Vec<MpiFacts>,
    /// The net plugin of each process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub net: Vec<NetFacts>,
    /// What busbw's net plugin counted in each process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<NetStats>,
    /// Its rows, in the order in which they were measured.
    pub rows: Vec<Row>,
    /// How it ended; missing when the writer was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
}

impl Folded {
    /// Rows of earlier launches that no row stands for: their run was killed before it could say what all
    /// launches give together.
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
