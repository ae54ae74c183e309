//! The verdict: of all ends of the chain the one that explains the others, as a sentence, with its evidence and what to do.
//! Not its text for people (`print`).

use std::collections::BTreeSet;

use busbw_core::finding::Confidence;
use busbw_logs::hang::{Condition, Evidence, Source};
use serde::Serialize;

use super::SCHEMA;
use super::assess::{Stuck, What, Who};
use super::chain::{End, Met};
use super::words::{call, calls, lower, named, waited};

/// The most ranks and communicators that a report lists.
const MAX_LISTED: usize = 64;

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
    /// Its number as its source prints it.
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
        stuck: stuck.len(),
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

struct Case<'a> {
    evidence: &'a Evidence,
    stuck: &'a [&'a Stuck],
    /// The communicator that the verdict is about.
    here: Option<&'a Stuck>,
    /// Who is to blame, sorted.
    who: &'a [Who],
    end: End,
}

impl Case<'_> {
    fn write(&self, report: &mut HangReport) {
        report.communicator = self
            .here
            .and_then(|one| self.evidence.groups.get(one.group))
            .map(|group| group.name.clone());
        report.call = self.here.map(said);
        if !matches!(self.end, End::Network | End::Circle) {
            report.ranks = self.who.iter().take(MAX_LISTED).map(|who| self.blamed(who)).collect();
        }
        match self.end {
            End::Differs => self.differs(report),
            End::Died | End::Stopped => self.gone(report),
            End::NeverCame => self.never_came(report),
            End::Silent => self.silent(report),
            End::Circle => self.circle(report),
            End::Network => self.network(report),
            End::Unknown => self.unknown(report),
        }
        self.about_processes(report);
        self.common(report);
    }

    fn names_it(&self, who: &Who) -> bool {
        self.who.binary_search(who).is_ok()
    }

    fn blamed(&self, who: &Who) -> Blamed {
        let process = who.process.and_then(|at| self.evidence.processes.get(at));
        Blamed {
            rank: process.and_then(|one| one.rank),
            rank_in_communicator: who.rank,
            host: process.and_then(|one| one.host.clone()),
            pid: process.and_then(|one| one.pid),
            behind: self.here.and_then(|one| one.behind.get(&who.rank).copied()),
        }
    }

    fn names<'b>(&self, all: impl IntoIterator<Item = &'b Who> + Clone) -> String {
        let group = self.here.and_then(|one| self.evidence.groups.get(one.group));
        named(all, self.evidence, group)
    }

    /// ` all_reduce number 6 …, for which ranks 0-2 waited 41 s`.
    fn wait(&self) -> String {
        let Some(here) = self.here else { return String::new() };
        let waiting: Vec<&Who> = here.waiting.iter().filter(|who| !self.names_it(who)).collect();
        match waiting.is_empty() {
            true => call(&here.call),
            false => format!(
                "{}, for which {} waited{}",
                call(&here.call),
                lower(&self.names(waiting)),
                waited(here.call.waited_ms)
            ),
        }
    }

    fn never_came(&self, report: &mut HangReport) {
        report.verdict = Verdict::NeverCame;
        let who = self.names(self.who);
        let Some(here) = self.here else { return };
        report.confidence = Some(match () {
            () if here.seen_once => Confidence::Possible,
            () if here.not_begun || !here.unknown.is_empty() => Confidence::Likely,
            () => Confidence::Certain,
        });
        report.sentence = match here.not_begun {
            true => format!("{who} called {}, and the GPU has not begun it.", self.wait()),
            // The words of a log's sentence (`busbw_library_logs::failure::sentence`).
            false => format!("{who} did not call {}.", self.wait()),
        };
        let behind: BTreeSet<u64> = here.behind.values().copied().collect();
        if let (Some(least), Some(most)) = (behind.first(), behind.last()) {
            let by = if least == most { calls(*most) } else { format!("{least} to {most} calls") };
            report.evidence.push(format!("{} behind in {}", by, self.group_name()));
        }
        report.evidence.push(format!(
            "{} in no other call by what is known",
            if self.who.len() == 1 { "it is" } else { "they are" }
        ));
        if here.seen_once {
            report.missing.push(
                "a second report of RAS: ranks of a healthy job differ by a call, too, at any one moment (--ras asks twice)"
                    .to_owned(),
            );
        }
        report.remedy = Some(match here.not_begun {
            true => "find out which earlier kernel that GPU still runs".to_owned(),
            false => "find out what that rank does instead: a branch, an exception, data that it waits for".to_owned(),
        });
    }

    fn differs(&self, report: &mut HangReport) {
        let Some((here, differing)) =
            self.here.and_then(|one| Some((one, one.differing.as_ref()?)))
        else {
            return;
        };
        report.verdict = match differing.what {
            What::Operation => Verdict::OtherOperation,
            What::Datatype => Verdict::OtherType,
            What::Size => Verdict::OtherSize,
        };
        // Those of whom nothing is known may be on either side.
        let is_sure = !here.seen_once && here.unknown.is_empty();
        report.confidence = Some(if is_sure { Confidence::Certain } else { Confidence::Likely });
        let sides: Vec<String> = differing
            .calls
            .iter()
            .take(4)
            .map(|(who, made)| format!("{} {}", lower(&self.names([who])), call(made)))
            .collect();
        let what = match differing.what {
            What::Operation => "another operation",
            What::Datatype => "another type",
            What::Size => "another size",
        };
        report.sentence = match differing.even {
            true => format!(
                "{} call number {} with different {}: {}. As many say the one as the other.",
                self.names(&differing.ranks),
                here.call.number,
                match differing.what {
                    What::Operation => "operations",
                    What::Datatype => "types",
                    What::Size => "sizes",
                },
                sides.join(", ")
            ),
            false => format!(
                "{} came to call number {} with {what} than the others: {}.",
                self.names(&differing.ranks),
                here.call.number,
                sides.join(", ")
            ),
        };
        for (who, made) in differing.calls.iter().take(4) {
            if let Some(place) = &made.place {
                report.evidence.push(format!("{} called it at {place}", lower(&self.names([who]))));
            }
        }
        report.remedy = Some("let every rank call the same collectives in the same order with the same sizes: branches and uneven data are the usual reasons".to_owned());
    }

    fn gone(&self, report: &mut HangReport) {
        let died = self.end == End::Died;
        report.verdict = if died { Verdict::Died } else { Verdict::Stopped };
        let how: Vec<&str> = self
            .who
            .iter()
            .filter_map(|who| match &self.evidence.processes.get(who.process?)?.condition {
                Condition::Died(how) | Condition::Stopped(how) => Some(how.as_str()),
                _ => None,
            })
            .collect();
        // An answer that does not come may be the network's.
        let by_ras = how.iter().all(|how| how.contains("RAS"));
        report.confidence = Some(if by_ras { Confidence::Likely } else { Confidence::Certain });
        let one = self.who.len() == 1;
        let verb = match (died, by_ras, one) {
            (true, _, true) => "is gone",
            (true, _, false) => "are gone",
            (false, true, true) => "does not answer",
            (false, true, false) => "do not answer",
            (false, false, true) => "is stopped",
            (false, false, false) => "are stopped",
        };
        let wait = match self.here {
            Some(here)
                if !here.is_message && here.waiting.iter().any(|who| !self.names_it(who)) =>
            {
                let others: Vec<&Who> =
                    here.waiting.iter().filter(|who| !self.names_it(who)).collect();
                format!(
                    "; {} waited{} for {} in {}",
                    lower(&self.names(others)),
                    waited(here.call.waited_ms),
                    if one { "it" } else { "them" },
                    call(&here.call)
                )
            }
            _ => String::new(),
        };
        report.sentence = format!("{} {verb}{wait}.", self.names(self.who));
        report.evidence.extend(how.iter().take(3).map(|how| (*how).to_owned()));
        report.remedy = Some(match died {
            true => "find out why it ended: its own log first, then the kernel's".to_owned(),
            false => "look at that process: a debugger, SIGSTOP, a full disk, or a host that does not answer".to_owned(),
        });
    }

    fn silent(&self, report: &mut HangReport) {
        report.verdict = Verdict::Silent;
        report.confidence = Some(Confidence::Likely);
        let quiet = self.who.iter().filter_map(|who| {
            match self.evidence.processes.get(who.process?)?.condition {
                Condition::Silent(ms) => Some(ms),
                _ => None,
            }
        });
        let quiet = waited(quiet.max());
        let s = if self.who.len() == 1 { "has" } else { "have" };
        report.sentence = format!(
            "{} {s} given no sign for{quiet}: died, or stopped. Not done was {}.",
            self.names(self.who),
            self.wait()
        );
        report.remedy =
            Some("look whether that process is there, and whether its host answers".to_owned());
    }

    fn unknown(&self, report: &mut HangReport) {
        let Some(here) = self.here else { return };
        let absent = self.names(self.who);
        report.missing.push(format!("the files of {}", lower(&absent)));
        // Where most are missing, it is the evidence that has a gap, not the job.
        if self.who.len() >= here.waiting.len().max(1) {
            report.verdict = Verdict::Inconclusive;
            report.ranks.clear();
            report.sentence = format!(
                "{} waited{} in {}; nothing is known of {}, so that nobody can be named.",
                self.names(&here.waiting),
                waited(here.call.waited_ms),
                call(&here.call),
                lower(&absent)
            );
            return;
        }
        report.verdict = Verdict::Silent;
        report.confidence = Some(Confidence::Possible);
        let s = if self.who.len() == 1 { "has" } else { "have" };
        report.sentence = format!(
            "{absent} {s} left no file, while all others wait{} in {}: died, stopped, or the file is missing.",
            waited(here.call.waited_ms),
            call(&here.call)
        );
        report.remedy =
            Some("look whether that process is there, and whether its host answers".to_owned());
    }

    fn circle(&self, report: &mut HangReport) {
        report.verdict = Verdict::WaitInCircle;
        report.confidence = Some(Confidence::Likely);
        let each: Vec<String> = self
            .stuck
            .iter()
            .take(4)
            .map(|one| {
                let group = self.evidence.groups.get(one.group);
                let name = group.map_or("", |group| group.name.as_str());
                format!(
                    "{} in {} of {name}",
                    lower(&named(&one.waiting, self.evidence, group)),
                    call(&one.call)
                )
            })
            .collect();
        report.sentence = format!("Ranks wait for each other: {}.", each.join("; "));
        report.remedy = Some("let all ranks call their communicators in the same order".to_owned());
    }

    fn network(&self, report: &mut HangReport) {
        let Some(here) = self.here else { return };
        report.verdict = Verdict::NetworkStopped;
        let begun = here.call.started == Some(true);
        report.confidence = Some(if begun { Confidence::Likely } else { Confidence::Possible });
        let all = match here.is_message {
            true => "Both ends".to_owned(),
            false => format!("All {} ranks that wait", here.waiting.len()),
        };
        report.sentence = format!(
            "{all} ({}) are in {}{}, and it does not end: what carries it has stopped, or a GPU.",
            lower(&self.names(&here.waiting)),
            call(&here.call),
            match here.call.waited_ms {
                Some(_) => format!(" since{}", waited(here.call.waited_ms)),
                None => String::new(),
            }
        );
        report.evidence.push(
            "all ranks came with the same call, and none is gone by what is known".to_owned(),
        );
        report
            .missing
            .push("the counters of the hosts' links, and NCCL's log (NCCL_DEBUG=INFO)".to_owned());
        report.remedy = Some(
            "look for links that are down, and for errors of ports and GPUs, on these hosts"
                .to_owned(),
        );
    }

    fn group_name(&self) -> String {
        self.here
            .and_then(|one| self.evidence.groups.get(one.group))
            .map_or_else(String::new, |group| format!("{}, by {}", group.name, group.source.name()))
    }

    /// Process, host and what to look at.
    fn about_processes(&self, report: &mut HangReport) {
        let known = report.ranks.iter().filter_map(|one| Some((one, one.host.as_ref()?, one.pid?)));
        let known: Vec<(String, String, u32)> = known
            .map(|(one, host, pid)| {
                let rank = one.rank.map_or(
                    format!("rank {} of the communicator", one.rank_in_communicator),
                    |rank| format!("rank {rank}"),
                );
                (rank, host.clone(), pid)
            })
            .collect();
        for (rank, host, pid) in known.iter().take(3) {
            report.evidence.push(format!("{rank} is process {pid} on {host}"));
        }
        let first = known.first();
        let on = |command: &str| match first {
            Some((_, host, pid)) => {
                format!("on {host}: {}", command.replace("PID", &pid.to_string()))
            }
            None => format!("on the host of {}: {command}", lower(&self.names(self.who))),
        };
        report.confirm = Some(match report.verdict {
            Verdict::NeverCame | Verdict::OtherOperation | Verdict::OtherSize | Verdict::OtherType => on("py-spy dump --pid PID"),
            Verdict::Died => on("dmesg -T | grep -iE 'killed process|xid|segfault' | tail"),
            Verdict::Stopped | Verdict::Silent => on("ps -o pid,stat,wchan:32,etime,cmd -p PID"),
            Verdict::NetworkStopped => {
                "on each host: busbw doctor, which reads the counters of its ports; then busbw pairs between them".to_owned()
            }
            Verdict::WaitInCircle => "py-spy dump --pid PID of one rank of each side".to_owned(),
            Verdict::Progressing | Verdict::NothingWaits | Verdict::Inconclusive => return,
        });
    }

    /// What holds for every verdict.
    fn common(&self, report: &mut HangReport) {
        if let Some(place) = self.here.and_then(|one| one.call.place.as_ref()) {
            report.evidence.push(format!("the program called it at {place}"));
        }
        if let Some(here) = self.here
            && !here.unknown.is_empty()
            && !matches!(self.end, End::Unknown)
        {
            let others: Vec<&Who> = here.unknown.iter().filter(|who| !self.names_it(who)).collect();
            if !others.is_empty() {
                report.missing.push(format!("the files of {}", lower(&self.names(others))));
            }
        }
        let others = self.stuck.len().saturating_sub(1);
        if others > 0 {
            let communicators = if others == 1 {
                "1 other call waits".to_owned()
            } else {
                format!("{others} other calls wait")
            };
            report.evidence.push(format!("{communicators}, {} processes in all", report.waiting));
        }
        let source =
            self.here.and_then(|one| self.evidence.groups.get(one.group)).map(|one| one.source);
        if source == Some(Source::FlightRecorder)
            && self.here.is_some_and(|one| one.call.waited_ms.is_none())
        {
            report.missing.push("since when: the times at which the files were written".to_owned());
        }
    }
}

fn said(one: &Stuck) -> CallSaid {
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
