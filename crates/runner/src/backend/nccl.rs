//! The `nccl` backend: GPUs, by the NCCL (or RCCL) of this machine.
//! Not how ranks find each other: an id is exchanged through the world before they join.

mod case;
mod channel;
mod checker;
mod factory;
mod free_memory;
mod gpu_rank;
mod join;
mod libraries;
mod log;
mod memory;
mod next_calls;
mod operations;
/// The tuner that NCCL asks.
pub mod tuner;
mod tuning_choices;
mod variants;
mod wait;

use std::sync::Arc;

use busbw_core::{
    DataType, ReduceOp,
    algorithm::Table,
    exit::Exit,
    pattern,
    plan::{Case, GpuOptions, Plan},
    record::{GpuMemory, LibraryFacts},
};
use busbw_ffi::{
    gpu::{GpuError, Runtime},
    nccl::{CallTuner, Nccl as Library, NcclError, Version},
};
use busbw_job::world::World;

pub(super) use factory::NcclFactory;
pub use libraries::{Gpus, Libraries, Opened};
pub(super) use libraries::{seen, used};
pub use log::Log;

use self::{case::GpuCase, gpu_rank::GpuRank, memory::Ledger, tuning_choices::TuningChoices};
use super::{Backend, BackendError, Channel, Prepared, Reason, defined};
use crate::backend::RunError;

/// FP8 arithmetic begins with this compute capability (nccl-tests src/common.cu:1585).
const FP8_CAPABILITY: u32 = 90;
/// NCCL has FP8 since 2.24.
const FP8_VERSION: Version = Version(22400);

/// The backend as one rank thread holds it.
pub struct Nccl<'p> {
    plan: &'p Plan,
    options: GpuOptions,
    runtime: &'static Runtime,
    library: &'static Library,
    /// GPU of each of our ranks.
    ordinals: Vec<usize>,
    /// Our ranks, once they have joined their communicator.
    gpu_ranks: Vec<GpuRank>,
    /// Ranks of our communicator.
    ranks: usize,
    /// Its other rank threads.
    peers: Vec<usize>,
    tuning: TuningChoices,
    /// What is told what calls are to have, where they take no configuration.
    call_tuner: Option<CallTuner>,
    /// Whether messages that were started wait in an open group.
    grouped: bool,
    /// GPU memory after each step, with `-M`.
    memory: Option<Ledger>,
    /// Whether the supervisor has aborted the run.
    stopped: Box<dyn Fn() -> bool + 'p>,
}

impl<'p> Nccl<'p> {
    /// For a rank thread whose ranks get the GPUs `ordinals`. `log` is the file that NCCL writes
    /// to, if it writes to ours; `stopped` returns whether the supervisor has aborted the run.
    pub fn new(
        plan: &'p Plan,
        options: GpuOptions,
        opened: Opened,
        ordinals: Vec<usize>,
        log: Option<Arc<Log>>,
        stopped: Box<dyn Fn() -> bool + 'p>,
    ) -> Nccl<'p> {
        let Opened { runtime, nccl: library } = opened;
        let (gpu_ranks, peers, tuning) = (Vec::new(), Vec::new(), TuningChoices::new(log));
        let memory = plan.memory_report.then(Ledger::default);
        let ranks = 0;
        Nccl {
            plan,
            options,
            runtime,
            library,
            ordinals,
            gpu_ranks,
            ranks,
            peers,
            tuning,
            call_tuner: None,
            grouped: false,
            memory,
            stopped,
        }
    }

    /// Compute capability of the least capable of our GPUs.
    fn capability(&self) -> Option<u32> {
        let facts = |ordinal: &usize| self.runtime.facts(*ordinal).ok()?.capability;
        self.ordinals.iter().filter_map(facts).min()
    }
}

