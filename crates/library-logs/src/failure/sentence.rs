//! One sentence about an incident: what happened, to whom, and why. As the first line of an explanation.
//! Not what to do about it (`advice`).

use std::collections::BTreeSet;

use super::{
    incident::{FailureFacts, Incident},
    kind::Kind,
    naming::{
        after, because, call, for_ranks, hosts_or, lower, on_hosts, or, ranks, signal, waited, who,
        within,
    },
};

/// What happened, in one active sentence with its full stop. `facts` are those of the incident's log.
pub fn sentence(incident: &Incident, facts: &FailureFacts) -> String {
    let who = who(incident);
    let s = if incident.ranks.len() == 1 || incident.ranks.is_empty() { "s" } else { "" };
    let d = &incident.details;
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let because = because(&d.reason);
    let at = incident.place.as_ref().map_or_else(String::new, |place| format!(" at {place}"));
    let call = call(incident);
    let waited = waited(d.milliseconds);
    match incident.kind {
        Kind::GpuHardware => format!("The GPU of {} is defective: {}.", lower(&who), hardware(incident)),
        Kind::NodeFailure => format!("Slurm lost {}: node failure.", hosts_or(incident, "a host of the job")),
        Kind::Preempted => format!("Slurm preempted the job{}.", on_hosts(incident)),
        Kind::OomKill => format!(
            "The out-of-memory (OOM) killer ended {}: its host or its memory limit had no memory left.",
            d.name.as_ref().filter(|_| incident.ranks.is_empty()).map_or_else(|| lower(&who), |name| format!("{name}{}", on_hosts(incident)))
        ),
        Kind::RunAsRoot => "mpirun refuses to run as root without --allow-run-as-root.".to_owned(),
        Kind::TooFewSlots => format!("mpirun has fewer slots than the {} that were asked for.", text(&d.asked)),
        Kind::NoUsableHost => "mpirun found no host to start ranks on: all slots are filled, or it has no ssh (or scheduler) to reach the \
                               hosts that were named."
            .to_owned(),
        Kind::ProgramMissing => {
            format!("The program {} does not exist or cannot be executed{}.", or(&d.name, "to run"), on_hosts(incident))
        }
        Kind::StepRefused => format!("Slurm did not start the job step{because}."),
        Kind::LibraryMissing => format!("{who} cannot load the shared library {}{because}.", text(&d.name)),
        Kind::HostUnknown => format!("The host name {} cannot be resolved, so that no rank starts there.", text(&d.name)),
        Kind::NoSsh => "mpirun finds no ssh or rsh to start ranks on other hosts.".to_owned(),
        Kind::SshRefused => format!("ssh cannot log in to {}{because}.", or(&d.name, "a host")),
        Kind::Unreachable => unreachable(incident),
        Kind::PortInUse => format!(
            "{} is in use by another process, so that the rendezvous cannot listen there.",
            d.address.as_ref().map_or_else(|| "The master port".to_owned(), |port| format!("Port {port}"))
        ),
        Kind::InterfaceMissing => interface_missing(incident),
        Kind::NetworkMissing => match &d.name {
            Some(name) => format!("NCCL has no network named {name} (NCCL_NET or plugin){}.", for_ranks(incident)),
            None => format!(
                "NCCL found no network that it may use{}: NCCL_NET names one that is not there, or no plugin starts.",
                for_ranks(incident)
            ),
        },
        Kind::AlgorithmMissing => format!(
            "{} no algorithm or protocol for {} here{}.",
            match (&d.variable, &d.name) {
                (Some(variable), Some(value)) => format!("{variable}={value} leaves NCCL"),
                _ => "NCCL has".to_owned(),
            },
            or(&d.op, "a collective"),
            for_ranks(incident)
        ),
        Kind::DuplicateGpu => format!(
            "{who} use the same GPU{}, which NCCL does not allow within one host.",
            d.asked.as_ref().map_or_else(String::new, |bus| format!(" (PCI bus {bus})"))
        ),
        Kind::InvalidDevice => match (&d.asked, &d.there) {
            _ if opens_peer(incident) => format!("{who} cannot open the GPU of a peer (CUDA: invalid device ordinal){at}: the GPU is not visible to the process."),
            (Some(asked), Some(there)) => format!("{who} ask{s} for {asked} GPUs where the host has only {there}."),
            _ => format!("{who} ask{s} for a GPU that the host does not have (CUDA: {}).", or(&d.reason, "invalid device ordinal")),
        },
        Kind::NoGpu => format!("{who} find{s} no GPU: none is visible to the process."),
        Kind::GpuBusy => format!("{who} cannot use the GPU: another process holds it, or it is in exclusive mode."),
        Kind::DriverTooOld => format!("The NVIDIA driver{} is too old for the program{because}.", on_hosts(incident)),
        Kind::NoKernelImage => format!("{who} ha{} no code for this GPU's architecture{because}{at}.", if s == "s" { "s" } else { "ve" }),
        Kind::ShmFull => shm_full(incident, &who, s),
        Kind::LockedMemory => format!(
            "{who} may not lock the memory that the NIC needs ({} failed{at}): the limit of locked memory is too low.",
            or(&d.name, "ibv_reg_mr")
        ),
        Kind::VersionsDiffer => format!(
            "The ranks load different versions of NCCL{}: {} and {}.",
            on_hosts(incident),
            text(&d.there),
            text(&d.asked)
        ),
        Kind::RankCountMismatch => format!(
            "The ranks do not agree how many they are: one says {}, another {}.",
            text(&d.asked),
            text(&d.there)
        ),
        Kind::RegistrationFailed => format!("{who} cannot register memory with the network: {} failed{because}{at}.", or(&d.name, "a call")),
        Kind::GpuMemory => gpu_memory(incident, &who, &at),
        Kind::GpuFault => format!("{who} met a fault of a GPU program{because}{at}."),
        Kind::CudaFailure => format!("{who} met a failure of CUDA or HIP{because}{at}."),
        Kind::HostMemory => format!(
            "{who} could not allocate host memory{because}{}.",
            abort_code(incident, facts)
        ),
        Kind::CollectivesDiffer => {
            let ops: Vec<String> = d.ops.iter().take(8).map(|(rank, op)| format!("rank {rank} {op}")).collect();
            format!("The ranks call different collectives at the same time: {}.", ops.join(", "))
        }
        Kind::Exception => format!("{who} raised {}{}.", text(&d.name), because),
        Kind::Crashed | Kind::Aborted => {
            format!("{who} died of {}.", signal(d.signal.unwrap_or_default()))
        }
        Kind::Killed => killed(incident, facts, &who),
        Kind::MpiAbort => {
            format!("{who} called MPI_Abort{}.", d.exit_code.map_or_else(String::new, |code| format!(" with code {code}")))
        }
        Kind::MpiError => mpi_error(incident, &who),
        Kind::Truncated => format!(
            "{who} received a message of {} bytes where {} were expected: the ranks call a collective with different sizes, or \
             different collectives.",
            text(&d.asked),
            text(&d.there)
        ),
        Kind::SizesDiffer => sizes_differ(incident, &who, &call, &waited),
        Kind::NeverCalled if incident.ranks.is_empty() => {
            format!("{} did not come to {call} within {}.", ranks(&d.others), waited.trim_start())
        }
        Kind::NeverCalled => {
            format!("{} did not call {call}, for which {} waited{waited}.", ranks(&d.others), lower(&who))
        }
        Kind::WatchdogTimeout if !d.others.is_empty() => format!(
            "{who} waited{waited} in {call} until PyTorch's watchdog ended it; {} did not report it, and most likely did not call it.",
            lower(&ranks(&d.others))
        ),
        Kind::WatchdogTimeout => format!(
            "{who} waited{waited} in {call} until PyTorch's watchdog ended it; the log does not say which rank is behind."
        ),
        Kind::IdNeverCame => format!(
            "{} did not come to the first collective: {} waited{waited} for its NCCL id.",
            if d.others.is_empty() { "Rank 0".to_owned() } else { ranks(&d.others) },
            lower(&who)
        ),
        Kind::ClientsMissing => match (&d.there, &d.asked) {
            (Some(there), Some(asked)) if there.parse::<u64>().ok() > asked.parse::<u64>().ok() => format!(
                "{there} processes came to a rendezvous of {asked} ranks: processes of another run use the same store."
            ),
            (there, asked) => format!("Only {} of {} ranks came to the rendezvous{}.", or(there, "some"), or(asked, "all"), within(&waited)),
        },
        Kind::MasterSilent => format!(
            "Nobody answers at {}{}: the process that listens there (rank 0) was not started, or is elsewhere.",
            d.address.as_ref().map_or_else(|| "the rendezvous address".to_owned(), |a| format!("the master address {a}")),
            within(&waited)
        ),
        Kind::RendezvousTimeout => {
            "Fewer nodes than --nnodes came to the rendezvous before it timed out.".to_owned()
        }
        Kind::GlooTimeout if d.others.is_empty() => format!("{who} timed out{} in {call}: gloo got no message from a peer.", after(&waited)),
        Kind::GlooTimeout => format!(
            "{who} timed out{} in {call}: {} did not send.",
            after(&waited),
            lower(&ranks(&d.others))
        ),
        Kind::HeartbeatTimeout => format!(
            "PyTorch's watchdog thread of {} got stuck{}: a CUDA or NCCL call, or the interpreter's lock, blocks it.",
            lower(&who),
            if waited.is_empty() { String::new() } else { format!(" for{waited}") }
        ),
        Kind::InitHang => init_hang(incident, &who),
        Kind::TimeLimit => format!(
            "{} ended the job at its time limit{}.",
            if d.variable.as_deref() == Some("--timeout") { "mpirun" } else { "Slurm" },
            if waited.is_empty() { String::new() } else { format!(" of{waited} (--timeout)") }
        ),
        Kind::Cancelled => format!("Someone cancelled the job{}.", on_hosts(incident)),
        Kind::ConnectFailed => {
            format!("{who} cannot connect to {}{because}.", or(&d.address, "a peer"))
        }
        Kind::NetworkRetries => format!(
            "The network lost messages of {}: {} gave up on {} ({}).",
            lower(&who),
            d.name.as_ref().map_or_else(|| "a NIC".to_owned(), |name| format!("NIC {name}")),
            or(&d.address, "a peer"),
            match d.exit_code {
                Some(12) => "status 12: retries exceeded".to_owned(),
                Some(status) => format!("completion status {status}"),
                None => "completion status unknown".to_owned(),
            }
        ),
        Kind::VerbsFailed => format!("{who} cannot use the NIC: {} failed{because}{at}.", or(&d.name, "a call")),
        Kind::HostLost => format!("mpirun lost its daemon on {}: that host went down, or the network between.", hosts_or(incident, "another host")),
        Kind::CommandMissing => format!("The command {} was not found.", text(&d.name)),
        Kind::NcclError => format!("NCCL failed on {}: {}{at}{because}.", lower(&who), text(&d.name)),
        Kind::DaemonsNotStarted => "mpirun could not start its daemons on the hosts.".to_owned(),
        Kind::WrongData => format!("{who} received wrong data: the benchmark's validation failed."),
        Kind::ExitCode => format!("{who} exited with code {}.", d.exit_code.unwrap_or_default()),
        Kind::PeerLost => format!(
            "{who} lost the connection to a peer{}: that rank ended, or the network failed.",
            d.address.as_ref().map_or_else(String::new, |address| format!(" ({address})"))
        ),
        Kind::Ended | Kind::ProcessEnd => format!("{who} {} ended by the launcher or scheduler.", if s == "s" { "was" } else { "were" }),
        Kind::NcclWarning | Kind::Xid => format!("{}{because}.", text(&d.name)),
        Kind::PluginMissing => "NCCL found no plugin of this name, and used its own code.".to_owned(),
        Kind::NoRdmaDevice => "NCCL found no RDMA device, and used another network.".to_owned(),
        Kind::GdrCopyMissing => "NCCL's one-sided transfers over sockets need GDRCopy; collectives do not.".to_owned(),
        Kind::AffinityEmpty => "No allowed processor is local to the GPU, so that NCCL binds no thread.".to_owned(),
        Kind::GroupNotDestroyed => "PyTorch's process group was not destroyed before the exit.".to_owned(),
        Kind::OmpThreads => "torchrun set OMP_NUM_THREADS to 1.".to_owned(),
        Kind::NotBound => format!("{who} {} not bound to processors.", if s == "s" { "is" } else { "are" }),
        Kind::NoDisplay => "The X server refused a connection that no rank needs.".to_owned(),
        Kind::InterfaceIgnored => format!("Open MPI ignored {}={}.", text(&d.variable), text(&d.name)),
        Kind::MpiShmFull => format!("{} has little room for Open MPI's segments.", or(&d.name, "/dev/shm")),
        Kind::HostSetting => format!("RCCL misses the host's setting {}.", text(&d.name)),
    }
}

