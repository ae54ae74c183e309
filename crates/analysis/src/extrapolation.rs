//! What runs on some hosts let expect of the same collective on more hosts: times with a range, by size.
//! Not a prediction from a machine's description (`busbw_hardware::prediction`), and nothing beyond the measured sizes.
//!
//! Times become start-up costs and costs per byte by stretches of sizes (`busbw_stats::affine`). Each grows with the hosts
//! by what algorithms do (`growth`). The range holds what is not known of that, the residuals of the fit, and, where runs
//! on fewer hosts are there, what they would have missed of the runs that are extrapolated. Derivation: docs/plan.md.

mod growth;
mod outcome;

use std::collections::{BTreeMap, BTreeSet};

use busbw_core::Collective;
use busbw_hardware::limits::{Algorithm, counted, to_busbw};
use busbw_hardware::prediction::Span;
use busbw_logs::measurement::{Figure, Measurement};
use busbw_stats::affine::{Sample, Stretch, stretches};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::comparison::{Point, Side};

pub use growth::Growth;
pub use outcome::{Held, Outcome, hold};

/// Hosts, and ranks in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Scale {
    /// Hosts.
    pub hosts: usize,
    /// Ranks.
    pub ranks: usize,
}

impl Scale {
    /// Ranks of a host; none where hosts do not have equally many.
    pub fn per_host(self) -> Option<usize> {
        (self.hosts > 0 && self.ranks.is_multiple_of(self.hosts)).then(|| self.ranks / self.hosts)
    }
}

/// What is wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// Only this collective.
    pub collective: Option<Collective>,
    /// Hosts; twice those of the runs where it is not said.
    pub hosts: Option<usize>,
    /// Ranks of a host, for runs that do not say how many hosts there were.
    pub per_host: Option<usize>,
    /// The algorithm, where it is fixed at both scales.
    pub algorithm: Option<Algorithm>,
}

/// What a case is: everything that must be equal for its times to be comparable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Case {
    /// The collective's name.
    pub collective: String,
    /// Element type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datatype: Option<String>,
    /// Operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redop: Option<String>,
    /// Root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<i64>,
    /// Whether the result replaces the input.
    pub in_place: bool,
}

/// What is expected of a case on more hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Extrapolation {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// Where it was measured.
    pub from: Scale,
    /// Launches that were measured there, the most of a size.
    pub launches: usize,
    /// Where it is expected.
    pub to: Scale,
    /// The algorithm, where it was fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Algorithm>,
    /// Start-up costs and costs per byte of what was measured.
    pub stretches: Vec<Stretch>,
    /// How they grow.
    pub growth: Growth,
    /// Fewer hosts from which the measured times were extrapolated to see what that misses.
    pub tried_from: Vec<Scale>,
    /// By size.
    pub rows: Vec<Expected>,
}

/// What is expected of a size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// The size column, bytes.
    pub bytes: u64,
    /// What was measured on fewer hosts, the median of launches, microseconds.
    pub measured_us: f64,
    /// Microseconds.
    pub time_us: Span,
    /// GB/s.
    pub algbw: Span,
    /// GB/s.
    pub busbw: Span,
}

/// What `busbw plan --from --json` prints, and `busbw compare` reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Version of the JSON.
    pub plan_schema: u32,
    /// busbw's version.
    pub busbw: String,
    /// What was asked: `runs`.
    pub question: String,
    /// The runs, as they were named.
    pub from_runs: Vec<String>,
    /// What is expected, by case.
    pub cases: Vec<Extrapolation>,
    /// What is not in the range.
    pub notes: Vec<String>,
}

impl Prediction {
    /// The word by which its JSON is known.
    pub const QUESTION: &'static str = "runs";
}

