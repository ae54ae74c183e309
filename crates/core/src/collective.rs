//! The eleven collectives of nccl-tests 2.19.6 and the barrier: one `CollectiveSpec` each.
//! Not how data moves (the backends' arms).

mod counts;
pub mod layout;
mod spec;

use serde::{Deserialize, Serialize};

pub use counts::Counts;
pub use spec::{
    Algorithm, BufferShape, BusFactor, CollectiveSpec, Cost, OpColumn, Output, Received,
};

use Algorithm::{Pull, Push, Share, Slot};

/// A collective operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Collective {
    /// Every rank gets the reduction of all.
    AllReduce,
    /// Every rank gets the concatenation of all.
    AllGather,
    /// Every rank gets its share of the reduction.
    ReduceScatter,
    /// Every rank gets the root's buffer.
    Broadcast,
    /// The root gets the reduction of all.
    Reduce,
    /// Every rank sends a different chunk to every rank.
    #[serde(rename = "alltoall")]
    AllToAll,
    /// The same with a different size for every pair.
    #[serde(rename = "alltoallv")]
    AllToAllV,
    /// The root gets the concatenation of all.
    Gather,
    /// Every rank gets its chunk of the root's buffer.
    Scatter,
    /// A ring: send to the next rank, receive from the one before.
    #[serde(rename = "sendrecv")]
    SendRecv,
    /// all_gather by log2(ranks) exchanges; powers of two only.
    #[serde(rename = "hypercube")]
    HyperCube,
    /// No rank goes on before all have come; moves no data.
    Barrier,
}

impl Collective {
    /// Every collective that moves data.
    pub const ALL: [Collective; 11] = [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::Broadcast,
        Collective::Reduce,
        Collective::AllToAll,
        Collective::AllToAllV,
        Collective::Gather,
        Collective::Scatter,
        Collective::SendRecv,
        Collective::HyperCube,
    ];

    /// What there is to know of it.
    #[inline]
    pub const fn spec(self) -> &'static CollectiveSpec {
        match self {
            Collective::AllReduce => &ALL_REDUCE,
            Collective::AllGather => &ALL_GATHER,
            Collective::ReduceScatter => &REDUCE_SCATTER,
            Collective::Broadcast => &BROADCAST,
            Collective::Reduce => &REDUCE,
            Collective::AllToAll => &ALLTOALL,
            Collective::AllToAllV => &ALLTOALLV,
            Collective::Gather => &GATHER,
            Collective::Scatter => &SCATTER,
            Collective::SendRecv => &SENDRECV,
            Collective::HyperCube => &HYPERCUBE,
            Collective::Barrier => &BARRIER,
        }
    }

    /// Those that move data, and those that do not.
    pub fn every() -> impl Iterator<Item = Collective> + Clone {
        Collective::ALL.into_iter().chain([Collective::Barrier])
    }

    /// The command's name.
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// The collective of that name.
    pub fn from_name(name: &str) -> Option<Collective> {
        Collective::every().find(|c| c.name() == name)
    }
}

// A new one is in `ALL` too, and before the barrier.
const _: () = assert!(Collective::ALL.len() == Collective::Barrier as usize);

const ALL_REDUCE: CollectiveSpec = CollectiveSpec {
    name: "all_reduce",
    nccl_tests: Some("all_reduce_perf"),
    buffers: BufferShape::Whole,
    reduces: true,
    rooted: false,
    op_column: OpColumn::Name,
    in_place: true,
    power_of_two: false,
    divides_message: false,
    counts_own_chunk: true,
    bus_factor: BusFactor::OthersTwice,
    algorithms: &[Slot, Pull, Share],
    tuned_by_nccl: true,
    cost: |n, size| (2.0 * (n - 1.0), 2.0 * size * (n - 1.0) / n),
    // Reduced, and distributed again: each crosses the groups' cut.
    received: |size, _, k| 2.0 * size * (k - 1.0),
    output: layout::reduced,
};

