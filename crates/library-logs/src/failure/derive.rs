//! What follows from several lines together: ranks of processes, who is behind in a collective, which warning did
//! harm after all, which incidents only follow from another one.
//! Not which incident is the cause (`cause`).

use std::collections::{BTreeMap, BTreeSet};

use crate::nccl::NcclFacts;

use super::{
    incident::{FailureFacts, Incident, Incidents},
    kind::{Causality, Kind},
};

/// Completes the facts of a log that has been read to its end. `init_start` is the last line at which a
/// communicator began its initialization.
pub(super) fn complete(
    facts: FailureFacts,
    nccl: &NcclFacts,
    init_start: Option<u64>,
) -> FailureFacts {
    let mut facts = facts;
    name_ends(&mut facts);
    place_ranks(&mut facts, nccl);
    name_variables(&mut facts.incidents, nccl);
    mpi_warnings_with_harm(&mut facts.incidents);
    ended_by_scheduler(&mut facts.incidents);
    survivors(&mut facts.incidents);
    watchdogs(&mut facts);
    gloo_waits(&mut facts);
    reasons_of_results(&mut facts.incidents);
    init_hang(&mut facts, nccl, init_start);
    only_failed_rank(&mut facts);
    facts
}

/// Gives the ends of processes their kinds: by the signal, or an exit code that shells make of one.
fn name_ends(facts: &mut FailureFacts) {
    let mut incidents = Incidents::default();
    for mut incident in std::mem::take(&mut facts.incidents) {
        if incident.kind == Kind::ProcessEnd {
            let details = &mut incident.details;
            let hydra = incident.text.contains("BAD TERMINATION");
            if details.signal.is_none() {
                details.signal = match details.exit_code {
                    Some(code @ (132 | 134..=137 | 139 | 143)) => u32::try_from(code - 128).ok(),
                    // Hydra prints the status of waitpid: a signal is its number.
                    Some(code @ (9 | 11)) if hydra => u32::try_from(code).ok(),
                    _ => None,
                };
            }
            incident.kind = match details.signal {
                Some(4 | 5 | 7 | 8 | 11) => Kind::Crashed,
                Some(9) => Kind::Killed,
                Some(6) => Kind::Aborted,
                Some(_) => Kind::Ended,
                None if details.exit_code.is_some_and(|code| code != 0) => Kind::ExitCode,
                None => Kind::Ended,
            };
            if details.signal.is_some() {
                details.exit_code = None;
            }
        }
        // Which collective broke matters to waits only.
        if !matches!(
            incident.kind.causality(),
            Causality::Timeout | Causality::Disagreement | Causality::PeerLost
        ) && !matches!(
            incident.kind,
            Kind::AlgorithmMissing | Kind::CollectivesDiffer | Kind::MpiError
        ) {
            incident.details.op = None;
        }
        incidents.add(incident);
    }
    facts.left_out += incidents.left_out;
    facts.incidents = incidents.finish();
}

/// Finds the ranks of processes: NCCL prints both, and so does torchelastic's summary.
fn place_ranks(facts: &mut FailureFacts, nccl: &NcclFacts) {
    let mut ranks: BTreeMap<u32, u32> = BTreeMap::new();
    let mut twice = BTreeSet::new();
    let known = nccl.communicators.iter().max_by_key(|one| one.nranks).into_iter();
    let known = known.flat_map(|one| one.ranks.iter().map(|rank| (rank.pid, rank.rank)));
    let exits = facts.exits.iter().filter_map(|exit| Some((exit.pid?, exit.rank?)));
    for (pid, rank) in known.chain(exits) {
        // A process with several ranks, or the same number on two hosts, names none.
        if ranks.insert(pid, rank).is_some_and(|before| before != rank) {
            twice.insert(pid);
        }
    }
    for incident in &mut facts.incidents {
        if incident.ranks.is_empty() || incident.pids.len() > incident.ranks.len() {
            let placed: Vec<u32> = incident
                .pids
                .iter()
                .filter(|pid| !twice.contains(*pid))
                .filter_map(|pid| ranks.get(pid).copied())
                .collect();
            placed.into_iter().for_each(|rank| incident.rank(Some(rank)));
        }
    }
}

/// Adds the value of a variable that NCCL logged.
fn name_variables(incidents: &mut [Incident], nccl: &NcclFacts) {
    let value = |name: &str| nccl.environment.get(name)?.keys().next().cloned();
    for incident in incidents {
        let details = &mut incident.details;
        match incident.kind {
            Kind::InterfaceMissing if details.name.is_none() => {
                details.name = details.variable.as_deref().and_then(value);
            }
            Kind::NetworkMissing if details.name.is_none() => details.name = value("NCCL_NET"),
            Kind::AlgorithmMissing if details.name.is_none() => {
                details.name = value("NCCL_ALGO");
                details.variable = details.name.as_ref().map(|_| "NCCL_ALGO".to_owned());
            }
            _ => {}
        }
    }
}