/// NCCL's P2P transport met it, not the program's choice of a GPU.
pub(super) fn opens_peer(incident: &Incident) -> bool {
    incident.place.as_deref().is_some_and(|place| place.contains("transport/p2p.cc"))
}

fn hardware(incident: &Incident) -> String {
    let said = or(&incident.details.reason, "");
    match &incident.details.name {
        Some(xid) => {
            format!("the driver reports {xid} at {}", or(&incident.details.address, "a device"))
        }
        None if said.is_empty() => "CUDA reports it".to_owned(),
        None => said,
    }
}

fn unreachable(incident: &Incident) -> String {
    let d = &incident.details;
    match (&d.variable, &d.address) {
        (Some(variable), Some(interface)) => {
            format!(
                "No transport (BTL) connects the ranks{}: the interface {interface} of {variable} does not exist.",
                on_hosts(incident)
            )
        }
        _ => format!(
            "No transport (BTL) connects the ranks{}: Open MPI could reach no peer with {}.",
            on_hosts(incident),
            or(&d.name, "those that it may use")
        ),
    }
}

fn interface_missing(incident: &Incident) -> String {
    let d = &incident.details;
    let variable = or(&d.variable, "NCCL_SOCKET_IFNAME");
    match &d.name {
        Some(name) => format!("No interface matches {variable}={name}{}.", for_ranks(incident)),
        None => format!(
            "No usable network interface{}: {variable} matches none, or none has an address.",
            for_ranks(incident)
        ),
    }
}

