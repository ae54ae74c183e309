//! A handle: what NCCL carries from the listener to whoever connects.
//! Not connecting.

use std::net::{IpAddr, SocketAddr};

use nccl_plugin_abi::{Status, net::HANDLE_BYTES};

use crate::network::{Failure, Handle, Result};
use busbw_multipath::frame::{SECRET_BYTES, VERSION, take};

/// Bytes before the addresses: a mark, the version, their number, the secret, the listener.
const HEAD: usize = 4 + SECRET_BYTES + 8;
/// Where the connecting end keeps its place between two calls.
const STATE: usize = HANDLE_BYTES - 8;
const MARK: [u8; 2] = *b"bw";

/// Where a listener is, and the secret of its paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listening {
    /// What a handshake must say.
    pub secret: [u8; SECRET_BYTES],
    /// Number of the listener in its process.
    pub listener: u64,
    /// Where it listens, with the bits that hosts of each subnet share.
    pub addresses: Vec<(SocketAddr, u8)>,
}

impl Listening {
    /// Into a handle: as many addresses as it takes.
    pub(super) fn write(&self, handle: &mut Handle) {
        handle.fill(0);
        handle[..2].copy_from_slice(&MARK);
        handle[2] = VERSION;
        handle[4..4 + SECRET_BYTES].copy_from_slice(&self.secret);
        handle[4 + SECRET_BYTES..HEAD].copy_from_slice(&self.listener.to_le_bytes());
        let mut at = HEAD;
        for (address, prefix) in &self.addresses {
            let ip: &[u8] = match address.ip() {
                IpAddr::V4(v4) => &v4.octets(),
                IpAddr::V6(v6) => &v6.octets(),
            };
            let end = at + 4 + ip.len();
            if end > STATE {
                break;
            }
            handle[at] = ip.len() as u8;
            handle[at + 1] = *prefix;
            handle[at + 2..at + 4].copy_from_slice(&address.port().to_le_bytes());
            handle[at + 4..end].copy_from_slice(ip);
            handle[3] += 1;
            at = end;
        }
    }

    /// # Errors
    /// When the handle is none of ours, or of another version.
    pub(super) fn read(handle: &Handle) -> Result<Listening> {
        let invalid = |text: &str| Failure::new(Status::INVALID_ARGUMENT, text);
        if handle[..2] != MARK {
            return Err(invalid(
                "the handle is none of busbw's: the other side has another plugin",
            ));
        }
        if handle[2] != VERSION {
            return Err(invalid(
                "the other side has another version of busbw's plugin: use one on all hosts",
            ));
        }
        let mut at = HEAD;
        let mut addresses = Vec::new();
        for _ in 0..handle[3] {
            let length = usize::from(handle[at]);
            if at + 4 + length > STATE {
                return Err(invalid("the handle's addresses are longer than it"));
            }
            let ip: IpAddr = match length {
                4 => IpAddr::from(take::<4>(handle, at + 4)),
                16 => IpAddr::from(take::<16>(handle, at + 4)),
                _ => return Err(invalid("the handle has an address that is none")),
            };
            let port = u16::from_le_bytes(take(handle, at + 2));
            addresses.push((SocketAddr::new(ip, port), handle[at + 1]));
            at += 4 + length;
            if at + 4 > STATE {
                break;
            }
        }
        Ok(Listening {
            secret: take(handle, 4),
            listener: u64::from_le_bytes(take(handle, 4 + SECRET_BYTES)),
            addresses,
        })
    }
}

/// What the connecting end has kept in it: 0 at first.
pub(super) fn state(handle: &Handle) -> u64 {
    u64::from_le_bytes(take(handle, STATE))
}

/// Keeps something for the next call with this handle.
pub(super) fn set_state(handle: &mut Handle, state: u64) {
    handle[STATE..].copy_from_slice(&state.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn comes_back(secret: [u8; 16], listener: u64, ips in prop::collection::vec((any::<IpAddr>(), any::<u16>(), 0u8..=128), 0..12), kept: u64) {
            let addresses = ips.into_iter().map(|(ip, port, prefix)| (SocketAddr::new(ip, port), prefix)).collect();
            let there = Listening { secret, listener, addresses };
            let mut handle = [7; HANDLE_BYTES];
            there.write(&mut handle);
            prop_assert_eq!(state(&handle), 0);
            set_state(&mut handle, kept);
            prop_assert_eq!(state(&handle), kept);
            let back = Listening::read(&handle).unwrap();
            prop_assert_eq!((back.secret, back.listener), (secret, listener));
            prop_assert!(there.addresses.starts_with(&back.addresses));
            prop_assert!(back.addresses.len() >= there.addresses.len().min(4));
        }

        #[test]
        fn anything_is_refused_or_read(mut handle in prop::collection::vec(any::<u8>(), HANDLE_BYTES), ours: bool) {
            if ours {
                handle[..3].copy_from_slice(&[MARK[0], MARK[1], VERSION]);
            }
            let _ = Listening::read(&handle.try_into().unwrap());
        }
    }
}
