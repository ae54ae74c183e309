//! A rank's registered memory, of its host or of a GPU: what it sends from and where it receives.
//! Not the messages.

use std::sync::Arc;

use busbw_ffi::gpu::{Export, Registered, Span, Stream};
use busbw_verbs::{Device, PcieOrdering, Region, RemoteMemory, StrictAlias, VerbsError};

use super::gpu::OwnGpu;
use crate::backend::Side;

/// Bytes in front of what is received: datagrams come with a header of 40 bytes, and data stays aligned.
pub(super) const HEADROOM: usize = 64;

/// The two buffers.
pub(super) struct Buffers {
    pub(super) send: Arc<Region>,
    pub(super) recv: Arc<Region>,
    /// The second one, for writes whose last byte is polled.
    polled: Option<StrictAlias>,
    gpu: Option<OnGpu>,
}

/// What the GPU's driver needs to copy from and to them.
struct OnGpu {
    stream: Stream,
    send: Registered,
    recv: Registered,
}

impl Buffers {
    /// Buffers of so many bytes each in the host's memory, the second one also for writes that are polled.
    pub(super) fn of_host(
        device: &Arc<Device>,
        bytes: usize,
        ordering: PcieOrdering,
        is_polled: bool,
    ) -> Result<Buffers, VerbsError> {
        let send = Region::new(device, bytes, ordering)?;
        let recv = Region::new(device, HEADROOM + bytes, ordering)?;
        let is_alias_needed = is_polled && ordering == PcieOrdering::Relaxed;
        let polled = is_alias_needed.then(|| recv.strict()).transpose()?;
        Ok(Buffers { send, recv, polled, gpu: None })
    }

    /// The second one as the other end writes to it where its last byte is polled.
    pub(super) fn polled(&self) -> RemoteMemory {
        self.polled.as_ref().map_or_else(|| self.recv.remote(), StrictAlias::remote)
    }

    /// The same on a GPU.
    pub(super) fn of_gpu(
        device: &Arc<Device>,
        bytes: usize,
        ordering: PcieOrdering,
        gpu: &OwnGpu,
        only_dma_buf: bool,
    ) -> Result<Buffers, String> {
        let context = &gpu.context;
        let memory = |bytes| {
            let made = Registered::allocate(context, device, bytes, ordering, only_dma_buf);
            made.map_err(|error| error.to_string())
        };
        let (send, recv) = (memory(bytes)?, memory(HEADROOM + bytes)?);
        let stream = Stream::create(context).map_err(|error| error.to_string())?;
        let regions = (Arc::clone(&send.region), Arc::clone(&recv.region));
        let gpu = Some(OnGpu { stream, send, recv });
        Ok(Buffers { send: regions.0, recv: regions.1, polled: None, gpu })
    }

    /// How the device reaches the GPU's memory, if they are there: of either buffer.
    pub(super) fn exports(&self) -> Option<[Export; 2]> {
        self.gpu.as_ref().map(|gpu| [gpu.send.export, gpu.recv.export])
    }

    /// The memory of a side, and where its data begins.
    fn of(&self, side: Side) -> (&Region, usize) {
        match side {
            Side::Send => (&self.send, 0),
            Side::Recv => (&self.recv, HEADROOM),
        }
    }

    /// `bytes` bytes of a side from `offset` on, as the GPU's driver copies them, and the stream to do it on; `None` in the host's memory.
    fn on_gpu(
        &self,
        side: Side,
        offset: usize,
        bytes: usize,
    ) -> Option<Result<(&Stream, Span), String>> {
        let gpu = self.gpu.as_ref()?;
        let (memory, base) = match side {
            Side::Send => (&gpu.send, 0),
            Side::Recv => (&gpu.recv, HEADROOM),
        };
        let part = memory.span.part(base + offset, bytes);
        let part = part.ok_or_else(|| "a bug of busbw: bytes outside of a buffer".to_owned());
        Some(part.map(|part| (&gpu.stream, part)))
    }

    /// Copies bytes into a side, from `offset` on.
    pub(super) fn write(&self, side: Side, offset: usize, bytes: &[u8]) -> Result<(), String> {
        if let Some(part) = self.on_gpu(side, offset, bytes.len()) {
            let (stream, part) = part?;
            return stream.write(bytes, part).map_err(|error| error.to_string());
        }
        let (region, base) = self.of(side);
        region.write(base + offset, bytes).map_err(|error| error.to_string())
    }

    /// Copies bytes out of a side, from `offset` on, as the device left them there.
    pub(super) fn read(&self, side: Side, offset: usize, bytes: &mut [u8]) -> Result<(), String> {
        if let Some(part) = self.on_gpu(side, offset, bytes.len()) {
            let (stream, part) = part?;
            let context = stream.context();
            let read = context.flush_device_writes().and_then(|()| context.read(part, bytes));
            return read.map_err(|error| error.to_string());
        }
        let (region, base) = self.of(side);
        region.read(base + offset, bytes).map_err(|error| error.to_string())
    }
}
