//! The Clos that a fabric's numbers give: how many switches, and the links in classes that are alike.
//! Not single links (`links`).

use serde::Serialize;

use super::{CABLE_US_PER_M, Fabric, Lanes};

/// How a fabric is built. Switches and links are those of one plane.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shape {
    /// The NICs of an island: of a host, or of an NVLink domain of several.
    pub lanes: Lanes,
    /// Leaf switches of a block: one for each rail.
    pub rails: usize,
    /// Planes, all alike.
    pub planes: usize,
    /// Islands in all: hosts, or NVLink domains of several.
    pub hosts: usize,
    /// Hosts of an island; 1 where NVLink ends at the host.
    pub hosts_per_island: usize,
    /// Islands of a block, which share their leaves.
    pub hosts_per_block: usize,
    /// Blocks; the last may have fewer islands.
    pub blocks: usize,
    /// Blocks of a pod, which share their second tier.
    pub blocks_per_pod: usize,
    /// Pods; 1 with one or two tiers.
    pub pods: usize,
    /// Uplinks of a leaf; 0 with one tier.
    pub leaf_up: usize,
    /// Switches of the second tier of a pod, and links from each leaf to each of them.
    pub spines: usize,
    /// See `spines`.
    pub leaf_to_spine: usize,
    /// Uplinks of a switch of the second tier; 0 with two tiers.
    pub spine_up: usize,
    /// Switches of the third tier that one switch of the second reaches, and links to each of them.
    pub cores_of_a_spine: usize,
    /// See `cores_of_a_spine`.
    pub spine_to_core: usize,
}

/// GPUs of an island have numbers of 16 bits.
const MAX_GPUS_PER_ISLAND: usize = 1 << 16;

/// Links that are alike.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkClass {
    /// Name of the tier above the links.
    pub tier: String,
    /// Name of what is below: `host`, or a tier.
    pub below: String,
    /// Links in all planes, each with two directions.
    pub count: usize,
    /// Gb/s of each in one direction.
    pub rate: f64,
}

/// What cannot be built: the key at fault, the tier it belongs to (`None`: the fabric), and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unbuildable {
    /// The key.
    pub key: &'static str,
    /// The tier, from 0.
    pub tier: Option<usize>,
    /// Why.
    pub why: String,
}

