//! The limit that a result is held against: of the algorithm that NCCL names, else the lowest bound
//! that the result does not exceed.
//! Not the bounds (`model::limits`).

use model::{
    limits::{self, Algorithm, Bound, Candidate, Limit, Possible, Resource, Verdict},
    measurement::{Device, Figure, Form, Measurement, Memory},
    nccl_log::Way,
};
use serde::Serialize;

use super::{context::Context, rules};

/// Bounds within this part of each other are the same in a sentence.
const SAME: f64 = 0.01;

/// A result above a bound by less is rounding.
const ROUNDING: f64 = 1.005;

/// What the hardware allows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ceiling {
    /// busbw, GB/s: payload, or line where there is no payload figure.
    pub busbw: f64,
    /// The same, Gb/s.
    pub busbw_gbit: f64,
    /// `payload` or `line`: which of the two it is.
    pub figure: &'static str,
    /// busbw at line rates, GB/s.
    pub line: f64,
    /// What NCCL expects, GB/s: an expectation, not a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nccl_expects: Option<f64>,
    /// The algorithm whose bound this is.
    pub algorithm: Algorithm,
    /// How the algorithm is known.
    pub basis: Basis,
    /// What sets it.
    pub set_by: Resource,
    /// Resources that bytes cross, and the busbw at which each is full, at line rate, GB/s.
    pub resources: Vec<(Resource, f64)>,
    /// Algorithms that the machine could run and whose bound the result does not exceed.
    pub explained_by: Vec<Algorithm>,
    /// Algorithms whose bound the result exceeds, so that they did not run; their line bounds, GB/s.
    pub excluded: Vec<(Algorithm, f64)>,
    /// Facts that were taken from the GPU's model.
    #[serde(skip)]
    pub assumed: Vec<String>,
    /// Facts that could only lower the bound.
    #[serde(skip)]
    pub unchecked: Vec<String>,
}

/// Why this algorithm's bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// NCCL's own lines name it for this size.
    Said,
    /// Only it, or others with the same bound, explains the result.
    OnlyExplanation,
    /// It has the lowest bound of those that explain the result.
    LowestBound,
}

/// What sets the pace.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Culprit {
    /// A part of the machine.
    Resource {
        /// It.
        resource: Resource,
    },
    /// None of the parts that were considered.
    NotTheHardware {
        /// The parts.
        considered: Vec<Resource>,
    },
    /// Starting operations.
    Software,
    /// The result exceeds what is thought possible.
    AboveLimit,
    /// Not to be told.
    Unknown {
        /// Without these facts.
        missing: Vec<String>,
    },
}

/// The limit of a run, and what sets its pace.
pub(super) fn of(context: &Context<'_>) -> (Option<Ceiling>, Culprit) {
    let run = context.run;
    let unknown = |missing: &[&str]| Culprit::Unknown {
        missing: missing.iter().map(|m| (*m).to_owned()).collect(),
    };
    let Some(measured) = &context.measured else { return (None, unknown(&["a row with figures"])) };
    if run.test.figure == Figure::Latency {
        let culprit = match run.test.memory.map(|memory| memory.value) {
            _ if rules::memory_costs(context) => Culprit::Software,
            Some(Memory::Device) => {
                unknown(&["the same test with host memory, which shows what the network takes"])
            }
            _ => unknown(&[]),
        };
        return (None, culprit);
    }
    let Some(busbw) = measured.busbw else { return (None, unknown(&["a row with figures"])) };
    let mut missing = Vec::new();
    if run.test.figure != Figure::Bandwidths {
        return point_to_point(context, busbw);
    }
    if run.collective().is_none() {
        missing.push("the collective (its columns fit several)");
    }
    if run.rank_count().is_none() {
        missing.push("the number of ranks");
    }
    let Some(machine) = &context.machine else {
        missing.push(if on_processors(run) {
            "a limit for ranks on processors, which move data in the host's memory"
        } else {
            "the machine (--machine): GPUs, their links, and the NICs between hosts"
        });
        return (None, unknown(&missing));
    };
    if !missing.is_empty() {
        return (None, unknown(&missing));
    }
    if context.run.rank_count() == Some(1) {
        return (None, unknown(&["a second rank: with one, no byte crosses a link"]));
    }
    if machine.placement.is_none() {
        return (None, unknown(&["how many ranks each host had (--nodes)"]));
    }
    let Some((candidate, basis)) = choose(context, busbw) else {
        // Nothing explains it: the highest bound is the one that is exceeded.
        return exceeded(context, busbw, measured.size);
    };
    let limit = &candidate.limit;
    let Some(ceiling) = ceiling(context, limit, basis, busbw) else {
        let mut missing = limit.missing.clone();
        for fact in missing.iter_mut().filter(|fact| *fact == "NICs between nodes") {
            *fact = "the NICs between hosts: how many a host has, and their Gb/s (--machine)"
                .to_owned();
        }
        return (None, Culprit::Unknown { missing });
    };
    let mut culprit = culprit(limits::judge(limit, measured.size, &[busbw]));
    if let Culprit::Unknown { missing } = &mut culprit {
        for fact in missing.iter_mut().filter(|fact| limit.assumed.contains(fact)) {
            fact.push_str(" (assumed: nothing says so)");
        }
    }
    (Some(ceiling), culprit)
}