impl Backend for Nccl<'_> {
    fn gpu_address(&self) -> Option<String> {
        let facts = self.runtime.facts(*self.ordinals.first()?).ok()?;
        Some(facts.address)
    }

    fn supported(&self, case: &Case) -> Result<(), Reason> {
        defined(case.collective, self.ranks)?;
        if !case.collective.moves_data() {
            let text = "NCCL has no barrier: --backend host or mpi has one";
            return Err(Reason(text.to_owned()));
        }
        if !operations::COLLECTIVES.contains(&case.collective) {
            return Err(Reason(format!("the nccl backend has no {}", case.collective.name())));
        }
        let datatype = case.sweep.datatype;
        if matches!(datatype, DataType::F8e4m3 | DataType::F8e5m2) {
            let version = self.library.version();
            if version < FP8_VERSION {
                return Err(Reason(format!(
                    "NCCL {version} has no {}: it came with {FP8_VERSION}",
                    datatype.name()
                )));
            }
            let scales = matches!(case.sweep.op, ReduceOp::Avg | ReduceOp::Mulsum);
            if self.ranks == 1 && scales && case.collective.reduces() {
                // src/device/onerank.cu compiles them for the GPU's pass only, 2.24 to 2.30.
                return Err(Reason(format!(
                    "NCCL has no {} of {} on a single rank: its scaling kernel lacks the type",
                    case.sweep.op.name(),
                    datatype.name()
                )));
            }
            if let Some(capability) = self.capability().filter(|c| *c < FP8_CAPABILITY)
                && case.collective.reduces()
            {
                return Err(Reason(format!(
                    "GPUs of compute capability {}.{} do not reduce {}: compute capability 9.0 or newer does",
                    capability / 10,
                    capability % 10,
                    datatype.name()
                )));
            }
        }
        Ok(())
    }

    fn is_verifiable(&self, case: &Case) -> bool {
        is_within_tolerance(case.sweep.datatype, case.sweep.op, self.ranks)
    }

    fn init(&mut self, world: &mut dyn World) -> Result<Vec<Table>, RunError> {
        self.join(world)?;
        // NCCL chooses its algorithms itself.
        Ok(Vec::new())
    }

    fn begin_log_capture(&mut self) -> bool {
        self.set_log_capture(true)
    }

    fn end_log_capture(&mut self) {
        self.set_log_capture(false);
    }

    fn record_tuning_choice(&mut self, case: &Case) -> Result<(), BackendError> {
        let predicted_us = GpuCase::new(self, case).predict()?;
        self.keep_choice(case, predicted_us);
        Ok(())
    }

    fn library(&mut self) -> Option<LibraryFacts> {
        self.take_init_facts().map(LibraryFacts::Nccl)
    }

    fn abort(&mut self) {
        self.gpu_ranks.iter_mut().for_each(|gpu_rank| gpu_rank.communicator.abort());
    }

    fn gpu_memory(&self) -> Option<GpuMemory> {
        self.memory.as_ref()?.used(&self.gpu_ranks)
    }

    fn channel(&mut self) -> Result<&mut dyn Channel, Reason> {
        self.can_talk()?;
        Ok(self)
    }

    fn prepare<'a>(&'a mut self, case: &'a Case) -> Box<dyn Prepared + 'a> {
        Box::new(GpuCase::new(self, case))
    }
}

/// Whether NCCL's result is known within the tolerance. For averages of floats NCCL multiplies each
/// input by 1/n, rounded to the type, before it adds (ncclDevPreMulSum).
pub fn is_within_tolerance(datatype: DataType, op: ReduceOp, ranks: usize) -> bool {
    op != ReduceOp::Avg || pattern::averages_within_two(datatype, ranks)
}

/// A failure of the GPU's driver as an error of the run, with the rank.
pub(super) fn gpu(rank: usize, error: GpuError) -> BackendError {
    let advice = if error.is_out_of_memory() {
        "; lower -e, or free the GPU: nvidia-smi lists who uses it"
    } else if error.is_busy() {
        "; another process holds the GPU in exclusive mode: nvidia-smi lists who uses it and its compute mode"
    } else if error.is_unsupported_ptx() {
        "; the driver is older than CUDA 12.0: update it, or run without checks (-c 0)"
    } else {
        ""
    };
    let exit = if error.is_busy() { Exit::Impossible } else { Exit::Library };
    BackendError::Refused { text: format!("rank {rank}: {error}{advice}"), exit }
}

/// A failure of NCCL as an error of the run, with the rank.
fn nccl(rank: usize, library: &Library, error: NcclError) -> BackendError {
    let text = format!(
        "rank {rank}: NCCL {} at {}: {error}; NCCL_DEBUG=INFO logs more",
        library.version(),
        library.path().display()
    );
    BackendError::Refused { text, exit: Exit::Library }
}