fn shm_full(incident: &Incident, who: &str, s: &str) -> String {
    let d = &incident.details;
    let size = d.asked.as_ref().map_or_else(String::new, |asked| match &d.there {
        Some(there) => format!(" ({asked} bytes asked for, {there} available)"),
        None => format!(" ({asked} bytes asked for)"),
    });
    if incident.ranks.is_empty() && incident.text.contains("shared-memory backing") {
        return format!(
            "{} is too small for Open MPI's shared-memory segments{}{size}.",
            or(&d.name, "/dev/shm"),
            on_hosts(incident)
        );
    }
    format!("{who} find{s} no space in /dev/shm for shared-memory segments{size}.")
}

fn gpu_memory(incident: &Incident, who: &str, at: &str) -> String {
    let d = &incident.details;
    match &d.asked {
        // NCCL's own allocation has a position in its source.
        Some(asked) if incident.place.is_some() => {
            format!(
                "{who} ran out of GPU memory: NCCL asked for {asked} bytes{at}; other allocations fill the GPU."
            )
        }
        Some(asked) => {
            let of = d.reason.as_ref().map_or_else(String::new, |total| format!(" of {total}"));
            let free = d
                .there
                .as_ref()
                .map_or_else(String::new, |free| format!(", of which {free}{of} are free"));
            format!("{who} ran out of GPU memory in PyTorch: it asked for {asked}{free}.")
        }
        None => format!("{who} ran out of GPU memory{at}: other allocations fill the GPU."),
    }
}

