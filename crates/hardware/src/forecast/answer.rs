//! From a question to times, bandwidths and ranges.
//! Not the flows (`wave`), and not how they are printed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use busbw_core::Collective;
use serde::Serialize;

use super::groups::{self, Group};
use super::question::{Question, Unanswerable};
use super::wave::{Place, Wave, Way};
use crate::fabric::{Balance, Built, Routing, Shape};
use crate::limits::{self, Algorithm, RankPlacement};
use crate::tuning::{Communicator, Protocol, Table, infer, message_latency_us};

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
    /// Its protocol; none where NCCL's model has none.
    pub protocol: Option<Protocol>,
    /// What takes most of the time: `latency`, a part of the fabric, or `NCCL's channels`.
    pub limited_by: String,
}

/// Shares of the figure to expect that published runs of healthy machines reached over a network, calibrated on rows 2, 7, 10 and
/// 11 of the field reports (2 to 4 hosts; none of a large fabric): all_reduce 0.976 and 0.986 of the payload's limit, alltoall
/// 0.919 and 0.886.
const REACHED_BY_ALLTOALL_SHARE: f64 = 0.90;

/// The lower end of the same: 0.92 for pipelines (the flat share that issue 31 measures itself against), 0.85 for alltoall.
const REACHED_AT_LEAST_SHARE: [f64; 2] = [0.92, 0.85];

/// What alltoall within a host reached of NVLink at its best in the one published run (row 12 of the field reports: 137.3 of 450
/// GB/s on 8 H100, unsteady); NCCL 2.18's sends and receives. Newer releases are said to be faster: the range is wide.
const REACHED_BY_ALLTOALL_IN_A_HOST_SHARE: f64 = 0.30;

/// Latency is uncertain by this factor each way. Not calibrated: no published run of a large fabric says it by size.
const LATENCY_FACTOR: f64 = 2.0;

/// Seeds of the hash that are tried: the median is expected, best and worst are the range.
const ECMP_SEEDS: u64 = 5;

/// Most host pairs of alltoall that are hashed one by one.
const MAX_HASHED_PAIRS: usize = 20_000;

impl Question {
    /// Answers.
    ///
    /// # Errors
    /// What does not fit, see `Unanswerable`.
    pub fn answer(&self) -> Result<Answer, Unanswerable> {
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
        );
        if !modelled {
            return Err(Unanswerable::Collective(self.collective.name()));
        }
        let inside =
            limits::resource::gpu_rate(&self.fabric.machine).map_err(Unanswerable::Machine)?;
        let job = self.job.fill(self.gpus)?;
        let mut asked = Asked { question: self, shape: &shape, inside, notes: Vec::new() };
        let mut dimensions = Vec::new();
        for (at, dimension) in job.dimensions.iter().enumerate() {
            if dimension.size < 2 {
                continue;
            }
            let ranks = job.groups(at, self.gpus);
            let groups =
                groups::place(&self.fabric, &shape.lanes, self.placement, self.gpus, &ranks);
            let hosts = groups.iter().map(|group| group.members.len()).max().unwrap_or(0);
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
}

struct Asked<'a> {
    question: &'a Question,
    shape: &'a Shape,
    /// GB/s of the links of one GPU within its host.
    inside: f64,
    notes: Vec<String>,
}

/// Microseconds a byte that a fabric takes: least, to expect, most; and what holds back.
struct Spread {
    us_per_byte: [f64; 3],
    held_by: String,
}

