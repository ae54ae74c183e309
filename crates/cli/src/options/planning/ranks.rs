//! The ranks of a run: how many, on which backend and which of the machine's resources, in which communicators.
//! Not what they measure.

use busbw_core::{
    fault::Fault,
    plan::{BackendChoice, Memory, MovedBy, Plan, RankHolder, Style},
    record::MAX_RANKS,
};
use busbw_runner::backend::{Resources, mpi, nccl::Gpus, net::Wanted, verbs};

use super::{Asked, BadOption, backend, launcher, memory, messages, net, values::count, variables};

/// The ranks of a run.
pub(super) struct Ranks<'a> {
    pub(super) backend: BackendChoice,
    /// The GPUs, with NCCL, where ranks run on them.
    pub(super) gpus: Option<&'a Gpus>,
    mpi: Option<&'a mpi::Libraries>,
    net: Option<Wanted>,
    /// The RDMA devices that were asked for.
    rdma: verbs::Wanted,
    /// The memory of each end's buffers, where there is a choice.
    pub(super) buffers: Option<[Memory; 2]>,
    pub(super) threads: usize,
    pub(super) devices: usize,
    /// Processes that a launcher started; without one it is one.
    pub(super) processes: usize,
    /// Colour of each rank's communicator; none without a split.
    pub(super) colours: Vec<u64>,
}

impl<'a> Ranks<'a> {
    /// Reads them from the options and from a launcher's variables.
    ///
    /// # Errors
    /// The machine or the launcher does not have what is asked for, or the backend cannot run it.
    pub(super) fn of(asked: &Asked<'a>) -> Result<Ranks<'a>, BadOption> {
        let (a, machine) = (asked.arguments, asked.host_resources);
        let launched = asked.environment.launched.as_ref();
        let backend = backend::chosen(asked)?;
        let spec = backend.spec();
        let gpus = machine.gpus.as_ref().ok().filter(|_| spec.moved_by == MovedBy::Nccl);
        let mpi = machine.mpi.as_ref().ok().filter(|_| spec.moved_by == MovedBy::Mpi);
        let threads = count("-t", a.threads, 1, 1, MAX_RANKS as i64)? as usize;
        let default = default_devices(asked, gpus, threads);
        let devices = count("-g", a.devices, default as i64, 1, MAX_RANKS as i64)? as usize;
        let processes = launched.map_or(1, |launched| launched.size);
        let ranks = processes.saturating_mul(threads * devices);
        if ranks > MAX_RANKS {
            return Err(BadOption::new(format!(
                "{processes} × -t {threads} × -g {devices} is {ranks} ranks; {MAX_RANKS} are the most"
            )));
        }
        let net = net::wanted(a, &backend)?;
        let shared = a.pairing.as_ref().is_some_and(|asked| asked.shared);
        let rdma = verbs::Wanted { devices: a.rdma.ib_dev.clone(), shared };
        backend::has(&backend, asked.benchmark)?;
        launcher::held(launched, spec, threads, devices)?;
        let buffers = memory::buffers(a, asked.benchmark, &backend)?;
        if let Some(launched) = launched {
            launcher::possible(launched, asked, &backend)?;
        }
        let colours = variables::colours(asked.environment, ranks)?;
        let ranks =
            Ranks { backend, gpus, mpi, net, rdma, buffers, threads, devices, processes, colours };
        ranks.can_split(asked)?;
        Ok(ranks)
    }

    /// The number of ranks of each process.
    pub(super) fn each(&self) -> usize {
        self.threads * self.devices
    }

    /// The number of all ranks.
    pub(super) fn count(&self) -> usize {
        self.processes * self.each()
    }

    /// Refuses communicators where there is one only.
    fn can_split(&self, asked: &Asked<'_>) -> Result<(), BadOption> {
        if self.colours.is_empty() {
            return Ok(());
        }
        if asked.benchmark.is_between_pairs() {
            return Err(BadOption::new(
                "NCCL_TESTS_SPLIT makes communicators of collectives: unset it for messages between pairs",
            ));
        }
        let spec = self.backend.spec();
        if spec.rank_holder == RankHolder::Simulated {
            return Err(BadOption::new(format!(
                "--backend {} has one communicator: NCCL_TESTS_SPLIT cannot be used with it",
                spec.name
            )));
        }
        Ok(())
    }

    /// The first device of this process.
    ///
    /// # Errors
    /// The launcher does not say which one that is.
    pub(super) fn first_device(&self, asked: &Asked<'_>) -> Result<usize, BadOption> {
        let of_mpi = self.mpi.and_then(|mpi| mpi.gpus.as_ref()).map(|gpus| gpus.count);
        let gpus = self.gpus.map(|gpus| gpus.count).or(of_mpi);
        launcher::first_device(asked.environment, gpus, asked.arguments.share_gpus, self.each())
    }

    /// What the run uses of the machine.
    pub(super) fn resources(self) -> Resources {
        let verbs = self.backend.verbs_options().map(|_| self.rdma);
        Resources {
            gpus: self.gpus.cloned(),
            mpi: self.mpi.cloned(),
            net: self.net,
            verbs,
            tuner: None,
        }
    }

    /// Refuses a fault in a rank that there is not, and rank threads of several communicators.
    ///
    /// # Errors
    /// What to do instead.
    pub(super) fn checked(&self, plan: &Plan, fault: Option<Fault>) -> Result<(), BadOption> {
        let ranks = self.count();
        if let Some(fault) = fault.filter(|f| f.rank.max(f.peer.unwrap_or(0)) >= ranks) {
            return Err(BadOption::new(format!("--fault {fault}: there are only {ranks} ranks")));
        }
        let one_each = |plan: &Plan, who: &str| match plan.thread_spanning_communicators() {
            Some(driver) => Err(BadOption::new(format!(
                "{who} puts GPUs of thread {driver} into different communicators, whose times one thread cannot tell apart: use -t {ranks} -g 1, or {} without _perf, which starts a process for each GPU",
                plan.program.trim_end_matches("_perf")
            ))),
            None => Ok(()),
        };
        one_each(plan, "NCCL_TESTS_SPLIT")?;
        for partition in plan.partitions() {
            one_each(&plan.of_partition(partition), "the trace")?;
        }
        Ok(())
    }
}

/// Devices of each thread, where none are asked for: under busbw's own names all that the machine has, unless a
/// launcher has said how many ranks there are to be.
fn default_devices(asked: &Asked<'_>, gpus: Option<&Gpus>, threads: usize) -> usize {
    if asked.style == Style::NcclTests || asked.environment.launched.is_some() {
        return 1;
    }
    let there = gpus.map_or(asked.host_resources.cores.max(2), |gpus| gpus.count);
    let test = asked.benchmark.messages();
    let wanted = test.map_or(there, |test| messages::default_ranks(test, there));
    (wanted / threads.min(wanted.max(1))).max(1)
}
