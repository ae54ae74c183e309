//! From what hosts say of themselves to lines: the findings of each host's doctor, and the facts in which hosts differ.
//! Not reading hosts, and nothing is measured.
//!
//! An error of a host's doctor is a fault of that host. What only costs speed is one where at most half of the hosts have
//! it: a cluster that is slow in the same way everywhere runs its jobs, and a gate must not close it. A fact in which a
//! host differs from most others is a fault of that host; without a majority, all hosts that differ are named.

use std::collections::{BTreeMap, BTreeSet};

use busbw_core::{
    finding::{Finding, Severity},
    quantity::count,
};

use super::report::{Check, CheckLine, Subject, Verdict};

/// What the hosts say of themselves, read once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Survey {
    /// Every host that answered, in the order of their first ranks.
    pub hosts: Vec<HostFindings>,
    /// The facts in which they differ.
    pub differing: Vec<Differing>,
    /// Why others use the GPUs or the network, if they do: a sentence for each host.
    pub in_use: Vec<String>,
}

/// A host and its doctor's findings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostFindings {
    /// Its name.
    pub host: String,
    /// The findings.
    pub findings: Vec<Finding>,
}

/// A fact in which hosts differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Differing {
    /// Which.
    pub fact: String,
    /// What a difference in it means: an error, slow, or a note.
    pub severity: Severity,
    /// Values and those that have them, the most frequent first; none where it cannot be read.
    pub groups: Vec<(Option<String>, Vec<String>)>,
    /// What it costs.
    pub remedy: Option<String>,
    /// The command that confirms it.
    pub confirm: Option<String>,
}

/// A fault of one reading.
#[derive(Debug, Clone, PartialEq)]
struct Fault {
    check: Check,
    subject: Option<Subject>,
    /// What the same fault has in every reading.
    key: String,
    text: String,
    remedy: Option<String>,
    confirm: Option<String>,
    /// Whether it is a fact that could not be read: no fault of a host.
    unread: bool,
}

impl Fault {
    fn same(&self, other: &Fault) -> bool {
        (self.check, &self.subject, &self.key) == (other.check, &other.subject, &other.key)
    }
}

/// Whether this reading has something that a second one must confirm.
pub(super) fn has_faults(survey: &Survey) -> bool {
    faults(survey).iter().any(|fault| !fault.unread)
}

/// The lines of two checks, from one reading, or from two where the first one has faults.
pub(super) fn lines(first: &Survey, second: Option<&Survey>) -> Vec<CheckLine> {
    let again = second.map(faults).unwrap_or_default();
    let mut lines = Vec::new();
    let found = faults(first);
    for fault in &found {
        let measured = 1 + u32::from(again.iter().any(|other| other.same(fault)));
        let Fault { check, subject, text, remedy, confirm, unread, .. } = fault.clone();
        let line = match (unread, second) {
            (true, _) => CheckLine::new(check, Verdict::CannotTell, text),
            // It went away by itself.
            (_, Some(_)) if measured == 1 => {
                let text = format!("{text}; a second reading did not show it");
                CheckLine { measured, ..CheckLine::new(check, Verdict::Pass, text) }
            }
            (_, None) => CheckLine::fault(check, 1, format!("{text}; it was read once")),
            _ => CheckLine::fault(check, measured, text),
        };
        lines.push(line.of(subject).advice(remedy, confirm));
    }
    for check in [Check::Doctor, Check::Settings] {
        if lines.iter().all(|line| line.check != check || line.verdict == Verdict::Pass) {
            lines.push(CheckLine::new(check, Verdict::Pass, summary(check, first)));
        }
    }
    lines.sort_by_key(|line| (line.check, line.verdict != Verdict::Fail));
    lines
}

/// What is said of a check without a fault.
fn summary(check: Check, survey: &Survey) -> String {
    let hosts = count(survey.hosts.len() as u64, "host");
    let noted: Vec<String> = match check {
        Check::Doctor => noted_findings(survey),
        _ => survey.differing.iter().filter(|one| !is_wrong(one.severity)).map(spread).collect(),
    };
    let said = match (check, survey.hosts.len()) {
        (Check::Doctor, _) => format!("{hosts}: no fault"),
        (_, 0 | 1) => format!("{hosts}: nothing to compare"),
        _ => format!("{hosts}: no difference that matters"),
    };
    match noted.is_empty() {
        true => said,
        false => format!("{said}; noted: {}", noted.join("; ")),
    }
}

fn is_wrong(severity: Severity) -> bool {
    severity.is_wrong()
}

/// What costs speed on most hosts alike, and does not block.
fn noted_findings(survey: &Survey) -> Vec<String> {
    let kinds = kinds(survey);
    let most = kinds.iter().filter(|(_, on)| is_common(on.len(), survey.hosts.len()));
    let one = |((_, _), on): (&Kind, &BTreeSet<usize>)| {
        let at = *on.first()?;
        let host = survey.hosts.get(at)?;
        let finding =
            host.findings.iter().find(|f| on.contains(&at) && f.severity == Severity::Slow)?;
        Some(format!("{} ({} of {} hosts)", phrase(finding), on.len(), survey.hosts.len()))
    };
    let mut all: Vec<String> = most.filter_map(one).collect();
    all.dedup();
    all
}

