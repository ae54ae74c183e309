//! The memory of a connection's messages: registered with each of its ports, and named by keys.
//! Not registering itself (`registrations`).

use std::{
    ops::Range,
    sync::{Arc, Mutex},
};

use busbw_multipath::{Memory as _, Source};
use busbw_verbs::{Place, Registration, RemoteMemory};
use nccl_plugin_abi::Status;

use super::{MAX_PORTS, clear_to_send::Grant, ports::OpenPort};
use crate::{
    multipath::locks::lock,
    network::{Failure, Memory, Result},
};

/// What NCCL has registered with a connection.
#[derive(Default)]
pub(super) struct Registered(Mutex<Vec<One>>);

struct One {
    memory: Memory,
    on_ports: Vec<Arc<Registration>>,
}

impl Registered {
    /// # Errors
    /// The memory cannot be locked, or a device cannot reach it.
    pub(super) fn add(&self, memory: &Memory, ports: &[Arc<OpenPort>]) -> Result<()> {
        let on_ports = ports.iter().map(|port| port.registrations.of(memory));
        let on_ports = on_ports.collect::<std::result::Result<_, _>>().map_err(|error| {
            let bytes = memory.addresses.len();
            let whose = if memory.is_device { " of a GPU" } else { "" };
            let text = format!("{bytes} bytes{whose} cannot be registered: {error}");
            Failure::new(Status::SYSTEM, text)
        })?;
        lock(&self.0).push(One { memory: memory.clone(), on_ports });
        Ok(())
    }

    /// Lets one of them go.
    pub(super) fn remove(&self, addresses: &Range<usize>) {
        let mut all = lock(&self.0);
        if let Some(at) = all.iter().position(|one| one.memory.addresses == *addresses) {
            all.swap_remove(at);
        }
    }

    /// The keys of these bytes on each port: our own, and the other end's.
    ///
    /// # Errors
    /// They are not within what is registered.
    pub(super) fn keys(
        &self,
        address: usize,
        bytes: usize,
    ) -> Result<([u32; MAX_PORTS], [u32; MAX_PORTS])> {
        if bytes == 0 {
            return Ok(Default::default());
        }
        let all = lock(&self.0);
        let holds = |one: &&One| {
            let Range { start, end } = one.memory.addresses;
            start <= address && address + bytes <= end
        };
        let Some(one) = all.iter().find(holds) else {
            let text =
                format!("{bytes} bytes at {address:#x} are not registered with this connection");
            return Err(Failure::new(Status::INVALID_ARGUMENT, text));
        };
        let (mut own, mut remote) = ([0; MAX_PORTS], [0; MAX_PORTS]);
        for (port, registration) in one.on_ports.iter().enumerate() {
            own[port] = registration.local_key();
            remote[port] = registration.remote_key();
        }
        Ok((own, remote))
    }
}

/// A message, or a part of one, and where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outgoing {
    from: u64,
    bytes: usize,
    own_keys: [u32; MAX_PORTS],
    to: u64,
    keys: [u32; MAX_PORTS],
}

impl Outgoing {
    pub(super) fn new(
        from: u64,
        bytes: usize,
        own_keys: [u32; MAX_PORTS],
        grant: &Grant,
    ) -> Outgoing {
        Outgoing { from, bytes, own_keys, to: grant.address, keys: grant.keys }
    }

    /// The two ends of it as a queue pair of these ports, ours and the other end's, has them.
    pub(super) fn ends(&self, port: usize, other: usize) -> (Place, RemoteMemory) {
        // A chunk is no longer than a u32 tells.
        let place =
            Place { address: self.from, bytes: self.bytes as u32, key: self.own_keys[port] };
        (place, RemoteMemory { address: self.to, key: self.keys[other] })
    }
}

impl busbw_multipath::Memory for Outgoing {
    fn part(&self, offset: usize, bytes: usize) -> Outgoing {
        debug_assert!(offset + bytes <= self.bytes);
        let at = offset as u64;
        Outgoing { from: self.from + at, to: self.to.wrapping_add(at), bytes, ..self.clone() }
    }

    fn overlaps(&self, addresses: &Range<usize>) -> bool {
        let from = self.from as usize;
        from < addresses.end && addresses.start < from + self.bytes
    }
}

impl Source for Outgoing {
    /// The same: of a path that places what it carries nothing is ever copied (`busbw_multipath::Capabilities`).
    fn copied(&self) -> Outgoing {
        self.part(0, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_move_both_ends() {
        let grant = Grant { message: 3, address: 5000, bytes: 100, keys: [1, 2, 3, 4, 0, 0, 0, 0] };
        let all = Outgoing::new(1000, 100, [9, 8, 7, 6, 0, 0, 0, 0], &grant);
        let part = all.part(40, 10);
        let (place, remote) = part.ends(1, 2);
        assert_eq!(place, Place { address: 1040, bytes: 10, key: 8 });
        assert_eq!(remote, RemoteMemory { address: 5040, key: 3 });
        assert!(part.overlaps(&(1049..2000)) && !part.overlaps(&(1050..2000)));
    }

    #[test]
    fn what_is_not_registered_is_refused() {
        let registered = Registered::default();
        assert!(registered.keys(0, 0).is_ok());
        let failure = registered.keys(4096, 8).unwrap_err();
        assert!(failure.text.contains("8 bytes at 0x1000 are not registered"), "{failure}");
    }
}
