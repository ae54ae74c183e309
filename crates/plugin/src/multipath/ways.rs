//! Which paths there are between two hosts: from which address of ours to which of theirs, how many of each.
//! Not connecting them.

use std::net::{IpAddr, SocketAddr};

use model::abi::Status;

use super::MOST_PATHS;
use crate::{
    devices::Interface,
    network::{Failure, Result},
};

/// A path within this host: more of them only cost.
const WITHIN: usize = 4;

/// From where to where.
pub(super) type Way = (Option<IpAddr>, SocketAddr);

/// The ways from these interfaces to those addresses, each with the bits that hosts of its subnet share.
///
/// # Errors
/// When no two of them speak the same version of IP.
pub(super) fn between(ours: &[Interface], theirs: &[(SocketAddr, u8)]) -> Result<Vec<Way>> {
    let mut joined: Vec<Way> = Vec::new();
    for (to, prefix) in theirs {
        let near = ours.iter().filter(|from| near(from.address, to.ip(), from.prefix.min(*prefix)));
        joined.extend(near.map(|from| (Some(from.address), *to)));
    }
    if joined.is_empty() {
        // Through a router: by whichever of our interfaces the kernel says.
        let reached = |to: &SocketAddr| {
            !to.ip().is_loopback() && ours.iter().any(|from| from.address.is_ipv4() == to.is_ipv4())
        };
        joined.extend(theirs.iter().filter(|(to, _)| reached(to)).map(|(to, _)| (None, *to)));
    }
    if joined.is_empty() {
        let text = format!(
            "there is no way from {:?} to {:?}: see NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY on both hosts",
            ours.iter().map(|from| from.address).collect::<Vec<_>>(),
            theirs.iter().map(|(to, _)| to.ip()).collect::<Vec<_>>(),
        );
        return Err(Failure::new(Status::SYSTEM, text));
    }
    let within = joined.iter().all(|(_, to)| ours.iter().any(|from| from.address == to.ip()));
    let count = if within { WITHIN } else { MOST_PATHS };
    Ok(joined.into_iter().cycle().take(count).collect())
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
