//! What a reader of one form hands on: a call as one rank reports it, and what makes it the same call as another rank's.
//! Not the calls after that (`call`), and not how they come together (`collected`).

use busbw_core::{Collective, DataType, ReduceOp};

use super::call::Operation;

/// A call as one rank reports it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reported {
    pub kind: Kind,
    pub communicator: usize,
    pub reporter: usize,
    /// Its rank in the communicator.
    pub rank: Option<u32>,
    pub root: Option<u32>,
    /// Microseconds on the reporter's clock.
    pub at_us: Option<f64>,
    pub took_us: Option<f64>,
    pub same: Same,
}

/// What calls of one class have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    pub operation: Operation,
    pub datatype: Option<DataType>,
    pub bytes: u64,
    pub redop: Option<ReduceOp>,
}

impl Kind {
    pub(super) fn collective(collective: Collective, bytes: u64) -> Kind {
        Kind { operation: Operation::Collective(collective), datatype: None, bytes, redop: None }
    }

    /// Whether it is an exchange between all ranks, of which each knows its own part alone.
    pub(super) fn is_exchange(self) -> bool {
        matches!(
            self.operation,
            Operation::Collective(Collective::AllToAll | Collective::AllToAllV)
        )
    }
}

/// What makes reports of several ranks one call, within a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Same {
    /// The source numbers them.
    Number {
        /// NCCL Inspector counts each collective for itself.
        lane: Option<Collective>,
        number: u64,
        /// Calls of a group share a number.
        part: u32,
    },
    /// The n-th call of its kind: the reader of `Reported` counts.
    Nth,
    /// The n-th exchange of this communicator that was put together from sends and receives.
    NthExchange,
    /// The n-th message of its kind from one rank to another; a rank is absent where the source does not say it.
    Message { from: Option<u32>, to: Option<u32>, is_send: bool },
    /// The row of a record, however often it was measured.
    Row,
}
