//! One operation as every member sees it: the collective, the amount, and the offsets of its data.
//! Not the steps.

use busbw_core::{Collective, DataType, ReduceOp, alltoallv::Traffic, collective::BufferShape};

use crate::shm::{Buffer, Buffers};

/// The offset of members' data: the same buffer everywhere, and a stride by rank within it, by
/// which in-place collectives find each rank's part.
#[derive(Debug, Clone, Copy)]
pub struct Region {
    /// The buffer.
    pub buffer: Buffer,
    /// Bytes from its start.
    pub offset: usize,
    /// Further bytes per rank of the communicator.
    pub stride: usize,
}

impl Region {
    pub(super) fn address(
        self,
        buffers: &Buffers,
        members: &[usize],
        rank: usize,
        offset: usize,
        len: usize,
    ) -> *mut u8 {
        let start = self.offset + rank * self.stride + offset;
        buffers.at(members[rank], self.buffer, start, len)
    }
}

/// One operation.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The collective.
    pub collective: Collective,
    /// Element type.
    pub datatype: DataType,
    /// Operator, where elements are reduced.
    pub op: ReduceOp,
    /// Root within the communicator, where there is one.
    pub root: usize,
    /// The `count` argument: elements of one rank's chunk, or of the whole buffer.
    pub count: usize,
    /// The data that is sent.
    pub send: Region,
    /// Where data is received.
    pub recv: Region,
    /// This rank's transfers in alltoallv; the default elsewhere.
    pub exchange: &'a Exchange,
}

/// The data that one rank sends and receives in alltoallv.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exchange {
    /// Bytes that it sends to all ranks.
    pub sent: usize,
    /// Bytes that the busiest sender sends: all ranks choose the same algorithm by it.
    pub largest: usize,
    /// The data that it receives, its own part first, so that not all ranks read from rank 0 at
    /// once.
    pub received: Vec<Segment>,
}

/// The data that one rank receives from another in alltoallv.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The sender.
    pub peer: usize,
    /// Bytes from the start of the sender's data.
    pub at: usize,
    /// Bytes from the start of our receive buffer.
    pub to: usize,
    /// Bytes.
    pub len: usize,
}

impl Exchange {
    /// For rank `me` of `ranks` with this count argument; empty for other collectives than
    /// alltoallv. Takes ranks² steps: call it once a case, not once an operation.
    pub fn of(
        collective: Collective,
        traffic: &Traffic,
        count: usize,
        datatype: DataType,
        me: usize,
        ranks: usize,
    ) -> Exchange {
        if collective.spec().buffers != BufferShape::Uneven {
            return Exchange::default();
        }
        let element = datatype.bytes();
        let total = count * element * ranks;
        let bytes = |from, to| traffic.elements(from, to, ranks, total, element) * element;
        let sent = |from| (0..ranks).map(|to| bytes(from, to)).sum();
        let mut to = 0;
        let mut received: Vec<Segment> = (0..ranks)
            .map(|peer| {
                let at = (0..me).map(|rank| bytes(peer, rank)).sum();
                let segment = Segment { peer, at, to, len: bytes(peer, me) };
                to += segment.len;
                segment
            })
            .collect();
        received.rotate_left(me);
        Exchange { sent: sent(me), largest: (0..ranks).map(sent).max().unwrap_or(0), received }
    }
}

impl Call<'_> {
    /// Bytes of `count` elements.
    pub(super) fn bytes(&self) -> usize {
        self.count * self.datatype.bytes()
    }

    /// The size by which the algorithm is chosen over `ranks` ranks, the same on all of them: bytes
    /// of the count argument; in alltoallv the busiest sender's, divided by its receivers.
    pub(super) fn size(&self, ranks: usize) -> usize {
        match self.collective.spec().buffers {
            BufferShape::Uneven => self.exchange.largest / ranks,
            _ => self.bytes(),
        }
    }

    /// Bytes of the longest message that a rank would post in a slot.
    pub(super) fn longest_message(&self, ranks: usize) -> usize {
        match self.collective.spec().buffers {
            BufferShape::Uneven => self.exchange.largest,
            BufferShape::Exchanged | BufferShape::Scattered => self.bytes() * (ranks - 1),
            _ => self.bytes(),
        }
    }
}