impl Asked<'_> {
    fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    fn dimension(&mut self, groups: &[Group]) -> Result<Vec<Prediction>, Unanswerable> {
        let Some(largest) = groups.iter().max_by_key(|group| group.members.len()) else {
            return Ok(Vec::new());
        };
        let communicator = self.communicator(largest);
        let mut spreads: BTreeMap<Way, Spread> = BTreeMap::new();
        let mut predictions = Vec::new();
        for &bytes in &self.question.sizes {
            let collective = self.question.collective;
            let choice = communicator.as_ref().and_then(|known| known.choose(collective, bytes));
            let (algorithm, protocol, in_node_us, latency_us) = match (&choice, &communicator) {
                (Some(choice), Some(communicator)) => {
                    let best = choice.best;
                    let table = Table::new(communicator, collective);
                    let entry =
                        table.as_ref().and_then(|table| table.entry(best.algorithm, best.protocol));
                    let latency = f64::from(entry.map_or(0.0, |entry| entry.latency));
                    let rest = (f64::from(best.us) - latency).max(0.0);
                    (best.algorithm, Some(best.protocol), rest, latency)
                }
                _ => self.without_model(largest),
            };
            let way = way(algorithm, collective);
            let spread = match spreads.entry(way) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => place.insert(self.spread(groups, way)?),
            };
            let latency_us = latency_us + self.beyond_one_switch_us(largest, way);
            let raw = Raw { bytes, algorithm, protocol, in_node_us, latency_us };
            predictions.push(raw.prediction(spread, collective, largest));
        }
        Ok(predictions)
    }

    /// What NCCL would build for a group; `None`, with a note, where the machine's facts do not suffice.
    fn communicator(&mut self, group: &Group) -> Option<Communicator> {
        let machine = &self.question.fabric.machine;
        let per_host = group.per_host().unwrap_or_else(|| group.ranks / group.members.len());
        let placement = RankPlacement::new(group.members.len(), per_host.max(1));
        match infer(machine, &placement, self.question.nccl) {
            Ok(inferred) => {
                for guess in inferred.guessed {
                    self.note(format!("guessed: {guess}"));
                }
                Some(inferred.communicator)
            }
            Err(missing) => {
                let missing = missing.join(", ");
                self.note(format!(
                    "NCCL's choice is not known without {missing}: a ring is assumed, and no share of NCCL's is in the time"
                ));
                None
            }
        }
    }

    /// Sends and receives, which NCCL's model does not cover, and machines that it does not know.
    fn without_model(&mut self, group: &Group) -> (Algorithm, Option<Protocol>, f64, f64) {
        let several = group.members.len() > 1;
        let latency = f64::from(message_latency_us(self.question.nccl, several));
        if Algorithm::Ring.serves(self.question.collective) {
            let steps = group.ranks.saturating_sub(1) as f64;
            return (Algorithm::Ring, None, 0.0, latency + steps);
        }
        self.note(
            "latency of sends and receives is that of one message in NCCL's constants, whatever the number of peers: not calibrated",
        );
        (Algorithm::Direct, None, 0.0, latency)
    }

    /// Microseconds of switches and cables beyond one leaf switch, which NCCL's constants are taken to hold, over all steps that
    /// wait for each other.
    fn beyond_one_switch_us(&self, group: &Group, way: Way) -> f64 {
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
            Way::Direct => beyond(farthest),
        }
    }

    /// What the fabric takes a byte, by the ways in which it may balance.
    fn spread(&mut self, groups: &[Group], way: Way) -> Result<Spread, Unanswerable> {
        let even = self.wave(groups, way, Balance::Trunks)?;
        let pairs: usize = groups.iter().map(|group| group.members.len().pow(2)).sum();
        let crowd = way == Way::Direct && self.question.collective == Collective::AllToAll;
        let several = groups.iter().any(|group| group.members.len() > 1);
        let hashed =
            self.question.fabric.routing == Routing::Ecmp && self.shape.leaf_up > 0 && several;
        if hashed && crowd && pairs > MAX_HASHED_PAIRS {
            self.note(
                "ECMP: alltoall of so many pairs is taken as spread evenly; collisions are not in the range",
            );
        }
        if !hashed || crowd && pairs > MAX_HASHED_PAIRS {
            return Ok(Spread { us_per_byte: [even.us_per_byte; 3], held_by: even.held_by });
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
        Ok(Spread { us_per_byte: [of(0), of(middle), of(waves.len() - 1)], held_by })
    }

    fn wave(&self, groups: &[Group], way: Way, balance: Balance) -> Result<Wave, Unanswerable> {
        let question = self.question;
        let (fabric, failures) = (&question.fabric, &question.failures);
        let built = Built::new(fabric, self.shape, failures, balance, self.inside)?;
        let place = Place::new(&built, balance, self.shape, fabric.gpus_per_host(), groups);
        let wave = Wave::of(&place, question.collective, way, groups);
        if wave.us_per_byte.is_infinite() {
            return Err(Unanswerable::CutOff);
        }
        Ok(wave)
    }
}

fn way(algorithm: Algorithm, collective: Collective) -> Way {
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

/// A size with NCCL's share.
struct Raw {
    bytes: u64,
    algorithm: Algorithm,
    protocol: Option<Protocol>,
    /// Microseconds that NCCL's model has for the bytes.
    in_node_us: f64,
    latency_us: f64,
}

impl Raw {
    fn prediction(&self, spread: &Spread, collective: Collective, group: &Group) -> Prediction {
        let ranks = group.ranks;
        // What flags add to the bytes on the wire (Protocol's documentation).
        let wire = match self.protocol {
            Some(Protocol::Ll) => 2.0,
            Some(Protocol::Ll128) => 128.0 / 120.0,
            _ => 1.0,
        };
        let crowd = collective == Collective::AllToAll;
        let reached = if crowd { REACHED_BY_ALLTOALL_SHARE } else { 1.0 };
        let at_least = match (crowd, group.members.len()) {
            (true, 1) => REACHED_BY_ALLTOALL_IN_A_HOST_SHARE / REACHED_BY_ALLTOALL_SHARE,
            _ => REACHED_AT_LEAST_SHARE[usize::from(crowd)],
        };
        let [least, middle, most] = spread.us_per_byte.map(|us| us * self.bytes as f64 * wire);
        let expected = (middle / reached).max(self.in_node_us);
        let slowest = (most.max(self.in_node_us) / at_least).max(expected);
        let time_us = self.latency_us + expected;
        let range =
            [self.latency_us / LATENCY_FACTOR + least, self.latency_us * LATENCY_FACTOR + slowest];
        let counted = limits::counted(collective, ranks);
        let algbw = |us: f64| if us > 0.0 { self.bytes as f64 / us / 1e3 * counted } else { 0.0 };
        let busbw = |us: f64| algbw(us) * collective.spec().bus_factor.of(ranks);
        let limited_by = if self.latency_us > expected {
            "latency".to_owned()
        } else if self.in_node_us >= middle / reached {
            "NCCL's channels".to_owned()
        } else {
            spread.held_by.clone()
        };
        Prediction {
            bytes: self.bytes,
            time_us,
            time_range_us: range,
            algbw: algbw(time_us),
            busbw: busbw(time_us),
            busbw_range: [busbw(range[1]), busbw(range[0])],
            algorithm: self.algorithm,
            protocol: self.protocol,
            limited_by,
        }
    }
}
