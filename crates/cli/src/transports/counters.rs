//! The second witness: what devices counted, held against what had to move.
//! Not which ranks it was, nor by whose word.

use super::{
    evidence::{Says, Witness},
    moved::Moved,
    profile::{Scope, Way},
};
use busbw_core::quantity::decimal_bytes as bytes;

/// From here on a device carried the data: reduction in switches halves what a ring would move, and nothing
/// does with less.
const CARRIED: f64 = 0.5;
/// Below this it did not: what ranks tell each other is less.
const IDLE: f64 = 0.05;
/// Below so many bytes nothing follows: what ranks, and everybody else on the host, tell each other
/// meanwhile is as much.
const LEAST: f64 = 16e6;

/// What devices counted, for or against a way. Of ranks within nodes the network says nothing: it carries
/// what goes between these.
pub(super) fn counted(way: &Way, scope: Scope, moved: &Moved) -> Witness {
    if moved.required < LEAST {
        let words = format!("only {} had to move: too few to tell", bytes(moved.required as u64));
        return Witness::silent(&words);
    }
    let busiest = moved.busiest().filter(|_| scope != Scope::Within);
    let of = |name: &str, bytes_moved: u64| {
        format!("{name} {} of {}", bytes(bytes_moved), bytes(moved.required as u64))
    };
    let judged = |name: &str, amount: u64| {
        let part = moved.part(amount);
        let says = if part >= CARRIED {
            Says::Yes
        } else if part < IDLE {
            Says::No
        } else {
            Says::Silent
        };
        Witness { says, words: of(name, amount) }
    };
    match (way, moved.nvlink) {
        (Way::P2p, Some(nvlink)) => {
            let witness = judged("NVLink", nvlink);
            if witness.says == Says::No {
                // Peers reach each other over PCIe as well, which nobody counts.
                let network = busiest.is_some_and(|(_, amount)| moved.part(amount) >= CARRIED);
                let says = if network { Says::No } else { Says::Silent };
                return Witness { says, words: witness.words };
            }
            witness
        }
        // Bytes over NVLink do not tell who reduced them, nor where the peer was.
        (Way::Nvls | Way::Mnnvl, Some(nvlink)) => match judged("NVLink", nvlink) {
            against @ Witness { says: Says::No, .. } => against,
            other => Witness::silent(&format!("{}, which P2P moves as well", other.words)),
        },
        (Way::P2p | Way::Nvls | Way::Mnnvl, None) => Witness::silent("NVLink was not read"),
        (Way::Shm, nvlink) => {
            let most = busiest.map_or(0, |(_, amount)| amount).max(nvlink.unwrap_or(0));
            if moved.part(most) >= CARRIED {
                let (name, amount) = match busiest {
                    Some((name, amount)) if amount == most => (name, amount),
                    _ => ("NVLink", most),
                };
                return Witness { says: Says::No, words: of(name, amount) };
            }
            // Idle devices do not tell host memory from PCIe: neither is counted.
            Witness::silent("no device counts host memory")
        }
        (Way::Socket(device), _) => {
            // Between addresses of one host the kernel takes lo.
            let names = [device.as_str(), "lo"];
            let read = names.iter().filter_map(|name| Some((*name, moved.over(name)?)));
            let Some((name, amount)) = read.max_by_key(|(_, amount)| *amount) else {
                return Witness::silent("the interface was not read");
            };
            match judged(name, amount) {
                // The one that was not read may have carried it.
                against @ Witness { says: Says::No, .. }
                    if names.iter().any(|name| moved.over(name).is_none()) =>
                {
                    Witness { says: Says::Silent, ..against }
                }
                witness => witness,
            }
        }
        (Way::Rdma { device, port }, _) => {
            let port = format!("{device}/{port}");
            let Some(amount) = moved.over(&port) else {
                return Witness::silent("the port was not read");
            };
            let witness = judged(&port, amount);
            // Within one adapter bytes need not pass its port.
            let says = if witness.says == Says::No { Says::Silent } else { witness.says };
            Witness { says, ..witness }
        }
        _ => Witness::silent("nothing that counts this was read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(nvlink: Option<u64>, network: &[(&str, u64)]) -> Moved {
        Moved {
            required: 1000.0 * 1e6,
            nvlink: nvlink.map(|by| by * 1_000_000),
            network: network
                .iter()
                .map(|(name, by)| ((*name).to_owned(), by * 1_000_000))
                .collect(),
            read: ["lo", "eth0", "mlx5_0/1", "mlx5_1/1"].map(str::to_owned).into(),
        }
    }

    #[test]
    fn counters_speak_for_what_they_count() {
        let socket = Way::Socket("eth0".to_owned());
        let rdma = Way::Rdma { device: "mlx5_0".to_owned(), port: 1 };
        for (way, counters, says) in [
            (&Way::P2p, moved(Some(980), &[("lo", 3)]), Says::Yes),
            // Half of a ring's bytes are enough where switches reduce, and P2P would move them as well.
            (&Way::Nvls, moved(Some(570), &[]), Says::Silent),
            (&Way::Nvls, moved(Some(10), &[]), Says::No),
            (&Way::P2p, moved(None, &[]), Says::Silent),
            // Over PCIe, possibly.
            (&Way::P2p, moved(Some(0), &[("lo", 3)]), Says::Silent),
            (&Way::P2p, moved(Some(0), &[("mlx5_0/1", 1200)]), Says::No),
            // It may have been PCIe.
            (&Way::Shm, moved(Some(0), &[("lo", 3)]), Says::Silent),
            (&Way::Shm, moved(None, &[("lo", 3)]), Says::Silent),
            (&Way::Shm, moved(Some(900), &[]), Says::No),
            (&Way::Shm, moved(Some(0), &[("lo", 1001)]), Says::No),
            (&socket, moved(Some(0), &[("lo", 1010)]), Says::Yes),
            (&socket, moved(Some(0), &[("eth0", 1010), ("lo", 1)]), Says::Yes),
            (&socket, moved(Some(0), &[("lo", 10)]), Says::No),
            (&socket, moved(Some(0), &[("lo", 200)]), Says::Silent),
            (&rdma, moved(Some(0), &[("mlx5_0/1", 1010)]), Says::Yes),
            (&rdma, moved(Some(0), &[("mlx5_1/1", 1010)]), Says::Silent),
        ] {
            let witness = counted(way, Scope::All, &counters);
            assert_eq!(witness.says, says, "{way:?} {counters:?}: {}", witness.words);
        }
        // Between nodes the network is to be busy, whatever runs within them.
        let busy = moved(Some(0), &[("lo", 1001)]);
        assert_eq!(counted(&Way::Shm, Scope::Within, &busy).says, Says::Silent);
        assert_eq!(counted(&Way::P2p, Scope::Within, &busy).says, Says::Silent);
        assert_eq!(counted(&Way::Shm, Scope::Within, &moved(Some(800), &[])).says, Says::No);
    }

    /// Of a job of small sizes the ranks' own talk is as much as the data.
    #[test]
    fn few_bytes_tell_nothing() {
        let little = Moved { required: 8.1e3, nvlink: Some(0), ..moved(Some(0), &[("lo", 24)]) };
        for way in [Way::P2p, Way::Nvls, Way::Shm, Way::Socket("eth0".to_owned())] {
            assert_eq!(counted(&way, Scope::All, &little).says, Says::Silent, "{way:?}");
        }
    }

    /// A device that was not read is no device that was idle.
    #[test]
    fn what_was_not_read_says_nothing() {
        let socket = Way::Socket("eth0".to_owned());
        let rdma = Way::Rdma { device: "mlx5_0".to_owned(), port: 1 };
        for read in [vec![], vec!["lo"], vec!["eth0"]] {
            let moved = Moved {
                read: read.iter().map(|name| (*name).to_owned()).collect(),
                ..moved(Some(0), &[])
            };
            assert_eq!(counted(&socket, Scope::All, &moved).says, Says::Silent, "{read:?}");
            assert_eq!(counted(&rdma, Scope::All, &moved).says, Says::Silent, "{read:?}");
        }
    }
}
