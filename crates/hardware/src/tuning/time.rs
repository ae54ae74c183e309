//! The time that the model predicts for a size, the entry that wins, and its channels and threads.
//! Not the real time of the operation: NCCL uses the prediction only to choose.

use serde::{Deserialize, Serialize};

use super::communicator::Communicator;
use super::constants::TREE_CORRECTION;
use super::table::{Entry, Protocol, Table};
use crate::limits::Algorithm;
use crate::machine::CpuVendor;
use busbw_core::Collective;

/// The time of one entry.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Its algorithm.
    pub algorithm: Algorithm,
    /// Its protocol.
    pub protocol: Protocol,
    /// Microseconds.
    pub us: f32,
}

/// NCCL's choice for a size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The entry of least time.
    pub best: Prediction,
    /// Channels that it may use at most; the scheduler gives each a least share of the bytes, so
    /// that small operations use fewer.
    pub channels: u32,
    /// Threads of a channel.
    pub threads: u32,
    /// Every entry that may be used, in NCCL's order.
    pub all: Vec<Prediction>,
}

/// PCI_BW of src/graph/topo.h: up to this, rings get fewer threads.
const SLOW_RING_GB_PER_S: f32 = 12.0;

const WARP_THREADS: u32 = 32;
const MAX_THREADS: u32 = 640;

impl Communicator {
    /// What NCCL chooses for a collective of `bytes`: size of the type times the larger of the send
    /// and receive counts, which is nccl-tests' size column. `None` where the model has no answer.
    pub fn choose(&self, collective: Collective, bytes: u64) -> Option<Choice> {
        let table = Table::new(self, collective)?;
        let all: Vec<Prediction> = table
            .entries
            .iter()
            .filter_map(|entry| self.predict(collective, entry, bytes))
            .collect();
        // The first of several least ones, as NCCL's loop has it.
        let best = *all.iter().reduce(|best, next| if next.us < best.us { next } else { best })?;
        let (channels, threads) = self.channels_and_threads(best, bytes);
        Some(Choice { best, channels, threads, all })
    }

    /// The time of one entry of the table (`ncclTopoGetAlgoTime`); `None` if it may not be used.
    fn predict(&self, collective: Collective, entry: &Entry, bytes: u64) -> Option<Prediction> {
        if entry.bandwidth == 0.0 {
            return None;
        }
        let minor = self.version.minor;
        let Entry { algorithm, protocol, .. } = *entry;
        let (mut rate, mut latency) = (entry.bandwidth, entry.latency);
        // Powers of two from 64 B; below that, 2.22 on corrects nothing.
        let power = match (bytes >> 6).checked_ilog2() {
            Some(power) => Some(power as usize),
            None if minor < 22 => Some(0),
            None => None,
        };
        let reduces = collective == Collective::AllReduce;
        let x86 = matches!(self.cpu, Some(CpuVendor::Intel | CpuVendor::Amd | CpuVendor::Zhaoxin));
        let corrected = match algorithm {
            Algorithm::Tree => reduces && power.is_some_and(|power| power < 23),
            Algorithm::NvlsTree => reduces && minor >= 29 && self.sm >= 100 && x86,
            _ => false,
        };
        let factor = power.and_then(|power| TREE_CORRECTION[protocol as usize].get(power));
        if let (true, Some(factor)) = (corrected, factor) {
            rate *= factor;
        }
        let ring = algorithm == Algorithm::Ring && protocol == Protocol::Simple;
        let pieces = u64::from(self.channels.max(1)).saturating_mul(self.ranks as u64);
        if ring && self.nodes > 1 && reduces && bytes / pieces.max(1) >= 64 {
            // A ring of several nodes reaches a plateau.
            latency = (f64::from(latency) * if self.sm < 80 { 1.9 } else { 1.4 }) as f32;
        }
        Some(Prediction { algorithm, protocol, us: latency + bytes as f32 / (1000.0 * rate) })
    }

    /// Channels and threads are dropped until each thread has its least number of bytes
    /// (`topoGetAlgoInfo`, NCCL_THREAD_THRESHOLDS).
    fn channels_and_threads(&self, best: Prediction, bytes: u64) -> (u32, u32) {
        let Prediction { algorithm, protocol, .. } = best;
        let ring = algorithm == Algorithm::Ring;
        let mut threads = match (algorithm, protocol) {
            (Algorithm::Ring | Algorithm::Tree, Protocol::Ll) => 512,
            (Algorithm::Ring | Algorithm::Tree, Protocol::Ll128) => MAX_THREADS,
            (Algorithm::Ring, Protocol::Simple) => {
                let graph = self.graphs.ring;
                if graph.bw_intra * graph.channels as f32 <= SLOW_RING_GB_PER_S { 256 } else { 512 }
            }
            (Algorithm::Tree, Protocol::Simple) => 512,
            _ => MAX_THREADS,
        };
        let least = match (algorithm, protocol) {
            (Algorithm::Ring, Protocol::Ll) => 8 * self.ranks as u64,
            (Algorithm::CollNetDirect | Algorithm::CollNetChain, Protocol::Simple) => 512,
            (_, Protocol::Simple) => 64,
            _ => 8,
        };
        let mut channels = self.channels.max(1);
        let fits = |channels: u32, threads: u32, least: u64| {
            let wanted = u64::from(channels) * u64::from(threads);
            bytes >= wanted.saturating_mul(least)
        };
        match algorithm {
            Algorithm::Nvls | Algorithm::NvlsTree => {
                channels = self.nvls_channels.max(1);
                if algorithm == Algorithm::Nvls && self.nodes > 1 && self.version.minor >= 28 {
                    channels = channels.min(self.channels.max(1));
                }
            }
            Algorithm::CollNetDirect => {
                let heads = self.collnet.map_or(1, |collnet| collnet.heads.max(1)) as u64;
                let mut least = least;
                let mut switch = 16;
                let mut starved = true;
                while switch >= 1 && starved {
                    starved = !fits(channels, threads, least.saturating_mul(heads));
                    while starved && channels > switch {
                        if channels == switch + switch / 2 {
                            least /= 2;
                        }
                        channels -= 1;
                        starved = !fits(channels, threads, least.saturating_mul(heads));
                    }
                    switch /= 2;
                }
            }
            _ => {
                while channels >= 2 && !fits(channels, threads, least) {
                    channels -= 1;
                }
                while threads.is_multiple_of(128) && !fits(channels, threads, least) {
                    threads /= 2;
                }
            }
        }
        if protocol == Protocol::Simple && ring {
            // A warp more to keep step.
            threads += WARP_THREADS;
        }
        threads = threads.max(3 * WARP_THREADS);
        match algorithm {
            Algorithm::Tree if self.version.minor < 22 => {
                let more = if protocol == Protocol::Simple { 4 * WARP_THREADS } else { 0 };
                (channels, threads + more)
            }
            Algorithm::Tree | Algorithm::Pat => (channels, MAX_THREADS),
            _ => (channels, threads),
        }
    }
}
