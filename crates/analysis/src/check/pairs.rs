//! From launches of `busbw pairs` to lines: a subject that two of them name is at fault.
//! Not the verdict on one launch (`busbw_core::pairs`).

use std::collections::BTreeSet;

use busbw_core::{
    messages::Messages,
    pairs::{
        assessment::{PairsAssessment, SlowSubject, Why},
        subject::Subject as Slow,
    },
    quantity::rate,
};

use super::{
    collective::Failure,
    report::{Check, CheckLine, Figure, Subject, TWICE, Verdict},
};

/// One launch of pairs.
#[derive(Debug, Clone, PartialEq)]
pub struct PairsLaunch {
    /// A matrix for each test, or why there is none.
    pub outcome: Result<Vec<Look>, Failure>,
    /// Seconds that it took.
    pub took_s: f64,
}

/// A matrix's verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Latency or bandwidth.
    pub test: Messages,
    /// The names of the ranks.
    pub labels: Vec<String>,
    /// The verdict on it.
    pub verdict: PairsAssessment,
}

impl PairsLaunch {
    /// Whether it names somebody, so that a second launch must decide.
    pub(super) fn suspects(&self) -> bool {
        self.outcome
            .as_ref()
            .is_ok_and(|looks| looks.iter().any(|look| !look.verdict.slow.is_empty()))
    }
}

impl PairsLaunch {
    /// Whether it cannot be judged since something disturbed it, which another launch may escape.
    pub(super) fn is_disturbed(&self) -> bool {
        self.outcome.as_ref().is_ok_and(|looks| {
            looks.iter().any(|look| {
                look.verdict.slow.is_empty()
                    && look.verdict.unjudged.iter().any(|open| open.why == Why::Disturbed)
            })
        })
    }

    /// The only test that names somebody; none where several do, or none.
    pub(super) fn only_suspect(&self) -> Option<Messages> {
        let looks = self.outcome.as_ref().ok()?;
        let mut suspects = looks.iter().filter(|look| !look.verdict.slow.is_empty());
        let first = suspects.next()?;
        (looks.len() > 1 && suspects.next().is_none()).then_some(first.test)
    }
}

/// Whether one more launch may decide: the first failed, or somebody is named by one launch alone.
pub(super) fn is_open(launches: &[PairsLaunch]) -> bool {
    let Some((first, later)) = launches.split_first() else { return false };
    match &first.outcome {
        Err(Failure::Job { .. }) => later.is_empty(),
        Err(Failure::Tool(_)) => false,
        Ok(_) => {
            let is_judged = |launch: &PairsLaunch| launch.outcome.is_ok() && !launch.is_disturbed();
            first.suspects()
                && later.iter().all(is_judged)
                && lines(launches).iter().any(|line| line.measured < TWICE)
        }
    }
}

/// The lines of a launch, and of later ones where it names somebody: of three launches, two decide.
pub(super) fn lines(launches: &[PairsLaunch]) -> Vec<CheckLine> {
    let took_s = launches.iter().map(|launch| launch.took_s).sum();
    let Some((first, later)) = launches.split_first() else { return Vec::new() };
    let looks = match &first.outcome {
        Ok(looks) => looks,
        Err(Failure::Tool(why)) => {
            return vec![CheckLine {
                took_s,
                ..CheckLine::new(Check::Pairs, Verdict::CannotTell, why)
            }];
        }
        Err(Failure::Job { text, who }) => {
            let subject = who.as_ref().map(|who| Subject::host(&who.host));
            let again = later.iter().any(|launch| {
                matches!(&launch.outcome, Err(Failure::Job { who: other, .. })
                    if other.as_ref().map(|w| &w.host) == who.as_ref().map(|w| &w.host))
            });
            let line = CheckLine::fault(Check::Pairs, 1 + u32::from(again), text.clone());
            return vec![CheckLine { took_s, ..line.of(subject) }];
        }
    };
    let is_first = true;
    let mut lines: Vec<CheckLine> =
        looks.iter().flat_map(|look| named(look, later, is_first)).collect();
    // Whom the first launch does not name, and two later ones do.
    for (at, launch) in later.iter().enumerate() {
        let looks = launch.outcome.iter().flatten();
        let found = looks.flat_map(|look| named(look, &later[at + 1..], !is_first));
        let found: Vec<CheckLine> = found.filter(|line| line.measured >= TWICE).collect();
        for line in found {
            match lines.iter_mut().find(|known| known.subject == line.subject) {
                Some(known) if known.measured >= TWICE => {}
                Some(known) => *known = line,
                None => lines.push(line),
            }
        }
    }
    if lines.is_empty() {
        lines.push(nobody(looks));
    }
    if let Some(line) = lines.first_mut() {
        line.took_s = took_s;
    }
    lines
}