/// Open MPI's warnings about its transports do harm where no other one is left.
fn mpi_warnings_with_harm(incidents: &mut [Incident]) {
    let unreachable = incidents.iter().any(|one| one.kind == Kind::Unreachable);
    let bus_error =
        incidents.iter().any(|one| one.kind == Kind::Crashed && one.details.signal == Some(7));
    let ignored = incidents.iter().find(|one| one.kind == Kind::InterfaceIgnored);
    let ignored = ignored.map(|one| (one.details.variable.clone(), one.details.name.clone()));
    for incident in incidents {
        match incident.kind {
            Kind::MpiShmFull if unreachable || bus_error => incident.kind = Kind::ShmFull,
            Kind::Unreachable => {
                if let Some((variable, interface)) = &ignored {
                    incident.details.variable.clone_from(variable);
                    incident.details.address.clone_from(interface);
                }
            }
            _ => {}
        }
    }
}

/// What a scheduler kills after its own decision, or after another task failed, is no cause.
fn ended_by_scheduler(incidents: &mut [Incident]) {
    let decided = incidents
        .iter()
        .filter(|one| {
            matches!(
                one.kind,
                Kind::TimeLimit | Kind::Cancelled | Kind::Preempted | Kind::NodeFailure
            ) || (one.text.contains("srun: error")
                && matches!(one.kind, Kind::ExitCode | Kind::Crashed))
        })
        .map(|one| one.line)
        .min();
    // A cancellation without a reason follows from a task that failed.
    let failed =
        incidents.iter().filter(|one| one.kind == Kind::ExitCode || one.kind == Kind::Crashed);
    let failed = failed.filter(|one| one.text.contains("srun: error")).map(|one| one.line).min();
    for incident in incidents {
        let after = |line: Option<u64>| line.is_some_and(|line| line < incident.line);
        if incident.kind == Kind::Killed && after(decided)
            || incident.kind == Kind::Cancelled && failed.is_some()
        {
            incident.consequence = true;
        }
    }
}

/// An exception of a rank follows from the death of another one.
fn survivors(incidents: &mut [Incident]) {
    let dead: BTreeSet<u32> = incidents
        .iter()
        .filter(|one| {
            matches!(one.kind, Kind::Killed | Kind::Crashed | Kind::OomKill) && !one.consequence
        })
        .flat_map(|one| one.ranks.iter().copied())
        .collect();
    for incident in incidents.iter_mut().filter(|one| one.kind == Kind::Exception) {
        incident.consequence =
            !dead.is_empty() && !incident.ranks.is_empty() && incident.ranks.is_disjoint(&dead);
    }
}

/// Whom PyTorch's watchdogs wait for: by what they wait in, and by how far the others came.
fn watchdogs(facts: &mut FailureFacts) {
    let waits: Vec<&Incident> = facts.of(Kind::WatchdogTimeout).collect();
    let Some(first) = waits.iter().min_by_key(|one| (one.details.sequence, one.line)) else {
        return;
    };
    let same = waits.iter().filter(|one| one.details.sequence == first.details.sequence);
    let mut derived = Incident { kind: Kind::NeverCalled, ..(*first).clone() };
    let ops: BTreeMap<u32, String> = same
        .flat_map(|one| one.ranks.iter().filter_map(|rank| Some((*rank, one.details.op.clone()?))))
        .collect();
    let sizes: BTreeSet<u64> = first.details.elements.values().copied().collect();
    // These may have another size on each rank.
    let uneven = ["all_to_all", "alltoall_base", "send", "recv", "gather", "scatter", "coalesced"];
    let even = first.details.op.as_deref().is_some_and(|op| !uneven.contains(&op));
    let others = |behind: &dyn Fn(u64, u64, u64) -> bool| -> BTreeSet<u32> {
        let Some(sequence) = first.details.sequence else { return BTreeSet::new() };
        let waiting = |p: &&super::incident::Progress| {
            first.ranks.contains(&p.rank) && p.completed < sequence && sequence <= p.enqueued
        };
        let Some(group) = facts.progress.iter().find(waiting).map(|p| p.group.as_str()) else {
            return BTreeSet::new();
        };
        let rest = facts.progress.iter().filter(|p| p.group == group);
        rest.filter(|p| !first.ranks.contains(&p.rank) && behind(sequence, p.enqueued, p.completed))
            .map(|p| p.rank)
            .collect()
    };
    let behind = others(&|sequence, enqueued, _| enqueued < sequence);
    let ahead = others(&|sequence, _, completed| completed >= sequence);
    if ops.values().collect::<BTreeSet<_>>().len() > 1 {
        derived.kind = Kind::CollectivesDiffer;
        derived.ranks = ops.keys().copied().collect();
        derived.details.ops = ops;
    } else if sizes.len() > 1 && even {
        derived.kind = Kind::SizesDiffer;
    } else if !behind.is_empty() {
        derived.details.others = behind;
    } else if !ahead.is_empty() {
        derived.kind = Kind::SizesDiffer;
        derived.details.others = ahead;
    } else {
        silent(facts);
        return;
    }
    facts.incidents.push(derived);
}

