//! One case on the GPUs of one rank thread: enqueued on their streams and timed by the host's
//! clock. Waits check for failures elsewhere.
//! Not the calls themselves (`operations`), and not the verification (`checker`).

use std::time::{Duration, Instant};

use busbw_core::{
    layout::Shape,
    pattern::Pattern,
    plan::{Case, Placement, Plan},
};
use busbw_ffi::{
    gpu::Graph,
    nccl::{CallConfig, CallTuner, Nccl as Library, NcclError},
};

use super::{
    Nccl, gpu, nccl,
    next_calls::Next,
    operations::{self, RankOperator, Regions},
    variants,
};
use crate::backend::nccl::{gpu_rank::GpuRank, wait::Watch};
use crate::backend::{BackendError, CaseFacts, Found, Operation, Prepared, Reason};

/// A case that is ready to run.
pub(super) struct GpuCase<'a> {
    backend: Parts<'a>,
    shape: Shape<'a>,
    /// The operator of every rank, or why there is none: the error appears when it is first needed.
    operators: Result<Vec<RankOperator>, BackendError>,
    /// The captured graphs, by rank.
    graphs: Vec<Graph>,
    started: Instant,
    /// What every call is given, where the plan has variants.
    given: Given,
    /// Groups that are open, in which operations wait.
    open_groups: u32,
}

/// What a call is given beside its arguments.
enum Given {
    Nothing,
    Config(CallConfig),
    /// Before NCCL 2.31: what the tuner is told, or why it cannot be.
    Next(CallTuner, Result<Next, Reason>),
}

/// The backend's parts that a case uses.
struct Parts<'a> {
    case: &'a Case,
    plan: &'a Plan,
    library: &'static Library,
    gpu_ranks: &'a mut Vec<GpuRank>,
    stopped: &'a (dyn Fn() -> bool + 'a),
    facts: CaseFacts,
    peers: &'a [usize],
}