/// What a later launch says of a subject.
enum Again {
    /// It names it, too.
    Same,
    /// It names none but these.
    Others(Vec<String>),
    /// It was disturbed, and could not judge the test, or the subject's class in it.
    Disturbed,
    /// It failed.
    Failed(String),
}

fn again(look: &Look, slow: &SlowSubject, launch: &PairsLaunch) -> Again {
    let looks = match &launch.outcome {
        Ok(looks) => looks.iter().filter(|other| other.test == look.test).collect::<Vec<&Look>>(),
        Err(Failure::Tool(why) | Failure::Job { text: why, .. }) => {
            return Again::Failed(why.clone());
        }
    };
    let named: Vec<&SlowSubject> = looks.iter().flat_map(|other| &other.verdict.slow).collect();
    if named.iter().any(|other| is_same(look, slow, other)) {
        return Again::Same;
    }
    let mut unjudged = looks.iter().flat_map(|other| &other.verdict.unjudged);
    let is_unjudged = unjudged.any(|open| {
        open.why == Why::Disturbed && slow.class.as_ref().is_none_or(|of| *of == open.class)
    });
    match is_unjudged {
        true => Again::Disturbed,
        false => {
            let name = |other: &&SlowSubject| subject(other.subject, look).to_string();
            Again::Others(named.iter().map(name).collect())
        }
    }
}

/// The lines of the subjects that a matrix names, of the first launch or of a later one.
fn named(look: &Look, later: &[PairsLaunch], is_first: bool) -> Vec<CheckLine> {
    let sentences = look.verdict.findings(&look.labels);
    let line = |(slow, finding): (&SlowSubject, busbw_core::finding::Finding)| {
        let said: Vec<Again> = later.iter().map(|launch| again(look, slow, launch)).collect();
        verdict(look, &finding.cause, &said, is_first)
            .of(Some(subject(slow.subject, look)))
            .figure(figure(look, slow))
            .advice(finding.remedy, finding.confirm)
    };
    look.verdict.slow.iter().zip(sentences).map(line).collect()
}

