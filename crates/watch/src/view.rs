//! A job as `busbw watch` shows it at one moment: communicators with speeds, ranks by lateness, and what stands out.
//! Not the terminal, and not the JSON's numbers beside it (limits and earlier runs).

use busbw_core::{finding::Finding, quantity::count};
use busbw_watch_file::Process;
use serde::Serialize;

use crate::{
    Interruption, Job, Lateness, Matched, OverTime, Path, SlowPath, Speed, Straggler,
    findings::{findings, stands},
    interruptions, lateness, matched, paths, slow_paths, speeds, stragglers,
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
    /// Of these, calls from which lateness can be told.
    #[serde(skip)]
    known: usize,
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
    pub stragglers: Vec<Straggler>,
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
        Self::of_calls(job, &calls, &late)
    }

    /// Looks at a job and, window by window, at its time.
    #[must_use]
    pub fn over_time(job: &Job) -> (View, OverTime) {
        let calls: Vec<Vec<Matched<'_>>> =
            job.groups.iter().map(|group| matched(job, group)).collect();
        let late = lateness(job, &calls);
        (Self::of_calls(job, &calls, &late), OverTime::of(job, &calls, &late))
    }

    fn of_calls(job: &Job, calls: &[Vec<Matched<'_>>], late: &[Lateness]) -> View {
        let paths = paths(job, calls);
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
            stragglers: stragglers(job, calls, late),
            slow_paths: slow_paths(&paths),
            interruptions: interruptions(job),
            paths,
            dropped: job
                .peers
                .iter()
                .filter_map(|one| Some(one.heartbeats.last()?.dropped_calls))
                .fold(0, u64::saturating_add),
            findings: Vec::new(),
        };
        view.findings = findings(&view, job);
        view.state = view.judged(job);
        view
    }

    /// How the job is, in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let compared: u64 = self.groups.iter().map(|group| group.compared as u64).sum();
        match self.state {
            State::Fine => {
                format!("nobody is late beyond the noise, by {}", count(compared, "call"))
            }
            State::Late | State::Hangs => {
                let worst = self.findings.iter().max_by_key(|finding| finding.severity);
                worst.map_or_else(String::new, |finding| finding.cause.clone())
            }
            // Whoever read the files knows of hosts that it could not read.
            State::CannotTell if compared > 0 => format!(
                "nobody is late beyond the noise, by {}; of hosts whose files are not here it cannot be told",
                count(compared, "call")
            ),
            State::CannotTell => {
                "cannot tell who is late: of no call are the times of two ranks known".to_owned()
            }
        }
    }

    fn judged(&self, job: &Job) -> State {
        let wrong = self.findings.iter().any(|finding| finding.severity.is_wrong());
        if job.peers.iter().any(|peer| peer.end.is_none() && stands(peer).is_some()) {
            State::Hangs
        } else if wrong {
            State::Late
        } else if self.groups.iter().all(|group| group.known == 0) {
            State::CannotTell
        } else {
            State::Fine
        }
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
        known: late.known,
        speeds: speeds(group, calls),
        by_lateness,
    }
}
