//! What a trace holds: calls, their communicators, and who reported them.
//! Not how it is read (`reader`), and not what it adds up to (`classes`).

use std::fmt;

use busbw_core::{Collective, DataType, ReduceOp};
use serde::{Serialize, Serializer};

/// The calls of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// Who wrote it.
    pub source: TraceSource,
    /// Each operation once, whoever reported it: in the order of the first reporter, then of the second what is new, and so on.
    pub calls: Vec<Call>,
    /// The communicators of the calls.
    pub communicators: Vec<Communicator>,
    /// The ranks (of NCCL's log: the devices of processes) that reported something.
    pub ranks: Vec<Reporter>,
    /// What is not in `calls`, and why.
    pub left_out: Vec<LeftOut>,
    /// In what ranks disagree, a sentence each; the first of them.
    pub disagreements: Vec<String>,
    /// Disagreements beyond those.
    pub more_disagreements: u64,
    /// Who reported something of each communicator, as indices of `ranks`.
    pub(super) members: Vec<Vec<usize>>,
}

/// Who wrote a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceSource {
    /// NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,COLL.
    NcclLog,
    /// The JSON lines of NCCL's profiler plugin Inspector.
    Inspector,
    /// A dump of PyTorch's flight recorder.
    FlightRecorder,
    /// The JSON lines of busbw's profiler.
    Profiler,
    /// busbw's record: each row of its table is a call.
    Record,
}

impl TraceSource {
    /// Its name in a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            TraceSource::NcclLog => "NCCL's log",
            TraceSource::Inspector => "NCCL Inspector's file",
            TraceSource::FlightRecorder => "a dump of PyTorch's flight recorder",
            TraceSource::Profiler => "a file of busbw's profiler",
            TraceSource::Record => "a record of busbw",
        }
    }
}

/// A call: one operation of one communicator.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// What was called.
    pub operation: Operation,
    /// Element type; NCCL Inspector does not write it.
    pub datatype: Option<DataType>,
    /// Bytes as in busbw's size column: the larger of what one rank sends and receives. Of all_gather that is what all
    /// ranks send together, of reduce_scatter what one rank gives in all; of a message its bytes. Of alltoallv it is the
    /// busiest rank's.
    pub bytes: u64,
    /// Its communicator, as an index of [`Trace::communicators`].
    pub communicator: usize,
    /// The root, where there is one and the source has it.
    pub root: Option<u32>,
    /// The operator, where there is one and the source has it.
    pub redop: Option<ReduceOp>,
    /// When its reporter called it, microseconds after that reporter's first call.
    pub at_us: Option<f64>,
    /// Microseconds since its reporter's call before it, of any communicator, start to start.
    pub gap_us: Option<f64>,
    /// Microseconds on the device, of the rank that was fastest: the others waited for the last one, too.
    pub took_us: Option<f64>,
    /// The rank in the communicator that reported it first.
    pub rank: Option<u32>,
    /// The same as an index of [`Trace::ranks`].
    pub reporter: usize,
    /// Of a message, who reported its other end.
    pub other_end: Option<usize>,
}

/// What was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A collective.
    Collective(Collective),
    /// A message from one rank to another: a send, its receive, or both.
    Message,
}

impl Operation {
    /// The name of the collective's command, or `message`.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Collective(collective) => collective.name(),
            Operation::Message => "message",
        }
    }

    /// The collective, if it is one.
    pub const fn collective(self) -> Option<Collective> {
        match self {
            Operation::Collective(collective) => Some(collective),
            Operation::Message => None,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Operation {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

/// A communicator.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Communicator {
    /// Its name in the source: NCCL's commId, PyTorch's process group. Where the source has none, one that is made here.
    pub id: String,
    /// Its ranks.
    pub ranks: u32,
    /// Which ranks of the job they are.
    pub spacing: Spacing,
}

/// Which ranks of a job a communicator has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Spacing {
    /// The source does not list them.
    Unknown,
    /// Each so much above the one before, the first where communicators of this size and spacing that split the job's ranks
    /// have one.
    Even(u32),
    /// In another way.
    Uneven,
}

impl Spacing {
    /// That of these ranks of the job.
    pub fn of(ranks: &[u32]) -> Spacing {
        let mut steps = ranks.windows(2).map(|pair| match pair {
            [one, next] => next.checked_sub(*one).filter(|step| *step > 0),
            _ => None,
        });
        let Some(first) = steps.next() else { return Spacing::Unknown };
        let (lowest, count) = (ranks.first().copied().unwrap_or(0), ranks.len() as u64);
        let is_aligned = |step: u32| u64::from(lowest) % (u64::from(step) * count) < step.into();
        match first {
            Some(step) if steps.all(|other| other == first) && is_aligned(step) => {
                Spacing::Even(step)
            }
            _ => Spacing::Uneven,
        }
    }
}

/// Who reported calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reporter {
    /// A file, or host, process and device.
    pub name: String,
    /// Calls that it took part in and that are in the trace.
    pub calls: u64,
}

/// Calls that are not in a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Why.
    pub reason: String,
    /// How many, as ranks reported them.
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_splits_of_a_job() {
        let even: [(&[u32], u32); 4] =
            [(&[0, 1], 1), (&[6, 7], 1), (&[1, 9, 17, 25], 8), (&[34, 42, 50, 58], 8)];
        for (ranks, step) in even {
            assert_eq!(Spacing::of(ranks), Spacing::Even(step), "{ranks:?}");
        }
        for ranks in [&[1, 2][..], &[0, 1, 3], &[3, 2], &[8, 16], &[2, 2]] {
            assert_eq!(Spacing::of(ranks), Spacing::Uneven, "{ranks:?}");
        }
        assert_eq!(Spacing::of(&[3]), Spacing::Unknown);
    }
}
