//! Messages by ncclSend and ncclRecv between two GPUs. Single messages go to the GPU one by one,
//! each waited for, as in osu_xccl_latency; a window's messages go as one group, unlike in
//! osu_xccl_bw.
//! Not collectives made of sends and receives (`operations`).

use std::time::{Duration, Instant};

use busbw_core::{
    DataType,
    pattern::{Content, Mismatch, POISON, Pattern},
};
use busbw_ffi::{
    gpu::Span,
    nccl::{NcclError, Operation as Call},
};

use super::{Nccl, gpu, nccl};
use crate::backend::nccl::{gpu_rank::GpuRank, wait::Watch};
use crate::backend::{BackendError, Channel, Part, Reason, Side};

/// The direction of a message.
#[derive(Debug, Clone, Copy)]
enum Direction {
    Out,
    In,
}

impl Nccl<'_> {
    /// Whether this thread has exactly one rank: a channel belongs to one.
    pub(super) fn can_talk(&self) -> Result<(), Reason> {
        if self.gpu_ranks.len() == 1 {
            return Ok(());
        }
        Err(Reason("messages need one thread a rank: use -g 1 with -t".to_owned()))
    }

    fn gpu_rank(&self) -> Result<&GpuRank, BackendError> {
        self.gpu_ranks.first().ok_or_else(|| {
            let text = "a rank without a GPU has no messages".to_owned();
            BackendError::Refused { text, exit: busbw_core::exit::Exit::Internal }
        })
    }

    fn span(&self, part: Part) -> Result<Span, BackendError> {
        let gpu_rank = self.gpu_rank()?;
        let memory = match part.side {
            Side::Send => &gpu_rank.buffers.send,
            Side::Recv => &gpu_rank.buffers.recv,
        };
        let whole = memory.span();
        whole.part(part.offset, part.bytes).ok_or_else(|| {
            let bytes = part.offset + part.bytes;
            self.refused(NcclError::does_not_fit("a message", bytes, whole))
        })
    }

    fn wait(&self) -> Result<(), BackendError> {
        let patience = self.plan.timeout_s.map(Duration::from_secs);
        let watch = Watch { library: self.library, stopped: &*self.stopped, peers: &self.peers };
        watch.wait(&self.gpu_ranks, patience.map(|patience| Instant::now() + patience))
    }

    /// Opens a group, unless one is open.
    fn group(&mut self) -> Result<(), BackendError> {
        if !self.grouped {
            self.library.group_start().map_err(|error| self.refused(error))?;
            self.grouped = true;
        }
        Ok(())
    }

    fn enqueue(&self, way: Direction, peer: usize, part: Part) -> Result<(), BackendError> {
        let (gpu_rank, span) = (self.gpu_rank()?, self.span(part)?);
        let (datatype, stream) = (DataType::Int8, &gpu_rank.stream);
        let call = Call { datatype, count: part.bytes, stream, config: None };
        let enqueued = match way {
            Direction::Out => gpu_rank.communicator.send(span, peer, call),
            Direction::In => gpu_rank.communicator.recv(span, peer, call),
        };
        enqueued.map_err(|error| self.refused(error))
    }

    fn refused(&self, error: NcclError) -> BackendError {
        nccl(self.gpu_ranks.first().map_or(0, |gpu_rank| gpu_rank.rank), self.library, error)
    }
}

impl Channel for Nccl<'_> {
    fn send(&mut self, to: usize, part: Part) -> Result<(), BackendError> {
        self.enqueue(Direction::Out, to, part)?;
        self.wait()
    }

    fn recv(&mut self, from: usize, part: Part) -> Result<(), BackendError> {
        self.enqueue(Direction::In, from, part)?;
        self.wait()
    }

    fn start_send(&mut self, to: usize, part: Part) -> Result<(), BackendError> {
        self.group()?;
        self.enqueue(Direction::Out, to, part)
    }

    fn start_recv(&mut self, from: usize, part: Part) -> Result<(), BackendError> {
        self.group()?;
        self.enqueue(Direction::In, from, part)
    }

    fn complete(&mut self) -> Result<(), BackendError> {
        if std::mem::take(&mut self.grouped) {
            self.library.group_end().map_err(|error| self.refused(error))?;
        }
        self.wait()
    }

    fn fill(
        &mut self,
        part: Part,
        pattern: &Pattern,
        content: Content,
    ) -> Result<(), BackendError> {
        let (gpu_rank, span) = (self.gpu_rank()?, self.span(part)?);
        let elements = part.bytes / pattern.datatype.bytes();
        let filled = match content {
            Content::Poison => gpu_rank.stream.set(span, POISON),
            content => gpu_rank.checker.put(gpu_rank, span, elements, pattern, content),
        };
        filled.map_err(|error| gpu(gpu_rank.rank, error))?;
        self.wait()
    }

    fn verify(
        &mut self,
        part: Part,
        pattern: &Pattern,
        content: Content,
    ) -> Result<Mismatch, BackendError> {
        let (gpu_rank, span) = (self.gpu_rank()?, self.span(part)?);
        let elements = part.bytes / pattern.datatype.bytes();
        let found = gpu_rank.checker.compare(gpu_rank, span, elements, pattern, content);
        found.map_err(|error| gpu(gpu_rank.rank, error))
    }

    fn corrupt(&mut self, part: Part) -> Result<(), BackendError> {
        let (gpu_rank, span) = (self.gpu_rank()?, self.span(Part { bytes: 1, ..part })?);
        let mut byte = [0];
        let flipped = gpu_rank.communicator.context().read(span, &mut byte).and_then(|()| {
            byte[0] ^= 1;
            gpu_rank.stream.write(&byte, span)
        });
        flipped.map_err(|error| gpu(gpu_rank.rank, error))
    }
}
