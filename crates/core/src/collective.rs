//! The eleven collectives of nccl-tests 2.19.6, the barrier, and how they turn a size into element counts.
//! Not how data moves (`busbw-shm`) and not bandwidth (`bandwidth`).

use serde::{Deserialize, Serialize};

use crate::alltoallv::Traffic;

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
    /// No rank leaves before all have entered; moves no data.
    Barrier,
}

/// What one rank sends and receives, in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Elements in one rank's send buffer (of the busiest rank, in alltoallv).
    pub send: usize,
    /// Elements in one rank's receive buffer (of the busiest rank, in alltoallv).
    pub recv: usize,
    /// The `count` argument of the library call: the count column.
    pub param: usize,
    /// In place, rank r sends from r times this element offset of the buffer.
    pub send_in_place_stride: usize,
    /// In place, rank r receives at r times this element offset of the buffer.
    pub recv_in_place_stride: usize,
}

impl Counts {
    /// The size column: the larger of what one rank sends and receives, in bytes.
    pub fn bytes(&self, element_bytes: usize) -> usize {
        self.send.max(self.recv) * element_bytes
    }
}

/// What the redop column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpColumn {
    /// The operator's name; the test runs once per operator of `-o`.
    Name,
    /// The word `none`.
    None,
    /// Nothing: hypercube's column is blank (src/hypercube.cu:104).
    Blank,
}

impl Collective {
    /// Every collective of nccl-tests, which are those that move data.
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

