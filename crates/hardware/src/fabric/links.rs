//! Single links of a fabric and the ways through them: sprayed or hashed over all links one by one, or each switch's links
//! of one direction as one trunk, which is what even spreading makes of them.
//! Not who sends what (`forecast`).

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use busbw_core::pattern::derive_seed;

use super::failure::{BadFailure, Failure};
use super::layout::Layout;
use super::{Fabric, Shape};
use crate::flows::{BYTES_PER_US, Share};

mod hashed;

/// One end of a flow: a lane of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// The host.
    pub host: usize,
    /// The group of NICs, see `Lanes`.
    pub lane: usize,
}

/// Links that are lost or slow, by number, with the share of its rate that each keeps.
pub type Lost = std::collections::BTreeMap<usize, f64>;

/// How bytes are spread over equal paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Balance {
    /// Evenly, with the links between a switch and the tier above as one trunk: exact while they are alike, ideal routing where
    /// some are lost.
    Trunks,
    /// Evenly over single links that are there.
    Spray,
    /// Each of `connections` of a pair of ports stays on a path that a hash chooses at every switch.
    Ecmp {
        /// Seed of the hash.
        seed: u64,
        /// Connections that share a pair's bytes evenly.
        connections: usize,
    },
}

/// A fabric as links with rates, ready to be crossed.
#[derive(Debug, Clone)]
pub struct Built {
    /// Bytes of data per microsecond of every link; those of one direction are two of them.
    pub capacity: Vec<f64>,
    layout: Layout,
    balance: Balance,
    /// Share of its rate that each single link keeps; empty where all are whole.
    keeps: Vec<f64>,
    /// Names of the tiers, and of what limits a port of a host.
    names: Vec<String>,
    island: &'static str,
    /// First number of the links within hosts.
    inside: usize,
    /// By plane and two leaves, the first one's uplinks that reach the second, where something is lost: the connections of
    /// an alltoall ask for them thousands of times.
    reaching: RefCell<HashMap<[usize; 3], Rc<[usize]>>>,
}

impl Built {
    /// Builds a fabric with failures. `inside` is the GB/s of the links of one GPU within its host.
    ///
    /// # Errors
    /// A failure of a part that there is not.
    pub fn new(
        fabric: &Fabric,
        shape: &Shape,
        failures: &[Failure],
        balance: Balance,
        inside: f64,
    ) -> Result<Built, BadFailure> {
        let mut lost = Lost::new();
        for failure in failures {
            for (link, keeps) in failure.links(fabric, shape)? {
                *lost.entry(link).or_insert(1.0) *= keeps;
            }
        }
        Ok(Built::without(fabric, shape, &lost, balance, inside))
    }

    /// Builds a fabric of whose links some keep a share of their rate only.
    pub fn without(
        fabric: &Fabric,
        shape: &Shape,
        lost: &Lost,
        balance: Balance,
        inside: f64,
    ) -> Built {
        let layout = Layout::of(shape);
        let data = |tier: usize| {
            let rate = fabric.tiers.get(tier).map_or(0.0, |tier| tier.rate);
            rate / 8.0 * shape.lanes.framing * BYTES_PER_US
        };
        let port = shape.lanes.payload * BYTES_PER_US / shape.planes as f64;
        let single = [port, data(1), data(2)];
        let of_single = |link: usize| match link {
            link if link < layout.links_above(0).end => 0,
            link if link < layout.links_above(1).end => 1,
            _ => 2,
        };
        let mut capacity;
        let mut keeps = Vec::new();
        if balance == Balance::Trunks {
            let trunks = [
                vec![port * shape.planes as f64; layout.host_ports],
                vec![data(1) * (shape.planes * layout.leaf_up) as f64; layout.leaves],
                vec![
                    data(2) * (shape.planes * layout.spines * layout.spine_up) as f64;
                    layout.pods
                ],
            ];
            let begin = [0, layout.host_ports, layout.host_ports + layout.leaves];
            let whole = trunks.concat();
            let mut all = whole.clone();
            for (link, keeps) in lost {
                let (tier, trunk) = layout.trunk_of(*link);
                all[begin[tier] + trunk] -= single[tier] * (1.0 - keeps);
            }
            // Of a trunk that has lost all its links nothing is left, whatever rounding leaves.
            let left = |(left, whole): (&f64, &f64)| if *left > whole * 1e-9 { *left } else { 0.0 };
            capacity = all.iter().zip(&whole).flat_map(|pair| [left(pair); 2]).collect::<Vec<_>>();
        } else {
            let rates = (0..layout.count()).map(|link| single[of_single(link)]);
            capacity = rates.flat_map(|rate| [rate; 2]).collect();
            if !lost.is_empty() {
                keeps = vec![1.0; layout.count()];
            }
            for (link, share) in lost {
                keeps[*link] = *share;
                capacity[2 * link] *= share;
                capacity[2 * link + 1] *= share;
            }
        }
        let begin = capacity.len();
        let gpus = fabric.gpus_per_island() as f64;
        capacity.resize(begin + shape.hosts, inside * gpus * BYTES_PER_US);
        let mut names = vec![if shape.lanes.by_slot { "PCIe slot" } else { "NIC" }.to_owned()];
        names.extend(fabric.tiers.iter().map(|tier| tier.name.clone()));
        let reaching = RefCell::default();
        let island = fabric.island();
        Built { capacity, layout, balance, keeps, names, island, inside: begin, reaching }
    }

