//! From bytes and rates to a bound: the resource that takes longest sets it.
//! Not what a measurement says about it (`judgement`).

use serde::{Deserialize, Serialize};

use super::algorithm::Algorithm;
use super::loads::{self, Site};
use super::placement::{Memory, RankPlacement};
use super::resource::{self, Capacity, Fabric, Resource};
use super::traffic::{self, Crossing, Ranks};
use crate::machine::{Machine, Nics};
use busbw_core::Collective;
use busbw_core::alltoallv::Traffic;

/// A result exceeds a bound only if it is above it by more than this share plus the rounding of algbw to
/// two decimals (0.005 GB/s times a bus factor of at most 2).
const ROUNDING_SHARE: f64 = 0.005;
const ROUNDING_GB_PER_S: f64 = 0.01;

/// Maximum of nodes, and of ranks on a node: larger numbers are mistakes.
const MAX_NODES_OR_RANKS: usize = 1_000_000;

/// Rates that differ by less than this share tie.
const TIE_SHARE: f64 = 0.005;

/// The highest bandwidth that the busiest resource allows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// GB/s as the algbw column has it.
    pub algbw: f64,
    /// GB/s as the busbw column has it.
    pub busbw: f64,
    /// The resources that set it: several where they tie, or may tie as far as their bytes are known.
    pub set_by: Vec<Resource>,
}

impl Bound {
    /// Whether a busbw in GB/s is above it by more than rounding.
    pub fn exceeded_by(&self, busbw: f64) -> bool {
        busbw - ROUNDING_GB_PER_S > self.busbw * (1.0 + ROUNDING_SHARE)
    }
}

/// What NCCL's own constants predict for the same bytes. Not a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expectation {
    /// busbw, GB/s.
    pub low: f64,
    /// busbw if rings leave a node at every GPU in turn, GB/s, where that is not known.
    pub high: f64,
    /// What sets `low`.
    pub set_by: Vec<Resource>,
}

/// The bytes that cross a resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Which resource.
    pub resource: Resource,
    /// Minimum of bytes per byte of the size column, in the busier direction. Bounds come from these.
    pub bytes: f64,
    /// Maximum of the same, where it is not known which GPUs use the NICs.
    pub bytes_at_most: f64,
    /// Its rates.
    pub capacity: Capacity,
    /// busbw at its line rate if no other resource limited, GB/s.
    pub line_busbw: f64,
}

impl Load {
    /// busbw in GB/s if no other resource limited, at the payload rate (line rate where there is none),
    /// with the maximum of bytes. A `measured` busbw above that shows that fewer bytes crossed: then the
    /// figure is the one with the minimum.
    pub fn busbw(&self, measured: f64) -> f64 {
        let most = self.capacity.best() / self.capacity.line * self.line_busbw;
        let all = most * self.bytes / self.bytes_at_most;
        if measured > all { most } else { all }
    }
}

/// A limit, or the facts that are missing to compute one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// The collective.
    pub collective: Collective,
    /// The algorithm that moves its bytes.
    pub algorithm: Algorithm,
    /// Number of ranks.
    pub ranks: usize,
    /// The bound at line rates; none where a fact is missing.
    pub line: Option<Bound>,
    /// The bound at payload rates (line rate where there is none): percent is of this one.
    pub payload: Option<Bound>,
    /// What NCCL expects; none where it has no constants for this machine.
    pub expects: Option<Expectation>,
    /// The resource that sets the limit; of several that tie at line rate, the one NCCL expects least of.
    pub bottleneck: Option<Resource>,
    /// Every resource of known rate that bytes cross.
    pub loads: Vec<Load>,
    /// Facts without which there is no bound.
    pub missing: Vec<String>,
    /// Facts taken from the GPU's model, because the machine's description lacks them.
    pub assumed: Vec<String>,
    /// Facts that are not known and were left out. They could only lower the bound.
    pub unchecked: Vec<String>,
    /// Number of dependent steps, and how many of them are between nodes. Their latency is not in the
    /// bound. None where it depends on rings or switches that are not known.
    pub steps: Option<[usize; 2]>,
}

impl Limit {
    /// Microseconds that `bytes` of the size column take at least.
    pub fn time_us(&self, bytes: f64) -> Option<f64> {
        let bound = self.payload.as_ref()?;
        (bound.algbw > 0.0).then(|| bytes / bound.algbw / 1e3)
    }

    /// Percent of the limit that a busbw in GB/s is.
    pub fn percent(&self, busbw: f64) -> Option<f64> {
        let bound = self.payload.as_ref()?;
        (bound.busbw > 0.0).then(|| busbw / bound.busbw * 100.0)
    }
}

/// The limit of a collective by an algorithm on a machine.
pub fn limit(
    machine: &Machine,
    collective: Collective,
    algorithm: Algorithm,
    placement: &RankPlacement,
) -> Limit {
    build(machine, collective, algorithm, placement, |ranks| {
        traffic::crossing(collective, algorithm, ranks)
    })
}

/// What one rank of one host can send to one of another, from the host's memory over these NICs, one way.
pub fn one_way(nics: Nics) -> Limit {
    let pair = RankPlacement { memory: Memory::Host, ..RankPlacement::new(2, 1) };
    limit(&Machine::of_ports("ports", nics), Collective::SendRecv, Algorithm::Direct, &pair)
}

/// The limit of alltoallv with a known traffic matrix; `size` is the requested size, bytes.
pub fn limit_of_traffic(
    machine: &Machine,
    traffic: &Traffic,
    size: usize,
    placement: &RankPlacement,
) -> Limit {
    let (collective, algorithm) = (Collective::AllToAllV, Algorithm::Direct);
    build(machine, collective, algorithm, placement, |ranks| {
        traffic::alltoallv(traffic, size, ranks)
    })
}

