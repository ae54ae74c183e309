//! What the steps of the network waited for, from each rank to each, and the path whose wire is slow.
//! Not lateness: a slow wire holds all ranks of a collective for the same time.

use std::{cmp::Ordering, collections::BTreeMap};

use serde::Serialize;

use crate::{Job, Matched, transit::asked_later};

/// Fewer steps than this say nothing.
const LEAST_STEPS: u64 = 100;
/// A path is slow when its sender waits for the wire this many times as long for a byte as on the other paths ...
const TIMES: f64 = 2.0;
/// ... and for more than this part of all that it waits for;
const WIRE_PART: f64 = 0.5;
/// or when a step is on its way for this part of a call's time ...
const SLOW_PART: f64 = 2.0 / 3.0;
/// ... and on the other paths for less than this part.
const OTHERS_PART: f64 = 1.0 / 3.0;

/// From one rank to another, as both saw it.
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
    /// They were on their way, as far as the sender knows, ns: with TCP until the kernel had taken them.
    pub wire: u64,
    /// Steps as the receiver saw them.
    pub received: u64,
    /// The receiver waited for them, ns: from when it had room until they had come.
    pub arrival: u64,
    /// They were written through to the GPU's memory, ns.
    pub flush: u64,
    /// The receiver's GPU had not taken them yet, ns.
    pub taken: u64,
    /// A step's way from when the sender's GPU had it to when the receiver got it, us, with the error of the clocks; none where
    /// nothing aligns these.
    pub transit_us: Option<f64>,
    /// Median time of a call of this communicator, us.
    pub call_us: Option<f64>,
}

/// How it is known that a path is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SlowBy {
    /// The sender waits for the wire.
    Wire,
    /// Steps are on their way for most of a call's time.
    Transit,
}

/// A path whose wire is slow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SlowPath {
    /// The path.
    pub path: Path,
    /// How it is known.
    pub by: SlowBy,
    /// Its time over the median of the other paths' of its communicator; none where that is less than the clocks' error.
    pub times: Option<f64>,
    /// The paths that it was compared with.
    pub others: usize,
}

/// All paths.
#[must_use]
pub fn paths(job: &Job, of: &[Vec<Matched<'_>>]) -> Vec<Path> {
    let mut paths: BTreeMap<(usize, u32, u32), Path> = BTreeMap::new();
    for (at, group) in job.groups.iter().enumerate() {
        for member in &group.members {
            let all = job.peers[member.peer].steps.iter();
            for one in all.filter(|one| one.communicator == member.number) {
                let (from, to) = match one.send {
                    true => (member.rank, one.peer),
                    false => (one.peer, member.rank),
                };
                let path = paths.entry((at, from, to)).or_default();
                (path.group, path.from, path.to) = (at, from, to);
                if one.send {
                    path.steps = path.steps.saturating_add(one.steps);
                    path.bytes = path.bytes.saturating_add(one.bytes);
                    path.gpu = path.gpu.saturating_add(one.gpu);
                    path.peer = path.peer.saturating_add(one.peer_wait);
                    path.wire = path.wire.saturating_add(one.wire);
                } else {
                    path.received = path.received.saturating_add(one.steps);
                    path.arrival = path.arrival.saturating_add(one.wire);
                    path.flush = path.flush.saturating_add(one.flush);
                    path.taken = path.taken.saturating_add(one.gpu);
                }
            }
        }
    }
    let mut paths: Vec<Path> = paths.into_values().collect();
    for path in &mut paths {
        transit(job, path, &of[path.group]);
    }
    paths
}

fn transit(job: &Job, path: &mut Path, calls: &[Matched<'_>]) {
    let group = &job.groups[path.group];
    let shortest = calls.iter().filter_map(|call| call.durations().map(|(_, one)| one).min());
    let times: Vec<f64> = shortest.map(|ns| ns as f64 / 1e3).collect();
    path.call_us = busbw_stats::median(&times);
    let member = |rank| group.members.iter().position(|one| one.rank == rank);
    let (Some(from), Some(to)) = (member(path.from), member(path.to)) else { return };
    if path.steps < LEAST_STEPS || path.received < LEAST_STEPS {
        return;
    }
    let Some(later) = asked_later(job, group, calls, (from, to)) else { return };
    let waited = path.arrival as f64 / path.received as f64;
    let produced = (path.gpu as f64 + path.peer as f64) / path.steps as f64;
    path.transit_us = Some((waited - produced + later) / 1e3);
}

/// The paths whose wire is slow, the slowest first: only where there is another path of the same communicator to compare
/// with, since what is slow for one network is not for another.
#[must_use]
pub fn slow_paths(paths: &[Path]) -> Vec<SlowPath> {
    let mut slow: Vec<SlowPath> = paths
        .iter()
        .filter(|path| path.steps >= LEAST_STEPS && path.bytes > 0)
        .filter_map(|path| {
            let others = paths.iter().filter(|other| {
                other.group == path.group
                    && (other.from, other.to) != (path.from, path.to)
                    && other.steps >= LEAST_STEPS
                    && other.bytes > 0
            });
            let others: Vec<&Path> = others.collect();
            by_wire(path, &others).or_else(|| by_transit(path, &others))
        })
        .collect();
    slow.sort_by(|a, b| {
        b.path.transit_us.partial_cmp(&a.path.transit_us).unwrap_or(Ordering::Equal)
    });
    slow
}

fn by_wire(path: &Path, others: &[&Path]) -> Option<SlowPath> {
    let per_byte = |path: &Path| path.wire as f64 / path.bytes as f64;
    let all: Vec<f64> = others.iter().map(|other| per_byte(other)).collect();
    let usual = busbw_stats::median(&all).filter(|usual| *usual > 0.0)?;
    let times = per_byte(path) / usual;
    let waited = (path.gpu as f64 + path.peer as f64 + path.wire as f64).max(1.0);
    (times >= TIMES && path.wire as f64 > WIRE_PART * waited).then_some(SlowPath {
        path: *path,
        by: SlowBy::Wire,
        times: Some(times),
        others: others.len(),
    })
}

fn by_transit(path: &Path, others: &[&Path]) -> Option<SlowPath> {
    let (own, call) = (path.transit_us?, path.call_us?);
    let all: Vec<f64> = others.iter().filter_map(|other| other.transit_us).collect();
    let usual = busbw_stats::median(&all)?;
    let slow = own >= SLOW_PART * call && usual < OTHERS_PART * call;
    slow.then_some(SlowPath {
        path: *path,
        by: SlowBy::Transit,
        times: (usual > 0.0).then_some(own / usual),
        others: all.len(),
    })
}