const ALL_GATHER: CollectiveSpec = CollectiveSpec {
    name: "all_gather",
    nccl_tests: Some("all_gather_perf"),
    buffers: BufferShape::Gathered,
    reduces: false,
    rooted: false,
    op_column: OpColumn::None,
    in_place: true,
    power_of_two: false,
    divides_message: false,
    counts_own_chunk: true,
    bus_factor: BusFactor::Others,
    algorithms: &[Slot, Pull, Push],
    tuned_by_nccl: true,
    cost: cost_of_chunks,
    received: |size, _, k| size * (k - 1.0),
    output: layout::gathered,
};

const REDUCE_SCATTER: CollectiveSpec = CollectiveSpec {
    name: "reduce_scatter",
    nccl_tests: Some("reduce_scatter_perf"),
    buffers: BufferShape::Scattered,
    reduces: true,
    rooted: false,
    op_column: OpColumn::Name,
    in_place: true,
    power_of_two: false,
    // osu_reduce_scatter alone: its message is what a rank gives in all.
    divides_message: true,
    counts_own_chunk: true,
    bus_factor: BusFactor::Others,
    algorithms: &[Slot, Pull],
    tuned_by_nccl: true,
    cost: cost_of_chunks,
    received: |size, _, k| size * (k - 1.0),
    output: layout::reduced_chunk,
};

const BROADCAST: CollectiveSpec = CollectiveSpec {
    name: "broadcast",
    nccl_tests: Some("broadcast_perf"),
    buffers: BufferShape::Whole,
    reduces: false,
    rooted: true,
    op_column: OpColumn::None,
    in_place: true,
    power_of_two: false,
    divides_message: false,
    counts_own_chunk: true,
    bus_factor: BusFactor::One,
    algorithms: &[Slot, Pull, Share],
    tuned_by_nccl: true,
    cost: |n, size| (n - 1.0, size),
    received: |size, _, k| size * (k - 1.0),
    output: layout::of_root,
};

const REDUCE: CollectiveSpec = CollectiveSpec {
    name: "reduce",
    nccl_tests: Some("reduce_perf"),
    buffers: BufferShape::Whole,
    reduces: true,
    rooted: true,
    op_column: OpColumn::Name,
    in_place: true,
    power_of_two: false,
    divides_message: false,
    counts_own_chunk: true,
    bus_factor: BusFactor::One,
    algorithms: &[Slot, Pull, Share],
    tuned_by_nccl: true,
    cost: |n, size| (n - 1.0, size),
    received: |size, _, k| size * (k - 1.0),
    output: layout::reduced_at_root,
};

const ALLTOALL: CollectiveSpec = CollectiveSpec {
    name: "alltoall",
    nccl_tests: Some("alltoall_perf"),
    buffers: BufferShape::Exchanged,
    reduces: false,
    rooted: false,
    op_column: OpColumn::None,
    in_place: false,
    power_of_two: false,
    divides_message: false,
    counts_own_chunk: true,
    bus_factor: BusFactor::Others,
    algorithms: &[Slot, Pull],
    tuned_by_nccl: false,
    cost: cost_of_chunks,
    received: |size, n, k| size * n * (k - 1.0) / k,
    output: layout::exchanged,
};

const ALLTOALLV: CollectiveSpec = CollectiveSpec {
    name: "alltoallv",
    nccl_tests: Some("alltoallv_perf"),
    buffers: BufferShape::Uneven,
    reduces: false,
    rooted: false,
    op_column: OpColumn::None,
    in_place: false,
    power_of_two: false,
    divides_message: false,
    counts_own_chunk: true,
    bus_factor: BusFactor::Others,
    algorithms: &[Slot, Pull],
    tuned_by_nccl: false,
    cost: cost_of_chunks,
    received: |size, n, k| size * n * (k - 1.0) / k,
    output: layout::exchanged_unevenly,
};

