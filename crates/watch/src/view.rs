//! A job as `busbw watch` shows it at one moment: communicators with speeds, ranks by lateness, and what stands out.
//! Not the terminal, and not the JSON's numbers beside it (limits and earlier runs).

use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_watch_file::Process;
use serde::Serialize;

use crate::{
    Culprit, Interruption, Job, Lateness, Matched, Path, Reason, SlowPath, Speed, culprits,
    interruptions, lateness, matched, paths, slow_paths, speeds,
};

/// The version of the JSON that `busbw watch --json` prints.
pub const SCHEMA: u32 = 1;

/// How a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nobody is late beyond the noise.
    Fine,
    /// A rank is late, a path is slow, or a process stood still.
    Late,
    /// A call has stood for so long that it will hardly end.
    Hangs,
    /// The files do not say enough.
    CannotTell,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessView {
    /// Its host.
    pub host: String,
    /// Its number there.
    pub pid: u32,
    /// The rank that the launcher gave it.
    pub rank: Option<u32>,
}

impl ProcessView {
    fn of(process: &Process) -> Self {
        Self { host: process.host.clone(), pid: process.pid, rank: process.rank }
    }
}

/// A rank of a communicator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RankView {
    /// The rank.
    pub rank: u32,
    /// Its host.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// Calls that it entered last.
    pub last: usize,
    /// What the last but one waited for it, ms.
    pub caused_ms: f64,
    /// What it waited for the last, ms.
    pub suffered_ms: f64,
}

/// A communicator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupView {
    /// NCCL's identification.
    pub id: String,
    /// The program's name for it.
    pub name: String,
    /// Its ranks.
    pub ranks: u32,
    /// Ranks of which there is no file.
    pub missing: Vec<u32>,
    /// Calls of which at least two ranks' times are known.
    pub compared: usize,
    /// By operation and size.
    pub speeds: Vec<Speed>,
    /// The ranks, those that cost most first.
    pub by_lateness: Vec<RankView>,
}

/// A job at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct View {
    /// [`SCHEMA`].
    pub watch_schema: u32,
    /// The launcher's name for it.
    pub job: Option<String>,
    /// Processes whose files there are, by host and pid.
    pub processes: Vec<ProcessView>,
    /// Hosts.
    pub hosts: usize,
    /// How it is.
    pub state: State,
    /// Communicators, the largest first.
    pub groups: Vec<GroupView>,
    /// Network paths, where their steps were taken.
    pub paths: Vec<Path>,
    /// Processes that are late by themselves.
    pub culprits: Vec<Culprit>,
    /// Paths whose wire is slow.
    pub slow_paths: Vec<SlowPath>,
    /// Processes that stood still.
    pub interruptions: Vec<Interruption>,
    /// Calls for which there was no room, of all processes.
    pub dropped: u64,
    /// What stands out, in words.
    pub findings: Vec<Finding>,
}

