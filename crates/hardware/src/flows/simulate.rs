//! The events: flows become ready, send at their fair rates, end, and others wait for them; links and paths change.
//! Not how rates are shared (`fair`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Share;
use super::fair::{Filling, Rate};

/// Bytes from one place to another.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Flow {
    /// Bytes to send.
    pub bytes: f64,
    /// The links that they cross, each named once (`merge`). Without any they take no time.
    pub path: Vec<Share>,
    /// Microseconds from the last byte sent to its arrival.
    pub latency_us: f64,
    /// Microseconds before which it does not start.
    pub start_us: f64,
    /// Flows that must have arrived before it starts, by index.
    pub after: Vec<u32>,
}

/// Something that changes while flows run.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Microseconds at which it happens.
    pub at_us: f64,
    /// What happens.
    pub what: Changed,
}

/// What changes.
#[derive(Debug, Clone, PartialEq)]
pub enum Changed {
    /// A link carries so much from then on.
    Capacity {
        /// Index of the link.
        link: u32,
        /// Bytes per microsecond.
        capacity: f64,
    },
    /// What a flow has left goes over other links from then on. Bytes that have left are not lost.
    Path {
        /// Index of the flow.
        flow: u32,
        /// Its links, each named once (`merge`).
        path: Vec<Share>,
    },
}

/// When flows arrived, and what held them back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Microseconds at which each flow has arrived; infinite for one that never does.
    pub arrival_us: Vec<f64>,
    /// The link that held each flow back when it ended.
    pub held_by: Vec<Option<u32>>,
    /// How often rates were shared out.
    pub rounds: usize,
}

impl Outcome {
    /// Microseconds until everything has arrived; 0 without flows.
    pub fn end_us(&self) -> f64 {
        self.arrival_us.iter().copied().fold(0.0, f64::max)
    }

    /// The flow that arrives last, the first of several.
    pub fn last(&self) -> Option<usize> {
        let end = self.end_us();
        self.arrival_us.iter().position(|&at| at >= end)
    }
}

/// A moment at which a flow may start.
type Ready = Reverse<(Time, u32)>;

/// Microseconds that can be ordered: never negative, never NaN.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct Time(f64);

impl Eq for Time {}