const GATHER: CollectiveSpec = CollectiveSpec {
    name: "gather",
    nccl_tests: Some("gather_perf"),
    buffers: BufferShape::Gathered,
    reduces: false,
    rooted: true,
    op_column: OpColumn::None,
    in_place: true,
    power_of_two: false,
    divides_message: false,
    counts_own_chunk: true,
    bus_factor: BusFactor::Others,
    algorithms: &[Slot, Pull, Push],
    tuned_by_nccl: false,
    cost: cost_of_chunks,
    received: |size, _, k| size * (k - 1.0) / k,
    output: layout::gathered_at_root,
};

const SCATTER: CollectiveSpec = CollectiveSpec {
    name: "scatter",
    nccl_tests: Some("scatter_perf"),
    buffers: BufferShape::Scattered,
    reduces: false,
    rooted: true,
    op_column: OpColumn::None,
    in_place: true,
    power_of_two: false,
    divides_message: false,
    counts_own_chunk: true,
    bus_factor: BusFactor::Others,
    algorithms: &[Slot, Pull],
    tuned_by_nccl: false,
    cost: cost_of_chunks,
    received: |size, _, k| size * (k - 1.0) / k,
    output: layout::chunk_of_root,
};

const SENDRECV: CollectiveSpec = CollectiveSpec {
    name: "sendrecv",
    nccl_tests: Some("sendrecv_perf"),
    buffers: BufferShape::Whole,
    reduces: false,
    rooted: false,
    // It prints an operator although it uses none, and runs once for each of `-o all` (src/sendrecv.cu:120-126).
    op_column: OpColumn::Name,
    in_place: false,
    power_of_two: false,
    divides_message: false,
    counts_own_chunk: true,
    bus_factor: BusFactor::One,
    algorithms: &[Slot, Pull],
    tuned_by_nccl: false,
    cost: |_, size| (1.0, size),
    // One neighbour of each group is in the next one.
    received: |size, _, k| size * k,
    output: layout::of_previous,
};

const HYPERCUBE: CollectiveSpec = CollectiveSpec {
    name: "hypercube",
    nccl_tests: Some("hypercube_perf"),
    buffers: BufferShape::Gathered,
    reduces: false,
    rooted: false,
    // src/hypercube.cu:104
    op_column: OpColumn::Blank,
    in_place: true,
    // src/hypercube.cu:107
    power_of_two: true,
    divides_message: false,
    counts_own_chunk: false,
    bus_factor: BusFactor::One,
    // Its log2(n) exchanges are what it is.
    algorithms: &[Pull],
    tuned_by_nccl: false,
    cost: |n, size| (n.log2(), size * (n - 1.0) / n),
    received: |size, _, k| size * (k - 1.0),
    output: layout::gathered,
};

const BARRIER: CollectiveSpec = CollectiveSpec {
    name: "barrier",
    nccl_tests: None,
    buffers: BufferShape::Nothing,
    reduces: false,
    rooted: false,
    op_column: OpColumn::None,
    in_place: true,
    power_of_two: false,
    divides_message: false,
    counts_own_chunk: true,
    bus_factor: BusFactor::One,
    algorithms: &[Pull],
    tuned_by_nccl: false,
    cost: cost_of_chunks,
    received: |_, _, _| 0.0,
    output: layout::nothing,
};

/// A ring in which every rank passes on all chunks but one.
fn cost_of_chunks(ranks: f64, size: f64) -> (f64, f64) {
    (ranks - 1.0, size * (ranks - 1.0) / ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records hold the enum's names, commands the specs'.
    #[test]
    fn a_record_has_the_name_of_the_command() {
        for collective in Collective::every() {
            let json = serde_json::to_string(&collective).unwrap();
            assert_eq!(json, format!("\"{}\"", collective.name()));
            assert_eq!(Collective::from_name(collective.name()), Some(collective));
        }
    }

    #[test]
    fn what_moves_data_is_in_the_list() {
        for collective in Collective::every() {
            assert_eq!(Collective::ALL.contains(&collective), collective.moves_data());
            assert!(!collective.spec().algorithms.is_empty(), "{collective:?}");
        }
    }
}