/// Why nothing is expected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotEnough {
    /// No run has times of a collective.
    #[error("there are no times of {0} in these runs")]
    NoTimes(String),
    /// The number of hosts is not known.
    #[error(
        "{0}: how many hosts ran is not known: a record of busbw says it, and so does a table of nccl-tests with its list of devices; for others name the ranks of a host with --per-node"
    )]
    HostsUnknown(String),
    /// All ran on one host.
    #[error(
        "{0} ran on one host: what its NICs carry was not measured, so that nothing follows for several hosts; give a run on two"
    )]
    OneHost(String),
    /// Ranks are spread unevenly.
    #[error("{case}: {ranks} ranks on {hosts} hosts: hosts must have equally many")]
    Uneven {
        /// Which case.
        case: String,
        /// Ranks.
        ranks: usize,
        /// Hosts.
        hosts: usize,
    },
    /// Too few sizes.
    #[error(
        "{case} on {hosts} hosts was measured at {sizes}: a start-up cost and a cost per byte take three sizes at least"
    )]
    FewSizes {
        /// Which case.
        case: String,
        /// Hosts.
        hosts: usize,
        /// `1 size`.
        sizes: String,
    },
    /// Not more hosts than were measured.
    #[error(
        "{case} was measured on {measured} hosts: name more than these with --nodes, not {wanted}"
    )]
    NotMore {
        /// Which case.
        case: String,
        /// Hosts that are wanted.
        wanted: usize,
        /// Hosts that were measured.
        measured: usize,
    },
    /// What grows is not known.
    #[error("{case}: {why}")]
    Growth {
        /// Which case.
        case: String,
        /// Why.
        why: String,
    },
}

impl Case {
    /// `all_reduce float sum`.
    pub fn name(&self) -> String {
        let mut said = vec![self.collective.clone()];
        said.extend(self.datatype.clone());
        said.extend(self.redop.clone());
        said.extend(self.root.filter(|root| *root > 0).map(|root| format!("root {root}")));
        said.join(" ")
    }

    fn of(point: &Point) -> Case {
        Case {
            collective: point.test.clone(),
            datatype: point.datatype.clone(),
            redop: point.redop.clone(),
            root: point.root,
            in_place: point.in_place,
        }
    }
}

/// Launches' times by size.
type Times = BTreeMap<u64, Vec<f64>>;

/// A case's times at every scale.
type Cases = BTreeMap<Case, BTreeMap<Scale, Times>>;

/// Every case of the runs at every scale. In place only where there is nothing out of place.
fn cases(runs: &[Measurement], wanted: Wanted) -> Result<Cases, NotEnough> {
    let only = wanted.collective;
    let mut found = Cases::new();
    let mut by_hosts: BTreeMap<Option<usize>, Vec<Measurement>> = BTreeMap::new();
    for run in runs {
        for one in run.clone().communicators() {
            let is_wanted =
                one.collective().is_some_and(|known| only.is_none_or(|only| known == only));
            if is_wanted && one.test.figure == Figure::Bandwidths {
                by_hosts.entry(one.hosts).or_default().push(one);
            }
        }
    }
    let mut unknown = None;
    for (hosts, runs) in &by_hosts {
        for (point, times) in Side::of("", runs).points {
            // Nothing moves in 0 bytes, and one rank sends nothing.
            let Some(ranks) = point.ranks.filter(|ranks| *ranks > 1 && point.size > 0) else {
                continue;
            };
            let case = Case::of(&point);
            let told = || wanted.per_host.filter(|each| ranks.is_multiple_of(*each));
            match hosts.or_else(|| told().map(|each| ranks / each)) {
                None => unknown = Some(case.name()),
                Some(hosts) => {
                    let scale = Scale { hosts, ranks };
                    let of = found.entry(case).or_default().entry(scale).or_default();
                    of.entry(point.size).or_default().extend(times.launches_us);
                }
            }
        }
    }
    if found.is_empty() {
        let what = only.map_or("a collective".to_owned(), |only| only.name().to_owned());
        return Err(unknown.map_or(NotEnough::NoTimes(what), NotEnough::HostsUnknown));
    }
    let out: BTreeSet<Case> = found.keys().filter(|case| !case.in_place).cloned().collect();
    found.retain(|case, _| {
        !case.in_place || !out.contains(&Case { in_place: false, ..case.clone() })
    });
    Ok(found)
}

/// What is expected of each case of the runs.
///
/// # Errors
/// The first case of which nothing follows, and why.
pub fn extrapolate(runs: &[Measurement], wanted: Wanted) -> Result<Vec<Extrapolation>, NotEnough> {
    let cases = cases(runs, wanted)?;
    cases.iter().map(|(case, scales)| one_case(case, scales, wanted)).collect()
}

