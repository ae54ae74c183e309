//! Which paths there are between two hosts: from which address of ours to which of theirs, how many of each.
//! Not connecting them.

use std::net::{IpAddr, SocketAddr};

use nccl_plugin_abi::Status;

use crate::{
    devices::Interface,
    network::{Failure, Result},
};
use busbw_multipath::MAX_PATHS;

/// Paths within this host: more of them only cost.
const WITHIN: usize = 4;
/// Bytes of a chunk there, where each costs a few calls to the kernel, and where several threads share a message; and
/// between hosts, where a chunk is held up by those before it on its path.
const CHUNKS: (u32, u32, u32) = (1 << 20, 128 << 10, 64 << 10);

/// From which address to which; the kernel chooses ours if there is none.
pub(super) type Route = (Option<IpAddr>, SocketAddr);

/// How two hosts are joined.
pub(super) struct Routes {
    pub paths: Vec<Route>,
    /// Bytes of a chunk.
    pub chunk: u32,
}

/// The routes from these interfaces to those addresses, each with the bits that hosts of its subnet share; all addresses
/// of this host; whether threads share what is to be moved.
///
/// # Errors
/// When no two of them speak the same version of IP.
pub(super) fn between(
    ours: &[Interface],
    theirs: &[(SocketAddr, u8)],
    own: &[IpAddr],
    shared: bool,
) -> Result<Routes> {
    let joined = all_between(ours, theirs, own)?;
    let within = joined.iter().all(|(_, to)| own.contains(&to.ip()));
    let (count, chunk) = match (within, shared) {
        (true, false) => (WITHIN, CHUNKS.0),
        (true, true) => (WITHIN, CHUNKS.1),
        (false, _) => (MAX_PATHS, CHUNKS.2),
    };
    Ok(Routes { paths: spread(&joined, count), chunk })
}

/// So many routes, for the handshakes of paths that are something else.
///
/// # Errors
/// As [`between`].
pub(super) fn spread_between(
    ours: &[Interface],
    theirs: &[(SocketAddr, u8)],
    own: &[IpAddr],
    count: usize,
) -> Result<Vec<Route>> {
    Ok(spread(&all_between(ours, theirs, own)?, count))
}

fn all_between(
    ours: &[Interface],
    theirs: &[(SocketAddr, u8)],
    own: &[IpAddr],
) -> Result<Vec<Route>> {
    let is_own = |to: &SocketAddr| own.contains(&to.ip());
    // An address that this host has, beside others that it has not, does not reach the other host: a
    // bridge's for containers is the same everywhere.
    let foreign: Vec<_> = theirs.iter().filter(|(to, _)| !is_own(to)).copied().collect();
    let mut joined = joined(ours, if foreign.is_empty() { theirs } else { &foreign });
    if joined.is_empty() {
        joined = self::joined(ours, theirs);
    }
    if joined.is_empty() {
        let text = format!(
            "no route leads from {:?} to {:?}: see NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY on both hosts",
            ours.iter().map(|from| from.address).collect::<Vec<_>>(),
            theirs.iter().map(|(to, _)| to.ip()).collect::<Vec<_>>(),
        );
        return Err(Failure::new(Status::SYSTEM, text));
    }
    Ok(joined)
}

/// All pairs in one subnet; where there are none, whatever the kernel reaches through a router.
fn joined(ours: &[Interface], theirs: &[(SocketAddr, u8)]) -> Vec<Route> {
    let mut joined: Vec<Route> = Vec::new();
    for (to, prefix) in theirs {
        let near = ours.iter().filter(|from| near(from.address, to.ip(), from.prefix.min(*prefix)));
        joined.extend(near.map(|from| (Some(from.address), *to)));
    }
    if joined.is_empty() {
        let reached = |to: &SocketAddr| {
            !to.ip().is_loopback() && ours.iter().any(|from| from.address.is_ipv4() == to.is_ipv4())
        };
        joined.extend(theirs.iter().filter(|(to, _)| reached(to)).map(|(to, _)| (None, *to)));
    }
    joined
}

/// So many of these, some of them several times: all alike, and all addresses of either side alike.
fn spread(joined: &[Route], count: usize) -> Vec<Route> {
    let mut paths: Vec<Route> = Vec::new();
    for _ in 0..count {
        let times = |same: &dyn Fn(&Route) -> bool| paths.iter().filter(|path| same(path)).count();
        let least = joined.iter().min_by_key(|route| {
            let ends = times(&|path| path.0 == route.0) + times(&|path| path.1 == route.1);
            (times(&|path| path == *route), ends)
        });
        paths.extend(least);
    }
    paths
}