fn killed(incident: &Incident, facts: &FailureFacts, who: &str) -> String {
    let was = if incident.ranks.len() > 1 { "were" } else { "was" };
    let lost: BTreeSet<u32> = facts
        .of(Kind::PeerLost)
        .flat_map(|one| one.ranks.iter().copied())
        .filter(|rank| !incident.ranks.contains(rank))
        .collect();
    let lost = if lost.is_empty() {
        String::new()
    } else {
        format!(
            "; {} then lost {} peer",
            lower(&ranks(&lost)),
            if lost.len() == 1 { "its" } else { "their" }
        )
    };
    if let Some(name) = &incident.details.name {
        return format!("A {name} of {} was killed by signal 9 (SIGKILL){lost}.", lower(who));
    }
    format!("{who} {was} killed by signal 9 (SIGKILL){lost}.")
}

/// What a rank that failed for this reason did next.
fn abort_code(incident: &Incident, facts: &FailureFacts) -> String {
    let abort =
        facts.of(Kind::MpiAbort).find(|one| one.ranks == incident.ranks && !one.ranks.is_empty());
    abort
        .and_then(|one| one.details.exit_code)
        .map_or_else(String::new, |code| format!("; it called MPI_Abort with code {code}"))
}

fn mpi_error(incident: &Incident, who: &str) -> String {
    let d = &incident.details;
    let op = or(&d.op, "an MPI call");
    let truncated = d.name.as_deref() == Some("MPI_ERR_TRUNCATE")
        || d.reason.as_deref().is_some_and(|said| said.to_ascii_lowercase().contains("truncated"));
    if truncated {
        return format!(
            "{who} got a longer message in {op} than it had room for (MPI_ERR_TRUNCATE): the ranks call it with different counts."
        );
    }
    let name = d.name.as_ref().map_or_else(String::new, |name| format!(" with {name}"));
    format!("{who} failed in {op}{name}{}.", because(&d.reason))
}

