//! When the last of flows that start together has ended: two bounds, which mostly agree, and a simulation until they do.
//! Not when each of them ends, and no flows that wait for others (`simulate`).
//!
//! Least: a link carries all its bytes at its capacity. Most: the rate of a flow is never below the least capacity ÷ weight
//! of its links, as on the link that holds it back no other flow is faster; and weights only fall as flows end. Where all flows
//! carry the same number of bytes, both are the same.

use super::fair::{Filling, Rate};
use super::simulate::SAME_TIME_SHARE;
use super::{Flow, Share};

/// Bounds that differ by less than this share are one figure: rounding of sums.
const SAME_SHARE: f64 = 1e-9;

/// What links carry of flows that start together, added up one flow after the other.
#[derive(Debug, Clone)]
pub struct Bounds {
    links: Vec<Carried>,
    flows: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Carried {
    bytes: f64,
    weight: f64,
    /// Bytes of the largest flow.
    largest: f64,
    /// Whether one of its flows has another link.
    shared: bool,
}

/// Microseconds within which the last flow has ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct End {
    /// Not before.
    pub least_us: f64,
    /// Not after.
    pub most_us: f64,
    /// The link that is busy for the longest, the first of several.
    pub held_by: Option<u32>,
}

impl End {
    /// Whether the bounds differ by no more than a share of the time.
    pub fn is_within(&self, share: f64) -> bool {
        self.least_us.is_infinite() || self.most_us <= self.least_us * (1.0 + share.max(SAME_SHARE))
    }
}

impl Bounds {
    /// Nothing yet, on so many links.
    pub fn new(links: usize) -> Bounds {
        Bounds { links: vec![Carried::default(); links], flows: 0 }
    }

    /// Adds a flow. Its path may name a link several times.
    pub fn add(&mut self, bytes: f64, path: &[Share]) {
        self.flows += 1;
        let Some(first) = path.first() else { return };
        let shared = path.iter().any(|share| share.link != first.link);
        for share in path {
            let carried = &mut self.links[share.link as usize];
            carried.bytes += bytes * share.weight;
            carried.weight += share.weight;
            carried.largest = carried.largest.max(bytes);
            carried.shared |= shared;
        }
    }

    /// Adds what was added up elsewhere on the same links.
    pub fn merge(&mut self, other: &Bounds) {
        self.flows += other.flows;
        for (carried, more) in self.links.iter_mut().zip(&other.links) {
            carried.bytes += more.bytes;
            carried.weight += more.weight;
            carried.largest = carried.largest.max(more.largest);
            carried.shared |= more.shared;
        }
    }

    /// Flows that were added.
    pub const fn flows(&self) -> usize {
        self.flows
    }

    /// When the last flow ends over links of these capacities, bytes per microsecond.
    pub fn end(&self, capacity: &[f64]) -> End {
        let (mut least_us, mut most_us) = (0.0f64, 0.0f64);
        let busy = |carried: &Carried, rate: f64| match carried.bytes > 0.0 {
            true => carried.bytes / rate,
            false => 0.0,
        };
        for (carried, rate) in self.links.iter().zip(capacity) {
            let busy = busy(carried, *rate);
            least_us = least_us.max(busy);
            // A link whose flows have no other is never idle.
            most_us = most_us.max(match carried.shared && busy > 0.0 {
                true => carried.largest * carried.weight / rate,
                false => busy,
            });
        }
        let busiest = self.links.iter().zip(capacity).position(|(carried, rate)| {
            let busy = busy(carried, *rate);
            busy > 0.0 && busy >= least_us * (1.0 - SAME_SHARE)
        });
        End { least_us, most_us: most_us.max(least_us), held_by: busiest.map(|link| link as u32) }
    }
}

/// Rounds after which bounds are looked at again: they cost about as much as a round.
const ROUNDS: usize = 8;

/// Steps of time in which a bound is refined.
const STEPS: u32 = 64;

/// Shares of links that are looked at for an answer: some seconds on a core.
const MAX_SHARES: usize = 400_000_000;