fn culprit(verdict: Verdict) -> Culprit {
    match verdict {
        Verdict::SetBy { resource } => Culprit::Resource { resource },
        Verdict::NotTheLine { considered } => Culprit::NotTheHardware { considered },
        Verdict::Software => Culprit::Software,
        Verdict::AboveLimit => Culprit::AboveLimit,
        Verdict::Unknown { missing } => Culprit::Unknown { missing },
    }
}

fn bound(limit: &Limit) -> Option<&Bound> {
    limit.payload.as_ref()
}

/// Whether a record's ranks ran on cores: busbw's `host` backend gives them no PCI address.
fn on_processors(run: &Measurement) -> bool {
    let no_address = |device: &Device| device.address == "0000:00:00";
    run.source.form == Form::Record && run.devices.iter().all(no_address)
}

/// The candidate whose bound counts.
fn choose<'c>(context: &'c Context<'_>, busbw: f64) -> Option<(&'c Candidate, Basis)> {
    if let Some(said) = said_algorithm(context)
        && let Some(candidate) = context.candidates.iter().find(|one| one.limit.algorithm == said)
    {
        return Some((candidate, Basis::Said));
    }
    let explaining = limits::explaining(&context.candidates, busbw);
    let mut left: Vec<&Candidate> =
        context.candidates.iter().filter(|one| explaining.contains(&one.limit.algorithm)).collect();
    let figure = |one: &&Candidate| bound(&one.limit).map_or(f64::INFINITY, |bound| bound.busbw);
    // Of equal bounds, the ring's first: it is what most people think of.
    let ring = |one: &&Candidate| one.limit.algorithm != Algorithm::Ring;
    left.sort_by(|a, b| figure(a).total_cmp(&figure(b)).then(ring(a).cmp(&ring(b))));
    let first = left.first().copied()?;
    let same = left.iter().all(|one| {
        figure(one) <= figure(&first) * (1.0 + SAME) && one.limit.culprit == first.limit.culprit
    });
    Some((first, if same { Basis::OnlyExplanation } else { Basis::LowestBound }))
}

/// The algorithm that NCCL's lines name for the settled size, if they name one only.
pub(super) fn said_algorithm(context: &Context<'_>) -> Option<Algorithm> {
    let measured = context.measured.as_ref()?;
    let mut named = said_at(context, measured.size);
    named.dedup();
    match named.as_slice() {
        [only] => Algorithm::from_name(only),
        _ => None,
    }
}

