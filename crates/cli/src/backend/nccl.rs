//! The `nccl` backend: GPUs, by whatever NCCL (or RCCL) this machine has.
//! Not how ranks find each other: an id is exchanged through the world before they join.

mod case;
mod join;
mod libraries;
mod log;
mod operations;
mod proof;
mod seat;
mod survey;

use model::{
    DataType, ReduceOp,
    algorithm::Table,
    exit::Exit,
    nccl_log::NcclFacts,
    plan::{Case, Plan},
};
use native::{
    gpu::{GpuError, Vendor},
    nccl::{Nccl as Library, NcclError, Version},
};

pub use libraries::{Libraries, Opened};
pub use log::Log;

use self::{case::GpuCase, seat::Seat, survey::Survey};
use super::{Backend, BackendError, Prepared, Reason};

/// FP8 arithmetic begins with this compute capability (nccl-tests src/common.cu:1585).
const FP8_CAPABILITY: u32 = 90;
/// NCCL knows FP8 since 2.24.
const FP8_VERSION: Version = Version(22400);

/// The backend as one driver holds it.
pub struct Nccl<'p> {
    plan: &'p Plan,
    library: &'static Library,
    vendor: Vendor,
    /// One of our communicator's ranks each.
    seats: Vec<Seat>,
    /// Ranks of our communicator.
    ranks: usize,
    /// Its other drivers.
    peers: Vec<usize>,
    /// Compute capability of the least capable of our GPUs.
    capability: Option<u32>,
    survey: Survey,
    /// Whether the run was stopped elsewhere.
    stopped: Box<dyn Fn() -> bool + 'p>,
}

impl Backend for Nccl<'_> {
    fn supported(&self, case: &Case) -> Result<(), Reason> {
        super::host::supported(self.plan.collective, self.ranks)?;
        let (datatype, op) = (case.sweep.datatype, case.sweep.op);
        if matches!(datatype, DataType::F8e4m3 | DataType::F8e5m2) {
            let version = self.library.version();
            if version < FP8_VERSION {
                return Err(Reason(format!(
                    "NCCL {version} has no {}: it came with {FP8_VERSION}",
                    datatype.name()
                )));
            }
            if let Some(capability) = self.capability.filter(|c| *c < FP8_CAPABILITY)
                && self.plan.collective.reduces()
            {
                return Err(Reason(format!(
                    "GPUs of compute capability {}.{} do not reduce {}: 9.0 is the first that do",
                    capability / 10,
                    capability % 10,
                    datatype.name()
                )));
            }
        }
        if op == ReduceOp::Mulsum && !self.plan.collective.reduces() {
            return Err(Reason("it does not reduce".to_owned()));
        }
        Ok(())
    }

    fn warm(&mut self) -> Result<Option<Table>, BackendError> {
        // Joining was all that costs time only once; there is no table to measure.
        Ok(None)
    }

    fn listen(&mut self, on: bool) -> bool {
        self.set_listening(on)
    }

    fn overhear(&mut self, case: &Case) -> Result<(), BackendError> {
        let predicted_us = GpuCase::new(self, case).predict()?;
        self.note(case, predicted_us);
        Ok(())
    }

    fn library(&mut self) -> Option<Box<NcclFacts>> {
        self.tell()
    }

    fn prepare<'a>(&'a mut self, case: &'a Case) -> Box<dyn Prepared + 'a> {
        Box::new(GpuCase::new(self, case))
    }
}

/// What a GPU's driver refused, on which rank.
fn gpu(rank: usize, error: GpuError) -> BackendError {
    let advice = if error.is_out_of_memory() {
        "; lower -e, or free the GPU: nvidia-smi lists who uses it"
    } else if error.is_unsupported_ptx() {
        "; the driver is older than CUDA 12.0: update it, or run without checks (-c 0)"
    } else {
        ""
    };
    BackendError::Refused { text: format!("rank {rank}: {error}{advice}"), exit: Exit::Library }
}

/// What NCCL refused, on which rank.
fn nccl(rank: usize, library: &Library, error: NcclError) -> BackendError {
    let text = format!(
        "rank {rank}: NCCL {} at {}: {error}; NCCL_DEBUG=INFO makes it say more",
        library.version(),
        library.path().display()
    );
    BackendError::Refused { text, exit: Exit::Library }
}
