//! How a driver's ranks come to their GPUs: contexts, communicators over an exchanged id, buffers,
//! registration. Not what they do then.

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use engine::{Wait, World, WorldError};
use model::{Collective, exit::Exit, plan::{GpuOptions, Plan, Style}};
use native::{
    gpu::{Context, Stream},
    nccl::{Communicator, Config, UniqueId},
};

use super::{
    Log, Nccl, Opened, gpu, nccl,
    proof::Proof,
    seat::{self, Buffers, Failed, Seat},
    survey::Survey,
};
use crate::{backend::BackendError, measure::MeasureError};

/// The thread that waits for NCCL looks round so often.
const LOOK: Duration = Duration::from_millis(50);

impl<'p> Nccl<'p> {
    /// Seats this driver's ranks on the GPUs `ordinals`. `log` is where NCCL writes, if it does so for
    /// us; `stopped` tells whether the run was stopped elsewhere.
    ///
    /// # Errors
    /// [`MeasureError`]: a GPU that cannot be used, ranks that did not come, whatever NCCL refuses.
    pub fn join(
        plan: &'p Plan,
        options: &GpuOptions,
        opened: Opened,
        ordinals: &[usize],
        log: Option<Arc<Log>>,
        world: &mut dyn World,
        stopped: Box<dyn Fn() -> bool + 'p>,
    ) -> Result<Nccl<'p>, MeasureError> {
        let driver = world.rank();
        let ours: Vec<usize> = plan.ranks_of(driver).collect();
        let groups = plan.groups();
        let none = Vec::new();
        let group =
            groups.iter().find(|g| ours.iter().any(|rank| g.contains(rank))).unwrap_or(&none);
        let first = group.first().copied().unwrap_or(0);

        let contexts = ours
            .iter()
            .zip(ordinals)
            .map(|(rank, ordinal)| {
                let context = Context::take(opened.runtime, *ordinal).map_err(|e| gpu(*rank, e))?;
                Ok(Arc::new(context))
            })
            .collect::<Result<Vec<_>, BackendError>>()?;
        let id = exchange_id(plan, opened, world, first)?;
        let members: Vec<(Arc<Context>, usize)> = contexts
            .iter()
            .zip(&ours)
            .map(|(context, rank)| {
                let within = group.iter().position(|r| r == rank).unwrap_or(0);
                (Arc::clone(context), within)
            })
            .collect();
        let mut peers: Vec<usize> = group.iter().map(|rank| plan.driver(*rank)).collect();
        peers.dedup();
        peers.retain(|peer| *peer != driver);
        let config = config(plan, options);
        let waiting = Waiting { plan, peers: &peers, stopped: &*stopped };
        let communicators = waiting.join(opened, id, group.len(), members, config, ours[0])?;

        let mut ranks = Vec::new();
        for (communicator, rank) in communicators.into_iter().zip(&ours) {
            let buffers = Buffers::allocate(plan, opened.nccl, communicator.context())
                .map_err(|failed| refused(*rank, opened, failed))?;
            ranks.push((communicator, buffers));
        }
        let registered = seat::register(options, opened.nccl, &ranks)
            .map_err(|error| nccl(ours[0], opened.nccl, error))?;
        let vendor = opened.runtime.vendor();
        let mut seats = Vec::new();
        for ((ranked, registered), rank) in ranks.into_iter().zip(registered).zip(&ours) {
            let context = Arc::clone(ranked.0.context());
            let stream = if options.default_stream {
                Stream::default_of(&context)
            } else {
                Stream::create(&context).map_err(|e| gpu(*rank, e))?
            };
            let proof =
                Proof::new(&context, vendor, plan.check > 0).map_err(|e| gpu(*rank, e))?;
            seats.push(Seat::new(*rank, registered, ranked, stream, proof));
        }
        let capability = ordinals
            .iter()
            .filter_map(|ordinal| opened.runtime.facts(*ordinal).ok()?.capability)
            .min();
        Ok(Nccl {
            plan,
            library: opened.nccl,
            seats,
            ranks: group.len(),
            peers,
            capability,
            survey: Survey::new(log, plan.drivers_of(plan.process(driver)).next() == Some(driver)),
            stopped,
        })
    }
}

/// Settings of communicators: NCCL's own under busbw's own names, nccl-tests' under theirs
/// (src/common.cu:198-224, src/sendrecv.cu:68).
fn config(plan: &Plan, options: &GpuOptions) -> Config {
    let theirs = plan.style == Style::NcclTests;
    Config {
        cta_policy: options.cta_policy,
        nvlink_centric: theirs,
        max_p2p_peers: (theirs && plan.collective == Collective::SendRecv).then_some(2),
    }
}

/// The id of our communicator, which its first rank makes and everybody hands round.
fn exchange_id(
    plan: &Plan,
    opened: Opened,
    world: &mut dyn World,
    first: usize,
) -> Result<UniqueId, MeasureError> {
    let maker = plan.driver(first);
    let mine = if maker == world.rank() {
        let id = UniqueId::make(opened.nccl).map_err(|e| nccl(first, opened.nccl, e))?;
        id.0.to_vec()
    } else {
        Vec::new()
    };
    let all = world.allgather(&mine, None)?;
    all.get(maker).and_then(|bytes| UniqueId::from_bytes(bytes)).ok_or_else(|| {
        MeasureError::World(WorldError::Aborted(format!("rank {first} gave out no NCCL id")))
    })
}

/// Joining under the eyes of the driver's own thread, which NCCL would not let go.
struct Waiting<'a> {
    plan: &'a Plan,
    peers: &'a [usize],
    stopped: &'a dyn Fn() -> bool,
}

impl Waiting<'_> {
    /// Joins ranks `members`, (GPU, rank within the communicator) each.
    fn join(
        &self,
        opened: Opened,
        id: UniqueId,
        ranks: usize,
        members: Vec<(Arc<Context>, usize)>,
        config: Config,
        first: usize,
    ) -> Result<Vec<Communicator>, BackendError> {
        let (done, result) = mpsc::channel();
        let library = opened.nccl;
        let joining = move || {
            let _ = done.send(Communicator::join(library, id, ranks, &members, &config));
        };
        // Whoever gives up leaves it behind: the process ends soon.
        std::thread::Builder::new().name("join".to_owned()).spawn(joining).map_err(|error| {
            let text = format!("rank {first}: cannot start a thread to join NCCL in: {error}");
            BackendError::Refused { text, exit: Exit::Internal }
        })?;
        let mut waited = Duration::ZERO;
        loop {
            match result.recv_timeout(LOOK) {
                Ok(joined) => return joined.map_err(|error| nccl(first, library, error)),
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let text = format!("rank {first}: the thread that joined NCCL has vanished");
                    return Err(BackendError::Refused { text, exit: Exit::Internal });
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            waited += LOOK;
            if (self.stopped)() {
                return Err(BackendError::Wait(Wait::Aborted));
            }
            if self.plan.timeout_s.is_some_and(|limit| waited >= Duration::from_secs(limit)) {
                let missing = self.peers.to_vec();
                return Err(BackendError::Wait(Wait::TimedOut { missing }));
            }
        }
    }
}

fn refused(rank: usize, opened: Opened, failed: Failed) -> BackendError {
    match failed {
        Failed::Gpu(error) => gpu(rank, error),
        Failed::Nccl(error) => nccl(rank, opened.nccl, error),
    }
}