impl Shape {
    /// Builds a fabric.
    ///
    /// # Errors
    /// What does not fit: more hosts than ports, hosts that could not reach each other, uplinks that do not spread evenly.
    pub fn of(fabric: &Fabric) -> Result<Shape, Unbuildable> {
        let wrong = |key, tier, why: String| Unbuildable { key, tier, why };
        let Some(lanes) = fabric.lanes() else {
            let why = "a host needs a GPU, and a NIC whose rate is known".to_owned();
            return Err(wrong("machine", None, why));
        };
        let (island, joined) = (fabric.island(), fabric.hosts_per_island());
        let gpus = fabric.machine.node.gpus;
        let domain = fabric.machine.node.nvlink.as_ref().map_or(0, |nvlink| nvlink.domain);
        if domain > gpus && !domain.is_multiple_of(gpus) {
            let why =
                format!("an NVLink domain of {domain} GPUs is no whole number of hosts of {gpus}");
            return Err(wrong("machine", None, why));
        }
        if joined > 1 && !fabric.hosts.is_multiple_of(joined) {
            let why = format!(
                "{} hosts do not fill NVLink domains of {joined} hosts each: a multiple of {joined} does, or a smaller domain in \
                 a machine file",
                fabric.hosts
            );
            return Err(wrong("hosts", None, why));
        }
        if fabric.gpus_per_island() > MAX_GPUS_PER_ISLAND {
            let why = format!("an NVLink domain has at most {MAX_GPUS_PER_ISLAND} GPUs here");
            return Err(wrong("machine", None, why));
        }
        let Some(leaf) = fabric.tiers.first() else {
            return Err(wrong("tiers", None, "a fabric needs a tier of switches".to_owned()));
        };
        // All hosts of a domain are wired alike.
        let of_host = lanes.count / joined;
        if fabric.rails == 0 || !of_host.is_multiple_of(fabric.rails) {
            let why = format!(
                "the {} of a host do not spread evenly over {} rails",
                plural(of_host, "group", "of NICs"),
                fabric.rails
            );
            return Err(wrong("rails", None, why));
        }
        let per_leaf = lanes.count * lanes.nics / fabric.rails;
        let hosts_per_block = leaf.down / per_leaf;
        if hosts_per_block == 0 {
            let why = format!(
                "{} ports down are fewer than the {per_leaf} NICs of one {island} at a {}",
                leaf.down, leaf.name
            );
            return Err(wrong("ports", Some(0), why));
        }
        let blocks = fabric.islands().div_ceil(hosts_per_block);
        let mut shape = Shape {
            lanes,
            rails: fabric.rails,
            planes: fabric.planes,
            hosts: fabric.islands(),
            hosts_per_island: joined,
            hosts_per_block,
            blocks,
            blocks_per_pod: blocks,
            pods: 1,
            leaf_up: 0,
            spines: 0,
            leaf_to_spine: 0,
            spine_up: 0,
            cores_of_a_spine: 0,
            spine_to_core: 0,
        };
        match fabric.tiers.as_slice() {
            [_] if blocks > 1 => Err(wrong(
                "hosts",
                None,
                format!(
                    "one tier of {}-port switches holds {hosts_per_block} {island}s; the other {} could not reach them: add a \
                     tier, or ports",
                    leaf.ports,
                    fabric.islands() - hosts_per_block
                ),
            )),
            [_] => Ok(shape),
            [_, spine] => {
                shape.leaf_up = leaf.up;
                let leaves = blocks * fabric.rails;
                let found = spread(leaf.up, leaves, spine.down, spine.spread);
                let (switches, each) = found.map_err(|fault| {
                    fault.at(fabric, 1, &|most| most / fabric.rails * hosts_per_block)
                })?;
                (shape.spines, shape.leaf_to_spine) = (switches, each);
                Ok(shape)
            }
            [_, spine, core] => {
                shape.leaf_up = leaf.up;
                let switches = spine.spread.unwrap_or(leaf.up);
                if switches == 0 || !leaf.up.is_multiple_of(switches) {
                    return Err(Uneven::Spread { up: leaf.up, switches }.at(fabric, 1, &|_| 0));
                }
                (shape.spines, shape.leaf_to_spine) = (switches, leaf.up / switches);
                shape.blocks_per_pod = spine.down / shape.leaf_to_spine / fabric.rails;
                if shape.blocks_per_pod == 0 {
                    let why = format!(
                        "{} ports down are fewer than the {} of the {} leaves of one block",
                        spine.down,
                        plural(shape.leaf_to_spine * fabric.rails, "uplink", ""),
                        fabric.rails
                    );
                    return Err(wrong("ports", Some(1), why));
                }
                shape.blocks_per_pod = shape.blocks_per_pod.min(blocks);
                shape.pods = blocks.div_ceil(shape.blocks_per_pod);
                shape.spine_up = spine.up;
                let hosts_per_pod = shape.blocks_per_pod * hosts_per_block;
                let found = spread(spine.up, shape.pods, core.down, core.spread);
                let (cores, each) =
                    found.map_err(|fault| fault.at(fabric, 2, &|most| most * hosts_per_pod))?;
                (shape.cores_of_a_spine, shape.spine_to_core) = (cores, each);
                Ok(shape)
            }
            _ => Err(wrong("tiers", None, "fabrics of one, two or three tiers are known".into())),
        }
    }

    /// The block of an island.
    pub const fn block_of(&self, host: usize) -> usize {
        host / self.hosts_per_block
    }

    /// The pod of a block.
    pub const fn pod_of(&self, block: usize) -> usize {
        block / self.blocks_per_pod
    }

    /// The rail of a lane.
    pub const fn rail_of(&self, lane: usize) -> usize {
        lane % self.rails
    }

    /// Switches of each tier in all planes.
    pub fn switches(&self) -> Vec<usize> {
        let mut counts = vec![self.blocks * self.rails];
        if self.spines > 0 {
            counts.push(self.pods * self.spines);
        }
        if self.cores_of_a_spine > 0 {
            counts.push(self.spines * self.cores_of_a_spine);
        }
        counts.iter().map(|count| count * self.planes).collect()
    }

