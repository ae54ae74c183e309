//! Symmetry: flows and links that no renaming of others can tell apart are simulated once.
//! Not an approximation: rates of a class are equal in the whole as well, by the uniqueness of max-min rates.
//!
//! Colour refinement (the coarsest equitable partition: Berkholz, Bonsma, Grohe, Theory of Computing Systems 60, 2017) on
//! the graph of flows and links. Two flows of one class cross equally many links of each class with equal shares, and two
//! links of one class are crossed by equally many flows of each class, so that progressive filling treats them alike.

use std::collections::HashMap;

use super::{Flow, Outcome, Share, merge, simulate};

/// Flows and links of which each stands for a class.
#[derive(Debug, Clone, PartialEq)]
pub struct Classes {
    /// Bytes per microsecond of a link of each class.
    pub capacity: Vec<f64>,
    /// A flow of each class; its shares are what one link carries of all flows of the class.
    pub flows: Vec<Flow>,
    /// The class of each original flow.
    pub of_flow: Vec<u32>,
    /// An original link of each class.
    pub a_link: Vec<u32>,
    /// Original links in each class.
    pub links: Vec<u32>,
}

impl Classes {
    /// Simulates the classes, and gives every original flow what its class had.
    pub fn simulate(&self, tolerance: f64) -> Outcome {
        let of_classes = simulate(&self.capacity, &self.flows, tolerance);
        let class = |flow: &u32| *flow as usize;
        let link = |class: u32| self.a_link[class as usize];
        Outcome {
            arrival_us: self.of_flow.iter().map(|at| of_classes.arrival_us[class(at)]).collect(),
            held_by: self
                .of_flow
                .iter()
                .map(|at| of_classes.held_by[class(at)].map(link))
                .collect(),
            rounds: of_classes.rounds,
        }
    }
}

/// Shares are compared by their 32-bit floats, so that sums in another order are no other class.
fn bits(value: f64) -> u64 {
    u64::from((value as f32).to_bits())
}

/// Two rounds of SplitMix64's finaliser: a colour is 64 bits, and a false match of two is as likely as 1 in 10^9 for 10^5
/// colours.
fn mix(first: u64, second: u64) -> u64 {
    busbw_core::pattern::derive_seed(first, second)
}

/// Below this number of flows they are merged however few are alike.
const FEW_FLOWS: usize = 1000;

/// The classes of flows that wait for nothing.
///
/// # Panics
/// Never; flows that wait for others are classes of their own, and keep what they wait for only if nothing else does.
pub fn classes(capacity: &[f64], flows: &[Flow]) -> Classes {
    let mut of_flow: Vec<u64> = flows
        .iter()
        .enumerate()
        .map(|(at, flow)| {
            let alone = if flow.after.is_empty() { 0 } else { at as u64 + 1 };
            let times = mix(flow.latency_us.to_bits(), flow.start_us.to_bits());
            mix(mix(flow.bytes.to_bits(), times), alone)
        })
        .collect();
    let mut used = vec![false; capacity.len()];
    for share in flows.iter().flat_map(|flow| &flow.path) {
        used[share.link as usize] = true;
    }
    let mut of_link: Vec<u64> = capacity.iter().map(|rate| mix(rate.to_bits(), 1)).collect();
    let count = |of_flow: &[u64], of_link: &[u64]| {
        let links = of_link.iter().zip(&used).filter(|(_, used)| **used).map(|(colour, _)| *colour);
        (distinct(of_flow.iter().copied()), distinct(links))
    };
    let mut before = count(&of_flow, &of_link);
    loop {
        let mut sums = vec![0u64; of_link.len()];
        for (flow, colour) in flows.iter().zip(&of_flow) {
            for share in &flow.path {
                let sum = &mut sums[share.link as usize];
                *sum = sum.wrapping_add(mix(*colour, bits(share.weight)));
            }
        }
        for (colour, sum) in of_link.iter_mut().zip(&sums) {
            *colour = mix(*colour, *sum);
        }
        for (flow, colour) in flows.iter().zip(&mut of_flow) {
            let seen = flow.path.iter().fold(0u64, |sum, share| {
                sum.wrapping_add(mix(of_link[share.link as usize], bits(share.weight)))
            });
            *colour = mix(*colour, seen);
        }
        let now = count(&of_flow, &of_link);
        if now == before {
            break;
        }
        if now.0 > flows.len() / 2 && flows.len() > FEW_FLOWS {
            return alone(capacity, flows);
        }
        before = now;
    }
    gather(capacity, flows, &of_flow, &of_link, &used)
}

/// Every flow and link for itself, where there is little to merge.
fn alone(capacity: &[f64], flows: &[Flow]) -> Classes {
    Classes {
        capacity: capacity.to_vec(),
        flows: flows.to_vec(),
        of_flow: (0..flows.len() as u32).collect(),
        a_link: (0..capacity.len() as u32).collect(),
        links: vec![1; capacity.len()],
    }
}

fn distinct(colours: impl Iterator<Item = u64>) -> usize {
    colours.collect::<std::collections::HashSet<u64>>().len()
}

/// Numbers classes in the order of their first members, and adds up what one link of each carries.
fn gather(
    capacity: &[f64],
    flows: &[Flow],
    of_flow: &[u64],
    of_link: &[u64],
    used: &[bool],
) -> Classes {
    let mut numbers: HashMap<u64, u32> = HashMap::new();
    let mut first_flows = Vec::new();
    let flow_class: Vec<u32> = of_flow
        .iter()
        .enumerate()
        .map(|(at, colour)| {
            *numbers.entry(*colour).or_insert_with(|| {
                first_flows.push(at);
                first_flows.len() as u32 - 1
            })
        })
        .collect();
    let mut link_numbers: HashMap<u64, u32> = HashMap::new();
    let (mut a_link, mut links) = (Vec::new(), Vec::new());
    let mut stands_for = vec![None; capacity.len()];
    for (at, colour) in of_link.iter().enumerate().filter(|(at, _)| used[*at]) {
        let class = *link_numbers.entry(*colour).or_insert_with(|| {
            a_link.push(at as u32);
            links.push(0);
            stands_for[at] = Some(a_link.len() as u32 - 1);
            a_link.len() as u32 - 1
        });
        links[class as usize] += 1;
    }
    let mut shares: Vec<Vec<Share>> = vec![Vec::new(); first_flows.len()];
    for (flow, class) in flows.iter().zip(&flow_class) {
        for share in &flow.path {
            if let Some(link) = stands_for[share.link as usize] {
                shares[*class as usize].push(Share { link, weight: share.weight });
            }
        }
    }
    shares.iter_mut().for_each(merge);
    let of_classes = first_flows.iter().zip(shares);
    Classes {
        capacity: a_link.iter().map(|link| capacity[*link as usize]).collect(),
        flows: of_classes.map(|(first, path)| Flow { path, ..flows[*first].clone() }).collect(),
        of_flow: flow_class,
        a_link,
        links,
    }
}