/// A rule, and its cause without numbers: what a finding has in common with that of another host.
type Kind = (String, String);

fn kind(finding: &Finding) -> Kind {
    let plain = |text: &str| -> String {
        let digits = text.chars().map(|c| if c.is_ascii_digit() { '#' } else { c });
        let mut kept: String = digits.collect();
        while kept.contains("##") {
            kept = kept.replace("##", "#");
        }
        kept
    };
    (finding.rule.to_string(), plain(&finding.cause))
}

/// The kinds of findings that cost speed, with the places of the hosts that have them.
fn kinds(survey: &Survey) -> BTreeMap<Kind, BTreeSet<usize>> {
    let mut kinds: BTreeMap<Kind, BTreeSet<usize>> = BTreeMap::new();
    for (at, host) in survey.hosts.iter().enumerate() {
        for finding in host.findings.iter().filter(|f| costs(f)) {
            kinds.entry(kind(finding)).or_default().insert(at);
        }
    }
    kinds
}

fn costs(finding: &Finding) -> bool {
    finding.severity.is_wrong() && finding.severity < Severity::Error
}

/// Whether so many hosts have it that it is the state of the cluster. A lone host has no others to differ from.
fn is_common(on: usize, hosts: usize) -> bool {
    2 * on > hosts
}

fn phrase(finding: &Finding) -> String {
    match finding.subject.is_empty() {
        true => finding.cause.clone(),
        false => format!("{}: {}", finding.subject, finding.cause),
    }
}

fn faults(survey: &Survey) -> Vec<Fault> {
    let kinds = kinds(survey);
    let mut all = Vec::new();
    for host in &survey.hosts {
        for finding in &host.findings {
            let common =
                kinds.get(&kind(finding)).is_some_and(|on| is_common(on.len(), survey.hosts.len()));
            if finding.severity < Severity::Error && (!costs(finding) || common) {
                continue;
            }
            let cost = finding.cost.as_ref().map_or(String::new(), |cost| format!(" ({cost})"));
            let (rule, cause) = kind(finding);
            all.push(Fault {
                check: Check::Doctor,
                subject: Some(Subject::host(&host.host)),
                key: format!("{rule} {} {cause}", finding.subject),
                text: phrase(finding) + &cost,
                remedy: finding.remedy.clone(),
                confirm: finding.confirm.clone(),
                unread: false,
            });
        }
    }
    all.extend(survey.differing.iter().filter(|one| is_wrong(one.severity)).flat_map(differing));
    all
}

/// The faults of one fact: a fault for each host or rank outside of the majority.
fn differing(one: &Differing) -> Vec<Fault> {
    let fault = |subject: Subject, text: String, unread: bool| Fault {
        check: Check::Settings,
        key: one.fact.clone(),
        subject: Some(subject),
        text,
        remedy: one.remedy.clone(),
        confirm: one.confirm.clone(),
        unread,
    };
    let Some((usual, others)) = majority(one) else {
        let hosts: BTreeSet<String> =
            one.groups.iter().flat_map(|(_, who)| who.iter().cloned()).collect();
        let unread = one.groups.iter().any(|(value, _)| is_unread(one, value));
        return vec![fault(
            Subject::Hosts { hosts: hosts.into_iter().collect() },
            spread(one),
            unread,
        )];
    };
    let outlying =
        one.groups.iter().skip(1).flat_map(|(value, who)| who.iter().map(move |w| (value, w)));
    outlying
        .map(|(value, who)| {
            let have = if others == 1 { "other has" } else { "others have" };
            let text = format!(
                "{} {} where {others} {have} {}",
                one.fact,
                shown(one, value),
                shown(one, usual)
            );
            // A rank's name begins with its host's.
            let subject = match who.contains(" rank ") || who.starts_with("rank ") {
                true => Subject::Rank { rank: who.clone() },
                false => Subject::host(who),
            };
            fault(subject, text, is_unread(one, value) || is_unread(one, usual))
        })
        .collect()
}

/// A library that is missing, and a setting that is not set, are facts. Any other fact without a value could not be read.
fn is_unread(one: &Differing, value: &Option<String>) -> bool {
    value.is_none() && one.severity < Severity::Error
}

fn majority(one: &Differing) -> Option<(&Option<String>, usize)> {
    let (value, members) = one.groups.first()?;
    let next = one.groups.get(1).map_or(0, |(_, members)| members.len());
    (members.len() > next).then_some((value, members.len()))
}

fn shown<'a>(one: &Differing, value: &'a Option<String>) -> &'a str {
    match value {
        Some(value) => value,
        None if one.fact.starts_with("NCCL_") => "unset",
        None if one.severity >= Severity::Error => "missing",
        None => "unknown",
    }
}

/// Every value of a fact, with those that have it.
fn spread(one: &Differing) -> String {
    let each = one.groups.iter().map(|(value, who)| {
        format!("{} on {}", shown(one, value), busbw_core::quantity::ranged(who))
    });
    format!("{} {}", one.fact, each.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests;
