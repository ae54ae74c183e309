//! The words of each kind of verdict: a sentence, what it rests on, what is missing, and what to do.
//! Not which verdict it is (`report`).

use std::collections::BTreeSet;

use busbw_core::finding::Confidence;
use busbw_logs::hang::{BY_RAS, Condition, Evidence, Source};

use super::assess::{Stuck, Who};
use super::chain::End;
use super::report::{Blamed, HangReport, MAX_LISTED, Verdict, said};
use super::words::{call, calls, lower, named, waited};

/// A verdict about somebody or something, before its words.
pub(super) struct Case<'a> {
    pub evidence: &'a Evidence,
    pub stuck: &'a [&'a Stuck],
    /// The communicator that the verdict is about.
    pub here: Option<&'a Stuck>,
    /// Who is to blame, sorted.
    pub who: &'a [Who],
    pub end: End,
}

impl Case<'_> {
    /// Writes the words into the report.
    pub fn write(&self, report: &mut HangReport) {
        report.communicator = self
            .here
            .and_then(|one| self.evidence.groups.get(one.group))
            .map(|group| group.name.clone());
        report.call = self.here.map(said);
        if !matches!(self.end, End::Network | End::Circle) {
            report.ranks = self.who.iter().take(MAX_LISTED).map(|who| self.blamed(who)).collect();
        }
        match self.end {
            End::Differs | End::Differed => self.differs(report),
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

    pub(super) fn names<'b>(&self, all: impl IntoIterator<Item = &'b Who> + Clone) -> String {
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
            let why = match here.call.end_unknown {
                true => {
                    "whether the call stands: its kernel was not timed, and a slow job looks alike; look again in some seconds, or ask NCCL's RAS (--ras)"
                }
                false => {
                    "a second report of RAS: ranks of a healthy job differ by a call, too, at any one moment (--ras asks twice)"
                }
            };
            report.missing.push(why.to_owned());
        }
        report.remedy = Some(match here.not_begun {
            true => "find out which earlier kernel that GPU still runs".to_owned(),
            false => "find out what that rank does instead: a branch, an exception, data that it waits for".to_owned(),
        });
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
        // An answer that does not come may be the network's, and another host may have this one's name.
        let by_ras = how.iter().all(|how| how.starts_with(BY_RAS));
        let is_sure =
            !how.iter().all(|how| how.starts_with(BY_RAS) || how.contains("that has this name"));
        report.confidence = Some(if is_sure { Confidence::Certain } else { Confidence::Likely });
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

    /// Who else tells of the communicator.
    fn other_sources(&self, report: &mut HangReport) {
        let Some(here) =
            self.here.and_then(|one| Some((one.group, self.evidence.groups.get(one.group)?)))
        else {
            return;
        };
        let others: Vec<String> = self
            .evidence
            .groups
            .iter()
            .enumerate()
            .filter(|(at, one)| *at != here.0 && one.communicator == here.1.communicator)
            .map(|(_, one)| format!("{} of {}", one.name, one.source.name()))
            .collect();
        if !others.is_empty() {
            report.evidence.push(format!("it is {}", others.join(" and ")));
        }
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
        self.other_sources(report);
        report.evidence.extend(self.differed_before());
        let own = self.here.is_some_and(|one| !one.is_over);
        let waiting = self.stuck.iter().filter(|one| !one.is_over).count();
        let others = waiting.saturating_sub(usize::from(own));
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
            && self.here.is_some_and(|one| !one.is_over && one.call.waited_ms.is_none())
        {
            report.missing.push("since when: the times at which the files were written".to_owned());
        }
    }
}
