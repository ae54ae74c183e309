//! Which pairs may be compared: those that are connected alike. Every rank reports its own
//! position; the first rank of a host reports how its GPUs are connected.
//! Not the transport of the bytes: the library's log and the counters show that.

use std::collections::{BTreeSet, HashMap};

use busbw_core::pairs::figures::{BETWEEN_HOSTS, WITHIN_HOSTS};
use busbw_ffi::nvml;
use busbw_hardware::topology::{Paths, Target, Word};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{backend::RunError, measure::Session};
use busbw_host::{machine, topo};

/// The position of a rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Position {
    host: String,
    spot: Spot,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Spot {
    /// A GPU's PCI address.
    Gpu(String),
    /// A core, and the cores that share its last-level cache.
    Core(usize, Option<String>),
    /// Any of these cores.
    Anywhere(Vec<usize>),
}

/// How two ranks are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
enum Joint {
    /// Like all others of a host, as far as is known.
    Within,
    /// They share one core.
    OneCore,
    /// Through a cache level further out than others of the host.
    AcrossCaches,
    /// Through NVLink switches: a GPU with fewer links than others stays in this class, so that it
    /// stands out.
    Switched,
    /// As `nvidia-smi topo -m` names it.
    Bus(Word),
    /// Through a network.
    Between,
}

impl Joint {
    fn name(self) -> String {
        match self {
            Joint::Within => WITHIN_HOSTS.to_owned(),
            Joint::OneCore => "on one core".to_owned(),
            Joint::AcrossCaches => format!("{WITHIN_HOSTS}, across caches"),
            Joint::Switched => format!("{WITHIN_HOSTS}, joined by NVLink"),
            Joint::Bus(word) => format!("{WITHIN_HOSTS}, joined by {word}"),
            Joint::Between => BETWEEN_HOSTS.to_owned(),
        }
    }
}

/// The connections between the GPUs of a host, by address.
type Ways = HashMap<(String, String), Joint>;

/// The class of connection of every pair.
pub(super) struct Neighbours {
    /// The host number of each rank, by order of appearance.
    pub(super) hosts: Vec<usize>,
    positions: Vec<Position>,
    /// Of each host.
    ways: Vec<Ways>,
    joints: Vec<Joint>,
}

impl Neighbours {
    fn new(positions: Vec<Position>, said: &[Ways]) -> Neighbours {
        let mut names: Vec<&str> = Vec::new();
        let mut ways: Vec<Ways> = Vec::new();
        let mut hosts = Vec::with_capacity(positions.len());
        for (rank, position) in positions.iter().enumerate() {
            let known = names.iter().position(|name| *name == position.host);
            hosts.push(known.unwrap_or_else(|| {
                names.push(&position.host);
                ways.push(said.get(rank).cloned().unwrap_or_default());
                names.len() - 1
            }));
        }
        let mut all = Neighbours { hosts, positions, ways, joints: Vec::new() };
        let ranks = all.positions.len();
        let pairs = (0..ranks).flat_map(|a| (0..a).map(move |b| (a, b)));
        let joints: BTreeSet<Joint> = pairs.map(|(a, b)| all.joint(a, b)).collect();
        all.joints = joints.into_iter().collect();
        all
    }

    /// Whether some host has fewer cores than ranks that need one each.
    pub(super) fn crowded(&self) -> bool {
        (0..self.ways.len()).any(|host| {
            let positions = self.positions.iter().zip(&self.hosts).filter(|(_, of)| **of == host);
            let (mut ranks, mut cores) = (0, BTreeSet::new());
            for (position, _) in positions {
                match &position.spot {
                    Spot::Gpu(_) => continue,
                    Spot::Core(core, _) => drop(cores.insert(core)),
                    Spot::Anywhere(some) => cores.extend(some),
                }
                ranks += 1;
            }
            ranks > cores.len()
        })
    }

    /// Names of the classes.
    pub(super) fn classes(&self) -> Vec<String> {
        self.joints.iter().map(|joint| joint.name()).collect()
    }

    /// The class of the connection between two ranks.
    pub(super) fn class(&self, a: usize, b: usize) -> usize {
        let joint = self.joint(a, b);
        self.joints.iter().position(|known| *known == joint).unwrap_or(0)
    }

    fn joint(&self, a: usize, b: usize) -> Joint {
        let (Some(one), Some(other)) = (self.positions.get(a), self.positions.get(b)) else {
            return Joint::Within;
        };
        if one.host != other.host {
            return Joint::Between;
        }
        match (&one.spot, &other.spot) {
            (Spot::Gpu(one), Spot::Gpu(other)) => {
                let ways = self.hosts.get(a).and_then(|host| self.ways.get(*host));
                let way = ways.and_then(|ways| ways.get(&(one.clone(), other.clone())));
                way.copied().unwrap_or(Joint::Within)
            }
            (Spot::Core(one, _), Spot::Core(other, _)) if one == other => Joint::OneCore,
            (Spot::Core(_, one), Spot::Core(_, other)) if one != other => Joint::AcrossCaches,
            _ => Joint::Within,
        }
    }
}

