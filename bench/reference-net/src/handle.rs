//! What a listener writes into NCCL's handle for the end that connects.
//! Not the transport of the handle, which is NCCL's bootstrap.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use nccl_plugin_abi::Status;

use nccl_plugin_busbw::network::{Failure, Handle, Result};

/// Address and settings of a listener; both ends use its numbers of threads and sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ListenAddress {
    pub address: SocketAddr,
    pub magic: u64,
    pub threads: u8,
    pub sockets_per_thread: u8,
}

/// Begins a handle of ours.
const HANDLE_MARK: [u8; 4] = *b"bwR1";
const STATE_OFFSETS: std::ops::Range<usize> = 40..48;

impl ListenAddress {
    /// Writes a new handle.
    pub fn write(&self, handle: &mut Handle) {
        handle.fill(0);
        let address = match self.address.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        handle[..4].copy_from_slice(&HANDLE_MARK);
        handle[4] = self.threads;
        handle[5] = self.sockets_per_thread;
        handle[6..8].copy_from_slice(&self.address.port().to_le_bytes());
        handle[8..16].copy_from_slice(&self.magic.to_le_bytes());
        handle[16..32].copy_from_slice(&address.octets());
    }

    /// Reads a handle.
    ///
    /// # Errors
    /// When another network wrote it.
    pub fn read(handle: &Handle) -> Result<ListenAddress> {
        let array = |from: usize| handle[from..].first_chunk::<8>().copied().unwrap_or_default();
        let octets = handle[16..].first_chunk::<16>().copied().unwrap_or_default();
        let address = Ipv6Addr::from(octets).to_canonical();
        let [_, _, _, _, threads, sockets_per_thread, low, high] = array(0);
        if handle[..4] != HANDLE_MARK || usize::from(threads) * usize::from(sockets_per_thread) > 64
        {
            let text = "cannot connect: the other end has another network than this one (NCCL_NET_PLUGIN must be \
                        the same on all ranks)";
            return Err(Failure::new(Status::INVALID_USAGE, text));
        }
        Ok(ListenAddress {
            address: SocketAddr::new(address, u16::from_le_bytes([low, high])),
            magic: u64::from_le_bytes(array(8)),
            threads,
            sockets_per_thread,
        })
    }
}

/// Number of the connection that this handle opens; 0 before the first call of connect.
pub(super) fn state(handle: &Handle) -> u64 {
    u64::from_le_bytes(handle[STATE_OFFSETS].first_chunk::<8>().copied().unwrap_or_default())
}

/// Writes it.
pub(super) fn set_state(handle: &mut Handle, state: u64) {
    handle[STATE_OFFSETS].copy_from_slice(&state.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_read_as_it_was_written() {
        for address in ["10.1.2.3:4567", "[fd00::1]:65535"] {
            let address = address.parse().unwrap();
            let there = ListenAddress { address, magic: 7, threads: 4, sockets_per_thread: 16 };
            let mut handle = [0xff; 128];
            there.write(&mut handle);
            assert_eq!(state(&handle), 0);
            set_state(&mut handle, u64::MAX);
            assert_eq!(state(&handle), u64::MAX);
            assert_eq!(ListenAddress::read(&handle).unwrap(), there);
        }
    }

    #[test]
    fn another_networks_handle_is_refused() {
        assert!(ListenAddress::read(&[0; 128]).is_err());
    }
}
