//! From attainable shares and NCCL's choice to time, algbw and busbw at a size.
//! Not the verdict on somebody's figure (`plausible`).

use busbw_core::{Collective, alltoallv::Traffic};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::attainable::{Attainable, attainable};
use crate::limits::bound::to_busbw;
use crate::limits::{
    Algorithm, Bound, Limit, Possible, RankPlacement, Resource, candidates, limit, limit_of_traffic,
};
use crate::machine::Machine;
use crate::tuning::{Choice, Communicator, Protocol, Table, Version, infer};

/// Least, middle and most of what is expected.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// The least.
    pub low: f64,
    /// The middle: the prediction.
    pub middle: f64,
    /// The most.
    pub high: f64,
}

impl Span {
    /// Whether a figure is in it; its ends belong to it.
    pub fn holds(&self, figure: f64) -> bool {
        (self.low..=self.high).contains(&figure)
    }

    /// Half of its width, percent of the middle of its ends.
    pub fn half_width_percent(&self) -> f64 {
        (self.high - self.low) / (self.high + self.low) * 100.0
    }
}

/// Why there is no prediction.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum NoPrediction {
    /// Facts of the machine are missing.
    #[error("{machine} lacks what a limit needs: {}", .missing.join(", "))]
    Missing {
        /// The machine's name.
        machine: String,
        /// The facts.
        missing: Vec<String>,
    },
    /// The algorithm that was asked for does not serve.
    #[error("{algorithm} is not offered for {} here by the cost model of NCCL 2.{minor}", .collective.name())]
    NotOffered {
        /// Which.
        algorithm: Algorithm,
        /// For what.
        collective: Collective,
        /// Of which release.
        minor: u32,
    },
}

/// The size for which even traffic of alltoallv is added up, bytes: large, so that no pair is rounded.
const EVEN_TRAFFIC_BYTES: usize = 1 << 30;

/// What is asked: a collective on a machine, by a release of NCCL.
#[derive(Debug, Clone)]
pub struct Question<'m> {
    /// The machine.
    pub machine: &'m Machine,
    /// Its ranks.
    pub placement: RankPlacement,
    /// The collective.
    pub collective: Collective,
    /// The release whose cost model chooses.
    pub version: Version,
    /// The algorithm, where it is fixed (NCCL_ALGO).
    pub algorithm: Option<Algorithm>,
}

/// What is expected at a size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Expected {
    /// The size column, bytes.
    pub bytes: u64,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol; none where NCCL's cost model does not choose one.
    pub protocol: Option<Protocol>,
    /// Microseconds.
    pub time_us: Span,
    /// GB/s.
    pub algbw: Span,
    /// GB/s.
    pub busbw: Span,
    /// The limit of the algorithm: nothing exceeds it. GB/s.
    pub limit: Bound,
    /// The resource that is expected to limit large sizes: the slowest by what is attained of each.
    pub limited_by: Resource,
    /// What is attained of that resource, and on what that rests.
    pub attained: Attainable,
    /// Whether the range is narrow with reason: results of the same kind are known, and so is what crosses each resource.
    pub known: bool,
}

/// Latency of sends and receives within a node, microseconds: what 8 bytes of all_reduce took in our own baseline on
/// 8 H200 (NCCL 2.28.9, one thread a GPU). NCCL's model has no figure for them.
const DIRECT_LATENCY_US: f64 = 12.8;

/// Shares of NCCL's latency that small operations take. A judgement: host, driver and the number of GPUs that a
/// thread drives decide it more than the network.
const LATENCY: Span = Span { low: 0.8, middle: 1.2, high: 2.0 };

/// What filling the pipeline of chunks costs beside latency and bytes: microseconds at this size, in proportion below it, by
/// the fourth root above. Calibrated on our 8 H200 (reference 8x-h200-nvlink): 40 us at 16 MiB, 123 at 1 GiB, 155 at 4 GiB.
const FILL_US: f64 = 40.0;
const FILL_BYTES: f64 = 16_777_216.0;
/// Shares of it, as a range.
const FILL: Span = Span { low: 0.5, middle: 1.0, high: 2.0 };

/// Whether it is known which GPUs' NICs messages use.
fn nics_known(collective: Collective) -> bool {
    matches!(collective, Collective::SendRecv | Collective::Gather | Collective::Scatter)
}

