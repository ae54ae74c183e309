//! Max-min fair rates by progressive filling: all rates rise together until a link is full, whose flows then stay.
//! Not time: `simulate` asks again whenever the set of flows changes.
//!
//! Bertsekas, Gallager: Data Networks, 2nd edition, section 6.5.2. With shares other than 1 a link is full where the sum of
//! share × rate is its capacity, and rates stay equal among the flows that it holds back.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::Share;

/// The rates of flows, and what holds each back.
pub(super) struct Filling {
    /// Which flows cross a link, all links one after another.
    crossing: Vec<(u32, f64)>,
    /// Where a link's flows begin in `crossing`.
    begin: Vec<usize>,
    left: Vec<f64>,
    weight: Vec<f64>,
    moving: Vec<u32>,
    touched: Vec<u32>,
    heap: BinaryHeap<Reverse<Full>>,
}

/// The rate at which a link is full.
#[derive(Clone, Copy, PartialEq)]
struct Full {
    rate: f64,
    link: u32,
}

impl Eq for Full {}

impl PartialOrd for Full {
    fn partial_cmp(&self, other: &Full) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Full {
    fn cmp(&self, other: &Full) -> Ordering {
        self.rate.total_cmp(&other.rate).then(self.link.cmp(&other.link))
    }
}

/// The rate of a flow, bytes per microsecond, and the link that holds it back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rate {
    pub rate: f64,
    pub held_by: Option<u32>,
}

impl Rate {
    /// Nothing holds it back.
    pub const FREE: Rate = Rate { rate: f64::INFINITY, held_by: None };
}

impl Filling {
    /// Prepares for flows with these paths over so many links.
    pub fn new(links: usize, paths: &[&[Share]]) -> Filling {
        let mut begin = vec![0usize; links + 1];
        for share in paths.iter().copied().flatten() {
            begin[share.link as usize + 1] += 1;
        }
        for link in 0..links {
            begin[link + 1] += begin[link];
        }
        let mut next = begin.clone();
        let mut crossing = vec![(0, 0.0); begin[links]];
        for (flow, path) in paths.iter().enumerate() {
            for share in *path {
                let at = &mut next[share.link as usize];
                crossing[*at] = (flow as u32, share.weight);
                *at += 1;
            }
        }
        Filling {
            crossing,
            begin,
            left: vec![0.0; links],
            weight: vec![0.0; links],
            moving: vec![0; links],
            touched: Vec::new(),
            heap: BinaryHeap::new(),
        }
    }

    /// The rates of the `active` flows; those of others are left as they are.
    pub fn rates(
        &mut self,
        capacity: &[f64],
        paths: &[&[Share]],
        active: &[u32],
        rates: &mut [Rate],
    ) {
        self.touched.clear();
        self.heap.clear();
        for &flow in active {
            rates[flow as usize] = Rate { rate: -1.0, held_by: None };
            for share in paths[flow as usize] {
                let link = share.link as usize;
                if self.moving[link] == 0 {
                    self.touched.push(share.link);
                    self.left[link] = capacity[link];
                    self.weight[link] = 0.0;
                }
                self.weight[link] += share.weight;
                self.moving[link] += 1;
            }
        }
        for at in 0..self.touched.len() {
            self.push(self.touched[at]);
        }
        let mut level = 0.0f64;
        while let Some(Reverse(full)) = self.heap.pop() {
            let link = full.link as usize;
            if self.moving[link] == 0 {
                continue;
            }
            // What was frozen meanwhile took less than its share, so that the link fills later.
            let now = self.full_at(link);
            if now > full.rate {
                self.heap.push(Reverse(Full { rate: now, link: full.link }));
                continue;
            }
            level = level.max(now);
            for at in self.begin[link]..self.begin[link + 1] {
                let flow = self.crossing[at].0 as usize;
                if rates[flow].rate >= 0.0 {
                    continue;
                }
                rates[flow] = Rate { rate: level, held_by: Some(full.link) };
                for share in paths[flow] {
                    let other = share.link as usize;
                    self.left[other] -= share.weight * level;
                    self.weight[other] -= share.weight;
                    self.moving[other] -= 1;
                }
            }
        }
        for &flow in active {
            if rates[flow as usize].rate < 0.0 {
                rates[flow as usize] = Rate::FREE;
            }
        }
        for &link in &self.touched {
            self.moving[link as usize] = 0;
        }
    }

    fn push(&mut self, link: u32) {
        let rate = self.full_at(link as usize);
        self.heap.push(Reverse(Full { rate, link }));
    }

    /// The common rate at which the flows that still rise fill a link.
    fn full_at(&self, link: usize) -> f64 {
        let (left, weight) = (self.left[link].max(0.0), self.weight[link]);
        if weight > 0.0 { left / weight } else { f64::INFINITY }
    }
}
