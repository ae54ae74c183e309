//! The limit that a result is held against, and the judgement: of the algorithm that NCCL names, else
//! the lowest one that explains the result.
//! Not the bounds and thresholds (`busbw_hardware::limits`), and not the choice of the algorithm (`choice`).

mod rdma;

use busbw_hardware::{
    limits::{
        self, Algorithm, Bottleneck, Judgement, Limit, Load, RankPlacement, Rating, Resource,
    },
    machine::Machine,
};
use busbw_library_logs::nccl::Execution;
use busbw_logs::measurement::{Figure, Memory};
use serde::Serialize;

use super::{
    attained::{self, Attained},
    choice::{self, Basis, Choice},
    context::{Context, by_mpi, latency_floor_us, on_processors},
    placement::setting,
    rules,
};

/// A message that is large on every machine, bytes.
const LARGE_BYTES: u64 = 16 << 30;

/// The rate of a link that a limit is computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RateKind {
    /// What packets carry: the line rate less framing.
    Payload,
    /// What the wire carries, packet headers included.
    LineRate,
}

impl RateKind {
    /// As it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            RateKind::Payload => "payload",
            RateKind::LineRate => "line rate",
        }
    }
}

/// The busbw that the hardware allows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ceiling {
    /// busbw, GB/s: at payload rates, or at line rates where the payload rate is not known.
    pub busbw: f64,
    /// The same, Gb/s.
    pub busbw_gbit: f64,
    /// Which of the two rates `busbw` is at.
    pub rate: RateKind,
    /// busbw at line rates, GB/s.
    pub line_busbw: f64,
    /// busbw that NCCL's own model expects, GB/s: an expectation, not a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nccl_expects: Option<f64>,
    /// What published runs on such GPUs reach: less than the limit where no run is known to come near it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attained: Option<Attained>,
    /// The algorithm whose bound this is.
    #[serde(flatten)]
    pub choice: Choice,
    /// The resource that sets it; of several with equal bounds, the one that NCCL expects least of.
    pub set_by: Resource,
    /// Resources that bytes cross.
    pub resources: Vec<CrossedResource>,
    /// Facts that were taken from the GPU's model.
    #[serde(skip)]
    pub assumed: Vec<String>,
    /// Facts that are not known and could only lower the bound.
    #[serde(skip)]
    pub unchecked: Vec<String>,
}

/// A resource that bytes cross, with its rates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CrossedResource {
    /// Which resource.
    pub resource: Resource,
    /// Its name on this machine.
    pub name: String,
    /// Line rate in one direction, GB/s.
    pub line_rate: f64,
    /// Payload rate in one direction (line rate less framing), GB/s, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_rate: Option<f64>,
    /// The rate that NCCL's own model has for it, GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nccl_rate: Option<f64>,
    /// busbw at which it is full, GB/s: at the payload rate, or at the line rate where there is none.
    pub busbw: f64,
}

impl CrossedResource {
    fn of(load: &Load, machine: &Machine, busbw: f64) -> CrossedResource {
        CrossedResource {
            resource: load.resource,
            name: load.resource.name_on(machine),
            line_rate: load.capacity.line,
            payload_rate: load.capacity.payload,
            nccl_rate: load.capacity.nccl,
            busbw: load.busbw(busbw),
        }
    }
}

impl Ceiling {
    /// A resource with its rates; none where no byte crosses it.
    pub(super) fn crossed(&self, resource: Resource) -> Option<&CrossedResource> {
        self.resources.iter().find(|part| part.resource == resource)
    }

    /// The name of a resource on this machine.
    pub(super) fn name(&self, resource: Resource) -> &str {
        self.crossed(resource).map_or(resource.name(), |crossed| &crossed.name)
    }
}

