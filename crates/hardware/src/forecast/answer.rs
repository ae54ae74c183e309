//! From a question to times, bandwidths and ranges.
//! Not the flows (`wave`), and not how they are printed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use busbw_core::Collective;
use serde::Serialize;

use super::alltoall;
use super::groups::{self, Group};
use super::hypercube;
use super::job::Job;
use super::question::{Question, Unanswerable};
use super::wave::{self, Place, Wave, Way};
use crate::fabric::{Balance, Built, Routing, Shape};
use crate::flows::BYTES_PER_US;
use crate::limits::{self, Algorithm, RankPlacement, Resource};
use crate::machine::Machine;
use crate::prediction::{self, Expected, attainable};
use crate::tuning::{Protocol, Version};

/// What to expect of every dimension's groups.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// One for each dimension with groups of two ranks and more.
    pub dimensions: Vec<OfDimension>,
    /// What was assumed, and what is not in the figures.
    pub notes: Vec<String>,
}

/// All groups of a dimension at once.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OfDimension {
    /// Its name, `all` for one group.
    pub name: String,
    /// Ranks of a group.
    pub ranks: usize,
    /// Groups.
    pub groups: usize,
    /// Hosts of the largest group.
    pub hosts: usize,
    /// By size.
    pub sizes: Vec<Prediction>,
}

/// What to expect of a size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The size column, bytes.
    pub bytes: u64,
    /// Microseconds until the last group has ended.
    pub time_us: f64,
    /// The shortest and the longest time to expect.
    pub time_range_us: [f64; 2],
    /// GB/s as nccl-tests' algbw column.
    pub algbw: f64,
    /// GB/s as nccl-tests' busbw column.
    pub busbw: f64,
    /// busbw of the longest and the shortest time.
    pub busbw_range: [f64; 2],
    /// What NCCL would choose; `Direct` for sends and receives.
    pub algorithm: Algorithm,
    /// Its protocol; none where NCCL's cost model does not choose one.
    pub protocol: Option<Protocol>,
    /// What takes most of the time: `latency`, a part of the fabric, or of the machine.
    pub limited_by: String,
}

/// The fabric limits where its bytes take longer than the machines' alone by more than this share.
const HELD_SHARE: f64 = 0.005;

/// Seeds of the hash that are tried: the median is expected, best and worst are the range.
pub(super) const ECMP_SEEDS: u64 = 5;

/// Most connections of an alltoall that are hashed one by one: those of 4,096 GPUs, some seconds for all hashes.
const MAX_HASHED: usize = 5_000_000;

impl Question {
    /// Answers.
    ///
    /// # Errors
    /// What does not fit, see `Unanswerable`.
    pub fn answer(&self) -> Result<Answer, Unanswerable> {
        if let Some(uniform) = self.uniform() {
            let mut answer = uniform.answer()?;
            answer.notes.push("guessed: every pair of ranks exchanges the same".to_owned());
            return Ok(answer);
        }
        let (shape, job, inside) = self.checked()?;
        let mut asked = Asked { question: self, shape: &shape, inside, notes: Vec::new() };
        let mut dimensions = Vec::new();
        for (at, dimension) in job.dimensions.iter().enumerate() {
            if dimension.size < 2 {
                continue;
            }
            let groups = self.groups(&shape, &job, at);
            if self.collective == Collective::HyperCube {
                hypercube::check(&dimension.name, self.placement, &groups)?;
            }
            let gpus = self.fabric.machine.node.gpus;
            let hosts = |group: &Group| group.members.iter().map(|one| one.hosts(gpus)).sum();
            let hosts = groups.iter().map(hosts).max().unwrap_or(0);
            let sizes = asked.dimension(&groups)?;
            dimensions.push(OfDimension {
                name: dimension.name.clone(),
                ranks: dimension.size,
                groups: groups.len(),
                hosts,
                sizes,
            });
        }
        asked.notes.sort();
        asked.notes.dedup();
        Ok(Answer { dimensions, notes: asked.notes })
    }