    /// The links in classes, from the hosts up.
    pub fn classes(&self, fabric: &Fabric) -> Vec<LinkClass> {
        let per_plane = [
            self.hosts * self.lanes.count * self.lanes.nics,
            self.blocks * self.rails * self.leaf_up,
            self.pods * self.spines * self.spine_up,
        ];
        let below = |tier: usize| match tier {
            0 => "host".to_owned(),
            tier => fabric.tiers[tier - 1].name.clone(),
        };
        let tiers = fabric.tiers.iter().zip(per_plane).enumerate();
        tiers
            .map(|(at, (tier, count))| LinkClass {
                tier: tier.name.clone(),
                below: below(at),
                count: count * self.planes,
                rate: tier.rate,
            })
            .collect()
    }

    /// Microseconds through switches and cables of a way that turns at a tier, from 0.
    pub fn way_us(&self, fabric: &Fabric, turns_at: usize) -> f64 {
        let tiers = fabric.tiers.iter().take(turns_at + 1).enumerate();
        tiers
            .map(|(at, tier)| {
                let passes = if at == turns_at { 1.0 } else { 2.0 };
                passes * tier.latency_us + 2.0 * tier.cable_m * CABLE_US_PER_M
            })
            .sum()
    }

    /// The tier at which the way between two hosts turns.
    pub const fn turn(&self, from: usize, to: usize) -> usize {
        let (from, to) = (self.block_of(from), self.block_of(to));
        if from == to {
            0
        } else if self.pod_of(from) == self.pod_of(to) {
            1
        } else {
            2
        }
    }
}

/// Why uplinks do not reach all that they must.
enum Uneven {
    /// They do not divide by the number of switches.
    Spread { up: usize, switches: usize },
    /// Even with one link to each switch above there are at most so many switches below.
    Full { most: usize },
    /// So many links would be needed at each switch above.
    Narrow { needed: usize, down: usize },
}

impl Uneven {
    fn at(self, fabric: &Fabric, tier: usize, hosts: &dyn Fn(usize) -> usize) -> Unbuildable {
        let (above, below) = (&fabric.tiers[tier].name, &fabric.tiers[tier - 1].name);
        match self {
            Uneven::Spread { up, switches } => Unbuildable {
                key: "spread",
                tier: Some(tier),
                why: format!(
                    "{} of each {below} do not spread evenly over {}: some hosts would have fewer ways, or none, to others",
                    plural(up, "uplink", ""),
                    plural(switches, "switch", &format!("of tier `{above}`"))
                ),
            },
            Uneven::Full { most } => Unbuildable {
                key: "hosts",
                tier: None,
                why: format!(
                    "{} {}s are more than the {} that these switches have ports for",
                    fabric.islands(),
                    fabric.island(),
                    hosts(most)
                ),
            },
            Uneven::Narrow { needed, down } => Unbuildable {
                key: "spread",
                tier: Some(tier),
                why: format!(
                    "spread so, each switch of tier `{above}` needs {needed} ports down and has {down}"
                ),
            },
        }
    }
}

/// Over how many switches `up` uplinks of each of `below` switches are spread, and how many go to each: as few switches as
/// have the ports, unless it is said.
fn spread(
    up: usize,
    below: usize,
    down: usize,
    said: Option<usize>,
) -> Result<(usize, usize), Uneven> {
    if let Some(switches) = said {
        if switches == 0 || !up.is_multiple_of(switches) {
            return Err(Uneven::Spread { up, switches });
        }
        let each = up / switches;
        let needed = each.saturating_mul(below);
        return if needed <= down {
            Ok((switches, each))
        } else {
            Err(Uneven::Narrow { needed, down })
        };
    }
    let fits = |each: &usize| up.is_multiple_of(*each) && each.saturating_mul(below) <= down;
    match (1..=up).rev().find(fits) {
        Some(each) => Ok((up / each, each)),
        None => Err(Uneven::Full { most: down }),
    }
}

fn plural(count: usize, one: &str, rest: &str) -> String {
    let ending = match (count, one.ends_with("ch")) {
        (1, _) => "",
        (_, true) => "es",
        _ => "s",
    };
    let gap = if rest.is_empty() { "" } else { " " };
    format!("{count} {one}{ending}{gap}{rest}")
}
