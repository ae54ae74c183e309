//! Sets up a thread's ranks on their GPUs: contexts, communicators over an exchanged id, buffers,
//! registration.
//! Not what they do then.

use std::{
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use busbw_core::{
    Collective,
    exit::Exit,
    plan::{Plan, Registration, Style},
};
use busbw_ffi::{
    gpu::{Context, Stream},
    nccl::{Communicator, Config, Nccl as Library, UniqueId, Version},
};
use busbw_job::world::{World, WorldError};
use busbw_shm::Wait;

use super::{Nccl, gpu, memory::Ledger, nccl, next_calls, variants};
use crate::backend::nccl::{
    checker::Checker,
    free_memory, gpu_rank,
    gpu_rank::{Buffers, Failed, GpuRank},
};
use crate::backend::{BackendError, RunError};

/// The thread that waits for NCCL's initialisation checks the deadline and the abort flag this
/// often.
const INIT_POLL_INTERVAL: Duration = Duration::from_millis(50);

impl Nccl<'_> {
    /// Sets up our ranks on their GPUs.
    ///
    /// # Errors
    /// A GPU cannot be used, a rank does not arrive in time, or NCCL refuses.
    pub(super) fn join(&mut self, world: &mut dyn World) -> Result<(), RunError> {
        let (plan, library, thread) = (self.plan, self.library, world.rank());
        let ours: Vec<usize> = plan.ranks_of(thread).collect();
        let first = ours.first().copied().unwrap_or(0);
        let groups = plan.groups();
        let group = groups.iter().find(|g| g.contains(&first)).map_or(&[][..], Vec::as_slice);
        self.ranks = group.len();
        self.peers = group.iter().map(|rank| plan.rank_thread(*rank)).collect();
        self.peers.dedup();
        self.peers.retain(|peer| *peer != thread);
        let leads_process = plan.rank_threads_of(plan.process(thread)).next() == Some(thread);
        self.tuning.set_process_leader(leads_process);
        let config = self.config()?;

        let mut members = Vec::new();
        for (rank, ordinal) in ours.iter().zip(&self.ordinals) {
            let context = Context::take(self.runtime, *ordinal).map_err(|e| gpu(*rank, e))?;
            free_memory::make_sure_of_room(plan, *rank, &context)?;
            members.push((Arc::new(context), group.iter().position(|r| r == rank).unwrap_or(0)));
        }
        weigh(&mut self.memory, members.iter().map(|(context, _)| context.as_ref()));
        let id = exchange_id(plan, library, world, group.first().copied().unwrap_or(first))?;
        let communicators = self.wait_for_nccl(id, members, config, first)?;

        weigh(
            &mut self.memory,
            communicators.iter().map(|communicator| communicator.context().as_ref()),
        );
        let mut ranks = Vec::new();
        for (communicator, rank) in communicators.into_iter().zip(&ours) {
            let buffers = Buffers::allocate(plan, library, communicator.context())
                .map_err(|failed| refused(*rank, library, failed))?;
            ranks.push((communicator, buffers));
        }
        let registered = gpu_rank::register(&self.options, library, &ranks)
            .map_err(|error| nccl(first, library, error))?;
        weigh(
            &mut self.memory,
            ranks.iter().map(|(communicator, _)| communicator.context().as_ref()),
        );
        for ((ranked, registered), rank) in ranks.into_iter().zip(registered).zip(&ours) {
            let context = Arc::clone(ranked.0.context());
            let stream = match self.options.default_stream {
                true => Stream::default_of(&context),
                false => Stream::create(&context).map_err(|e| gpu(*rank, e))?,
            };
            let checker = Checker::new(
                &context,
                self.runtime.vendor(),
                self.options.checked_by,
                plan.check > 0,
            )
            .map_err(|e| gpu(*rank, e))?;
            self.gpu_ranks.push(GpuRank::new(*rank, registered, ranked, stream, checker));
        }
        weigh(
            &mut self.memory,
            self.gpu_ranks.iter().map(|gpu_rank| gpu_rank.communicator.context().as_ref()),
        );
        Ok(())
    }

    /// The configuration of communicators: NCCL's defaults under busbw's own names, nccl-tests'
    /// under theirs (src/common.cu:198-224, src/sendrecv.cu:68).
    fn config(&mut self) -> Result<Config, BackendError> {
        let version = self.library.version();
        let theirs = self.plan.style == Style::NcclTests;
        let ring = self.plan.benchmark.collective() == Some(Collective::SendRecv);
        let registers = match self.options.register {
            Registration::None => None,
            Registration::Local => Some(("-R 1".to_owned(), Version(21900))),
            Registration::Symmetric => Some(("-R 2".to_owned(), Version(22700))),
        };
        let policy = self.options.cta_policy.map(|policy| {
            (format!("-x {policy}"), Version(if policy == 2 { 22800 } else { 22700 }))
        });
        for (option, needed) in registers.into_iter().chain(policy) {
            if version < needed {
                let text = format!(
                    "{option} needs NCCL {needed}; this is {version}, {}: name a newer one with --nccl",
                    self.library.path().display()
                );
                return Err(BackendError::Refused { text, exit: Exit::Impossible });
            }
        }
        if !self.plan.variants.is_empty()
            && let Err(why) = self.library.takes_call_configs()
        {
            let by_tuner = next_calls::FIRST_RELEASE..next_calls::CONFIGURED_SINCE;
            let told = match by_tuner.contains(&version.0) {
                true => next_calls::tuner(),
                false => Err("name a newer one with --nccl".to_owned()),
            };
            self.call_tuner = Some(told.map_err(|remedy| {
                let what = format!("a configuration of calls ({}) {why}", variants::OPTIONS);
                let text = format!("{what}; {remedy}");
                BackendError::Refused { text, exit: Exit::Impossible }
            })?);
        }
        Ok(Config {
            cta_policy: self.options.cta_policy,
            nvlink_centric: theirs,
            max_p2p_peers: (theirs && ring).then_some(2),
        })
    }

    /// Initialises the communicators of `members`, (GPU, rank within the communicator) each, in a
    /// thread of its own: NCCL blocks that thread while a rank is missing.
    fn wait_for_nccl(
        &self,
        id: UniqueId,
        members: Vec<(Arc<Context>, usize)>,
        config: Config,
        first: usize,
    ) -> Result<Vec<Communicator>, BackendError> {
        let (done, result) = mpsc::channel();
        let (library, ranks) = (self.library, self.ranks);
        let joining = move || {
            let _ = done.send(Communicator::join(library, id, ranks, &members, &config));
        };
        // After a timeout the thread is left behind: the process ends soon.
        std::thread::Builder::new().name("join".to_owned()).spawn(joining).map_err(|error| {
            let text =
                format!("rank {first}: cannot start a thread for NCCL's initialisation: {error}");
            BackendError::Refused { text, exit: Exit::Internal }
        })?;
        let begun = Instant::now();
        loop {
            match result.recv_timeout(INIT_POLL_INTERVAL) {
                Ok(joined) => return joined.map_err(|error| nccl(first, library, error)),
                Err(RecvTimeoutError::Disconnected) => {
                    let text = format!(
                        "rank {first}: the thread of NCCL's initialisation ended without a result"
                    );
                    return Err(BackendError::Refused { text, exit: Exit::Internal });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if (self.stopped)() {
                return Err(BackendError::Wait(Wait::Aborted));
            }
            let limit = self.plan.timeout_s.map(Duration::from_secs);
            if limit.is_some_and(|limit| begun.elapsed() >= limit) {
                let missing = self.peers.clone();
                return Err(BackendError::Wait(Wait::TimedOut { missing }));
            }
        }
    }
}

/// Records the free memory of our GPUs, with `-M`.
fn weigh<'c>(ledger: &mut Option<Ledger>, contexts: impl Iterator<Item = &'c Context>) {
    if let Some(ledger) = ledger {
        ledger.weigh(contexts);
    }
}

/// The id of our communicator: its first rank creates it, and an allgather distributes it.
fn exchange_id(
    plan: &Plan,
    library: &'static Library,
    world: &mut dyn World,
    first: usize,
) -> Result<UniqueId, RunError> {
    let maker = plan.rank_thread(first);
    let mine = if maker == world.rank() {
        UniqueId::make(library).map_err(|e| nccl(first, library, e))?.0.to_vec()
    } else {
        Vec::new()
    };
    let deadline = plan.timeout_s.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let all = world.allgather(&mine, deadline)?;
    let id = all.get(maker).and_then(|bytes| UniqueId::from_bytes(bytes));
    id.ok_or_else(|| WorldError::Aborted(format!("rank {first} sent no NCCL id")).into())
}

fn refused(rank: usize, library: &Library, failed: Failed) -> BackendError {
    match failed {
        Failed::Gpu(error) => gpu(rank, error),
        Failed::Nccl(error) => nccl(rank, library, error),
    }
}