    /// What is asked, if it fits the fabric: its shape, the job with all sizes, GB/s of the links of one GPU within its host.
    pub(super) fn checked(&self) -> Result<(Shape, Job, f64), Unanswerable> {
        let shape = Shape::of(&self.fabric).map_err(Unanswerable::Fabric)?;
        let there = self.fabric.gpus();
        if self.gpus < 2 || self.gpus > there {
            return Err(Unanswerable::Gpus { asked: self.gpus, there });
        }
        let modelled = matches!(
            self.collective,
            Collective::AllReduce
                | Collective::AllGather
                | Collective::ReduceScatter
                | Collective::Broadcast
                | Collective::Reduce
                | Collective::AllToAll
                | Collective::SendRecv
                | Collective::Gather
                | Collective::Scatter
                | Collective::HyperCube
        );
        if !modelled {
            return Err(Unanswerable::Collective(self.collective.name()));
        }
        let inside =
            limits::resource::gpu_rate(&self.fabric.machine).map_err(Unanswerable::Machine)?;
        Ok((shape, self.job.fill(self.gpus)?, inside))
    }

    /// The groups of a dimension, where they run.
    pub(super) fn groups(&self, shape: &Shape, job: &Job, dimension: usize) -> Vec<Group> {
        let ranks = job.groups(dimension, self.gpus);
        groups::place(&self.fabric, &shape.lanes, self.placement, self.gpus, &ranks)
    }
}

/// The islands of a group as a machine, without the fabric. Of an NVLink domain those hosts count that have ranks.
pub(super) struct Alone {
    machine: Machine,
    placement: RankPlacement,
    collective: Collective,
    version: Version,
}

impl Alone {
    pub(super) fn of(question: &Question, largest: &Group) -> Alone {
        let islands = largest.members.len();
        let per_island = largest.per_host().unwrap_or(largest.ranks / islands).max(1);
        let machine = question.fabric.machine.clone();
        let hosts = largest.members.iter().map(|member| member.hosts(machine.node.gpus)).max();
        let mut machine = match question.fabric.hosts_per_island() {
            1 => machine,
            _ => joined(machine, hosts.unwrap_or(1)),
        };
        machine.nodes = islands;
        Alone {
            machine,
            placement: RankPlacement::new(islands, per_island),
            collective: question.collective,
            version: question.nccl,
        }
    }

    pub(super) fn question(&self) -> prediction::Question<'_> {
        prediction::Question {
            machine: &self.machine,
            placement: self.placement,
            collective: self.collective,
            version: self.version,
            algorithm: None,
        }
    }
}

/// So many hosts of an NVLink domain as one: NCCL counts them as one node.
fn joined(mut machine: Machine, hosts: usize) -> Machine {
    let node = &mut machine.node;
    node.gpus *= hosts;
    node.nics.iter_mut().for_each(|nics| nics.count *= hosts);
    node.nvlink.iter_mut().for_each(|nvlink| nvlink.domain = node.gpus);
    machine
}

pub(super) struct Asked<'a> {
    pub(super) question: &'a Question,
    pub(super) shape: &'a Shape,
    /// GB/s of the links of one GPU within its host.
    pub(super) inside: f64,
    pub(super) notes: Vec<String>,
}

/// Whether connections are hashed; too many are taken as spread evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hashed {
    No,
    Yes,
    TooMany,
}

/// Microseconds a byte that a fabric takes: least, to expect, most; and what holds back.
pub(super) struct Spread {
    pub(super) us_per_byte: [f64; 3],
    pub(super) held_by: String,
}