/// The limit of a run, and the judgement of its result.
pub(super) fn of(context: &Context<'_>) -> (Option<Ceiling>, Judgement) {
    let run = context.run;
    let unknown = |missing: &[&str]| {
        (None, Judgement::unknown(missing.iter().map(|fact| (*fact).to_owned()).collect()))
    };
    if run.test.figure == Figure::Latency && context.measured.is_some() {
        return match run.test.memory.map(|memory| memory.value) {
            _ if rules::device_and_host_latency(context).is_some() => (
                None,
                Judgement { bottleneck: Bottleneck::Software, ..Judgement::unknown(Vec::new()) },
            ),
            Some(Memory::Device) if !rules::has_host_memory_latency(context) => {
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
        return unknown(&["which transport MPI used between GPUs"]);
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
    match choice::choose(
        &context.candidates,
        logged_algorithm(context),
        set_algorithm(context),
        busbw,
    ) {
        Some((limit, choice)) => judged(context, &machine.machine, limit, choice, size, busbw),
        None => unknown(&["an algorithm of NCCL for this collective"]),
    }
}

/// The limit and the judgement of a result by it.
fn judged(
    context: &Context<'_>,
    machine: &Machine,
    limit: &Limit,
    choice: Choice,
    size: u64,
    busbw: f64,
) -> (Option<Ceiling>, Judgement) {
    let Some(mut ceiling) = ceiling(machine, limit, choice, busbw) else {
        let mut missing = limit.missing.clone();
        for fact in missing.iter_mut().filter(|fact| fact.starts_with("the NICs between hosts")) {
            fact.push_str(" (--machine)");
        }
        return (None, Judgement::unknown(missing));
    };
    // A table of settings need not say its size; nobody publishes the start of operations as a bandwidth.
    let bytes = if size == 0 && busbw > 0.0 { LARGE_BYTES } else { size };
    let mut judgement = limits::judge(limit, bytes, &[busbw], latency_floor_us(context.run));
    let below = matches!(judgement.rating, Some(Rating::Below | Rating::FarBelow));
    if let Some((low, high)) = context.settings_range {
        judgement.bottleneck = limits::judge(limit, bytes, &[low, high], None).bottleneck;
    } else if below
        && judgement.bottleneck != Bottleneck::Software
        && let Some(attained) = attained::of(context).filter(|attained| attained.reached_by(busbw))
    {
        judgement.rating = Some(Rating::AsExpected);
        judgement.bottleneck = Bottleneck::SetBy { resource: ceiling.set_by };
        ceiling.attained = Some(attained);
    }
    if let Bottleneck::Unknown { missing } = &mut judgement.bottleneck {
        for fact in missing.iter_mut().filter(|fact| limit.assumed.contains(fact)) {
            fact.push_str(" (assumed: no source says so)");
        }
    }
    (Some(ceiling), judgement)
}

/// The algorithm that NCCL's log names for the measured size, if it names only one.
pub(super) fn logged_algorithm(context: &Context<'_>) -> Option<Algorithm> {
    let measured = context.measured.as_ref()?;
    match logged_algorithms(context, measured.size).as_slice() {
        [only] => Algorithm::from_name(only),
        _ => None,
    }
}

/// The algorithm that NCCL_ALGO names alone, for every collective or for this one: `Tree`, `allreduce:tree` (NCCL's
/// src/graph/tuning.cc, `parseList`).
pub(super) fn set_algorithm(context: &Context<'_>) -> Option<Algorithm> {
    let wanted = context.run.collective()?.name().replace('_', "");
    let said = setting(context.run, "NCCL_ALGO")?.trim_matches(['"', '\'']);
    let named = said.split(';').find_map(|part| match part.split_once(':') {
        Some((collective, names)) => collective.eq_ignore_ascii_case(&wanted).then_some(names),
        None => Some(part),
    })?;
    Algorithm::from_name(named)
}

/// Names of the algorithms in NCCL's TUNING lines for calls of a size in bytes.
pub(super) fn logged_algorithms(context: &Context<'_>, size: u64) -> Vec<String> {
    let wanted = context.run.collective().map(|collective| collective.name().replace('_', ""));
    // NCCL counts one rank's share where every rank has one (its count times the type's size).
    let share = match context.run.collective() {
        Some(busbw_core::Collective::AllGather | busbw_core::Collective::ReduceScatter) => {
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
        rate: if framed && payload.busbw < line.busbw {
            RateKind::Payload
        } else {
            RateKind::LineRate
        },
        line_busbw: line.busbw,
        nccl_expects: limit.expects.as_ref().map(|expects| expects.low),
        attained: None,
        choice,
        set_by: limit.bottleneck?,
        resources: limit
            .loads
            .iter()
            .map(|load| CrossedResource::of(load, machine, busbw))
            .collect(),
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
    if !context.run.verbs.is_empty() && context.machine.is_none() {
        let machine = match rdma::two_hosts(&context.run.verbs, context.run.hosts) {
            Ok(machine) => machine,
            Err(missing) => return unknown(&missing),
        };
        return messages(context, &machine, &RankPlacement::new(2, 1), size, busbw);
    }
    let Some(known) = &context.machine else {
        return unknown("the machine (--machine): what joins the two processes");
    };
    let Some(placement) = known.placement.as_ref().ok().filter(|placed| placed.nodes == 2) else {
        return unknown("whether the two processes were on two hosts (--nodes 2)");
    };
    messages(context, &known.machine, placement, size, busbw)
}

/// One way between two hosts of a machine.
fn messages(
    context: &Context<'_>,
    machine: &Machine,
    placement: &RankPlacement,
    size: u64,
    busbw: f64,
) -> (Option<Ceiling>, Judgement) {
    let direct = Algorithm::Direct;
    let limit = limits::limit(machine, busbw_core::Collective::SendRecv, direct, placement);
    let choice = Choice {
        algorithm: direct,
        basis: Basis::OnlyExplanation,
        explained_by: Vec::new(),
        excluded: Vec::new(),
        unlikely: Vec::new(),
        conditions: Vec::new(),
    };
    judged(context, machine, &limit, choice, size, busbw)
}
