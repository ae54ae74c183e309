//! A job's own calls in their order, as `replay` runs them.
//! Not where they were read (`busbw_logs::trace`), and not how they are run.

use serde::{Deserialize, Serialize};

use super::{Case, Partition, Plan, Sweep};
use crate::{Collective, DataType, ReduceOp};

/// A job's calls.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Calls {
    /// What they were read from, as a sentence names it.
    pub source: String,
    /// The rank whose calls they are, as the source names it.
    pub of: String,
    /// Kinds of calls, each of which has a row.
    pub classes: Vec<CallClass>,
    /// Each call: its class, and the microseconds from the start of the one before it to its own start. All 0 where the
    /// source has no times.
    pub sequence: Vec<(usize, f64)>,
    /// Calls of that rank which are not replayed. Their time is part of the gaps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// Calls that are alike.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CallClass {
    /// The collective.
    pub collective: Collective,
    /// Element type; float where the source has none.
    pub datatype: DataType,
    /// The operator; sum where the source has none, and where there is none.
    pub op: ReduceOp,
    /// Bytes as in the size column.
    pub bytes: u64,
    /// The communicators that make it, each its own call at the same time; absent where all ranks have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<Partition>,
    /// The median time in the job, microseconds, where the source has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_job_us: Option<f64>,
}

/// Calls that are not replayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Why.
    pub reason: String,
    /// How many.
    pub calls: u64,
}

impl Calls {
    /// How often a class is called.
    pub fn of_class(&self, class: usize) -> u64 {
        self.sequence.iter().filter(|(of, _)| *of == class).count() as u64
    }

    /// Bytes of all calls, as in the size column.
    pub fn bytes(&self) -> u64 {
        let each = self.sequence.iter().filter_map(|(class, _)| self.classes.get(*class));
        each.fold(0, |sum, class| sum.saturating_add(class.bytes))
    }

    /// Microseconds from the first call's start to the last one's, as recorded.
    pub fn recorded_us(&self) -> f64 {
        self.sequence.iter().map(|(_, gap)| gap).sum()
    }
}

impl Plan {
    /// Every collective that it measures.
    pub fn collectives(&self) -> Vec<Collective> {
        let of_calls = self.calls.iter().flat_map(|calls| &calls.classes);
        self.benchmark
            .collective()
            .into_iter()
            .chain(of_calls.map(|class| class.collective))
            .collect()
    }

    /// The case of a class of calls.
    pub fn case_of(&self, class: &CallClass) -> Case {
        let ranks = class.partition.map_or(self.ranks(), |partition| partition.ranks);
        let sweep = Sweep { datatype: class.datatype, op: class.op, root: 0 };
        self.case(class.collective, sweep, class.bytes, ranks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sequence_adds_up_to() {
        let class = |bytes| CallClass {
            collective: Collective::AllReduce,
            datatype: DataType::Float,
            op: ReduceOp::Sum,
            bytes,
            partition: None,
            in_job_us: None,
        };
        let calls = Calls {
            classes: vec![class(8), class(1024)],
            sequence: vec![(1, 0.0), (0, 10.0), (1, 5.0)],
            ..Calls::default()
        };
        assert_eq!([calls.of_class(0), calls.of_class(1)], [1, 2]);
        assert_eq!(calls.bytes(), 2056);
        assert_eq!(calls.recorded_us(), 15.0);
        let case = Plan::example().case_of(&calls.classes[1]);
        assert_eq!((case.counts.param, case.collective), (256, Collective::AllReduce));
    }
}
