//! The verdict as data: of all ends of the chain the one that explains the others.
//! Not its sentences (`case`), and not its text for people (`print`).

use std::collections::BTreeSet;

use busbw_core::finding::Confidence;
use busbw_logs::hang::{Evidence, Source};
use serde::Serialize;

use super::SCHEMA;
use super::assess::{Stuck, Who};
use super::case::Case;
use super::chain::Met;

/// The most ranks and communicators that a report lists.
pub(super) const MAX_LISTED: usize = 64;

/// What became of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A rank did not come to a call in which others wait.
    NeverCame,
    /// A rank called it with another number of elements.
    OtherSize,
    /// A rank called it with another type.
    OtherType,
    /// A rank called another operation.
    OtherOperation,
    /// A process is gone.
    Died,
    /// A process is there and does not run, or does not answer.
    Stopped,
    /// A process gives no sign: it died, or it is stopped.
    Silent,
    /// All ranks are in the call, and it does not end.
    NetworkStopped,
    /// Ranks wait for each other in different communicators.
    WaitInCircle,
    /// It goes on, or no call has stood for long.
    Progressing,
    /// No rank waits in a call by what is known.
    NothingWaits,
    /// What is known does not suffice.
    Inconclusive,
}

impl Verdict {
    /// Whether it says that something is wrong.
    pub const fn is_fault(self) -> bool {
        !matches!(self, Verdict::Progressing | Verdict::NothingWaits | Verdict::Inconclusive)
    }

    /// As it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::NeverCame => "never-came",
            Verdict::OtherSize => "other-size",
            Verdict::OtherType => "other-type",
            Verdict::OtherOperation => "other-operation",
            Verdict::Died => "died",
            Verdict::Stopped => "stopped",
            Verdict::Silent => "silent",
            Verdict::NetworkStopped => "network-stopped",
            Verdict::WaitInCircle => "wait-in-circle",
            Verdict::Progressing => "progressing",
            Verdict::NothingWaits => "nothing-waits",
            Verdict::Inconclusive => "inconclusive",
        }
    }
}

/// A process that the verdict names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Blamed {
    /// Its rank in the job, where it is known.
    pub rank: Option<u32>,
    /// Its rank in the communicator.
    pub rank_in_communicator: u32,
    /// Its host, where it is known.
    pub host: Option<String>,
    /// Its number there.
    pub pid: Option<u32>,
    /// How many calls of the communicator it is behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind: Option<u64>,
}

/// A call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallSaid {
    /// `all_reduce`.
    pub operation: String,
    /// Its number among all collectives of the communicator, from 1; of a message among those to or from that rank.
    pub number: u64,
    /// Elements, where all ranks must give as many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elements: Option<u64>,
    /// Their type as the source names it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub datatype: String,
    /// How long the first rank has waited in it, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// When that rank called it, ns since 1970 by the clock of its host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ns: Option<u64>,
    /// Where the program called it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// A communicator in which ranks wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StuckGroup {
    /// Its name.
    pub communicator: String,
    /// Who tells of it.
    pub source: &'static str,
    /// The call.
    pub call: CallSaid,
    /// How many ranks wait in it.
    pub waiting: usize,
    /// Ranks of the communicator that have not come: the first 64.
    pub absent: Vec<u32>,
    /// Ranks of the communicator of which nothing is known: the first 64.
    pub unknown: Vec<u32>,
    /// The process that is to blame is one of these; else they wait for it over other communicators.
    pub is_first: bool,
}

/// The verdict on a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HangReport {
    /// [`SCHEMA`].
    pub hang_schema: u32,
    /// In a word.
    pub verdict: Verdict,
    /// How certain that is; none where nothing is claimed.
    pub confidence: Option<Confidence>,
    /// In a sentence or a few.
    pub sentence: String,
    /// Who is to blame: the first 64.
    pub ranks: Vec<Blamed>,
    /// The communicator of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub communicator: Option<String>,
    /// The call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<CallSaid>,
    /// Processes that wait, over all communicators.
    pub waiting: usize,
    /// Communicators that wait: the first 64, that of the verdict first.
    pub communicators: Vec<StuckGroup>,
    /// Communicators that wait, in all.
    pub stuck: usize,
    /// What the verdict rests on.
    pub evidence: Vec<String>,
    /// What would say more.
    pub missing: Vec<String>,
    /// What could not be used, and what does not fit together.
    pub remarks: Vec<String>,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// What to look at next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm: Option<String>,
}