/// Whether two addresses have their first bits in common.
fn near(one: IpAddr, other: IpAddr, bits: u8) -> bool {
    let differ = match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => return false,
    };
    differ >= bits.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(address: &str, prefix: u8) -> Interface {
        let address = address.parse().unwrap();
        Interface { name: String::new(), address, prefix, speed: None, path: None }
    }

    fn routes(from: &[(&str, u8)], to: &[(&str, u8)]) -> Option<Vec<(String, String)>> {
        let from: Vec<_> = from.iter().map(|(address, prefix)| ours(address, *prefix)).collect();
        let to: Vec<_> = to.iter().map(|(to, prefix)| (to.parse().unwrap(), *prefix)).collect();
        let said = |(from, to): Route| {
            (from.map_or("any".to_owned(), |from| from.to_string()), to.to_string())
        };
        // The host has an interface besides that was not chosen.
        let own: Vec<_> =
            from.iter().map(|from| from.address).chain(["10.9.0.1".parse().unwrap()]).collect();
        Some(between(&from, &to, &own, false).ok()?.paths.into_iter().map(said).collect())
    }

    #[test]
    fn same_subnets_are_joined() {
        let both = routes(
            &[("10.1.0.1", 24), ("10.2.0.1", 24)],
            &[("10.1.0.9:5", 24), ("10.2.0.9:6", 24)],
        )
        .unwrap();
        assert_eq!(both.len(), MAX_PATHS);
        let first = ("10.1.0.1".to_owned(), "10.1.0.9:5".to_owned());
        assert_eq!(both.iter().filter(|route| **route == first).count(), MAX_PATHS / 2);
    }

    #[test]
    fn many_interfaces_in_one_subnet_are_all_used() {
        for count in [5, 8, 16] {
            let from: Vec<_> = (0..count).map(|at| format!("10.1.0.{}", 1 + at)).collect();
            let to: Vec<_> = (0..count).map(|at| format!("10.1.0.{}:5", 101 + at)).collect();
            let from: Vec<_> = from.iter().map(|from| (from.as_str(), 24)).collect();
            let to: Vec<_> = to.iter().map(|to| (to.as_str(), 24)).collect();
            let routes = routes(&from, &to).unwrap();
            let most = MAX_PATHS.div_ceil(count);
            for (address, _) in &from {
                let times = routes.iter().filter(|route| route.0 == *address).count();
                assert!((MAX_PATHS / count..=most).contains(&times), "{address}: {routes:?}");
            }
            for (address, _) in &to {
                let times = routes.iter().filter(|route| route.1 == *address).count();
                assert!((MAX_PATHS / count..=most).contains(&times), "{address}: {routes:?}");
            }
        }
    }

    #[test]
    fn an_address_that_both_hosts_have_is_no_route() {
        let bridge = ("172.18.0.1", 16);
        let joined =
            routes(&[("10.1.0.1", 24), bridge], &[("172.18.0.1:5", 16), ("10.1.0.9:6", 24)])
                .unwrap();
        let route = ("10.1.0.1".to_owned(), "10.1.0.9:6".to_owned());
        assert_eq!(joined, vec![route; MAX_PATHS]);
        let routed =
            routes(&[("10.1.0.1", 24), bridge], &[("172.18.0.1:5", 16), ("10.2.0.9:6", 24)]);
        assert_eq!(routed.unwrap(), vec![("any".to_owned(), "10.2.0.9:6".to_owned()); MAX_PATHS]);
    }

    #[test]
    fn other_subnets_are_left_to_the_kernel() {
        let routed =
            routes(&[("10.1.0.1", 24)], &[("10.7.0.9:5", 24), ("[fd00::1]:6", 64)]).unwrap();
        assert_eq!(routed, vec![("any".to_owned(), "10.7.0.9:5".to_owned()); MAX_PATHS]);
        assert_eq!(routes(&[("10.1.0.1", 24)], &[("[fd00::1]:6", 64)]), None);
        assert_eq!(routes(&[("10.1.0.1", 24)], &[("127.0.0.1:6", 8)]), None);
    }

    #[test]
    fn within_a_host_there_are_few() {
        let within = routes(&[("127.0.0.1", 8)], &[("127.0.0.1:5", 8)]).unwrap();
        assert_eq!(within, vec![("127.0.0.1".to_owned(), "127.0.0.1:5".to_owned()); WITHIN]);
        // Also where the other process has chosen more interfaces.
        let within =
            routes(&[("10.1.0.1", 24)], &[("10.1.0.1:5", 24), ("10.9.0.1:6", 24)]).unwrap();
        assert_eq!(within, vec![("10.1.0.1".to_owned(), "10.1.0.1:5".to_owned()); WITHIN]);
    }
}