/// Names of algorithms in TUNING lines for calls of a size.
pub(super) fn said_at(context: &Context<'_>, size: u64) -> Vec<String> {
    let wanted = context.run.collective().map(|collective| collective.name().replace('_', ""));
    // NCCL counts one rank's share where every rank has one (its count times the type's size).
    let share = match context.run.collective() {
        Some(model::Collective::AllGather | model::Collective::ReduceScatter) => {
            context.run.rank_count().and_then(|ranks| size.checked_div(ranks as u64))
        }
        _ => Some(size),
    };
    let choices = context.facts().flat_map(|facts| &facts.choices).filter(|choice| {
        let same = |name: &String| Some(name.to_ascii_lowercase()) == wanted;
        Some(choice.bytes) == share && choice.collective.as_ref().is_none_or(same)
    });
    let mut names: Vec<String> = choices
        .filter_map(|choice| match &choice.way {
            Way::Tuned { algorithm, .. } => Some(algorithm.clone()),
            _ => None,
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

fn ceiling(context: &Context<'_>, limit: &Limit, basis: Basis, busbw: f64) -> Option<Ceiling> {
    let (line, payload) = (limit.line.as_ref()?, limit.payload.as_ref()?);
    let set_by = limit.culprit?;
    let framed = limit
        .loads
        .iter()
        .any(|load| payload.set_by.contains(&load.resource) && load.capacity.payload.is_some());
    let possible = |one: &&Candidate| one.possible == Possible::Yes;
    let excluded = context.candidates.iter().filter(possible).filter_map(|one| {
        let exceeded = busbw > bound(&one.limit)?.busbw * ROUNDING;
        // The line rate is what people know; where that would allow it, what packets carry does not.
        let line = one.limit.line.as_ref()?.busbw;
        let told = if busbw > line { line } else { bound(&one.limit)?.busbw };
        exceeded.then_some((one.limit.algorithm, told))
    });
    Some(Ceiling {
        busbw: payload.busbw,
        busbw_gbit: payload.busbw * 8.0,
        figure: if framed { "payload" } else { "line" },
        line: line.busbw,
        nccl_expects: limit.expects.as_ref().map(|expects| expects.low),
        algorithm: limit.algorithm,
        basis,
        set_by,
        resources: limit.loads.iter().map(|load| (load.resource, load.line_busbw)).collect(),
        explained_by: limits::explaining(&context.candidates, busbw),
        excluded: excluded.collect(),
        assumed: limit.assumed.clone(),
        unchecked: limit.unchecked.clone(),
    })
}

fn exceeded(context: &Context<'_>, busbw: f64, size: u64) -> (Option<Ceiling>, Culprit) {
    let figure = |one: &&Candidate| bound(&one.limit).map_or(0.0, |bound| bound.busbw);
    let possible = context.candidates.iter().filter(|one| one.possible == Possible::Yes);
    let highest = possible.max_by(|a, b| figure(a).total_cmp(&figure(b)));
    let Some(highest) = highest else {
        let missing = vec!["an algorithm of NCCL for this collective".to_owned()];
        return (None, Culprit::Unknown { missing });
    };
    let culprit = culprit(limits::judge(&highest.limit, size, &[busbw]));
    (ceiling(context, &highest.limit, Basis::LowestBound, busbw), culprit)
}

/// OSU between two processes: the NICs, where the machine is known and has two hosts.
fn point_to_point(context: &Context<'_>, busbw: f64) -> (Option<Ceiling>, Culprit) {
    let unknown = |missing: &str| (None, Culprit::Unknown { missing: vec![missing.to_owned()] });
    let Some(machine) = &context.machine else {
        return unknown("the machine (--machine): what joins the two processes");
    };
    if context.run.test.figure != Figure::PointToPoint {
        return unknown("a bound for a test of both directions or several pairs");
    }
    let Some(placement) = machine.placement.filter(|placement| placement.nodes == 2) else {
        return unknown("whether the two processes were on two hosts (--nodes 2)");
    };
    let limit =
        limits::limit(&machine.machine, model::Collective::SendRecv, Algorithm::Direct, &placement);
    let size = context.measured.as_ref().map_or(0, |measured| measured.size);
    match ceiling(context, &limit, Basis::OnlyExplanation, busbw) {
        Some(ceiling) => (Some(ceiling), culprit(limits::judge(&limit, size, &[busbw]))),
        None => (None, Culprit::Unknown { missing: limit.missing }),
    }
}
