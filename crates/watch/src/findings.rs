//! What stands out in a job, in words: calls that stand, processes that stood still, stragglers, slow paths, what is missing.
//! Not how it is found out.

use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_watch_file::OpenCall;

use crate::{Group, Interruption, Job, Peer, Reason, SlowBy, SlowPath, Straggler, View};

/// What stands out in a job, the worst kinds first.
pub(crate) fn findings(view: &View, job: &Job) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(job.peers.iter().filter_map(hanging));
    findings.extend(view.interruptions.iter().map(|one| stood_still(job, one)));
    findings.extend(view.stragglers.iter().map(|one| late(job, one)));
    findings.extend(view.slow_paths.iter().map(|one| slow(job, one)));
    for group in &job.groups {
        for (rank, both) in &group.twice {
            let cause = format!(
                "rank {rank} of communicator {} is in two processes' files: {both}",
                group.id
            );
            findings.push(
                Finding::new("rank-twice", Severity::Unknown, cause)
                    .remedy("name the files of one job only"),
            );
        }
    }
    if view.dropped > 0 {
        let cause =
            format!("{} calls are missing: the profiler had no room for them", view.dropped);
        findings.push(Finding::new("calls-dropped", Severity::Unknown, cause));
    }
    let unread: u64 = job.peers.iter().map(|one| one.unread).sum();
    if unread > 0 {
        let cause = format!("{unread} lines of the files could not be read");
        findings.push(Finding::new("lines-unread", Severity::Unknown, cause));
    }
    findings
}

/// A call that stands for this long has hardly only slow ranks, ns.
const STANDS: u64 = 30_000_000_000;

pub(crate) fn stands(peer: &Peer) -> Option<&OpenCall> {
    let oldest = peer.open.iter().min_by_key(|call| call.enqueued)?;
    (oldest.at.saturating_sub(oldest.enqueued) >= STANDS && oldest.at == peer.last_word())
        .then_some(oldest)
}

fn hanging(peer: &Peer) -> Option<Finding> {
    let call = stands(peer).filter(|_| peer.end.is_none())?;
    let communicator = peer.communicators.get(&call.class.communicator)?;
    let seconds = (call.at - call.enqueued) / 1_000_000_000;
    let cause = format!(
        "{} {} has stood for {seconds} s on rank {} of communicator {} ({})",
        call.class.operation,
        call.sequence,
        communicator.rank,
        communicator.id,
        peer.named()
    );
    let begun = match call.channels_started {
        0 => "its kernel has not begun on the GPU".to_owned(),
        some => {
            format!("its kernel has begun: {some} channels, of which {} ended", call.channels_ended)
        }
    };
    Some(
        Finding::new("call-stands", Severity::Error, cause)
            .evidence(begun)
            .confirm("busbw explain FOLDER"),
    )
}

fn ms(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    match ms {
        _ if ms >= 1e3 => format!("{:.1} s", ms / 1e3),
        _ if ms >= 10.0 => format!("{ms:.0} ms"),
        _ if ms >= 0.1 => format!("{ms:.1} ms"),
        _ => format!("{:.0} us", ms * 1e3),
    }
}

fn stood_still(job: &Job, one: &Interruption) -> Finding {
    let peer = &job.peers[one.peer];
    let cause = format!(
        "the process on {} stood still for {}, until {} after it began",
        peer.named(),
        ms(one.lasted),
        ms(one.until)
    );
    Finding::new("stood-still", Severity::Slow, cause)
        .evidence("a thread that wakes every 50 ms did not: the process was stopped, swapped out, or its host stood still")
        .confidence(Confidence::Likely)
        .cost(ms(one.lasted))
        .remedy("look for a debugger, a cgroup freezer, swapping (vmstat 1) or a paused virtual machine on that host")
}

fn late(job: &Job, one: &Straggler) -> Finding {
    let (peer, group) = (&job.peers[one.peer], &job.groups[one.group]);
    let (why, remedy) = match one.reason {
        Reason::Compute { queued } => (
            format!("its GPU is busy: its calls wait {} there before they begin", ms(queued)),
            "compare this GPU's clocks, temperature and work with the others' (nvidia-smi -q -d PERFORMANCE,CLOCK)",
        ),
        Reason::Host => (
            "its program asks for them late".to_owned(),
            "look at that process: data loading, Python, a lock (py-spy dump --pid PID)",
        ),
        Reason::Core { share } => (
            format!("its threads wait for a core, {:.0} % of the time", share * 100.0),
            "give that process cores of its own (taskset -p PID, --cpu-bind), and look for what else runs there",
        ),
        Reason::Unknown => {
            ("the files do not say why".to_owned(), "look at that process and its GPU")
        }
    };
    let cause = format!(
        "rank {} ({}) enters calls of communicator {} last; {why}",
        one.rank,
        peer.named(),
        label(group)
    );
    let mut finding = Finding::new("late-rank", Severity::Slow, cause)
        .evidence(format!(
            "last in {} of {} calls, by {} (median)",
            one.last,
            one.calls,
            ms(one.late)
        ))
        .confidence(if group.missing().is_empty() {
            Confidence::Likely
        } else {
            Confidence::Possible
        })
        .cost(format!("{:.0} % of the time in these calls", one.share * 100.0))
        .remedy(remedy);
    if !group.missing().is_empty() {
        finding = finding.evidence(format!(
            "of {} of {} ranks there is no file",
            group.missing().len(),
            group.ranks
        ));
    }
    finding
}

fn slow(job: &Job, one: &SlowPath) -> Finding {
    let group = &job.groups[one.path.group];
    let host = |rank: u32| {
        let member = group.members.iter().find(|member| member.rank == rank);
        member.map_or_else(|| "no file".to_owned(), |member| job.peers[member.peer].named())
    };
    let how = match (one.by, one.path.transit_us) {
        (SlowBy::Transit, Some(us)) => {
            format!("a step is on its way for {}", ms((us * 1e3) as u64))
        }
        _ => "its sender waits for the wire".to_owned(),
    };
    let times =
        one.times.map_or(String::new(), |times| format!(", {times:.1} times as long as on"));
    let beside = if one.times.is_some() { times } else { ", unlike on".to_owned() };
    let cause = format!(
        "the path from rank {} ({}) to rank {} ({}) is slow: {how}{beside} the other {} path{}",
        one.path.from,
        host(one.path.from),
        one.path.to,
        host(one.path.to),
        one.others,
        if one.others == 1 { "" } else { "s" }
    );
    let path = &one.path;
    let evidence = format!(
        "{} steps; the sender waited {} for its GPU, {} for the receiver's room, {} for the wire; the receiver waited {} for them",
        path.steps,
        ms(path.gpu),
        ms(path.peer),
        ms(path.wire),
        ms(path.arrival)
    );
    Finding::new("slow-path", Severity::Slow, cause)
        .evidence(evidence)
        .confidence(Confidence::Likely)
        .confirm("busbw pairs")
}

fn label(group: &Group) -> String {
    match group.name.is_empty() {
        true => group.id.clone(),
        false => format!("{} ({})", group.name, group.id),
    }
}
