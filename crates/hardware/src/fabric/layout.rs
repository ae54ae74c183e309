//! The numbers of a fabric's single links: those of hosts, of leaves upwards, of the second tier upwards.
//! Not their rates, and no ways through them (`links`).

use super::Shape;
use super::links::Port;

/// Numbers of single links, each in both directions: those of hosts, of leaves upwards, of the second tier upwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub(super) planes: usize,
    pub(super) host_ports: usize,
    pub(super) leaves: usize,
    pub(super) leaf_up: usize,
    pub(super) per_block: usize,
    pub(super) ports_per_block: usize,
    pub(super) lanes: usize,
    pub(super) rails: usize,
    pub(super) blocks_per_pod: usize,
    pub(super) pods: usize,
    pub(super) spines: usize,
    pub(super) leaf_to_spine: usize,
    pub(super) spine_up: usize,
    pub(super) spine_to_core: usize,
}

impl Layout {
    /// The numbers of a fabric's links.
    pub fn of(shape: &Shape) -> Layout {
        Layout {
            planes: shape.planes,
            host_ports: shape.hosts * shape.lanes.count,
            leaves: shape.blocks * shape.rails,
            leaf_up: shape.leaf_up,
            per_block: shape.hosts_per_block,
            ports_per_block: shape.hosts_per_block * shape.lanes.count,
            lanes: shape.lanes.count,
            rails: shape.rails,
            blocks_per_pod: shape.blocks_per_pod,
            pods: shape.pods,
            spines: shape.spines,
            leaf_to_spine: shape.leaf_to_spine,
            spine_up: shape.spine_up,
            spine_to_core: shape.spine_to_core,
        }
    }

    /// All links.
    pub const fn count(&self) -> usize {
        self.planes
            * (self.host_ports
                + self.leaves * self.leaf_up
                + self.pods * self.spines * self.spine_up)
    }

    /// Links that go up from hosts (0), leaves (1), the second tier (2).
    pub fn links_above(&self, below: usize) -> std::ops::Range<usize> {
        let leaf = self.planes * self.host_ports;
        let spine = leaf + self.planes * self.leaves * self.leaf_up;
        match below {
            0 => 0..leaf,
            1 => leaf..spine,
            _ => spine..self.count(),
        }
    }

    /// The link of a host's port to a plane.
    pub const fn host_link(&self, plane: usize, port: Port) -> usize {
        plane * self.host_ports + port.host * self.lanes + port.lane
    }

    /// An uplink of a leaf, numbered over all planes' leaves.
    pub fn leaf_link(&self, plane: usize, leaf: usize, up: usize) -> usize {
        self.links_above(1).start + (plane * self.leaves + leaf) * self.leaf_up + up
    }

    /// An uplink of a switch of the second tier.
    pub fn spine_link(&self, plane: usize, pod: usize, spine: usize, up: usize) -> usize {
        let switch = (plane * self.pods + pod) * self.spines + spine;
        self.links_above(2).start + switch * self.spine_up + up
    }

    /// Links of hosts to a plane.
    pub fn host_links_of_plane(&self, plane: usize) -> Vec<usize> {
        (plane * self.host_ports..(plane + 1) * self.host_ports).collect()
    }

    /// Switches of a tier in all planes.
    pub const fn switches(&self, tier: usize) -> usize {
        self.planes
            * match tier {
                0 => self.leaves,
                1 => self.pods * self.spines,
                _ => {
                    self.spines * self.spine_up
                        / if self.spine_to_core == 0 { 1 } else { self.spine_to_core }
                }
            }
    }

    /// Links of a switch, by its number in its tier.
    pub fn links_of(&self, tier: usize, switch: usize) -> Vec<usize> {
        match tier {
            0 => {
                let (plane, leaf) = (switch / self.leaves, switch % self.leaves);
                let (block, rail) = (leaf / self.rails, leaf % self.rails);
                let ports = block * self.ports_per_block..(block + 1) * self.ports_per_block;
                let ports = ports.filter(|port| {
                    *port < self.host_ports && port % self.lanes % self.rails == rail
                });
                let down = ports.map(|port| plane * self.host_ports + port);
                down.chain((0..self.leaf_up).map(|up| self.leaf_link(plane, leaf, up))).collect()
            }
            1 => {
                let (plane, rest) =
                    (switch / (self.pods * self.spines), switch % (self.pods * self.spines));
                let (pod, spine) = (rest / self.spines, rest % self.spines);
                let first = pod * self.blocks_per_pod * self.rails;
                let last = (first + self.blocks_per_pod * self.rails).min(self.leaves);
                let parallel = spine * self.leaf_to_spine..(spine + 1) * self.leaf_to_spine;
                let down = (first..last).flat_map(|leaf| {
                    parallel.clone().map(move |up| self.leaf_link(plane, leaf, up))
                });
                let up = (0..self.spine_up).map(|up| self.spine_link(plane, pod, spine, up));
                down.chain(up).collect()
            }
            _ => {
                let cores = self.spine_up / self.spine_to_core.max(1);
                let per_plane = (self.spines * cores).max(1);
                let (plane, rest) = (switch / per_plane, switch % per_plane);
                let (spine, core) = (rest / cores.max(1), rest % cores.max(1));
                let parallel = core * self.spine_to_core..(core + 1) * self.spine_to_core;
                (0..self.pods)
                    .flat_map(|pod| {
                        parallel.clone().map(move |up| self.spine_link(plane, pod, spine, up))
                    })
                    .collect()
            }
        }
    }

    /// The host port, leaf or pod that a link goes up from: its trunk.
    pub fn trunk_of(&self, link: usize) -> (usize, usize) {
        match link {
            link if link < self.links_above(0).end => (0, link % self.host_ports),
            link if link < self.links_above(1).end => {
                (1, (link - self.links_above(1).start) / self.leaf_up % self.leaves)
            }
            link => {
                let switch = (link - self.links_above(2).start) / self.spine_up;
                (2, switch % (self.pods * self.spines) / self.spines)
            }
        }
    }
}