impl<'a> GpuCase<'a> {
    pub(super) fn new(backend: &'a mut Nccl<'_>, case: &'a Case) -> GpuCase<'a> {
        let shape = Shape {
            collective: case.collective,
            counts: case.counts,
            ranks: backend.ranks,
            root: case.sweep.root,
            traffic: &backend.plan.traffic,
            element_bytes: case.sweep.datatype.bytes(),
        };
        if backend.plan.per_iteration {
            let places = backend.plan.iterations as usize + 1;
            // A missing event is made when it is needed, or refused there.
            backend.gpu_ranks.iter_mut().for_each(|gpu_rank| drop(gpu_rank.make_events(places)));
        }
        let library = backend.library;
        let operators = backend
            .gpu_ranks
            .iter()
            .map(|gpu_rank| {
                RankOperator::new(&gpu_rank.communicator, case.sweep.op, case.sweep.datatype)
                    .map_err(|error| nccl(gpu_rank.rank, library, error))
            })
            .collect();
        let backend_plan = backend.plan;
        let parts = Parts {
            case,
            plan: backend_plan,
            library,
            facts: backend.tuning.facts(case),
            gpu_ranks: &mut backend.gpu_ranks,
            stopped: &*backend.stopped,
            peers: &backend.peers,
        };
        let given = match (backend_plan.variant_of(case), backend.call_tuner) {
            (None, _) => Given::Nothing,
            (Some(variant), Some(tuner)) => Given::Next(tuner, Next::of(variant, case.collective)),
            (Some(variant), None) => {
                variants::config(library, variant).map_or(Given::Nothing, Given::Config)
            }
        };
        let (graphs, started) = (Vec::new(), Instant::now());
        GpuCase { backend: parts, shape, operators, graphs, started, given, open_groups: 0 }
    }

    fn pattern(&self, seed: u64) -> Pattern {
        let sweep = self.backend.case.sweep;
        Pattern { seed, datatype: sweep.datatype, op: sweep.op, ranks: self.shape.ranks }
    }

    fn regions(&self, gpu_rank: &GpuRank, operation: Operation) -> Result<Regions, BackendError> {
        let shift = self.backend.plan.shift(self.backend.case, operation.iteration);
        operations::regions(self.backend.plan, &self.shape, gpu_rank, shift, operation).ok_or_else(
            || {
                let error =
                    NcclError::does_not_fit("an operation", shift, gpu_rank.buffers.recv.span());
                nccl(gpu_rank.rank, self.backend.library, error)
            },
        )
    }

    /// Enqueues a step on every rank.
    fn enqueue_step(&self, operation: Operation, step: u32) -> Result<(), BackendError> {
        let operators = self.operators.as_ref().map_err(Clone::clone)?;
        let config = match &self.given {
            Given::Nothing => None,
            Given::Config(config) => Some(config),
            Given::Next(tuner, next) => {
                let next = next.as_ref().map_err(|why| BackendError::Declined(why.clone()))?;
                tuner.next_calls(next.pair, next.channels);
                None
            }
        };
        let datatype = self.backend.case.sweep.datatype;
        self.backend.gpu_ranks.iter().zip(operators).try_for_each(|(gpu_rank, operator)| {
            let regions = self.regions(gpu_rank, operation)?;
            let operator = operator.get();
            operations::enqueue(&self.shape, datatype, config, operator, gpu_rank, regions, step)
                .map_err(|error| self.failed(gpu_rank.rank, error))
        })
    }

    /// An error of NCCL: an operation that failed, or a variant that it declines.
    fn failed(&self, rank: usize, error: NcclError) -> BackendError {
        let Parts { plan, case, library, .. } = self.backend;
        let given = plan.variant_of(case);
        match given.and_then(|given| variants::declined(given, case, &error)) {
            Some(reason) => BackendError::Declined(reason),
            None => nccl(rank, library, error),
        }
    }

    /// For how many calls of this process NCCL has asked the tuner, and how many could not have what it was told.
    fn counts(&self) -> Option<(u32, u32)> {
        match &self.given {
            Given::Next(tuner, Ok(next)) if next.is_any() => Some((tuner.asked(), tuner.refused())),
            _ => None,
        }
    }

    /// Whether an operation has had what the tuner was told, by what was counted before it.
    ///
    /// # Errors
    /// NCCL has run another algorithm, or has not asked: on all ranks alike.
    fn was_given(&mut self, before: Option<(u32, u32)>) -> Result<(), BackendError> {
        let (Some((asked, refused)), Some((asked_now, refused_now))) = (before, self.counts())
        else {
            return Ok(());
        };
        let why = match (asked_now > asked, refused_now > refused) {
            (true, false) => return Ok(()),
            (true, true) => "it does not run it here",
            (false, _) => "it asks no tuner for this call",
        };
        let Parts { plan, case, library, stopped, peers, .. } = self.backend;
        let deadline = plan.timeout_s.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        // It runs, with what NCCL has chosen.
        Watch { library, stopped, peers }.wait(self.backend.gpu_ranks, deadline)?;
        let given = plan.variant_of(case);
        let reason = given.map(|given| variants::not_run(given, case, why));
        reason.map_or(Ok(()), |reason| Err(BackendError::Declined(reason)))
    }

    /// The rank that is named in errors that concern all of ours.
    fn first(&self) -> usize {
        self.backend.gpu_ranks.first().map_or(0, |gpu_rank| gpu_rank.rank)
    }

    /// NCCL's prediction for one operation, in microseconds; `None` where it has none. Every rank
    /// must call it.
    pub(super) fn predict(&self) -> Result<Option<f64>, BackendError> {
        let library = self.backend.library;
        if !library.predicts()
            || !operations::is_tuned(self.shape.collective)
            || self.shape.counts.param == 0
        {
            return Ok(None);
        }
        let refused = |error| nccl(self.first(), library, error);
        library.group_start().map_err(refused)?;
        let operation =
            Operation { placement: Placement::OutOfPlace, iteration: 0, verified: false };
        let enqueued = self.enqueue_step(operation, 0);
        // The group must end, even after an error.
        let predicted = library.group_predict();
        enqueued?;
        Ok(predicted.ok().filter(|us| *us > 0.0))
    }
}

impl Prepared for GpuCase<'_> {
    fn facts(&self) -> CaseFacts {
        self.backend.facts.clone()
    }

    fn fill(&mut self, operation: Operation, seed: u64) -> Result<(), BackendError> {
        let pattern = self.pattern(seed);
        for gpu_rank in &*self.backend.gpu_ranks {
            let regions = self.regions(gpu_rank, operation)?;
            gpu_rank
                .checker
                .fill(gpu_rank, &self.shape, &pattern, regions)
                .map_err(|error| gpu(gpu_rank.rank, error))?;
        }
        Ok(())
    }

    fn begin_capture(&mut self) -> Result<(), BackendError> {
        self.graphs.clear();
        self.backend.gpu_ranks.iter().try_for_each(|gpu_rank| {
            gpu_rank.stream.begin_capture().map_err(|error| gpu(gpu_rank.rank, error))
        })
    }

    fn end_capture(&mut self) -> Result<(), BackendError> {
        // All captures end before the first graph is made.
        let mut captured = Vec::new();
        for gpu_rank in &*self.backend.gpu_ranks {
            let ended = gpu_rank.stream.end_capture().map_err(|error| gpu(gpu_rank.rank, error))?;
            captured.push((gpu_rank.rank, ended));
        }
        for (rank, captured) in captured {
            self.graphs.push(captured.instantiate().map_err(|error| gpu(rank, error))?);
        }
        Ok(())
    }