    /// The command's name; nccl-tests' program is this and `_perf`.
    pub const fn name(self) -> &'static str {
        match self {
            Collective::AllReduce => "all_reduce",
            Collective::AllGather => "all_gather",
            Collective::ReduceScatter => "reduce_scatter",
            Collective::Broadcast => "broadcast",
            Collective::Reduce => "reduce",
            Collective::AllToAll => "alltoall",
            Collective::AllToAllV => "alltoallv",
            Collective::Gather => "gather",
            Collective::Scatter => "scatter",
            Collective::SendRecv => "sendrecv",
            Collective::HyperCube => "hypercube",
            Collective::Barrier => "barrier",
        }
    }

    /// The collective of that name.
    pub fn from_name(name: &str) -> Option<Collective> {
        let all = Collective::ALL.into_iter().chain([Collective::Barrier]);
        all.into_iter().find(|c| c.name() == name)
    }

    /// Whether one rank's part of the larger buffer is a chunk of it, so that the buffer holds as many
    /// messages as there are ranks.
    pub const fn chunked(self) -> bool {
        matches!(
            self,
            Collective::AllGather
                | Collective::Gather
                | Collective::HyperCube
                | Collective::Scatter
                | Collective::AllToAll
                | Collective::AllToAllV
        )
    }

    /// Whether elements are combined by an operator.
    pub const fn reduces(self) -> bool {
        matches!(self, Collective::AllReduce | Collective::ReduceScatter | Collective::Reduce)
    }

    /// Whether one rank is the root.
    pub const fn rooted(self) -> bool {
        matches!(
            self,
            Collective::Broadcast | Collective::Reduce | Collective::Gather | Collective::Scatter
        )
    }

    /// What the redop column holds. sendrecv prints an operator although it uses none, and runs
    /// once for each of `-o all` (src/sendrecv.cu:120-126).
    pub const fn op_column(self) -> OpColumn {
        match self {
            Collective::HyperCube => OpColumn::Blank,
            Collective::SendRecv => OpColumn::Name,
            _ if self.reduces() => OpColumn::Name,
            _ => OpColumn::None,
        }
    }

    /// Whether the in-place result means anything: where it does not, nccl-tests times it all the
    /// same and prints N/A for #wrong.
    pub const fn in_place_is_valid(self) -> bool {
        !matches!(self, Collective::AllToAll | Collective::AllToAllV | Collective::SendRecv)
    }

    /// Element counts for a requested size of `bytes` with elements of `element_bytes` over `ranks`.
    /// Chunked collectives round one rank's chunk down to 16 bytes (since nccl-tests 2.13.12); each
    /// arm is `getCollByteCount` of the program of that name.
    pub fn counts(
        self,
        bytes: usize,
        element_bytes: usize,
        ranks: usize,
        traffic: &Traffic,
    ) -> Counts {
        let whole = bytes / element_bytes;
        let chunk = (whole / ranks.max(1)) & !(16 / element_bytes - 1);
        let plain = |send, recv, param| Counts {
            send,
            recv,
            param,
            send_in_place_stride: 0,
            recv_in_place_stride: 0,
        };
        match self {
            Collective::AllReduce
            | Collective::Broadcast
            | Collective::Reduce
            | Collective::SendRecv => plain(whole, whole, whole),
            Collective::AllGather | Collective::HyperCube | Collective::Gather => {
                Counts { send_in_place_stride: chunk, ..plain(chunk, chunk * ranks, chunk) }
            }
            Collective::ReduceScatter | Collective::Scatter => {
                Counts { recv_in_place_stride: chunk, ..plain(chunk * ranks, chunk, chunk) }
            }
            Collective::AllToAll => plain(chunk * ranks, chunk * ranks, chunk),
            Collective::AllToAllV => {
                let param = if traffic.is_matrix() { 0 } else { chunk };
                let total = param * ranks * element_bytes;
                let (send, recv) = traffic.largest_totals(ranks, total, element_bytes);
                plain(send, recv, param)
            }
            Collective::Barrier => plain(0, 0, 0),
        }
    }

    /// Element counts for a message of `bytes`, as the OSU Micro-Benchmarks 7.4 count: what one rank gives
    /// to another, or to all; in reduce_scatter what it gives in all (c/mpi/collective/blocking). Rounded
    /// down to the element, in reduce_scatter to one for each rank; no chunk is rounded further.
    pub fn counts_of_message(self, bytes: usize, element_bytes: usize, ranks: usize) -> Counts {
        let count = bytes / element_bytes;
        let (send, recv, param) = match self {
            Collective::Barrier => (0, 0, 0),
            Collective::AllReduce
            | Collective::Broadcast
            | Collective::Reduce
            | Collective::SendRecv => (count, count, count),
            Collective::ReduceScatter => {
                let share = count / ranks.max(1);
                (share * ranks, share, share)
            }
            Collective::AllGather | Collective::HyperCube | Collective::Gather => {
                (count, count * ranks, count)
            }
            Collective::Scatter => (count * ranks, count, count),
            Collective::AllToAll | Collective::AllToAllV => (count * ranks, count * ranks, count),
        };
        let gathers =
            matches!(self, Collective::AllGather | Collective::HyperCube | Collective::Gather);
        let scatters = matches!(self, Collective::ReduceScatter | Collective::Scatter);
        Counts {
            send,
            recv,
            param,
            send_in_place_stride: if gathers { param } else { 0 },
            recv_in_place_stride: if scatters { param } else { 0 },
        }
    }

    /// Bytes of the message that a count column of `param` elements means, see
    /// [`Collective::counts_of_message`].
    pub const fn message_bytes(self, param: u64, element_bytes: usize, ranks: usize) -> u64 {
        let shares = if matches!(self, Collective::ReduceScatter) { ranks as u64 } else { 1 };
        param * shares * element_bytes as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// reference: "n=2: 8,16->0, 32->32, 1000->992; n=3: 32->0, 64->48, …; n=8: 8..100->0, 128->128".
    #[test]
    fn chunked_sizes_round_down_to_sixteen_bytes_a_rank() {
        let size = |ranks, bytes| {
            Collective::AllGather.counts(bytes, 4, ranks, &Traffic::default()).bytes(4)
        };
        for (ranks, bytes, printed) in [
            (2, 8, 0),
            (2, 16, 0),
            (2, 32, 32),
            (2, 1000, 992),
            (3, 32, 0),
            (3, 64, 48),
            (3, 1024, 1008),
            (3, 1_048_576, 1_048_560),
            (8, 100, 0),
            (8, 128, 128),
            (8, 1000, 896),
        ] {
            assert_eq!(size(ranks, bytes), printed, "{ranks} ranks, {bytes} bytes");
        }
    }

    #[test]
    fn unchunked_sizes_round_to_the_element() {
        let counts = Collective::AllReduce.counts(10, 4, 2, &Traffic::default());
        assert_eq!((counts.bytes(4), counts.param), (8, 2));
    }

    #[test]
    fn a_message_is_what_one_rank_gives() {
        for (collective, send, recv) in [
            (Collective::AllReduce, 5, 5),
            (Collective::AllGather, 5, 15),
            (Collective::Scatter, 15, 5),
            (Collective::AllToAllV, 15, 15),
            (Collective::ReduceScatter, 3, 1),
            (Collective::Barrier, 0, 0),
        ] {
            let counts = collective.counts_of_message(22, 4, 3);
            assert_eq!((counts.send, counts.recv), (send, recv), "{collective:?}");
            let bytes = collective.message_bytes(counts.param as u64, 4, 3) as usize;
            assert_eq!(collective.counts_of_message(bytes, 4, 3), counts, "{collective:?}");
        }
    }

    proptest! {
        #[test]
        fn printed_size_never_exceeds_the_request(
            which in 0usize..11, bytes in 0usize..1 << 30, log in 0u32..4, ranks in 1usize..18,
        ) {
            let element = 1 << log;
            let c = Collective::ALL[which];
            let counts = c.counts(bytes, element, ranks, &Traffic::default());
            prop_assert!(counts.bytes(element) <= bytes);
            let end = (ranks - 1) * counts.send_in_place_stride + counts.send;
            prop_assert!(end * element <= bytes);
        }
    }
}