impl Asked<'_> {
    fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    fn dimension(&mut self, groups: &[Group]) -> Result<Vec<Prediction>, Unanswerable> {
        let Some(largest) = groups.iter().max_by_key(|group| group.members.len()) else {
            return Ok(Vec::new());
        };
        let alone = Alone::of(self.question, largest);
        let beside = alone.question();
        self.notes.extend(beside.guessed().into_iter().map(|guess| format!("guessed: {guess}")));
        let mut spreads: BTreeMap<Way, Spread> = BTreeMap::new();
        let mut predictions = Vec::new();
        for &bytes in &self.question.sizes {
            let ideal = beside.expect(bytes)?;
            let way = way(ideal.algorithm, self.question.collective);
            let spread = match spreads.entry(way) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => place.insert(self.spread(groups, way)?),
            };
            let beyond_us = self.beyond_one_switch_us(largest, way);
            predictions.push(on_fabric(&beside, ideal, spread, beyond_us));
        }
        Ok(predictions)
    }

    /// Microseconds of switches and cables beyond one leaf switch, which NCCL's constants are taken to hold, over all steps that
    /// wait for each other.
    pub(super) fn beyond_one_switch_us(&self, group: &Group, way: Way) -> f64 {
        let hosts: Vec<usize> = group.members.iter().map(|member| member.host).collect();
        if hosts.len() < 2 {
            return 0.0;
        }
        let fabric = &self.question.fabric;
        let beyond = |turn: usize| self.shape.way_us(fabric, turn) - self.shape.way_us(fabric, 0);
        let farthest = hosts.iter().map(|host| self.shape.turn(hosts[0], *host)).max().unwrap_or(0);
        let log = hosts.len().ilog2() as f64;
        match way {
            Way::Ring => {
                let next = hosts.iter().zip(hosts.iter().cycle().skip(1));
                let once: f64 = next.map(|(a, b)| beyond(self.shape.turn(*a, *b))).sum();
                once * if self.question.collective == Collective::AllReduce { 2.0 } else { 1.0 }
            }
            Way::Tree | Way::NvlsTree => 2.0 * log * beyond(farthest),
            Way::Pat => log * beyond(farthest),
            Way::Direct if self.question.collective == Collective::HyperCube => {
                let turn = |(at, host): (usize, &usize), step: u32| {
                    hosts.get(at ^ (1 << step)).map_or(0, |peer| self.shape.turn(*host, *peer))
                };
                let step = |step: u32| hosts.iter().enumerate().map(|one| turn(one, step)).max();
                (0..hosts.len().ilog2()).filter_map(step).map(beyond).sum()
            }
            Way::Direct => beyond(farthest),
        }
    }

    /// What the fabric takes a byte, by the ways in which it may balance.
    fn spread(&mut self, groups: &[Group], way: Way) -> Result<Spread, Unanswerable> {
        let even = self.wave(groups, way, Balance::Trunks)?;
        let hashed = self.hashed(groups, way);
        if hashed == Hashed::TooMany {
            self.note(format!(
                "ECMP: {} connections of alltoall are more than the {MAX_HASHED} that are hashed one by one, and are taken as \
                 spread evenly; collisions are not in the range. Fewer GPUs or smaller groups (such as ep64) are hashed",
                self.connections(groups)
            ));
        }
        if hashed != Hashed::Yes {
            self.note_bounds(std::slice::from_ref(&even));
            let us_per_byte = [even.us_per_byte, even.us_per_byte, even.most_us_per_byte];
            return Ok(Spread { us_per_byte, held_by: even.held_by });
        }
        let mut waves = Vec::new();
        for seed in 0..ECMP_SEEDS {
            let seed = self.question.seed.wrapping_add(seed);
            let connections = self.question.connections;
            waves.push(self.wave(groups, way, Balance::Ecmp { seed, connections })?);
        }
        waves.sort_by(|a, b| a.us_per_byte.total_cmp(&b.us_per_byte));
        let of = |at: usize| waves[at].us_per_byte;
        let middle = waves.len() / 2;
        let collide = of(middle) > even.us_per_byte * 1.001;
        if collide {
            self.note(format!(
                "ECMP: connections collide; median, best and worst of {ECMP_SEEDS} hashes are in the figures, with {} \
                 connections of each pair of NICs",
                self.question.connections
            ));
        }
        let held_by = match collide {
            true => format!("{} (ECMP collisions)", waves[middle].held_by),
            false => even.held_by,
        };
        self.note_bounds(&waves);
        let most = waves.iter().map(|wave| wave.most_us_per_byte).fold(0.0, f64::max);
        Ok(Spread { us_per_byte: [of(0), of(middle), most], held_by })
    }

    /// Says so where flows were too many to be simulated to the end.
    fn note_bounds(&mut self, waves: &[Wave]) {
        let share = |wave: &Wave| wave.most_us_per_byte / wave.us_per_byte - 1.0;
        let widest = waves.iter().map(share).fold(0.0, f64::max);
        if widest > wave::TOLERANCE_SHARE * 1.001 {
            self.note(format!(
                "bounds: ranks are spread unevenly over so many hosts that their flows were not simulated to the end; their bytes \
                 take what is expected, or up to {:.1} % longer, which is in the range",
                widest * 100.0
            ));
        }
    }

    /// Connections of an alltoall that are hashed.
    fn connections(&self, groups: &[Group]) -> usize {
        alltoall::pairs(groups).saturating_mul(self.question.connections)
    }

    /// Whether connections of a way are hashed onto links one by one.
    pub(super) fn hashed(&self, groups: &[Group], way: Way) -> Hashed {
        let several = groups.iter().any(|group| group.members.len() > 1);
        let hashed =
            self.question.fabric.routing == Routing::Ecmp && self.shape.leaf_up > 0 && several;
        let crowd = way == Way::Direct && self.question.collective == Collective::AllToAll;
        match hashed {
            true if crowd && self.connections(groups) > MAX_HASHED => Hashed::TooMany,
            true => Hashed::Yes,
            false => Hashed::No,
        }
    }

    fn wave(&self, groups: &[Group], way: Way, balance: Balance) -> Result<Wave, Unanswerable> {
        let question = self.question;
        let (fabric, failures) = (&question.fabric, &question.failures);
        let built = Built::new(fabric, self.shape, failures, balance, self.inside)?;
        let place = Place::new(&built, balance, self.shape, fabric.gpus_per_island(), groups);
        let wave = Wave::of(&place, question.collective, way, groups);
        if wave.us_per_byte.is_infinite() {
            return Err(Unanswerable::CutOff);
        }
        Ok(wave)
    }
}