    /// The links within a host: those of its GPUs together.
    pub const fn inside(&self, host: usize) -> u32 {
        (self.inside + host) as u32
    }

    /// Whether a link is one within a host.
    pub const fn is_inside(&self, link: u32) -> bool {
        link as usize >= self.inside
    }

    /// What a single link's loss takes of its trunk: the trunk, from 0, and bytes per microsecond; only of a whole fabric of
    /// `Balance::Trunks`.
    pub fn trunk_loss(&self, link: usize, keeps: f64) -> (usize, f64) {
        let Layout { planes, host_ports, leaves, leaf_up, spines, spine_up, .. } = self.layout;
        let (tier, trunk) = self.layout.trunk_of(link);
        let (begin, links) = match tier {
            0 => (0, planes),
            1 => (host_ports, planes * leaf_up),
            _ => (host_ports + leaves, planes * spines * spine_up),
        };
        (begin + trunk, self.capacity[2 * (begin + trunk)] / links as f64 * (1.0 - keeps))
    }

    /// Whose trunk it is: `host 17`, `leaf 4`, `pod 0`.
    pub fn trunk_name(&self, trunk: usize) -> String {
        let Layout { host_ports, leaves, lanes, .. } = self.layout;
        match trunk {
            port if port < host_ports => format!("{} {}", self.island, port / lanes),
            leaf if leaf < host_ports + leaves => {
                format!("{} {}", self.names[1], leaf - host_ports)
            }
            pod => format!("pod {}", pod - host_ports - leaves),
        }
    }

    /// What a link is: `NIC`, `leaf-spine links`, or `links within the host`.
    pub fn name(&self, link: u32) -> String {
        let link = link as usize;
        if link >= self.inside {
            return format!("links within the {}", self.island);
        }
        let (single, down) = (link / 2, link % 2 == 1);
        let tier = match self.balance {
            Balance::Trunks if single < self.layout.host_ports => 0,
            Balance::Trunks if single < self.layout.host_ports + self.layout.leaves => 1,
            Balance::Trunks => 2,
            _ if single < self.layout.links_above(0).end => 0,
            _ if single < self.layout.links_above(1).end => 1,
            _ => 2,
        };
        let direction = if down { "down" } else { "up" };
        match tier {
            0 => self.names[0].clone(),
            tier => format!("{}-{} links {direction}", self.names[tier], self.names[tier + 1]),
        }
    }

    /// Adds what a flow from one host's port to another's takes of links: `weight` bytes a byte. `key` tells flows of one pair
    /// of ports apart. False where no way is left.
    pub fn cross(
        &self,
        from: Port,
        to: Port,
        key: u64,
        weight: f64,
        path: &mut Vec<Share>,
    ) -> bool {
        match self.balance {
            Balance::Trunks => self.by_trunks(from, to, weight, path),
            Balance::Spray => self.by_spray(from, to, weight, path),
            Balance::Ecmp { seed, connections } => {
                let pair = derive_seed(from.host as u64 * 1024 + from.lane as u64, seed);
                let pair = derive_seed(pair, to.host as u64 * 1024 + to.lane as u64);
                let share = weight / connections.max(1) as f64;
                (0..connections.max(1)).all(|one| {
                    let hash = derive_seed(derive_seed(pair, key), one as u64);
                    self.by_hash(from, to, hash, share, path)
                })
            }
        }
    }

    const fn leaf(&self, port: Port) -> usize {
        port.host / self.layout.per_block * self.layout.rails + port.lane % self.layout.rails
    }

    const fn pod(&self, leaf: usize) -> usize {
        leaf / self.layout.rails / self.layout.blocks_per_pod
    }

    /// The trunks of a port, of its leaf and of its pod, upwards or down; only of `Balance::Trunks`.
    pub const fn trunks(&self, port: Port, down: bool) -> [u32; 3] {
        let Layout { host_ports, leaves, lanes, .. } = self.layout;
        let leaf = self.leaf(port);
        let trunks = [
            port.host * lanes + port.lane,
            host_ports + leaf,
            host_ports + leaves + self.pod(leaf),
        ];
        let direction = down as usize;
        [
            (2 * trunks[0] + direction) as u32,
            (2 * trunks[1] + direction) as u32,
            (2 * trunks[2] + direction) as u32,
        ]
    }