fn build(
    machine: &Machine,
    collective: Collective,
    algorithm: Algorithm,
    placement: &RankPlacement,
    crossing: impl Fn(Ranks) -> Result<Crossing, String>,
) -> Limit {
    let mut limit = Limit {
        collective,
        algorithm,
        ranks: placement.ranks(),
        line: None,
        payload: None,
        expects: None,
        bottleneck: None,
        loads: Vec::new(),
        missing: Vec::new(),
        assumed: Vec::new(),
        unchecked: Vec::new(),
        steps: None,
    };
    if placement.nodes.max(placement.per_node) > MAX_NODES_OR_RANKS {
        limit.missing.push(format!("fewer than {MAX_NODES_OR_RANKS} nodes, and ranks of a node"));
        return limit;
    }
    let Some(islands) = placement.islands(machine) else {
        limit.missing.push("ranks that fill NVLink domains or nodes alike".to_owned());
        return limit;
    };
    if limit.ranks < 2 {
        limit.missing.push("a second rank".to_owned());
        return limit;
    }
    let ranks = Ranks { all: limit.ranks, island: islands.ranks, islands: islands.count };
    let crossing = match crossing(ranks) {
        Ok(crossing) => crossing,
        Err(reason) => {
            limit.missing.push(reason);
            return limit;
        }
    };
    limit.steps = crossing.steps;
    let fabric = resource::fabric(machine, placement, &islands);
    if matches!(algorithm, Algorithm::Nvls | Algorithm::NvlsTree) && fabric != Fabric::NvLink {
        limit.missing.push("NVLink that joins all GPUs of a node".to_owned());
        return limit;
    }
    let site = Site { machine, placement, islands: &islands, fabric, crossing: &crossing };
    loads::collect(&mut limit, &site);
    limit.settle();
    limit
}

/// The part of the size column that algbw counts: all of it, or the others' n−1 chunks of n.
pub fn counted(collective: Collective, ranks: usize) -> f64 {
    let n = ranks as f64;
    if collective.spec().counts_own_chunk { 1.0 } else { (n - 1.0) / n }
}

/// busbw per size over time.
pub fn to_busbw(collective: Collective, ranks: usize) -> f64 {
    counted(collective, ranks) * collective.spec().bus_factor.of(ranks)
}

impl Limit {
    /// From loads to bounds, unless something is missing.
    fn settle(&mut self) {
        for facts in [&mut self.missing, &mut self.unchecked] {
            facts.sort();
            facts.dedup();
        }
        if !self.missing.is_empty() || self.loads.is_empty() {
            if self.missing.is_empty() {
                self.missing.push("anything that bytes cross".to_owned());
            }
            return;
        }
        let counted = counted(self.collective, self.ranks);
        let factor = to_busbw(self.collective, self.ranks);
        let bound = |rate: &dyn Fn(&Load) -> f64| {
            let (size_rate, set_by) = slowest(&self.loads, rate)?;
            Some(Bound { algbw: size_rate * counted, busbw: size_rate * factor, set_by })
        };
        let line = bound(&|load| load.capacity.line);
        let payload = bound(&|load| load.capacity.best());
        let expects = self.expectation(factor);
        self.bottleneck = bottleneck(&self.loads, line.as_ref(), payload.as_ref());
        (self.line, self.payload, self.expects) = (line, payload, expects);
    }

    fn expectation(&self, factor: f64) -> Option<Expectation> {
        let known: Vec<Load> =
            self.loads.iter().filter(|load| load.capacity.nccl.is_some()).cloned().collect();
        // A constant that is missing may be the one that counts, unless it is the rate of NICs or
        // sockets, for which NCCL has the line rate or none at all.
        let without = |load: &Load| load.capacity.nccl.is_none();
        let links = [Resource::NvLink, Resource::GpuLinks];
        if self.loads.iter().any(|load| links.contains(&load.resource) && without(load)) {
            return None;
        }
        let nccl = |load: &Load| load.capacity.nccl.unwrap_or(f64::INFINITY);
        let (high, _) = slowest(&known, &nccl)?;
        let all = |load: &Load| nccl(load) * load.bytes / load.bytes_at_most;
        let (low, set_by) = slowest(&known, &all)?;
        Some(Expectation { low: low * factor, high: high * factor, set_by })
    }
}

/// GB/s of the size column at which the slowest load is full, and what that is.
fn slowest(loads: &[Load], rate: &dyn Fn(&Load) -> f64) -> Option<(f64, Vec<Resource>)> {
    let least = loads.iter().map(|load| rate(load) / load.bytes).reduce(f64::min)?;
    let may_set = |load: &&Load| rate(load) / load.bytes_at_most <= least * (1.0 + TIE_SHARE);
    let tied = loads.iter().filter(may_set);
    Some((least, tied.map(|load| load.resource).collect()))
}

/// What sets the payload bound. If line rates tie, framing alone must not decide, since NVLink has
/// no payload figure: then it is the one that NCCL expects least of.
fn bottleneck(loads: &[Load], line: Option<&Bound>, payload: Option<&Bound>) -> Option<Resource> {
    let tied = &line?.set_by;
    let payload = &payload?.set_by;
    let by_nccl = |resource: &&Resource| {
        let load = loads.iter().find(|load| load.resource == **resource);
        let nccl = |load: &Load| load.capacity.nccl.unwrap_or(load.capacity.line);
        let rate = load.map(|load| nccl(load) / load.bytes_at_most);
        rate.unwrap_or(f64::INFINITY)
    };
    let among = if tied.len() > 1 { tied } else { payload };
    among.iter().min_by(|a, b| by_nccl(a).total_cmp(&by_nccl(b))).copied()
}