impl Session<'_> {
    /// Gathers every rank's position.
    pub(super) fn neighbours(&mut self) -> Result<Neighbours, RunError> {
        let host = self.world.host().to_owned();
        let gpu = self.backend.gpu_address();
        let position = Position { host, spot: gpu.map_or_else(core, Spot::Gpu) };
        let positions: Vec<Position> = self.tell_all(&position)?;
        let mine = self.world.rank();
        let first = positions.iter().position(|other| other.host == position.host) == Some(mine);
        let ways = match position.spot {
            Spot::Gpu(_) if first => ways(),
            _ => Vec::new(),
        };
        let said: Vec<Vec<((String, String), Joint)>> = self.tell_all(&ways)?;
        let said: Vec<Ways> = said.into_iter().map(|ways| ways.into_iter().collect()).collect();
        Ok(Neighbours::new(positions, &said))
    }

    /// Gathers a value from every rank, in rank order.
    fn tell_all<T: Serialize + DeserializeOwned>(&mut self, mine: &T) -> Result<Vec<T>, RunError> {
        let bytes = serde_json::to_vec(mine).unwrap_or_default();
        let all = self.world.allgather(&bytes, self.deadline())?;
        let read = |bytes: &Vec<u8>| {
            serde_json::from_slice(bytes).map_err(|e| {
                super::internal(format!("a rank's report of its position cannot be parsed: {e}"))
            })
        };
        all.iter().map(read).collect()
    }
}

/// The core that this rank is bound to.
fn core() -> Spot {
    match machine::usable_cores()[..] {
        [core] => Spot::Core(core, machine::last_cache(&machine::Root::system(), core)),
        ref cores => Spot::Anywhere(cores.to_vec()),
    }
}

/// How the GPUs of this host are connected.
fn ways() -> Vec<((String, String), Joint)> {
    let driver = nvml::driver().ok();
    let system = topo::read(&machine::Root::system(), driver.as_ref());
    let paths = Paths::of(&system);
    let switched = |device: usize| {
        let gpu = system.devices.get(device).and_then(|device| device.gpu.as_ref());
        gpu.is_some_and(|gpu| gpu.links.iter().any(|link| link.leads_to() == Target::Switch))
    };
    let gpus = system.gpus();
    let mut ways = Vec::new();
    for a in &gpus {
        for b in gpus.iter().filter(|b| *b != a) {
            let joint = match paths.word(*a, *b) {
                Word::NvLink(_) if switched(*a) && switched(*b) => Joint::Switched,
                word => Joint::Bus(word),
            };
            let address = |at: usize| system.devices.get(at).map(|device| device.address.clone());
            ways.extend(address(*a).zip(address(*b)).map(|pair| (pair, joint)));
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(host: &str, spot: Spot) -> Position {
        Position { host: host.to_owned(), spot }
    }

    #[test]
    fn cores_of_one_host_are_apart_by_caches() {
        let core = |core, cache: &str| Spot::Core(core, Some(cache.to_owned()));
        let positions = vec![
            position("a", core(0, "0-1")),
            position("a", core(1, "0-1")),
            position("a", core(2, "2-3")),
            position("a", core(0, "0-1")),
            position("b", Spot::Anywhere(vec![4, 5])),
            position("b", Spot::Anywhere(vec![4, 5])),
        ];
        let all = Neighbours::new(positions, &[]);
        assert_eq!(all.hosts, [0, 0, 0, 0, 1, 1]);
        let name = |a, b| all.classes().swap_remove(all.class(a, b));
        assert_eq!(name(0, 1), "within hosts");
        assert_eq!(name(0, 2), "within hosts, across caches");
        assert_eq!(name(0, 3), "on one core");
        assert_eq!(name(3, 4), "between hosts");
        assert_eq!(name(4, 5), "within hosts");
        assert!(all.crowded());
        let two =
            [position("b", Spot::Anywhere(vec![4, 5])), position("b", Spot::Anywhere(vec![5]))];
        assert!(!Neighbours::new(two.to_vec(), &[]).crowded());
    }

    #[test]
    fn gpus_are_joined_as_the_first_rank_of_their_host_says() {
        let gpu = |host, address: &str| position(host, Spot::Gpu(address.to_owned()));
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let ways = |joint| Ways::from([(pair("1", "2"), joint), (pair("2", "1"), joint)]);
        let positions =
            vec![gpu("a", "1"), gpu("a", "2"), gpu("b", "1"), gpu("b", "2"), gpu("b", "3")];
        let said = [
            ways(Joint::Switched),
            Ways::new(),
            ways(Joint::Bus(Word::Sys)),
            Ways::new(),
            Ways::new(),
        ];
        let all = Neighbours::new(positions, &said);
        let name = |a, b| all.classes().swap_remove(all.class(a, b));
        assert_eq!(name(0, 1), "within hosts, joined by NVLink");
        assert_eq!(name(3, 2), "within hosts, joined by SYS");
        assert_eq!(name(3, 4), "within hosts");
        assert_eq!(name(1, 2), "between hosts");
    }
}