#[allow(clippy::derive_ord_xor_partial_ord, reason = "no NaN is ever pushed")]
impl Ord for Time {
    fn cmp(&self, other: &Time) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Ends within this share of the time that has passed are one event: rounding of floats.
pub(super) const SAME_TIME_SHARE: f64 = 1e-12;

/// Simulates flows over links of `capacity` (bytes per microsecond). `tolerance` is the share of its remaining time by which a
/// flow may end too early, so that flows that end nearly together end in one event: 0 is exact.
///
/// A flow over a link without capacity never arrives, nor do those that wait for it.
pub fn simulate(capacity: &[f64], flows: &[Flow], tolerance: f64) -> Outcome {
    simulate_changing(capacity, flows, &[], tolerance)
}

/// The same, while links and paths change: `changes` in the order of their times.
pub fn simulate_changing(
    capacity: &[f64],
    flows: &[Flow],
    changes: &[Change],
    tolerance: f64,
) -> Outcome {
    let mut capacity = capacity.to_vec();
    let mut paths: Vec<&[Share]> = flows.iter().map(|flow| flow.path.as_slice()).collect();
    let mut filling = Filling::new(capacity.len(), &paths);
    let mut changes = changes.iter().peekable();
    let mut state = State::new(flows);
    let mut rates = vec![Rate::FREE; flows.len()];
    let mut now = 0.0f64;
    loop {
        while let Some(change) = changes.next_if(|change| is_due(change.at_us, now)) {
            match &change.what {
                Changed::Capacity { link, capacity: rate } => capacity[*link as usize] = *rate,
                Changed::Path { flow, path } => {
                    paths[*flow as usize] = path;
                    filling = Filling::new(capacity.len(), &paths);
                }
            }
        }
        state.start_ready(flows, now);
        if state.active.is_empty() {
            match state.ready.peek() {
                Some(Reverse((at, _))) => {
                    now = at.0;
                    continue;
                }
                None => break,
            }
        }
        filling.rates(&capacity, &paths, &state.active, &mut rates);
        state.outcome.rounds += 1;
        let takes = |flow: u32| state.left[flow as usize] / rates[flow as usize].rate;
        let first = state.active.iter().map(|&flow| takes(flow)).fold(f64::INFINITY, f64::min);
        let next_ready = state.ready.peek().map_or(f64::INFINITY, |Reverse((at, _))| at.0 - now);
        let next_change = changes.peek().map_or(f64::INFINITY, |change| change.at_us - now);
        let next = next_ready.min(next_change);
        if first.is_infinite() && next.is_infinite() {
            break;
        }
        let step = first.min(next).max(0.0);
        now += step;
        let ends_within = step * (1.0 + tolerance) + now * SAME_TIME_SHARE;
        let active = std::mem::take(&mut state.active);
        for flow in active {
            let Rate { rate, held_by } = rates[flow as usize];
            let left = &mut state.left[flow as usize];
            let ends = rate.is_infinite() || *left <= rate * ends_within;
            if first <= next && ends {
                state.outcome.held_by[flow as usize] = held_by;
                state.arrived(flows, flow, now + flows[flow as usize].latency_us);
            } else {
                *left -= rate * step;
                state.active.push(flow);
            }
        }
    }
    state.outcome
}

/// Whether a moment has come, but for rounding.
fn is_due(at: f64, now: f64) -> bool {
    at <= now * (1.0 + SAME_TIME_SHARE)
}

struct State {
    left: Vec<f64>,
    active: Vec<u32>,
    ready: BinaryHeap<Ready>,
    /// Flows that each still waits for.
    waits_for: Vec<u32>,
    /// Those that wait for each flow, one after another, and where each flow's begin.
    waiting: Vec<u32>,
    begin: Vec<usize>,
    earliest: Vec<f64>,
    outcome: Outcome,
}

impl State {
    fn new(flows: &[Flow]) -> State {
        let mut begin = vec![0usize; flows.len() + 1];
        for &before in flows.iter().flat_map(|flow| &flow.after) {
            begin[before as usize + 1] += 1;
        }
        for flow in 0..flows.len() {
            begin[flow + 1] += begin[flow];
        }
        let mut next = begin.clone();
        let mut waiting = vec![0; begin[flows.len()]];
        for (at, flow) in flows.iter().enumerate() {
            for &before in &flow.after {
                waiting[next[before as usize]] = at as u32;
                next[before as usize] += 1;
            }
        }
        let waits_for: Vec<u32> = flows.iter().map(|flow| flow.after.len() as u32).collect();
        let ready = waits_for.iter().enumerate().filter(|(_, waits)| **waits == 0);
        let ready = ready
            .map(|(flow, _)| Reverse((Time(flows[flow].start_us.max(0.0)), flow as u32)))
            .collect();
        State {
            left: flows.iter().map(|flow| flow.bytes.max(0.0)).collect(),
            active: Vec::new(),
            ready,
            waits_for,
            waiting,
            begin,
            earliest: flows.iter().map(|flow| flow.start_us.max(0.0)).collect(),
            outcome: Outcome {
                arrival_us: vec![f64::INFINITY; flows.len()],
                held_by: vec![None; flows.len()],
                rounds: 0,
            },
        }
    }

    /// Starts what is ready by now; what has nothing to send arrives at once.
    fn start_ready(&mut self, flows: &[Flow], now: f64) {
        while let Some(&Reverse((at, flow))) = self.ready.peek() {
            if !is_due(at.0, now) {
                break;
            }
            self.ready.pop();
            let all = &flows[flow as usize];
            if self.left[flow as usize] > 0.0 && !all.path.is_empty() {
                self.active.push(flow);
            } else {
                self.arrived(flows, flow, at.0.max(now) + all.latency_us);
            }
        }
    }

    fn arrived(&mut self, flows: &[Flow], flow: u32, at: f64) {
        self.outcome.arrival_us[flow as usize] = at;
        for index in self.begin[flow as usize]..self.begin[flow as usize + 1] {
            let next = self.waiting[index];
            let earliest = &mut self.earliest[next as usize];
            *earliest = earliest.max(at);
            self.waits_for[next as usize] -= 1;
            if self.waits_for[next as usize] == 0 {
                let at = earliest.max(flows[next as usize].start_us);
                self.ready.push(Reverse((Time(at), next)));
            }
        }
    }
}