    fn by_trunks(&self, from: Port, to: Port, weight: f64, path: &mut Vec<Share>) -> bool {
        let (below, above) = (self.trunks(from, false), self.trunks(to, true));
        let mut trunks = vec![below[0], above[0]];
        if below[1] / 2 != above[1] / 2 {
            trunks.extend([below[1], above[1]]);
        }
        if below[2] / 2 != above[2] / 2 {
            trunks.extend([below[2], above[2]]);
        }
        let whole = trunks.iter().all(|&trunk| self.capacity[trunk as usize] > 0.0);
        path.extend(trunks.into_iter().map(|link| Share { link, weight }));
        whole
    }

    fn alive(&self, link: usize) -> bool {
        self.keeps.get(link).is_none_or(|keeps| *keeps > 0.0)
    }

    /// Whether both ports have their link to a plane.
    fn on_plane(&self, from: Port, to: Port, plane: usize) -> bool {
        [from, to].into_iter().all(|port| self.alive(self.layout.host_link(plane, port)))
    }

    /// Whether the second leaf can be reached over an uplink of the first.
    fn up_reaches(&self, plane: usize, below: usize, above: usize, up: usize) -> bool {
        let spine = up / self.layout.leaf_to_spine;
        self.alive(self.layout.leaf_link(plane, below, up))
            && self.parallel(spine).any(|up| self.alive(self.layout.leaf_link(plane, above, up)))
            && (self.pod(below) == self.pod(above)
                || (0..self.layout.spine_up)
                    .any(|up| self.core_reaches(plane, below, above, spine, up)))
    }

    /// Uplinks of a leaf to a switch of the second tier.
    const fn parallel(&self, spine: usize) -> std::ops::Range<usize> {
        let each = self.layout.leaf_to_spine;
        spine * each..(spine + 1) * each
    }

    /// Whether the other leaf's pod can be reached over an uplink of a switch of the second tier.
    fn core_reaches(
        &self,
        plane: usize,
        below: usize,
        above: usize,
        spine: usize,
        up: usize,
    ) -> bool {
        let (from, to) = (self.pod(below), self.pod(above));
        self.alive(self.layout.spine_link(plane, from, spine, up))
            && self
                .parallel_cores(up)
                .any(|up| self.alive(self.layout.spine_link(plane, to, spine, up)))
    }

    /// Uplinks of a switch of the second tier to the one of the third that this uplink goes to.
    const fn parallel_cores(&self, up: usize) -> std::ops::Range<usize> {
        let each = self.layout.spine_to_core;
        let core = up / each;
        core * each..(core + 1) * each
    }

    /// Those for which something holds; all where nothing is lost.
    fn those(&self, all: std::ops::Range<usize>, holds: impl Fn(usize) -> bool) -> Vec<usize> {
        all.filter(|one| self.keeps.is_empty() || holds(*one)).collect()
    }

    fn by_spray(&self, from: Port, to: Port, weight: f64, path: &mut Vec<Share>) -> bool {
        let (below, above) = (self.leaf(from), self.leaf(to));
        let up = |link: usize, weight| Share { link: 2 * link as u32, weight };
        let down = |link: usize, weight| Share { link: 2 * link as u32 + 1, weight };
        let ways: Vec<(usize, Vec<usize>)> = self
            .those(0..self.layout.planes, |plane| self.on_plane(from, to, plane))
            .into_iter()
            .map(|plane| match below == above {
                true => (plane, Vec::new()),
                false => {
                    let reaches = |up| self.up_reaches(plane, below, above, up);
                    (plane, self.those(0..self.layout.leaf_up, reaches))
                }
            })
            .filter(|(_, ups)| below == above || !ups.is_empty())
            .collect();
        for (plane, ups) in &ways {
            let weight = weight / ways.len() as f64;
            path.push(up(self.layout.host_link(*plane, from), weight));
            path.push(down(self.layout.host_link(*plane, to), weight));
            let weight = weight / ups.len().max(1) as f64;
            for &leaf_up in ups {
                path.push(up(self.layout.leaf_link(*plane, below, leaf_up), weight));
                let spine = leaf_up / self.layout.leaf_to_spine;
                if self.pod(below) != self.pod(above) {
                    let reaches = |up| self.core_reaches(*plane, below, above, spine, up);
                    let cores = self.those(0..self.layout.spine_up, reaches);
                    let weight = weight / cores.len() as f64;
                    for core in cores {
                        let pod = self.pod(below);
                        path.push(up(self.layout.spine_link(*plane, pod, spine, core), weight));
                        let link = |up| self.layout.spine_link(*plane, self.pod(above), spine, up);
                        let downs =
                            self.those(self.parallel_cores(core), |up| self.alive(link(up)));
                        let weight = weight / downs.len() as f64;
                        path.extend(downs.into_iter().map(|up| down(link(up), weight)));
                    }
                }
                let link = |up| self.layout.leaf_link(*plane, above, up);
                let downs = self.those(self.parallel(spine), |up| self.alive(link(up)));
                let weight = weight / downs.len() as f64;
                path.extend(downs.into_iter().map(|up| down(link(up), weight)));
            }
        }
        !ways.is_empty()
    }
}