fn sizes_differ(incident: &Incident, who: &str, call: &str, waited: &str) -> String {
    let d = &incident.details;
    let sizes: BTreeSet<_> = d.elements.values().collect();
    if sizes.len() > 1 {
        let each: Vec<String> = d
            .elements
            .iter()
            .take(8)
            .map(|(rank, n)| format!("rank {rank} {n} elements"))
            .collect();
        return format!("The ranks call {call} with different sizes: {}.", each.join(", "));
    }
    if let (Some(asked), Some(there)) = (&d.asked, &d.there) {
        return format!(
            "The ranks call {call} with different sizes: {} got {asked} bytes for a buffer of {there}.",
            lower(who)
        );
    }
    if !d.others.is_empty() {
        let have = if d.others.len() == 1 { "has" } else { "have" };
        return format!(
            "{} {have} completed {call}, in which {} waited{waited}: the ranks call it with different sizes, or different collectives.",
            ranks(&d.others),
            lower(who)
        );
    }
    format!(
        "{who} all waited{waited} for each other in {call}: most likely they call it with different sizes."
    )
}

fn init_hang(incident: &Incident, who: &str) -> String {
    let d = &incident.details;
    let of = format!("{} of {} ranks", or(&d.there, "some"), or(&d.asked, "all"));
    if d.others.is_empty() {
        return format!(
            "The log ends in the initialization of a communicator: {of} started it and none completed it."
        );
    }
    let wait = if incident.ranks.len() == 1 { "waits" } else { "wait" };
    format!(
        "The log ends while {} {wait} in the init of a communicator: by this log {of} came, {} did not.",
        lower(who),
        lower(&ranks(&d.others))
    )
}
