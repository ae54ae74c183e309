//! How a collective turns a size or a message into element counts.
//! Not what a size means in time (`bandwidth`), and not where elements lie (`layout`).

use serde::{Deserialize, Serialize};

use super::{BufferShape, Collective};
use crate::alltoallv::Traffic;

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

impl Collective {
    /// Element counts for a requested size of `bytes` with elements of `element_bytes` over `ranks`.
    /// Chunked collectives round one rank's chunk down to 16 bytes (since nccl-tests 2.13.12); each
    /// kind of buffers is `getCollByteCount` of the programs that have it.
    pub fn counts(
        self,
        bytes: usize,
        element_bytes: usize,
        ranks: usize,
        traffic: &Traffic,
    ) -> Counts {
        let whole = bytes / element_bytes;
        let chunk = (whole / ranks.max(1)) & !(16 / element_bytes - 1);
        match self.spec().buffers {
            BufferShape::Uneven => {
                let param = if traffic.is_matrix() { 0 } else { chunk };
                let total = param * ranks * element_bytes;
                let (send, recv) = traffic.largest_totals(ranks, total, element_bytes);
                Counts { send, recv, param, send_in_place_stride: 0, recv_in_place_stride: 0 }
            }
            BufferShape::Whole => BufferShape::Whole.of(whole, ranks),
            other => other.of(chunk, ranks),
        }
    }

    /// Element counts for a message of `bytes`, as the OSU Micro-Benchmarks 7.4 count: what one rank gives
    /// to another, or to all; in reduce_scatter what it gives in all (c/mpi/collective/blocking). Rounded
    /// down to the element, in reduce_scatter to one for each rank; no chunk is rounded further.
    pub fn counts_of_message(self, bytes: usize, element_bytes: usize, ranks: usize) -> Counts {
        let count = bytes / element_bytes;
        let spec = self.spec();
        let param = if spec.divides_message { count / ranks.max(1) } else { count };
        spec.buffers.of(param, ranks)
    }

    /// Bytes of the message that a count column of `param` elements means, see
    /// [`Collective::counts_of_message`].
    pub const fn message_bytes(self, param: u64, element_bytes: usize, ranks: usize) -> u64 {
        let shares = if self.spec().divides_message { ranks as u64 } else { 1 };
        param.saturating_mul(shares).saturating_mul(element_bytes as u64)
    }
}

impl BufferShape {
    /// The counts that a count argument of `param` elements means. Uneven buffers are taken as even.
    const fn of(self, param: usize, ranks: usize) -> Counts {
        let (send, recv, [sends_at, receives_at]) = match self {
            BufferShape::Whole => (param, param, [0, 0]),
            BufferShape::Gathered => (param, param * ranks, [param, 0]),
            BufferShape::Scattered => (param * ranks, param, [0, param]),
            BufferShape::Exchanged | BufferShape::Uneven => (param * ranks, param * ranks, [0, 0]),
            BufferShape::Nothing => return BufferShape::Whole.of(0, ranks),
        };
        Counts {
            send,
            recv,
            param,
            send_in_place_stride: sends_at,
            recv_in_place_stride: receives_at,
        }
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
            which in 0..Collective::ALL.len(), bytes in 0usize..1 << 30, log in 0u32..4, ranks in 1usize..18,
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
