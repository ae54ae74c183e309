//! busbw's own network: messages in chunks over many TCP connections to each peer.
//! Not NCCL's tables (`exported`). docs/plugin.md tells the design.
//!
//! `keeper` is a thread that lets paths in and connects them. `sender` cuts messages into pieces, which go over
//! whichever path delivers them first; `receiver` reads them straight to where they belong, and acknowledges them.
//! Whoever calls moves the bytes.

mod events;
pub mod fault;
mod frame;
mod handle;
mod keeper;
mod receiver;
mod sender;
mod sockets;
mod threads;
mod ways;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use self::{
    fault::Fault,
    handle::Whereabouts,
    keeper::{Keeper, lock},
    receiver::Listening,
    sender::Sending,
};
use crate::{
    devices::Device,
    network::{Handle, Listener, Network, Result, Sender},
};

/// Paths of a connection at most.
const MOST_PATHS: usize = 16;
/// Messages up to so many bytes are copied, and leave at once.
const SMALL: usize = 8 << 10;
/// A connection without any path for so long is broken.
const LIMIT: Duration = Duration::from_secs(20);

/// The network.
pub struct Multipath {
    devices: Vec<Device>,
    fault: Option<Fault>,
    keeper: OnceLock<Arc<Keeper>>,
    starting: Mutex<()>,
    /// Connections that are being made, by what is in their handle.
    pending: Mutex<HashMap<u64, Arc<sender::Shared>>>,
    last: AtomicU64,
}

impl Multipath {
    /// Over these devices, of which paths are broken if a fault says so.
    #[must_use]
    pub fn new(devices: Vec<Device>, fault: Option<Fault>) -> Multipath {
        Multipath {
            devices,
            fault,
            keeper: OnceLock::new(),
            starting: Mutex::default(),
            pending: Mutex::default(),
            last: AtomicU64::new(0),
        }
    }

    /// The thread, started at the first call: whether to listen or to connect.
    fn keeper(&self) -> Result<Arc<Keeper>> {
        let _starting = lock(&self.starting);
        if let Some(keeper) = self.keeper.get() {
            return Ok(keeper.clone());
        }
        let interfaces = self.devices.iter().flat_map(|device| device.interfaces.clone());
        let keeper = Keeper::start(&interfaces.collect::<Vec<_>>(), self.fault)?;
        Ok(self.keeper.get_or_init(|| keeper).clone())
    }
}

impl Network for Multipath {
    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn listen(&self, _: usize, handle: &mut Handle) -> Result<Box<dyn Listener>> {
        let keeper = self.keeper()?;
        let shared = receiver::Shared::new(&keeper)?;
        let there = keeper.open(shared.clone());
        there.write(handle);
        Ok(Box::new(Listening::new(shared, keeper, there.listener)))
    }

    fn connect(&self, device: usize, handle: &mut Handle) -> Result<Option<Box<dyn Sender>>> {
        let known = lock(&self.pending).get(&handle::state(handle)).cloned();
        let shared = match known {
            Some(shared) => shared,
            None => {
                let there = Whereabouts::read(handle)?;
                let shared = self.dial(device, &there)?;
                let state = self.last.fetch_add(1, Ordering::Relaxed) + 1;
                lock(&self.pending).insert(state, shared.clone());
                handle::set_state(handle, state);
                shared
            }
        };
        let failure = shared.failure();
        if failure.is_ok() && !shared.is_up() {
            return Ok(None);
        }
        lock(&self.pending).remove(&handle::state(handle));
        handle::set_state(handle, 0);
        failure?;
        Ok(Some(Box::new(Sending::new(shared))))
    }
}

impl Multipath {
    fn dial(&self, device: usize, there: &Whereabouts) -> Result<Arc<sender::Shared>> {
        let ways = ways::between(&self.devices[device].interfaces, &there.addresses)?;
        let hello = frame::Hello {
            secret: there.secret,
            listener: there.listener,
            path: 0,
            // There are at most MOST_PATHS.
            paths: ways.paths.len() as u16,
            epoch: 0,
        };
        sender::Shared::new(&self.keeper()?, hello, ways.paths, ways.chunk)
    }
}
