//! From bytes and rates to a bound: the resource that takes longest sets it.
//! Not what a measurement says about it (`verdict`).

use serde::{Deserialize, Serialize};

use super::algorithm::Algorithm;
use super::loads::{self, Site};
use super::placement::Placement;
use super::resource::{self, Capacity, Fabric, Resource};
use super::traffic::{self, Crossing, Ranks};
use crate::machine::Machine;
use busbw_core::Collective;
use busbw_core::alltoallv::Traffic;
use busbw_core::bandwidth::bus_factor;

/// A result above a bound by less than this part of it, or by less than what two decimals of algbw
/// round away (0.005 GB/s times a factor of at most 2), is not above it.
const ROUNDING: f64 = 0.005;
const PRINTED: f64 = 0.01;

/// Nodes, and ranks of a node, at most: beyond that, numbers are mistakes.
const MOST: usize = 1_000_000;

/// Rates within this part of each other tie.
const TIE: f64 = 0.005;

/// The most that bytes allow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// GB/s as the algbw column has it.
    pub algbw: f64,
    /// GB/s as the busbw column has it.
    pub busbw: f64,
    /// What sets it; several tie, also where one may or may not, by bytes that are open.
    pub set_by: Vec<Resource>,
}

impl Bound {
    /// Whether a busbw in GB/s is above it by more than rounding.
    pub fn exceeded_by(&self, busbw: f64) -> bool {
        busbw - PRINTED > self.busbw * (1.0 + ROUNDING)
    }
}

/// What NCCL's constants give by the same bytes. Not a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expectation {
    /// busbw, GB/s.
    pub low: f64,
    /// The same if rings leave a node at every GPU in turn, where that is open.
    pub high: f64,
    /// What sets `low`.
    pub set_by: Vec<Resource>,
}

/// What crosses a resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// What is crossed.
    pub resource: Resource,
    /// Bytes per byte of the size column, in the busier direction: at least. Bounds are from these.
    pub bytes: f64,
    /// The same, at most, where it is open which GPUs have to do with NICs.
    pub bytes_at_most: f64,
    /// How fast it is.
    pub capacity: Capacity,
    /// busbw, GB/s, if it alone limited, at line rate.
    pub line_busbw: f64,
}

impl Load {
    /// busbw, GB/s, if it alone limited and all bytes crossed it that may: at payload, or line where
    /// there is none. A result above that shows that fewer did: then it is of the fewest.
    pub fn busbw(&self, measured: f64) -> f64 {
        let most = self.capacity.best() / self.capacity.line * self.line_busbw;
        let all = most * self.bytes / self.bytes_at_most;
        if measured > all { most } else { all }
    }
}

/// A limit, or what is missing to have one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// The collective.
    pub collective: Collective,
    /// How its bytes move.
    pub algorithm: Algorithm,
    /// Ranks.
    pub ranks: usize,
    /// At line rates; `None` where a fact is missing.
    pub line: Option<Bound>,
    /// At payload, and line where there is no payload figure: percent is taken from this one.
    pub payload: Option<Bound>,
    /// What NCCL expects; `None` where it has no constants for this machine.
    pub expects: Option<Expectation>,
    /// What sets the limit; of several that tie at line rate, what NCCL expects least of.
    pub culprit: Option<Resource>,
    /// Every resource that bytes cross and whose rate is known.
    pub loads: Vec<Load>,
    /// Facts without which there is no bound.
    pub missing: Vec<String>,
    /// Facts that were taken from the GPU's model, since the machine does not say them.
    pub assumed: Vec<String>,
    /// Facts that are not known and were left out: they could only lower the bound.
    pub unchecked: Vec<String>,
    /// Steps that depend on each other, and how many of these are between nodes; latency is not in
    /// the bound. `None` where rings or switches leave it open.
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
    placement: &Placement,
) -> Limit {
    build(machine, collective, algorithm, placement, |ranks| {
        traffic::crossing(collective, algorithm, ranks)
    })
}

/// The limit of alltoallv when it is known who sends how much to whom; `size` is the size that was
/// asked for, bytes.
pub fn limit_of_traffic(
    machine: &Machine,
    traffic: &Traffic,
    size: usize,
    placement: &Placement,
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
    placement: &Placement,
    crossing: impl Fn(Ranks) -> Result<Crossing, String>,
) -> Limit {
    let mut limit = Limit {
        collective,
        algorithm,
        ranks: placement.ranks(),
        line: None,
        payload: None,
        expects: None,
        culprit: None,
        loads: Vec::new(),
        missing: Vec::new(),
        assumed: Vec::new(),
        unchecked: Vec::new(),
        steps: None,
    };
    if placement.nodes.max(placement.per_node) > MOST {
        limit.missing.push(format!("fewer than {MOST} nodes, and ranks of a node"));
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

/// The part of the size column that algbw counts: hypercube's, n−1 chunks of n.
fn counted(collective: Collective, ranks: usize) -> f64 {
    let n = ranks as f64;
    if collective == Collective::HyperCube { (n - 1.0) / n } else { 1.0 }
}

/// busbw per size over time.
pub(super) fn to_busbw(collective: Collective, ranks: usize) -> f64 {
    counted(collective, ranks) * bus_factor(collective, ranks)
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
        self.culprit = culprit(&self.loads, line.as_ref(), payload.as_ref());
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
    let may_set = |load: &&Load| rate(load) / load.bytes_at_most <= least * (1.0 + TIE);
    let tied = loads.iter().filter(may_set);
    Some((least, tied.map(|load| load.resource).collect()))
}

/// What sets the payload bound. If line rates tie, framing alone must not decide, since NVLink has
/// no payload figure: then it is the one that NCCL expects least of.
fn culprit(loads: &[Load], line: Option<&Bound>, payload: Option<&Bound>) -> Option<Resource> {
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