pub(super) fn way(algorithm: Algorithm, collective: Collective) -> Way {
    match algorithm {
        _ if !Algorithm::Ring.serves(collective) => Way::Direct,
        Algorithm::Tree | Algorithm::CollNetChain => Way::Tree,
        // In one host all bytes are in NCCL's own share; over several hosts it needs a network that reduces.
        Algorithm::NvlsTree | Algorithm::Nvls if collective == Collective::AllReduce => {
            Way::NvlsTree
        }
        Algorithm::Pat => Way::Pat,
        _ => Way::Ring,
    }
}

/// What is expected of the machines alone, with what the fabric adds: the bytes' time where the fabric's is the longer one, and the
/// latency of switches and cables.
pub(super) fn on_fabric(
    beside: &prediction::Question<'_>,
    ideal: Expected,
    spread: &Spread,
    beyond_us: f64,
) -> Prediction {
    let (collective, ranks) = (beside.collective, beside.placement.ranks());
    let limit = beside.limit_of(ideal.algorithm);
    // What flags add to the bytes on the wire (Protocol's documentation).
    let wire = match ideal.protocol {
        Some(Protocol::Ll) => 2.0,
        Some(Protocol::Ll128) => 128.0 / 120.0,
        _ => 1.0,
    };
    let size = ideal.bytes as f64 * wire;
    let nic = limit.loads.iter().find(|load| load.resource == Resource::Nic);
    let attained = nic.map(|nic| attainable(beside.machine, ideal.algorithm, nic));
    let shares = attained.map_or([1.0; 3], |share| [share.high, share.middle, share.low]);
    let factor = limits::to_busbw(collective, ranks);
    let rates = beside.attained(&limit).map(|(busbw, ..)| [busbw.high, busbw.middle, busbw.low]);
    let times = [ideal.time_us.low, ideal.time_us.middle, ideal.time_us.high];
    let mut held = false;
    let time_us: Vec<f64> = (0..3)
        .map(|at| {
            let alone = rates.map_or(0.0, |rates| size * factor / rates[at] / BYTES_PER_US);
            let fabric = size * spread.us_per_byte[at] / shares[at];
            held |= at == 1 && fabric > alone * (1.0 + HELD_SHARE);
            times[at] + (fabric - alone).max(0.0) + beyond_us
        })
        .collect();
    let counted = limits::counted(collective, ranks);
    let algbw = |us: f64| ideal.bytes as f64 / us / BYTES_PER_US * counted;
    let busbw = |us: f64| algbw(us) * collective.spec().bus_factor.of(ranks);
    // Of the rate that is attained, not of the limit: what is not attained of it is no latency.
    let machines_us = rates.map_or(0.0, |rates| size * factor / rates[1] / BYTES_PER_US);
    let fabric_us = size * spread.us_per_byte[1] / shares[1];
    let limited_by = if machines_us.max(fabric_us) < time_us[1] / 2.0 {
        "latency".to_owned()
    } else if held {
        spread.held_by.clone()
    } else {
        ideal.limited_by.name_on(beside.machine)
    };
    Prediction {
        bytes: ideal.bytes,
        time_us: time_us[1],
        time_range_us: [time_us[0], time_us[2]],
        algbw: algbw(time_us[1]),
        busbw: busbw(time_us[1]),
        busbw_range: [busbw(time_us[2]), busbw(time_us[0])],
        algorithm: ideal.algorithm,
        protocol: ideal.protocol,
        limited_by,
    }
}