impl View {
    /// Looks at a job.
    #[must_use]
    pub fn of(job: &Job) -> View {
        let calls: Vec<Vec<Matched<'_>>> =
            job.groups.iter().map(|group| matched(job, group)).collect();
        let late = lateness(job, &calls);
        let paths = paths(job);
        let mut hosts: Vec<&str> = job.peers.iter().map(|one| one.process.host.as_str()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let mut view = View {
            watch_schema: SCHEMA,
            job: job.name.clone(),
            processes: job.peers.iter().map(|one| ProcessView::of(&one.process)).collect(),
            hosts: hosts.len(),
            state: State::Fine,
            groups: (0..job.groups.len())
                .map(|at| group_view(job, at, &calls[at], &late[at]))
                .collect(),
            culprits: culprits(job, &calls, &late),
            slow_paths: slow_paths(&paths),
            interruptions: interruptions(job),
            paths,
            dropped: job
                .peers
                .iter()
                .filter_map(|one| Some(one.heartbeats.last()?.dropped_calls))
                .sum(),
            findings: Vec::new(),
        };
        view.findings = view.said(job);
        view.state = view.judged(job);
        view
    }

    fn judged(&self, job: &Job) -> State {
        let wrong = self.findings.iter().any(|finding| finding.severity.is_wrong());
        if job.peers.iter().any(|peer| peer.end.is_none() && stands(peer).is_some()) {
            State::Hangs
        } else if wrong {
            State::Late
        } else if self.groups.iter().all(|group| group.compared == 0) {
            State::CannotTell
        } else {
            State::Fine
        }
    }

    fn said(&self, job: &Job) -> Vec<Finding> {
        let mut findings = Vec::new();
        findings.extend(job.peers.iter().filter_map(|peer| hanging(job, peer)));
        findings.extend(self.interruptions.iter().map(|one| stood_still(job, one)));
        findings.extend(self.culprits.iter().map(|one| late(job, one)));
        findings.extend(self.slow_paths.iter().map(|one| slow(job, one)));
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
        if self.dropped > 0 {
            let cause =
                format!("{} calls are missing: the profiler had no room for them", self.dropped);
            findings.push(Finding::new("calls-dropped", Severity::Unknown, cause));
        }
        let unread: u64 = job.peers.iter().map(|one| one.unread).sum();
        if unread > 0 {
            let cause = format!("{unread} lines of the files could not be read");
            findings.push(Finding::new("lines-unread", Severity::Unknown, cause));
        }
        findings
    }
}

/// A call that stands for this long has hardly only slow ranks, ns.
const STANDS: u64 = 30_000_000_000;

fn stands(peer: &crate::Peer) -> Option<&busbw_watch_file::OpenCall> {
    let oldest = peer.open.iter().min_by_key(|call| call.enqueued)?;
    (oldest.at.saturating_sub(oldest.enqueued) >= STANDS && oldest.at == peer.last_word())
        .then_some(oldest)
}

fn hanging(job: &Job, peer: &crate::Peer) -> Option<Finding> {
    let call = stands(peer).filter(|_| peer.end.is_none())?;
    let communicator = peer.communicators.get(&call.class.communicator)?;
    let seconds = (call.at - call.enqueued) / 1_000_000_000;
    let _ = job;
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

fn late(job: &Job, one: &Culprit) -> Finding {
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
    let cause = format!(
        "the path from rank {} ({}) to rank {} ({}) is slow: a byte is on the wire {:.1} times as long as on the other {} path{}",
        one.path.from,
        host(one.path.from),
        one.path.to,
        host(one.path.to),
        one.times,
        one.others,
        if one.others == 1 { "" } else { "s" }
    );
    Finding::new("slow-path", Severity::Slow, cause)
        .evidence(format!(
            "{} steps: {} on the wire, {} for the receiver, {} for the sender's GPU",
            one.path.steps,
            ms(one.path.wire),
            ms(one.path.peer),
            ms(one.path.gpu)
        ))
        .confidence(Confidence::Likely)
        .confirm("busbw pairs")
}

fn label(group: &crate::Group) -> String {
    match group.name.is_empty() {
        true => group.id.clone(),
        false => format!("{} ({})", group.name, group.id),
    }
}

fn group_view(job: &Job, at: usize, calls: &[Matched<'_>], late: &Lateness) -> GroupView {
    let group = &job.groups[at];
    let ms = |ns: u64| ns as f64 / 1e6;
    let mut by_lateness: Vec<RankView> = group
        .members
        .iter()
        .zip(&late.ranks)
        .map(|(member, entries)| RankView {
            rank: member.rank,
            host: job.peers[member.peer].process.host.clone(),
            pid: job.peers[member.peer].process.pid,
            last: entries.last,
            caused_ms: ms(entries.caused),
            suffered_ms: ms(entries.suffered),
        })
        .collect();
    by_lateness.sort_by(|a, b| b.caused_ms.total_cmp(&a.caused_ms).then(a.rank.cmp(&b.rank)));
    GroupView {
        id: group.id.clone(),
        name: group.name.clone(),
        ranks: group.ranks,
        missing: group.missing(),
        compared: late.calls,
        speeds: speeds(group, calls),
        by_lateness,
    }
}