/// When the last of flows that start together ends, simulated until its bounds differ by no more than a share of the time; 0 is
/// exact. Where that would take minutes, the bounds are left farther apart. Latencies, starts and what flows wait for are not
/// read.
pub fn last(capacity: &[f64], flows: &[Flow], tolerance: f64) -> End {
    let sends = flows.iter().filter(|flow| flow.bytes > 0.0 && !flow.path.is_empty());
    let sends = sends.map(|flow| (flow.path.as_slice(), flow.bytes));
    let mut sending = Sending::new(sends.unzip());
    let mut end = sending.bounds(capacity);
    if end.is_within(tolerance) {
        return end;
    }
    end.most_us = end.most_us.min(sending.most_us(capacity, end.most_us));
    if end.is_within(tolerance) {
        return end;
    }
    let mut filling = Filling::new(capacity.len(), &sending.paths);
    let mut rates = vec![Rate::FREE; sending.paths.len()];
    let (mut now, mut looked_at) = (0.0f64, 0);
    for round in 1usize.. {
        filling.rates(capacity, &sending.paths, &sending.active, &mut rates);
        looked_at += sending.shares();
        now += sending.until_next_end(&rates, now);
        let done = sending.active.is_empty() || looked_at > MAX_SHARES;
        if !done && !round.is_multiple_of(ROUNDS) {
            continue;
        }
        let rest = sending.bounds(capacity);
        end.least_us = end.least_us.max(now + rest.least_us);
        end.most_us = end.most_us.min(now + rest.most_us).max(end.least_us);
        end.held_by = rest.held_by.or(end.held_by);
        if done || end.is_within(tolerance) {
            break;
        }
        if sending.active.len() < sending.paths.len() / 2 {
            sending = sending.left_over();
            filling = Filling::new(capacity.len(), &sending.paths);
            rates.truncate(sending.paths.len());
        }
    }
    end
}

/// Flows that have bytes left.
struct Sending<'a> {
    paths: Vec<&'a [Share]>,
    left: Vec<f64>,
    active: Vec<u32>,
}

impl<'a> Sending<'a> {
    fn new((paths, left): (Vec<&'a [Share]>, Vec<f64>)) -> Sending<'a> {
        let active = (0..paths.len() as u32).collect();
        Sending { paths, left, active }
    }

    /// The active flows alone, numbered anew.
    fn left_over(&self) -> Sending<'a> {
        let still = |flow: &u32| (self.paths[*flow as usize], self.left[*flow as usize]);
        Sending::new(self.active.iter().map(still).unzip())
    }

    fn shares(&self) -> usize {
        self.active.iter().map(|flow| self.paths[*flow as usize].len()).sum()
    }

    fn bounds(&self, capacity: &[f64]) -> End {
        let mut bounds = Bounds::new(capacity.len());
        for &flow in &self.active {
            bounds.add(self.left[flow as usize], self.paths[flow as usize]);
        }
        bounds.end(capacity)
    }

    /// Goes on to the first end at these rates. Microseconds that it takes.
    fn until_next_end(&mut self, rates: &[Rate], now: f64) -> f64 {
        let rate = |flow: &u32| rates[*flow as usize].rate;
        let takes = |flow: &u32| self.left[*flow as usize] / rate(flow);
        let step = self.active.iter().map(takes).fold(f64::INFINITY, f64::min);
        let ends_within = step + (now + step) * SAME_TIME_SHARE;
        let left = &mut self.left;
        self.active.retain(|flow| {
            let left = &mut left[*flow as usize];
            let goes_on = *left > rate(flow) * ends_within;
            *left -= rate(flow) * step;
            goes_on
        });
        step
    }

    /// Not after: as if every flow had only the least capacity ÷ weight of its links, where one that has ended counts to the
    /// end of a step. By induction over steps no flow has more left here than in the whole, and so all weights are at least
    /// those.
    fn most_us(&self, capacity: &[f64], most_us: f64) -> f64 {
        let mut left = self.left.clone();
        let mut active = self.active.clone();
        let mut weight = vec![0.0; capacity.len()];
        for share in active.iter().flat_map(|flow| self.paths[*flow as usize]) {
            weight[share.link as usize] += share.weight;
        }
        let step = most_us / f64::from(STEPS);
        let mut least = most_us;
        for at in 0..STEPS {
            let now = step * f64::from(at);
            let mut ends_us = now;
            let mut ended = Vec::new();
            active.retain(|&flow| {
                let path = self.paths[flow as usize];
                let slowest = path
                    .iter()
                    .map(|share| weight[share.link as usize] / capacity[share.link as usize]);
                let slowest = slowest.fold(0.0, f64::max);
                let left = &mut left[flow as usize];
                ends_us = ends_us.max(now + *left * slowest);
                *left -= step / slowest;
                if *left <= 0.0 {
                    ended.push(path);
                }
                *left > 0.0
            });
            least = least.min(ends_us);
            for share in ended.into_iter().flatten() {
                weight[share.link as usize] -= share.weight;
            }
        }
        least
    }
}