fn one_case(
    case: &Case,
    scales: &BTreeMap<Scale, Times>,
    wanted: Wanted,
) -> Result<Extrapolation, NotEnough> {
    let Some((from, times)) = scales.last_key_value() else {
        return Err(NotEnough::NoTimes(case.name()));
    };
    if from.hosts < 2 {
        return Err(NotEnough::OneHost(case.name()));
    }
    let hosts = wanted.hosts.unwrap_or(from.hosts * 2);
    if hosts <= from.hosts {
        let (wanted, measured) = (hosts, from.hosts);
        return Err(NotEnough::NotMore { case: case.name(), wanted, measured });
    }
    let mut expected = at(case, *from, times, hosts, wanted.algorithm)?;
    for (earlier, before) in
        scales.iter().filter(|(scale, _)| scale.hosts > 1 && scale.hosts < from.hosts)
    {
        // Hosts with another number of ranks, or too few sizes, are no attempt.
        let alike = earlier.per_host() == from.per_host();
        if let (true, Ok(tried)) = (alike, at(case, *earlier, before, from.hosts, wanted.algorithm))
        {
            expected.widen(&tried, times);
        }
    }
    Ok(expected)
}

/// From one scale alone.
fn at(
    case: &Case,
    from: Scale,
    times: &Times,
    hosts: usize,
    algorithm: Option<Algorithm>,
) -> Result<Extrapolation, NotEnough> {
    let name = || case.name();
    let uneven = || NotEnough::Uneven { case: name(), ranks: from.ranks, hosts: from.hosts };
    let per_host = from.per_host().ok_or_else(uneven)?;
    let collective = Collective::from_name(&case.collective)
        .ok_or_else(|| NotEnough::NoTimes(case.collective.clone()))?;
    let samples: Vec<Sample> = times
        .iter()
        .flat_map(|(bytes, launches)| {
            launches.iter().map(|time_us| Sample { bytes: *bytes as f64, time_us: *time_us })
        })
        .collect();
    let few = || NotEnough::FewSizes {
        case: name(),
        hosts: from.hosts,
        sizes: busbw_core::quantity::count(times.len() as u64, "size"),
    };
    let stretches = stretches(&samples).ok_or_else(few)?;
    let to = Scale { hosts, ranks: hosts * per_host };
    let growth = Growth::of(collective, from, to, algorithm)
        .map_err(|why| NotEnough::Growth { case: name(), why })?;
    let rows = times.iter().filter_map(|(bytes, launches)| {
        let of = stretches.iter().find(|stretch| stretch.last_bytes >= *bytes as f64)?;
        let measured_us = busbw_stats::median(launches)?;
        let time_us = growth.time_us(of, *bytes as f64);
        Some(Expected::of(*bytes, measured_us, time_us, collective, to.ranks))
    });
    let rows = rows.collect();
    let launches = times.values().map(Vec::len).max().unwrap_or(0);
    Ok(Extrapolation {
        case: case.clone(),
        from,
        launches,
        to,
        algorithm,
        stretches,
        growth,
        tried_from: Vec::new(),
        rows,
    })
}

/// What an attempt missed at a size counts for sizes up to so many times smaller and larger.
const NEIGHBOURS: f64 = 4.0;

impl Extrapolation {
    /// Widens the range by what an extrapolation from fewer hosts missed of these times. It never narrows it.
    fn widen(&mut self, tried: &Extrapolation, measured: &Times) {
        let missed: Vec<(f64, f64)> = tried
            .rows
            .iter()
            .filter_map(|row| {
                let truth = busbw_stats::median(measured.get(&row.bytes)?)?;
                Some((row.bytes as f64, truth / row.time_us.middle))
            })
            .collect();
        if missed.is_empty() {
            return;
        }
        let Some(collective) = Collective::from_name(&self.case.collective) else { return };
        for row in &mut self.rows {
            let (size, mut time) = (row.bytes as f64, row.time_us);
            let near = missed
                .iter()
                .filter(|(other, _)| (size / NEIGHBOURS..=size * NEIGHBOURS).contains(other));
            for (_, ratio) in near {
                time.low = time.low.min(time.middle * ratio);
                time.high = time.high.max(time.middle * ratio);
            }
            *row = Expected::of(row.bytes, row.measured_us, time, collective, self.to.ranks);
        }
        self.tried_from.push(tried.from);
    }
}

impl Expected {
    fn of(
        bytes: u64,
        measured_us: f64,
        time_us: Span,
        collective: Collective,
        ranks: usize,
    ) -> Expected {
        let per_us = |factor: f64| Span {
            low: bytes as f64 * factor / time_us.high / 1e3,
            middle: bytes as f64 * factor / time_us.middle / 1e3,
            high: bytes as f64 * factor / time_us.low / 1e3,
        };
        Expected {
            bytes,
            measured_us,
            time_us,
            algbw: per_us(counted(collective, ranks)),
            busbw: per_us(to_busbw(collective, ranks)),
        }
    }
}

#[cfg(test)]
mod tests;
