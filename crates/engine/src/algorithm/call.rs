//! One operation as every member sees it: what, how much, and where its buffers begin.
//! Not the steps.

use model::{Collective, DataType, ReduceOp, alltoallv::Traffic};

use crate::shm::{Buffer, Buffers};

/// Where members' data begins: the same buffer everywhere, and a stride by rank within it, which is
/// how in-place collectives find each rank's part.
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
    /// Which.
    pub collective: Collective,
    /// Element type.
    pub datatype: DataType,
    /// Operator, where elements are reduced.
    pub op: ReduceOp,
    /// Root within the communicator, where there is one.
    pub root: usize,
    /// The `count` argument: elements of one rank's chunk, or of the whole buffer.
    pub count: usize,
    /// What is sent.
    pub send: Region,
    /// Where it is received.
    pub recv: Region,
    /// Who sends how much, in alltoallv.
    pub traffic: &'a Traffic,
}

impl Call<'_> {
    /// Bytes of `count` elements.
    pub(super) fn bytes(&self) -> usize {
        self.count * self.datatype.bytes()
    }

    /// Bytes from one rank to another in alltoallv, whole elements.
    pub(super) fn pair_bytes(&self, from: usize, to: usize, ranks: usize) -> usize {
        let element = self.datatype.bytes();
        self.traffic.elements(from, to, ranks, self.bytes() * ranks, element) * element
    }
}
