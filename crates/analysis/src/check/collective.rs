//! From launches of one collective to its line: whether it ran, whether its data are right, and how fast it was.
//! Not whether that is fast enough (`limit`, `baseline`).

use busbw_core::quantity::{bytes, rate, time};
use busbw_stats::median;

use super::report::{Check, CheckLine, Figure, Subject, TWICE, Verdict};
use crate::comparison::{Point, Side, Times};

/// One launch, with fresh processes on every host.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectiveLaunch {
    /// What it gave.
    pub outcome: Result<CollectiveFigures, Failure>,
    /// Seconds that it took.
    pub took_s: f64,
}

/// The figures of a launch that completed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CollectiveFigures {
    /// Its points.
    pub side: Side,
    /// Its ranks.
    pub ranks: usize,
    /// Its largest size against what the hardware allows, or what is missing to tell.
    pub limit: Option<Result<LimitShare, String>>,
}

/// A figure against its limit.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitShare {
    /// Bytes.
    pub size: u64,
    /// Bus bandwidth, GB/s.
    pub busbw: f64,
    /// The limit, GB/s.
    pub limit: f64,
    /// Percent of the limit.
    pub percent: f64,
    /// The part of the hardware that sets it.
    pub set_by: String,
}

/// Why a launch gave no figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The tool failed: the launcher, the rendezvous, the end of the time. No host is at fault.
    Tool(String),
    /// The job began and failed: data were wrong, a library failed, a rank was lost or did not answer.
    Job {
        /// What happened.
        text: String,
        /// The rank that it names.
        who: Option<Who>,
    },
}

/// A rank and its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    /// Its number.
    pub rank: usize,
    /// Its host.
    pub host: String,
}

/// The points of all launches that gave figures, as one side in launch order.
pub(super) fn side(launches: &[&CollectiveFigures]) -> Side {
    let mut all = Side { name: "this check".to_owned(), ..Side::default() };
    for launch in launches {
        for (point, times) in &launch.side.points {
            let known = all
                .points
                .entry(point.clone())
                .or_insert_with(|| Times { launches_us: Vec::new(), ..times.clone() });
            known.launches_us.extend(&times.launches_us);
            known.wrong += times.wrong;
        }
    }
    for (point, times) in &mut all.points {
        let Some(usual) = median(&times.launches_us) else { continue };
        let first = launches.iter().find_map(|launch| launch.side.points.get(point));
        times.busbw = first.and_then(|first| Some(first.busbw? * first.time_us / usual));
        times.time_us = usual;
    }
    all
}

/// The point that stands for a collective: the largest size, out of place before in place.
pub(super) fn largest(side: &Side) -> Option<(&Point, &Times)> {
    side.points.iter().max_by_key(|(point, _)| (point.size, !point.in_place))
}

/// The line of the collective.
pub(super) fn line(launches: &[CollectiveLaunch]) -> CheckLine {
    let took_s = launches.iter().map(|launch| launch.took_s).sum();
    CheckLine { took_s, ..judged(launches) }
}

fn judged(launches: &[CollectiveLaunch]) -> CheckLine {
    let failed: Vec<(&String, &Option<Who>)> = (launches.iter())
        .filter_map(|launch| match &launch.outcome {
            Err(Failure::Job { text, who }) => Some((text, who)),
            _ => None,
        })
        .collect();
    let figures: Vec<&CollectiveFigures> =
        launches.iter().filter_map(|launch| launch.outcome.as_ref().ok()).collect();
    if let Some((text, who)) = failed.last() {
        let many = failed.len() as u32;
        let same = failed
            .iter()
            .all(|(_, other)| other.as_ref().map(|o| &o.host) == who.as_ref().map(|w| &w.host));
        let subject = who.as_ref().filter(|_| same).map(|who| Subject::host(&who.host));
        let of = launched(launches.len());
        let text = match (many < TWICE, figures.is_empty()) {
            (true, true) => format!("{text}; there was one launch"),
            // Whatever it was, it does not stand in the way of every job.
            (true, false) => format!("{text}; once in {of}"),
            (false, _) => format!("{text}; {many} of {of} failed"),
        };
        return CheckLine::fault(Check::Collective, many, text).of(subject);
    }
    let tool = launches.iter().find_map(|launch| match &launch.outcome {
        Err(Failure::Tool(why)) => Some(why.clone()),
        _ => None,
    });
    let whole = side(&figures);
    let Some((point, times)) = largest(&whole) else {
        let why = tool.unwrap_or_else(|| "there was no time for it".to_owned());
        return CheckLine::new(Check::Collective, Verdict::CannotTell, why);
    };
    let many = launched(times.launches_us.len());
    let speed = match times.busbw {
        Some(busbw) => format!("{} GB/s", rate(busbw)),
        None => time(times.time_us),
    };
    let text = format!("{}: {speed} at {}, data right, in {many}", point.case(), bytes(point.size));
    let figure = match times.busbw {
        Some(value) => {
            Figure { value, unit: "GB/s".to_owned(), size: Some(point.size), wanted: None }
        }
        None => Figure {
            value: times.time_us,
            unit: "us".to_owned(),
            size: Some(point.size),
            wanted: None,
        },
    };
    CheckLine::new(Check::Collective, Verdict::Pass, text).figure(Some(figure))
}

/// A number of launches.
fn launched(number: usize) -> String {
    if number == 1 { "1 launch".to_owned() } else { format!("{number} launches") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::launch;

    fn failed(host: &str, rank: usize) -> CollectiveLaunch {
        let who = Some(Who { rank, host: host.to_owned() });
        let outcome = Err(Failure::Job { text: format!("rank {rank} was lost"), who });
        CollectiveLaunch { outcome, took_s: 2.0 }
    }

    fn tool() -> CollectiveLaunch {
        CollectiveLaunch { outcome: Err(Failure::Tool("ssh failed".to_owned())), took_s: 1.0 }
    }

    #[test]
    fn launches_become_one_figure() {
        let line = line(&[launch(100.0), launch(120.0), launch(110.0)]);
        assert_eq!(line.verdict, Verdict::Pass);
        assert_eq!(
            line.text,
            "all_reduce float sum, 4 ranks: 10.00 GB/s at 8 MiB, data right, in 3 launches"
        );
        assert_eq!(line.figure.unwrap().value.round(), 10.0);
    }

    #[test]
    fn a_failure_blocks_the_second_time_and_names_its_host() {
        let once = line(&[failed("b", 3)]);
        assert_eq!((once.verdict, once.measured), (Verdict::CannotTell, 1));
        let twice = line(&[failed("b", 3), failed("b", 2)]);
        assert!(twice.blocks());
        assert_eq!(twice.subject, Some(Subject::host("b")));
        let apart = line(&[failed("b", 3), failed("c", 5)]);
        assert_eq!((apart.blocks(), apart.subject), (true, None));
        let after = line(&[failed("b", 3), launch(100.0), launch(100.0)]);
        assert_eq!(after.verdict, Verdict::CannotTell);
    }

    #[test]
    fn a_failure_of_the_tool_is_nobodys_fault() {
        let line = line(&[tool(), tool(), tool()]);
        assert_eq!((line.verdict, line.measured), (Verdict::CannotTell, 0));
        assert_eq!(line.text, "ssh failed");
    }
}