impl Question<'_> {
    /// What is expected at a size in bytes.
    ///
    /// # Errors
    /// A fact is missing, or NCCL does not offer the algorithm.
    pub fn expect(&self, bytes: u64) -> Result<Expected, NoPrediction> {
        let chosen = self.choose(bytes)?;
        let limit = self.limit_of(chosen.algorithm);
        let Some(bound) = limit.payload.clone() else { return Err(self.missing(limit.missing)) };
        let Some((busbw, limited_by, attained)) = self.attained(&limit) else {
            return Err(self.missing(vec!["anything that bytes cross".to_owned()]));
        };
        let factor = to_busbw(self.collective, self.placement.ranks());
        let fill = fill_us(bytes as f64);
        // A low time belongs to a high rate.
        let time = |latency: f64, busbw: f64, filling: f64| {
            let rate = busbw / factor * chosen.share_of_simple;
            chosen.latency_us * latency + bytes as f64 / rate / 1e3 + fill * filling
        };
        let least = self.least_time(&limit, bytes);
        let time_us = Span {
            low: time(LATENCY.low, busbw.high, FILL.low).max(least),
            middle: time(LATENCY.middle, busbw.middle, FILL.middle).max(least),
            high: time(LATENCY.high, busbw.low, FILL.high),
        };
        let per_us = |scale: f64| Span {
            low: bytes as f64 * scale / time_us.high / 1e3,
            middle: bytes as f64 * scale / time_us.middle / 1e3,
            high: bytes as f64 * scale / time_us.low / 1e3,
        };
        let algbw = per_us(factor / self.collective.spec().bus_factor.of(self.placement.ranks()));
        Ok(Expected {
            bytes,
            algorithm: chosen.algorithm,
            protocol: chosen.protocol,
            time_us,
            algbw,
            busbw: per_us(factor),
            limit: bound,
            limited_by,
            known: attained.basis.is_known()
                && (nics_known(self.collective)
                    || limit.loads.iter().all(|load| load.bytes >= load.bytes_at_most)),
            attained,
        })
    }

    /// What the other algorithms that may run here give at a size, in NCCL's order.
    pub fn others(&self, chosen: &Expected) -> Vec<Expected> {
        let all = candidates(self.machine, self.collective, &self.placement);
        let may_run = all.into_iter().filter(|one| one.possible == Possible::Yes);
        may_run
            .map(|one| one.limit.algorithm)
            .filter(|algorithm| *algorithm != chosen.algorithm)
            .filter_map(|algorithm| {
                Question { algorithm: Some(algorithm), ..self.clone() }.expect(chosen.bytes).ok()
            })
            .collect()
    }

    /// What NCCL's model guesses of the machine, in words.
    pub fn guessed(&self) -> Vec<String> {
        let tuned = self.collective.spec().tuned_by_nccl;
        let inferred = tuned.then(|| infer(self.machine, &self.placement, self.version));
        let mut guessed = match inferred {
            Some(Ok(inferred)) => inferred.guessed,
            Some(Err(missing)) => vec![format!(
                "rings by Simple, as NCCL's cost model would need the {} of this machine",
                missing.join(" and the ")
            )],
            None => Vec::new(),
        };
        if self.collective == Collective::AllToAllV {
            guessed.push("every pair of ranks exchanges the same".to_owned());
        }
        guessed
    }

    /// The limit of an algorithm here.
    pub fn limit_of(&self, algorithm: Algorithm) -> Limit {
        if self.collective == Collective::AllToAllV && algorithm == Algorithm::Direct {
            let even = Traffic::Generated { spread: 0.0 };
            return limit_of_traffic(self.machine, &even, EVEN_TRAFFIC_BYTES, &self.placement);
        }
        limit(self.machine, self.collective, algorithm, &self.placement)
    }

    /// busbw of large sizes by an algorithm, GB/s, the resource that limits it, and what is attained of that.
    pub fn attained(&self, limit: &Limit) -> Option<(Span, Resource, Attainable)> {
        let of = |load: &crate::limits::Load| {
            let share = attainable(self.machine, limit.algorithm, load);
            let most = load.capacity.best() / load.capacity.line * load.line_busbw;
            // Which GPUs use the NICs is NCCL's choice: the least counts all that may cross.
            let all = most * load.bytes / load.bytes_at_most;
            // A message of one rank leaves by its own GPU's NICs (`ncclTopoGetLocalNet`), and a root receives by those of its GPU
            // (`recvSetup` of src/transport/net.cc: no PXN there).
            let most = if nics_known(self.collective) { all } else { most };
            let (low, high) = (all * share.low, most * share.high);
            (Span { low, middle: f64::midpoint(low, high), high }, load.resource, share)
        };
        let all: Vec<_> = limit.loads.iter().map(of).collect();
        let least = |rate: fn(&Span) -> f64| {
            all.iter().map(|one| rate(&one.0)).fold(f64::INFINITY, f64::min)
        };
        let slowest = all.iter().min_by(|a, b| a.0.middle.total_cmp(&b.0.middle))?;
        let (low, high) = (least(|span| span.low), least(|span| span.high));
        let span = Span { low, middle: f64::midpoint(low, high), high };
        Some((span, slowest.1, slowest.2.clone()))
    }

    fn least_time(&self, limit: &Limit, bytes: u64) -> f64 {
        let counted = |bound: &Bound| bound.busbw / to_busbw(self.collective, limit.ranks);
        limit.payload.as_ref().map_or(0.0, |bound| bytes as f64 / counted(bound) / 1e3)
    }

    fn missing(&self, missing: Vec<String>) -> NoPrediction {
        NoPrediction::Missing { machine: self.machine.name.clone(), missing }
    }

    /// NCCL's choice, or that of the question.
    fn choose(&self, bytes: u64) -> Result<Chosen, NoPrediction> {
        if !self.collective.spec().tuned_by_nccl {
            let wanted = self.algorithm.unwrap_or(Algorithm::Direct);
            return match wanted.serves(self.collective) {
                true => Ok(self.untuned(wanted)),
                false => Err(self.not_offered(wanted)),
            };
        }
        let inferred = match infer(self.machine, &self.placement, self.version) {
            Ok(inferred) => inferred,
            // RCCL and what has no constants in NCCL: rings, which every machine has.
            Err(_) => return Ok(self.untuned(self.algorithm.unwrap_or(Algorithm::Ring))),
        };
        let comm = inferred.communicator;
        let choice = comm.choose(self.collective, bytes);
        let Some(choice) = choice else { return Ok(self.untuned(Algorithm::Ring)) };
        self.of_choice(&comm, &choice, bytes)
    }

    fn of_choice(
        &self,
        comm: &Communicator,
        choice: &Choice,
        bytes: u64,
    ) -> Result<Chosen, NoPrediction> {
        // A model of GPUs that NVLink joins may choose what these ranks, kept from it, cannot run.
        let runs = |algorithm| self.limit_of(algorithm).payload.is_some();
        let offered = choice.all.iter().filter(|one| match self.algorithm {
            Some(wanted) => one.algorithm == wanted,
            None => runs(one.algorithm),
        });
        let best = offered.reduce(|best, next| if next.us < best.us { next } else { best });
        let Some(best) = best else {
            return Err(self.not_offered(self.algorithm.unwrap_or(Algorithm::Ring)));
        };
        let table = Table::new(comm, self.collective);
        let entry = |protocol| {
            table.as_ref().and_then(|table| table.entry(best.algorithm, protocol)).copied()
        };
        let latency_us = entry(best.protocol).map_or(0.0, |entry| f64::from(entry.latency));
        let simple = entry(Protocol::Simple).map_or(0.0, |entry| f64::from(entry.bandwidth));
        // The rate behind the time, with NCCL's corrections for size, beside that of Simple.
        let rate = bytes as f64 / 1e3 / (f64::from(best.us) - latency_us).max(1e-9);
        let share = if simple > 0.0 { (rate / simple).clamp(0.01, 1.0) } else { 1.0 };
        Ok(Chosen {
            algorithm: best.algorithm,
            protocol: Some(best.protocol),
            latency_us,
            share_of_simple: share,
        })
    }

    /// An algorithm of which NCCL's model says nothing.
    fn untuned(&self, algorithm: Algorithm) -> Chosen {
        let islands = self.placement.nodes / self.placement.nodes_joined(self.machine).max(1);
        let doublings = |count: usize| (count.max(1) as f64).log2();
        // A hypercube's steps are launches, one after the other.
        let launches = match self.collective {
            Collective::HyperCube => doublings(self.placement.ranks()),
            _ => 1.0,
        };
        // A hop more for each doubling of islands, as in NCCL's trees.
        let latency_us = DIRECT_LATENCY_US * (launches + doublings(islands));
        Chosen { algorithm, protocol: None, latency_us, share_of_simple: 1.0 }
    }

    fn not_offered(&self, algorithm: Algorithm) -> NoPrediction {
        NoPrediction::NotOffered {
            algorithm,
            collective: self.collective,
            minor: self.version.minor,
        }
    }
}

/// What moves the bytes, and how its time begins.
struct Chosen {
    algorithm: Algorithm,
    protocol: Option<Protocol>,
    latency_us: f64,
    /// Its rate as a share of that of the protocol Simple.
    share_of_simple: f64,
}

fn fill_us(bytes: f64) -> f64 {
    let part = bytes / FILL_BYTES;
    FILL_US * if part < 1.0 { part } else { part.powf(0.25) }
}