/// Where nearly all ranks report one time-out, those that do not are most likely behind. Groups of every n-th
/// rank leave more gaps than that.
fn silent(facts: &mut FailureFacts) {
    const MIN_REPORTS_PER_SILENT_RANK: usize = 4;
    let spoke: BTreeSet<u32> = facts.progress.iter().map(|p| p.rank).collect();
    for wait in facts.incidents.iter_mut().filter(|one| one.kind == Kind::WatchdogTimeout) {
        let Some(last) = wait.ranks.last() else { continue };
        let gaps = (0..*last).filter(|rank| !wait.ranks.contains(rank) && !spoke.contains(rank));
        let gaps: BTreeSet<u32> = gaps.take(wait.ranks.len()).collect();
        if gaps.len() * MIN_REPORTS_PER_SILENT_RANK <= wait.ranks.len() {
            wait.details.others = gaps;
        }
    }
}

/// Whom gloo's ranks wait for: torchelastic's summary names all ranks of the job.
fn gloo_waits(facts: &mut FailureFacts) {
    let all: BTreeSet<u32> = facts.exits.iter().filter_map(|exit| exit.rank).collect();
    for incident in facts.incidents.iter_mut().filter(|one| one.kind == Kind::GlooTimeout) {
        incident.details.others = all.difference(&incident.ranks).copied().collect();
        if all.len() > 1 && incident.details.others.is_empty() {
            // Every rank called it, and every rank waits.
            incident.kind = Kind::SizesDiffer;
        }
    }
}

/// The last warning before a result code without a reason tells the reason.
fn reasons_of_results(incidents: &mut [Incident]) {
    let of = |kind| move |one: &&Incident| one.kind == kind;
    let Some(result) = incidents.iter().find(of(Kind::NcclError)).map(|one| one.line) else {
        return;
    };
    let before = incidents.iter().filter(of(Kind::NcclWarning)).filter(|one| one.line < result);
    let warning = before.max_by_key(|one| one.line);
    let Some((reason, place)) = warning.map(|one| (one.details.reason.clone(), one.place.clone()))
    else {
        return;
    };
    for incident in incidents.iter_mut().filter(|one| one.kind == Kind::NcclError) {
        incident.details.reason.clone_from(&reason);
        incident.place = place.clone().or(incident.place.take());
    }
}

/// A communicator that began and was not complete when the log ended.
fn init_hang(facts: &mut FailureFacts, nccl: &NcclFacts, init_start: Option<u64>) {
    let Some(line) = init_start.filter(|line| facts.ended_well.is_none_or(|end| end < *line))
    else {
        return;
    };
    if facts.incidents.iter().any(|one| !one.kind.is_harmless()) {
        return;
    }
    let came_far =
        !nccl.connected.is_empty() || !nccl.pairs.is_empty() || !nccl.channels.is_empty();
    let Some(last) = nccl.communicators.last().filter(|_| !came_far) else { return };
    if last.ranks.is_empty() || last.ranks.iter().any(|rank| rank.initialized) {
        return;
    }
    let mut hang =
        Incident::at(Kind::InitHang, &super::line::Line { number: line, ..Default::default() });
    for rank in &last.ranks {
        hang.rank(Some(rank.rank));
        hang.host(&rank.host);
        hang.pid(Some(rank.pid));
    }
    let missing = (0..last.nranks).filter(|rank| !hang.ranks.contains(rank));
    hang.details.others = missing.take(super::incident::MAX_MEMBERS).collect();
    hang.details.there = Some(last.ranks.len().to_string());
    hang.details.asked = Some(last.nranks.to_string());
    hang.details.op.clone_from(&last.made_by);
    facts.incidents.push(hang);
}

/// A message without a rank is that of the only rank that the launcher saw fail.
fn only_failed_rank(facts: &mut FailureFacts) {
    let roots: BTreeSet<u32> =
        facts.exits.iter().filter(|e| e.root).filter_map(|e| e.rank).collect();
    let ended = |one: &&Incident| {
        matches!(one.kind, Kind::MpiAbort | Kind::Crashed | Kind::Killed | Kind::ExitCode)
            && !one.consequence
    };
    let ended: BTreeSet<u32> =
        facts.incidents.iter().filter(ended).flat_map(|one| one.ranks.iter().copied()).collect();
    let failed = if roots.is_empty() { ended } else { roots };
    let [rank] = failed.iter().copied().collect::<Vec<_>>()[..] else { return };
    for incident in &mut facts.incidents {
        let own = matches!(incident.kind.causality(), Causality::Specific | Causality::Raised)
            || matches!(
                incident.kind,
                Kind::InvalidDevice
                    | Kind::NoGpu
                    | Kind::GpuBusy
                    | Kind::InterfaceMissing
                    | Kind::ShmFull
            );
        if own && incident.ranks.is_empty() && incident.hosts.len() <= 1 && incident.count == 1 {
            incident.rank(Some(rank));
        }
    }
}
