//! What the steps of the network waited for, from each rank to each, and the path whose wire is slow.
//! Not lateness: a slow wire holds all ranks of a collective for the same time.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Job;

/// Fewer steps than this say nothing.
const LEAST_STEPS: u64 = 100;
/// A path is slow when its wire takes this many times as long for a byte as the other paths' ...
const TIMES: f64 = 2.0;
/// ... and the sender waited for the wire for more than this part of all that it waited for.
const WIRE_PART: f64 = 0.5;

/// From one rank to another, as the sender saw it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Path {
    /// The communicator: its place in [`Job::groups`].
    pub group: usize,
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// Steps.
    pub steps: u64,
    /// Bytes.
    pub bytes: u64,
    /// The sender's GPU had not produced them yet, ns.
    pub gpu: u64,
    /// The receiver had no room for them yet, ns.
    pub peer: u64,
    /// They were on their way, ns.
    pub wire: u64,
}

/// A path whose wire is slow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SlowPath {
    /// The path.
    pub path: Path,
    /// Its wire's time for a byte, over the median of the other paths' of its communicator.
    pub times: f64,
    /// The paths that it was compared with.
    pub others: usize,
}

/// All paths with steps that sent something.
#[must_use]
pub fn paths(job: &Job) -> Vec<Path> {
    let mut paths: BTreeMap<(usize, u32, u32), Path> = BTreeMap::new();
    for (at, group) in job.groups.iter().enumerate() {
        for member in &group.members {
            let all = job.peers[member.peer].steps.iter();
            for one in all.filter(|one| one.communicator == member.number && one.send) {
                let (from, to) = (member.rank, one.peer);
                let path = paths.entry((at, from, to)).or_default();
                (path.group, path.from, path.to) = (at, from, to);
                path.steps += one.steps;
                path.bytes += one.bytes;
                path.gpu += one.gpu;
                path.peer += one.peer_wait;
                path.wire += one.wire;
            }
        }
    }
    paths.into_values().collect()
}

/// The paths whose wire is slow, the slowest first: only where there is another path of the same communicator to compare
/// with, since what is slow for one network is not for another.
#[must_use]
pub fn slow_paths(paths: &[Path]) -> Vec<SlowPath> {
    let measured = |path: &&Path| path.steps >= LEAST_STEPS && path.bytes > 0;
    let per_byte = |path: &Path| path.wire as f64 / path.bytes as f64;
    let mut slow = Vec::new();
    for path in paths.iter().filter(measured) {
        let others = paths.iter().filter(measured).filter(|other| {
            other.group == path.group && (other.from, other.to) != (path.from, path.to)
        });
        let others: Vec<f64> = others.map(per_byte).collect();
        let Some(usual) = busbw_stats::median(&others).filter(|usual| *usual > 0.0) else {
            continue;
        };
        let times = per_byte(path) / usual;
        let waited = (path.gpu + path.peer + path.wire).max(1) as f64;
        if times >= TIMES && path.wire as f64 > WIRE_PART * waited {
            slow.push(SlowPath { path: *path, times, others: others.len() });
        }
    }
    slow.sort_by(|a, b| b.times.total_cmp(&a.times));
    slow
}