/// The line of a subject, from what later launches say of it.
fn verdict(look: &Look, cause: &str, said: &[Again], is_first: bool) -> CheckLine {
    let text = format!("{}: {cause}", look.test.name());
    let once =
        |verdict, text| CheckLine { measured: 1, ..CheckLine::new(Check::Pairs, verdict, text) };
    if let Some(at) = said.iter().position(|again| matches!(again, Again::Same)) {
        let also = match &said[..at] {
            _ if !is_first => "two later launches name it, which the first did not",
            [] => "a second launch names it, too",
            [Again::Others(_), ..] => "a third launch names it, too, which the second did not",
            _ => "a later launch names it, too",
        };
        // Two ranks have two cells, and other work on the one host shows as one that is slow.
        if look.labels.len() < 3 {
            let text = format!(
                "{text}; {also}, but two ranks have nothing else to be held against: check three or more"
            );
            let line = CheckLine::new(Check::Pairs, Verdict::CannotTell, text);
            return CheckLine { measured: TWICE, ..line };
        }
        return CheckLine::fault(Check::Pairs, TWICE, format!("{text}; {also}"));
    }
    if let Some(why) = said.iter().find_map(|again| match again {
        Again::Failed(why) => Some(why),
        _ => None,
    }) {
        let launch = if said.len() == 1 { "a second launch" } else { "a later launch" };
        return CheckLine::fault(Check::Pairs, 1, format!("{text}; {launch} failed: {why}"));
    }
    let instead = said.iter().filter_map(|again| match again {
        Again::Others(names) => Some(names),
        _ => None,
    });
    let instead: Vec<&Vec<String>> = instead.collect();
    if !instead.is_empty() {
        let launches = match (said.len(), instead.len()) {
            (1, _) => "a second launch".to_owned(),
            (_, 1) => "a later launch".to_owned(),
            (_, count) => format!("{count} more launches"),
        };
        let names: BTreeSet<&str> = instead.into_iter().flatten().map(String::as_str).collect();
        let others = match names.is_empty() {
            true => String::new(),
            false => format!(" and named {}", names.into_iter().collect::<Vec<_>>().join(", ")),
        };
        return once(Verdict::Pass, format!("{text}; {launches} did not find it{others}"));
    }
    match said.is_empty() {
        false => {
            let text =
                format!("{text}; the second launch was disturbed, and nothing can be said of it");
            once(Verdict::CannotTell, text)
        }
        true => {
            let text = format!("{text}; there was no time to measure it again");
            CheckLine::fault(Check::Pairs, 1, text)
        }
    }
}

/// Whether two launches name the same: one's subject, or one that its figures do not tell from it, is the other's.
fn is_same(look: &Look, one: &SlowSubject, other: &SlowSubject) -> bool {
    let all = |slow: &SlowSubject| -> BTreeSet<Slow> {
        slow.alternatives.iter().copied().chain([slow.subject]).collect()
    };
    let (ours, theirs) = (all(one), all(other));
    if ours.intersection(&theirs).next().is_some() {
        return true;
    }
    // A rank that the second launch names only as sender is the same rank; two cells of a row are not one fault.
    let wide = |slow: Slow| {
        !matches!(
            slow,
            Slow::Cell { .. } | Slow::Link { .. } | Slow::Path { .. } | Slow::Paths { .. }
        )
    };
    let ranks = |slow: Slow| slow.ranks(&look.verdict.hosts);
    wide(one.subject) && wide(other.subject) && ranks(one.subject) == ranks(other.subject)
}

fn subject(slow: Slow, look: &Look) -> Subject {
    let rank =
        |rank: usize| look.labels.get(rank).cloned().unwrap_or_else(|| format!("rank {rank}"));
    let host = |host: usize| {
        let at = look.verdict.hosts.iter().position(|of| *of == host);
        let label = at.and_then(|at| look.labels.get(at));
        label
            .and_then(|label| label.split_whitespace().next())
            .map_or_else(|| format!("host {host}"), str::to_owned)
    };
    match slow {
        Slow::Cell { from, to } => Subject::Link { from: rank(from), to: rank(to), both: false },
        Slow::Link { between: [a, b] } => Subject::Link { from: rank(a), to: rank(b), both: true },
        Slow::Path { from, to } => Subject::Link { from: host(from), to: host(to), both: false },
        Slow::Paths { between: [a, b] } => Subject::Link { from: host(a), to: host(b), both: true },
        Slow::Sender { rank: r } | Slow::Receiver { rank: r } | Slow::Rank { rank: r } => {
            Subject::Rank { rank: rank(r) }
        }
        Slow::HostSends { host: h } | Slow::HostReceives { host: h } | Slow::Host { host: h } => {
            Subject::host(host(h))
        }
    }
}

