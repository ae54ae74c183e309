//! A GPU's memory that an RDMA device reads and writes: exported as a dma-buf, or by a module that knows both drivers.
//! Not queue pairs (`busbw_verbs`), and not which GPU.

use std::{
    ffi::c_int,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    sync::Arc,
};

use busbw_verbs::{Device, PcieOrdering, Region, Registration, Verbs, VerbsError};
use thiserror::Error;

use super::{
    context::Context,
    memory::{Memory, Span},
    runtime::{GpuError, call},
};

/// CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, of CUDA 11.7.
const DMA_BUF_SUPPORTED: c_int = 124;
/// CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD.
const DMA_BUF_DESCRIPTOR: c_int = 1;
/// CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX.
const OF_CONTEXT: c_int = 0;
/// CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES.
const TO_ALL_DEVICES: c_int = 200;
/// What an exported range begins and ends with: pages of the GPU, which are pages of the host, too.
const PAGE: usize = 65_536;

/// How an RDMA device was given a GPU's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Export {
    /// A dma-buf of the GPU's driver, for ibv_reg_dmabuf_mr.
    DmaBuf,
    /// By its address, for ibv_reg_mr: nvidia_peermem translates it.
    PeerMemory,
}

impl Export {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Export::DmaBuf => "dma-buf",
            Export::PeerMemory => "peer memory",
        }
    }
}

/// Why an RDMA device cannot have a GPU's memory.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExportError {
    /// The GPU has no room, or its driver fails.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// The only way that may be used is closed.
    #[error("no dma-buf of GPU {gpu}'s memory: {why}")]
    NoDmaBuf {
        /// Its number.
        gpu: i32,
        /// Who refuses it.
        why: String,
    },
    /// Neither way is open.
    #[error(
        "no RDMA device reaches GPU {gpu}'s memory here: as a dma-buf: {dma_buf}; by its address: {peer}; an adapter on PCI does with nvidia_peermem loaded (modprobe nvidia_peermem), or with a GPU driver that exports dma-bufs (NVIDIA's open kernel modules, Linux 5.12 or newer); a GPU with little room in its BAR1 has no more of either (nvidia-smi -q)"
    )]
    Neither {
        /// Its number.
        gpu: i32,
        /// Why there is no dma-buf.
        dma_buf: String,
        /// Why its address cannot be registered.
        peer: String,
    },
}

/// Allocated and registered memory of a GPU.
#[derive(Debug)]
pub struct Registered {
    /// What requests name.
    pub region: Arc<Region>,
    /// The same bytes, as the GPU's driver copies them.
    pub span: Span,
    /// How the device reaches it.
    pub export: Export,
}

impl Registered {
    /// Allocates `bytes` bytes on the context's GPU for an RDMA device: as a dma-buf if that can be, else by their address, unless
    /// only a dma-buf will do.
    ///
    /// # Errors
    /// There is no room, or the device does not reach the GPU's memory.
    pub fn allocate(
        context: &Arc<Context>,
        device: &Arc<Device>,
        bytes: usize,
        ordering: PcieOrdering,
        only_dma_buf: bool,
    ) -> Result<Registered, ExportError> {
        let whole = bytes.max(1).next_multiple_of(PAGE);
        let memory = Memory::allocate(context, whole + PAGE)?;
        let address = memory.span().address();
        let offset = (address.next_multiple_of(PAGE as u64) - address) as usize;
        let does_not_fit = || GpuError::of_ours("a part of memory", "does not lie within it");
        let aligned = memory.span().part(offset, whole).ok_or_else(does_not_fit)?;
        let span = aligned.part(0, bytes).ok_or_else(does_not_fit)?;
        let gpu = context.ordinal();
        let (registration, export) = match of_dma_buf(context, device, aligned, ordering) {
            Ok(registration) => (registration, Export::DmaBuf),
            Err(why) if only_dma_buf => return Err(ExportError::NoDmaBuf { gpu, why }),
            Err(dma_buf) => {
                let address = aligned.address() as *mut u8;
                // SAFETY: the region holds on to the allocation, and only `span` names its bytes.
                let made = unsafe { Registration::of_memory(device, address, whole, ordering) };
                let neither = |peer| ExportError::Neither { gpu, dma_buf, peer: told(peer) };
                (made.map_err(neither)?, Export::PeerMemory)
            }
        };
        // SAFETY: as above; the allocation is dropped with the region.
        let region =
            unsafe { Region::elsewhere(registration, aligned.address(), bytes, Box::new(memory)) };
        Ok(Registered { region, span, export })
    }
}

/// A refusal without libibverbs' usual advice, which is about the host's memory.
fn told(error: VerbsError) -> String {
    match error {
        VerbsError::Refused { call, on, why, .. } => format!("{call} on {on} failed: {why}"),
        other => other.to_string(),
    }
}

/// Registers a range as a dma-buf, or says who refuses it. The registration keeps what the descriptor stands for.
fn of_dma_buf(
    context: &Arc<Context>,
    device: &Arc<Device>,
    range: Span,
    ordering: PcieOrdering,
) -> Result<Registration, String> {
    if !Verbs::open().is_ok_and(Verbs::takes_dma_bufs) {
        return Err("libibverbs has no ibv_reg_dmabuf_mr (rdma-core 34 has)".to_owned());
    }
    let exported = context.dma_buf(range).map_err(|error| error.to_string())?;
    let (descriptor, bytes) = (exported.as_raw_fd(), range.bytes());
    // SAFETY: the caller holds on to the memory for as long as the registration.
    let made = unsafe {
        Registration::of_dma_buf(device, (descriptor, 0), range.address(), bytes, ordering)
    };
    made.map_err(told)
}

impl Context {
    /// A dma-buf of a range of this GPU's memory, whole pages of it.
    ///
    /// # Errors
    /// The driver exports none.
    fn dma_buf(&self, range: Span) -> Result<OwnedFd, GpuError> {
        self.enter()?;
        if self.attribute(DMA_BUF_SUPPORTED) == Some(0) {
            let why = "the driver exports none (its open kernel modules do)";
            return Err(GpuError::of_ours("cuDeviceGetAttribute", why).on(self.ordinal()));
        }
        let mut descriptor: c_int = -1;
        let into = (&raw mut descriptor).cast();
        call!(
            self.runtime,
            export_range(into, range.address(), range.bytes(), DMA_BUF_DESCRIPTOR, 0)
        )
        .map_err(|error| error.on(self.ordinal()))?;
        if descriptor < 0 {
            return Err(GpuError::of_ours("cuMemGetHandleForAddressRange", "gave no descriptor"));
        }
        // SAFETY: the driver made it for us, and nobody else closes it.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    /// Waits until what RDMA devices have written to this GPU, and said to have completed, is seen by copies out of it. Where the
    /// driver has no such call, nothing is waited for.
    ///
    /// # Errors
    /// The GPU's driver refuses the call.
    pub fn flush_device_writes(&self) -> Result<(), GpuError> {
        /// CUDA_ERROR_NOT_SUPPORTED: the GPU orders them by itself, or cannot be asked to.
        const NOT_SUPPORTED: c_int = 801;
        self.enter()?;
        if self.runtime.table.flush_writes.is_none() {
            return Ok(());
        }
        match call!(self.runtime, flush_writes(OF_CONTEXT, TO_ALL_DEVICES)) {
            Err(error) if error.code != NOT_SUPPORTED => Err(error.on(self.ordinal())),
            _ => Ok(()),
        }
    }
}
