//! The limit that a result is held against, and the judgement: of the algorithm that NCCL names, else
//! the lowest one that explains the result.
//! Not the bounds and thresholds (`model::limits`), and not the choice of the algorithm (`choice`).

use model::{
    limits::{self, Algorithm, Judgement, Limit, Load, Resource, Verdict},
    machine::Machine,
    measurement::{Figure, Memory},
    nccl_log::Execution,
};
use serde::Serialize;

use super::{
    choice::{self, Basis, Choice},
    context::{Context, by_mpi, on_processors, start_us},
    rules,
};

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
    #[serde(flatten)]
    pub choice: Choice,
    /// What sets it; of several that tie, what NCCL expects least of.
    pub set_by: Resource,
    /// Resources that bytes cross.
    pub resources: Vec<Part>,
    /// Facts that were taken from the GPU's model.
    #[serde(skip)]
    pub assumed: Vec<String>,
    /// Facts that could only lower the bound.
    #[serde(skip)]
    pub unchecked: Vec<String>,
}

/// A resource that bytes cross.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// It.
    pub resource: Resource,
    /// As it is called on this machine.
    pub name: String,
    /// Its rate one way, GB/s: line.
    pub line: f64,
    /// The same less framing, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<f64>,
    /// What NCCL reckons with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nccl: Option<f64>,
    /// busbw at which it is full, GB/s: by payload, or line where there is none.
    pub busbw: f64,
}

impl Part {
    fn of(load: &Load, machine: &Machine, busbw: f64) -> Part {
        Part {
            resource: load.resource,
            name: load.resource.name_on(machine),
            line: load.capacity.line,
            payload: load.capacity.payload,
            nccl: load.capacity.nccl,
            busbw: load.busbw(busbw),
        }
    }
}

impl Ceiling {
    /// A resource that bytes cross.
    pub(super) fn part(&self, resource: Resource) -> Option<&Part> {
        self.resources.iter().find(|part| part.resource == resource)
    }

    /// What a resource is called here.
    pub(super) fn name(&self, resource: Resource) -> &str {
        self.part(resource).map_or(resource.name(), |part| &part.name)
    }
}

/// The limit of a run, and what the run says about it.
pub(super) fn of(context: &Context<'_>) -> (Option<Ceiling>, Judgement) {
    let run = context.run;
    let unknown = |missing: &[&str]| {
        (None, Judgement::unknown(missing.iter().map(|fact| (*fact).to_owned()).collect()))
    };
    if run.test.figure == Figure::Latency && context.measured.is_some() {
        return match run.test.memory.map(|memory| memory.value) {
            _ if rules::memory_costs(context) => {
                (None, Judgement { verdict: Verdict::Software, ..Judgement::unknown(Vec::new()) })
            }
            Some(Memory::Device) => {
                unknown(&["the same test with host memory, which shows what the network takes"])
            }
            _ => unknown(&[]),
        };
    }
    let Some((size, busbw)) =
        context.measured.as_ref().and_then(|measured| Some((measured.size, measured.busbw?)))
    else {
        return unknown(&["a row with figures"]);
    };
    if run.test.figure != Figure::Bandwidths {
        return point_to_point(context, size, busbw);
    }
    if by_mpi(run) && !on_processors(run) {
        return unknown(&["by which way MPI moved data between GPUs"]);
    }
    let mut missing = Vec::new();
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
        return unknown(&missing);
    };
    if !missing.is_empty() {
        return unknown(&missing);
    }
    if run.rank_count() == Some(1) {
        return unknown(&["a second rank: with one, no byte crosses a link"]);
    }
    if let Err(missing) = &machine.placement {
        return unknown(&[missing]);
    }
    match choice::choose(&context.candidates, said_algorithm(context), busbw) {
        Some((limit, choice)) => held(context, &machine.machine, limit, choice, size, busbw),
        None => unknown(&["an algorithm of NCCL for this collective"]),
    }
}

/// A result held against a limit.
fn held(
    context: &Context<'_>,
    machine: &Machine,
    limit: &Limit,
    choice: Choice,
    size: u64,
    busbw: f64,
) -> (Option<Ceiling>, Judgement) {
    let Some(ceiling) = ceiling(machine, limit, choice, busbw) else {
        let mut missing = limit.missing.clone();
        for fact in missing.iter_mut().filter(|fact| fact.starts_with("the NICs between hosts")) {
            fact.push_str(" (--machine)");
        }
        return (None, Judgement::unknown(missing));
    };
    let mut judged = limits::judge(limit, size, &[busbw], start_us(context.run));
    if let Verdict::Unknown { missing } = &mut judged.verdict {
        for fact in missing.iter_mut().filter(|fact| limit.assumed.contains(fact)) {
            fact.push_str(" (assumed: nothing says so)");
        }
    }
    (Some(ceiling), judged)
}

/// The algorithm that NCCL's lines name for the settled size, if they name one only.
fn said_algorithm(context: &Context<'_>) -> Option<Algorithm> {
    let measured = context.measured.as_ref()?;
    match said_at(context, measured.size).as_slice() {
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
        .filter_map(|choice| match &choice.execution {
            Execution::Tuned { algorithm, .. } => Some(algorithm.clone()),
            _ => None,
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

fn ceiling(machine: &Machine, limit: &Limit, choice: Choice, busbw: f64) -> Option<Ceiling> {
    let (line, payload) = (limit.line.as_ref()?, limit.payload.as_ref()?);
    let framed = limit
        .loads
        .iter()
        .any(|load| payload.set_by.contains(&load.resource) && load.capacity.payload.is_some());
    Some(Ceiling {
        busbw: payload.busbw,
        busbw_gbit: payload.busbw * 8.0,
        figure: if framed && payload.busbw < line.busbw { "payload" } else { "line" },
        line: line.busbw,
        nccl_expects: limit.expects.as_ref().map(|expects| expects.low),
        choice,
        set_by: limit.culprit?,
        resources: limit.loads.iter().map(|load| Part::of(load, machine, busbw)).collect(),
        assumed: limit.assumed.clone(),
        unchecked: limit.unchecked.clone(),
    })
}

/// OSU between two processes: the NICs, where the machine is known and has two hosts.
fn point_to_point(context: &Context<'_>, size: u64, busbw: f64) -> (Option<Ceiling>, Judgement) {
    let unknown = |missing: &str| (None, Judgement::unknown(vec![missing.to_owned()]));
    if context.run.test.figure != Figure::PointToPoint {
        return unknown("a bound for a test of both directions or several pairs");
    }
    let Some(known) = &context.machine else {
        return unknown("the machine (--machine): what joins the two processes");
    };
    let Some(placement) = known.placement.as_ref().ok().filter(|placed| placed.nodes == 2) else {
        return unknown("whether the two processes were on two hosts (--nodes 2)");
    };
    let direct = Algorithm::Direct;
    let limit = limits::limit(&known.machine, model::Collective::SendRecv, direct, placement);
    let choice = Choice {
        algorithm: direct,
        basis: Basis::OnlyExplanation,
        explained_by: Vec::new(),
        excluded: Vec::new(),
        unlikely: Vec::new(),
        conditions: Vec::new(),
    };
    held(context, &known.machine, &limit, choice, size, busbw)
}