/// Its level, as its class's normal level and its slowdown give it.
fn figure(look: &Look, slow: &SlowSubject) -> Option<Figure> {
    let unit = look.verdict.unit;
    let named = |name: &String| look.verdict.levels.iter().find(|level| level.class == *name);
    let level = slow.class.as_ref().and_then(named).or_else(|| look.verdict.levels.last())?;
    let part = slow.slower_percent / 100.0;
    let value = level.value * if unit.more_is_better() { 1.0 - part } else { 1.0 + part };
    Some(Figure { value, unit: unit.name().to_owned(), size: None, wanted: Some(level.value) })
}

/// The line of matrices that name nobody.
fn nobody(looks: &[Look]) -> CheckLine {
    let judged = |look: &Look| look.verdict.unjudged.len() < look.verdict.levels.len();
    let levels = looks.iter().flat_map(|look| {
        let unit = look.verdict.unit.name();
        look.verdict.levels.iter().map(move |level| {
            format!("{} {} {unit} {}", look.test.name(), rate(level.value), level.class)
        })
    });
    let normal = levels.collect::<Vec<_>>().join(", ");
    let sentences = looks.iter().flat_map(|look| look.verdict.sentences(&look.labels));
    match looks.iter().any(judged) {
        true => {
            let text = format!("no rank, link or host is slower than the others; normal: {normal}");
            CheckLine::new(Check::Pairs, Verdict::Pass, text)
        }
        false => {
            let why = sentences.take(1).collect::<String>();
            let why = if why.is_empty() { "no pair was measured".to_owned() } else { why };
            CheckLine::new(Check::Pairs, Verdict::CannotTell, why)
        }
    }
}

#[cfg(test)]
mod tests {
    use busbw_core::pairs::{
        Unit,
        assessment::{Basis, Level},
    };

    use super::*;

    fn level(class: &str) -> Level {
        Level {
            class: class.to_owned(),
            value: 50.0,
            spread_percent: Some(1.0),
            cells: 12,
            samples: 9,
        }
    }

    fn launch(slow: &[(Slow, &[Slow])]) -> PairsLaunch {
        let of = |(subject, alternatives): &(Slow, &[Slow])| SlowSubject {
            subject: *subject,
            alternatives: alternatives.to_vec(),
            class: None,
            slower_percent: 20.0,
            longer_us: None,
            slow_cells: 6,
            cells: 6,
            confidence: 0.9999,
        };
        let verdict = PairsAssessment {
            basis: Basis::Retest,
            unit: Unit::GigabytesPerSecond,
            hosts: vec![0, 1, 2, 3],
            levels: vec![level("between hosts")],
            slow: slow.iter().map(of).collect(),
            unjudged: Vec::new(),
            cleared: Vec::new(),
        };
        let labels = ["a", "b", "c", "d"].map(|host| format!("{host} core 0")).to_vec();
        let look = Look { test: Messages::Bandwidth, labels, verdict };
        PairsLaunch { outcome: Ok(vec![look]), took_s: 3.0 }
    }

    const RANK: Slow = Slow::Rank { rank: 2 };

    #[test]
    fn a_subject_that_two_launches_name_is_at_fault() {
        let first = launch(&[(RANK, &[])]);
        let found = lines(&[first.clone(), launch(&[(RANK, &[])])]);
        assert_eq!(found.len(), 1);
        assert!(found[0].blocks());
        assert_eq!(found[0].subject, Some(Subject::Rank { rank: "c core 0".to_owned() }));
        assert_eq!(found[0].took_s, 6.0);
        let figure = found[0].figure.clone().unwrap();
        assert_eq!((figure.value, figure.wanted), (40.0, Some(50.0)));
        let as_sender = lines(&[first, launch(&[(Slow::Sender { rank: 2 }, &[])])]);
        assert!(as_sender[0].blocks());
    }

