//! The six reduction operators of nccl-tests 2.19.6.
//! Not arithmetic: the kernels of `busbw-shm` apply them, `pattern` knows their exact results.

use serde::{Deserialize, Serialize};

/// A reduction operator. The order is that of `-o all` (nccl-tests src/common.cu:77-83).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReduceOp {
    /// Sum; integers wrap.
    Sum,
    /// Product; integers wrap.
    Prod,
    /// Largest.
    Max,
    /// Smallest.
    Min,
    /// Sum divided by the number of ranks.
    Avg,
    /// Sum of each rank's elements times that rank's scalar (`ncclRedOpCreatePreMulSum`).
    Mulsum,
}

impl ReduceOp {
    /// Every operator, in the order of `-o all`.
    pub const ALL: [ReduceOp; 6] = [
        ReduceOp::Sum,
        ReduceOp::Prod,
        ReduceOp::Max,
        ReduceOp::Min,
        ReduceOp::Avg,
        ReduceOp::Mulsum,
    ];

    /// The name in nccl-tests' `-o` and in its redop column.
    pub const fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Prod => "prod",
            ReduceOp::Max => "max",
            ReduceOp::Min => "min",
            ReduceOp::Avg => "avg",
            ReduceOp::Mulsum => "mulsum",
        }
    }

    /// The operator of that nccl-tests name.
    pub fn from_name(name: &str) -> Option<ReduceOp> {
        ReduceOp::ALL.into_iter().find(|o| o.name() == name)
    }

    /// The scalar of a rank in `mulsum`: 1 for even ranks, 2 for odd ones
    /// (nccl-tests verifiable/verifiable.h:31).
    pub const fn premul_scalar(rank: usize) -> u8 {
        1 + (rank % 2) as u8
    }
}