    fn replay(&mut self) -> Result<(), BackendError> {
        for (gpu_rank, graph) in self.backend.gpu_ranks.iter().zip(&self.graphs) {
            graph.launch(&gpu_rank.stream).map_err(|error| gpu(gpu_rank.rank, error))?;
        }
        Ok(())
    }

    fn start(&mut self) {
        self.backend.gpu_ranks.iter_mut().for_each(GpuRank::start);
        self.started = Instant::now();
    }

    fn elapsed(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    fn enqueue(&mut self, operation: Operation) -> Result<(), BackendError> {
        let Some(first) = self.backend.gpu_ranks.first() else { return Ok(()) };
        // In a group NCCL asks at its end.
        let counts = (self.open_groups == 0).then(|| self.counts()).flatten();
        let collective = self.shape.collective;
        let group = self.backend.gpu_ranks.len() > 1
            || !operations::is_one_call(collective, &first.communicator);
        for step in 0..operations::steps(collective, self.shape.ranks) {
            if !group {
                self.enqueue_step(operation, step)?;
                continue;
            }
            self.begin_fused()?;
            let enqueued = self.enqueue_step(operation, step);
            // The group must end, even after an error.
            let ended = self.end_fused();
            enqueued.and(ended)?;
        }
        self.was_given(counts)
    }

    fn begin_fused(&mut self) -> Result<(), BackendError> {
        let library = self.backend.library;
        self.open_groups += 1;
        library.group_start().map_err(|error| nccl(self.first(), library, error))
    }

    fn end_fused(&mut self) -> Result<(), BackendError> {
        let library = self.backend.library;
        self.open_groups -= 1;
        library.group_end().map_err(|error| self.failed(self.first(), error))
    }

    fn delay(&mut self, seconds: f64) {
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }

    fn finish(&mut self, deadline: Option<Instant>) -> Result<f64, BackendError> {
        let Parts { library, stopped, peers, .. } = self.backend;
        Watch { library, stopped, peers }.wait(self.backend.gpu_ranks, deadline)?;
        Ok(self.elapsed())
    }

    fn mark(&mut self) -> Result<(), BackendError> {
        for gpu_rank in &mut *self.backend.gpu_ranks {
            let marked = gpu_rank.pass();
            marked.map_err(|error| gpu(gpu_rank.rank, error))?;
        }
        Ok(())
    }

    fn laps(&self) -> Result<Vec<f64>, BackendError> {
        let mut slowest: Vec<f64> = Vec::new();
        for gpu_rank in &*self.backend.gpu_ranks {
            let laps = gpu_rank.laps().map_err(|error| gpu(gpu_rank.rank, error))?;
            slowest.resize(slowest.len().max(laps.len()), 0.0);
            slowest.iter_mut().zip(laps).for_each(|(slow, lap)| *slow = slow.max(lap));
        }
        Ok(slowest)
    }

    fn verify(&mut self, operation: Operation, seed: u64) -> Result<Vec<Found>, BackendError> {
        let pattern = self.pattern(seed);
        let mut found = Vec::new();
        for gpu_rank in &*self.backend.gpu_ranks {
            let regions = self.regions(gpu_rank, operation)?;
            let mismatch = gpu_rank
                .checker
                .verify(gpu_rank, &self.shape, &pattern, regions, operation.placement)
                .map_err(|error| gpu(gpu_rank.rank, error))?;
            found.push(Found { rank: gpu_rank.rank, mismatch });
        }
        Ok(found)
    }

    fn corrupt(
        &mut self,
        operation: Operation,
        rank: usize,
        element: u64,
    ) -> Result<(), BackendError> {
        let Some(gpu_rank) = self.backend.gpu_ranks.iter().find(|gpu_rank| gpu_rank.rank == rank)
        else {
            return Ok(());
        };
        let (elements, size) = (self.shape.counts.recv, self.shape.element_bytes);
        let recv = self.regions(gpu_rank, operation)?.recv;
        let Some(at) = (element as usize).checked_rem(elements) else { return Ok(()) };
        let Some(word) = recv.part(at * size, size) else { return Ok(()) };
        let context = gpu_rank.communicator.context();
        let mut bytes = vec![0; size];
        context.read(word, &mut bytes).map_err(|error| gpu(rank, error))?;
        bytes[0] ^= 1;
        gpu_rank.stream.write(&bytes, word).map_err(|error| gpu(rank, error))
    }
}

impl Drop for GpuCase<'_> {
    fn drop(&mut self) {
        let Ok(operators) = &self.operators else { return };
        for (gpu_rank, operator) in self.backend.gpu_ranks.iter().zip(operators) {
            operator.destroy(&gpu_rank.communicator);
        }
    }
}