    /// On a host with other work, one of two directions may be slower in both launches.
    #[test]
    fn two_ranks_block_nothing() {
        let cell = Slow::Cell { from: 0, to: 1 };
        let of_two = || {
            let mut launch = launch(&[(cell, &[])]);
            let look = &mut launch.outcome.as_mut().unwrap()[0];
            look.labels.truncate(2);
            look.verdict.hosts.truncate(2);
            launch
        };
        let found = lines(&[of_two(), of_two()]);
        assert_eq!((found[0].verdict, found[0].measured), (Verdict::CannotTell, 2), "{found:?}");
    }

    #[test]
    fn another_subject_in_the_second_launch_clears_it() {
        let first = launch(&[(RANK, &[])]);
        for (other, named) in
            [(launch(&[]), ""), (launch(&[(Slow::Rank { rank: 1 }, &[])]), " and named b core 0")]
        {
            let found = lines(&[first.clone(), other]);
            assert_eq!((found[0].verdict, found[0].measured), (Verdict::Pass, 1), "{found:?}");
            let wanted = format!("a second launch did not find it{named}");
            assert!(found[0].text.ends_with(&wanted), "{found:?}");
        }
        let cells = [Slow::Cell { from: 2, to: 0 }, Slow::Cell { from: 2, to: 1 }];
        let apart = lines(&[launch(&[(cells[0], &[])]), launch(&[(cells[1], &[])])]);
        assert!(!apart[0].blocks());
        let alike = lines(&[launch(&[(cells[0], &[cells[1]])]), launch(&[(cells[1], &[])])]);
        assert!(alike[0].blocks());
    }

    #[test]
    fn of_three_launches_two_decide() {
        let (rank, other) = (launch(&[(RANK, &[])]), launch(&[(Slow::Rank { rank: 1 }, &[])]));
        let nobody = launch(&[]);
        for (launches, whom) in [
            ([&rank, &nobody, &rank], Some("c core 0")),
            ([&rank, &other, &other], Some("b core 0")),
            ([&rank, &other, &nobody], None),
            ([&rank, &nobody, &nobody], None),
        ] {
            let launches = launches.map(PairsLaunch::clone);
            assert!(is_open(&launches[..1]) && is_open(&launches[..2]));
            let found = lines(&launches);
            let blocking = found.iter().filter(|line| line.blocks());
            let subjects: Vec<String> = blocking
                .filter_map(|line| line.subject.as_ref().map(ToString::to_string))
                .collect();
            assert_eq!(subjects, whom.map(str::to_owned).into_iter().collect::<Vec<_>>());
        }
        assert!(!is_open(&[rank.clone(), rank.clone()]) && !is_open(std::slice::from_ref(&nobody)));
        // A third launch that fails clears nobody.
        let failed =
            PairsLaunch { outcome: Err(Failure::Tool("ssh failed".to_owned())), took_s: 1.0 };
        let found = lines(&[rank, nobody, failed]);
        assert_eq!((found[0].verdict, found[0].measured), (Verdict::CannotTell, 1), "{found:?}");
        assert!(found[0].text.ends_with("a later launch failed: ssh failed"), "{found:?}");
    }

    #[test]
    fn without_a_second_launch_nothing_blocks() {
        let first = launch(&[(RANK, &[])]);
        assert!(first.suspects());
        let failed =
            PairsLaunch { outcome: Err(Failure::Tool("ssh failed".to_owned())), took_s: 1.0 };
        for launches in [vec![first.clone()], vec![first, failed.clone()]] {
            let found = lines(&launches);
            assert_eq!((found[0].verdict, found[0].measured), (Verdict::CannotTell, 1));
        }
        assert_eq!(lines(&[failed])[0].verdict, Verdict::CannotTell);
    }

    #[test]
    fn nobody_is_a_pass_with_the_levels() {
        let found = lines(&[launch(&[])]);
        assert_eq!(found[0].verdict, Verdict::Pass);
        assert_eq!(
            found[0].text,
            "no rank, link or host is slower than the others; normal: bw 50.00 GB/s between hosts"
        );
    }
}