/// Puts all together.
pub(super) fn report(
    evidence: &Evidence,
    moving: bool,
    stuck: &[&Stuck],
    ends: &[Met],
) -> HangReport {
    let mut report = HangReport {
        hang_schema: SCHEMA,
        verdict: Verdict::Inconclusive,
        confidence: None,
        sentence: String::new(),
        ranks: Vec::new(),
        communicator: None,
        call: None,
        waiting: waiting(stuck),
        communicators: Vec::new(),
        stuck: stuck.iter().filter(|one| !one.is_over).count(),
        evidence: Vec::new(),
        missing: Vec::new(),
        remarks: evidence.remarks.clone(),
        remedy: None,
        confirm: None,
    };
    let Some(first) = ends.iter().map(|one| one.end).min() else {
        nobody(&mut report, evidence, moving);
        return report;
    };
    let mut same: Vec<&Met> = ends.iter().filter(|one| one.end == first).collect();
    // Of the communicators that a rank has not come to, the one in which others have waited longest.
    let stuck_at = same.iter().filter_map(|one| one.stuck).max_by_key(|at| {
        stuck.get(*at).map(|one| (!one.is_message, one.call.waited_ms, one.waiting.len()))
    });
    let mut seen = BTreeSet::new();
    same.sort_by_key(|one| (one.stuck != stuck_at, one.stuck));
    let mut who: Vec<Who> = same
        .iter()
        .filter_map(|one| one.who)
        .filter(|who| {
            seen.insert(who.process.map_or((1, who.rank as usize), |process| (0, process)))
        })
        .collect();
    who.sort_unstable();
    let here = stuck_at.and_then(|at| stuck.get(at)).copied();
    let case = Case { evidence, stuck, here, who: &who, end: first };
    case.write(&mut report);
    report.communicators = groups(evidence, stuck, stuck_at);
    report
}

fn waiting(stuck: &[&Stuck]) -> usize {
    let all: BTreeSet<(usize, u32)> = stuck
        .iter()
        .flat_map(|one| {
            one.waiting.iter().map(|who| who.process.map_or((usize::MAX, who.rank), |at| (at, 0)))
        })
        .collect();
    all.len()
}

/// No rank waits by what is known.
fn nobody(report: &mut HangReport, evidence: &Evidence, moving: bool) {
    let (verdict, sentence) = match () {
        () if moving => (
            Verdict::Progressing,
            "The job goes on, or no call has stood for 2 s: this is no hang, or it is too early to tell.",
        ),
        () if evidence
            .groups
            .iter()
            .any(|one| one.members.values().any(|one| one.progress.is_some())) =>
        {
            (
                Verdict::NothingWaits,
                "No rank waits in a call by what is known: the job does something else than communicate, or has ended.",
            )
        }
        () => (Verdict::Inconclusive, "What is known does not say which rank is in which call."),
    };
    report.verdict = verdict;
    report.sentence = sentence.to_owned();
    if evidence.groups.iter().all(|one| one.source == Source::Ras)
        && verdict != Verdict::Progressing
    {
        report.missing.push(
            "RAS counts what was launched, neither what is over nor sends and receives: dumps of PyTorch's flight recorder or files of busbw's profiler say more"
                .to_owned(),
        );
    }
    if verdict == Verdict::Inconclusive {
        report.missing.push(MORE.to_owned());
    }
}

/// What tells which rank is in which call.
const MORE: &str = "dumps of PyTorch's flight recorder of all ranks (TORCH_FR_BUFFER_SIZE=2000), files of busbw's profiler, or --ras";

pub(super) fn said(one: &Stuck) -> CallSaid {
    CallSaid {
        operation: one.call.operation.clone(),
        number: one.call.number,
        elements: one.call.elements,
        datatype: one.call.datatype.clone(),
        waited_ms: one.call.waited_ms,
        since_ns: one.call.since,
        place: one.call.place.clone(),
    }
}

fn groups(evidence: &Evidence, stuck: &[&Stuck], first: Option<usize>) -> Vec<StuckGroup> {
    let mut order: Vec<usize> = (0..stuck.len()).collect();
    order.retain(|at| Some(*at) == first || stuck.get(*at).is_some_and(|one| !one.is_over));
    order.sort_by_key(|at| (Some(*at) != first, *at));
    let listed = |all: &[Who]| all.iter().take(MAX_LISTED).map(|who| who.rank).collect();
    order
        .into_iter()
        .take(MAX_LISTED)
        .filter_map(|at| {
            let one = stuck.get(at)?;
            let group = evidence.groups.get(one.group)?;
            Some(StuckGroup {
                communicator: group.name.clone(),
                source: group.source.name(),
                call: said(one),
                waiting: one.waiting.len(),
                absent: listed(&one.absent),
                unknown: listed(&one.unknown),
                is_first: Some(at) == first,
            })
        })
        .collect()
}

/// The ranks in the job that a report names.
#[cfg(test)]
pub(super) fn blamed_ranks(report: &HangReport) -> Vec<u32> {
    report.ranks.iter().filter_map(|one| one.rank).collect()
}
