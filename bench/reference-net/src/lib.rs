//! What NCCL does with sockets, NET/Socket of src/transport/net_socket.cc (2.28 and 2.30), as a net plugin: what
//! measurements of busbw's own network are compared with. Benches and test beds load it with `--net PATH`.
//! Not part of any program or release, and not weaker and not stronger than NCCL: the same calls to the system for each
//! message, the same threads.
//!
//! NCCL_SOCKET_NTHREADS and NCCL_NSOCKS_PERTHREAD say how many threads and sockets, as they do for NCCL (docs/netlab.md).
//! The tables and devices are those of `nccl-plugin-busbw`, with this network behind them.
//!
//! Four differences, none of which changes the time of a message: connect never sleeps; a connection that sends no
//! greeting does not delay others; only the oldest request of a connection moves, which is the only one that NCCL tests;
//! close does not wait for messages.

mod connecting;
mod connection;
mod handle;
mod helper;
mod listening;
mod settings;
mod socket;

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use nccl_plugin_busbw::{
    devices::{self, Device},
    exported, log,
    network::{Handle, Listener, Network, Result, Sender},
};

pub use self::settings::Settings;
use self::{
    connecting::Connecting, connection::Sending, handle::ListenAddress, listening::Listening,
};

/// What NCCL's log calls it.
const PLUGIN_NAME: &str = "reference";

/// The dynamic loader calls this before NCCL looks up a table.
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = {
    extern "C" fn loaded() {
        exported::replace(PLUGIN_NAME, made);
    }
    loaded
};

fn made() -> Result<Box<dyn Network>> {
    let settings = Settings::of_environment()?;
    let (threads, sockets) = (settings.threads, settings.sockets_per_thread);
    log::info(&format!(
        "NET/{PLUGIN_NAME}: NCCL's own sockets re-implemented, for comparison: {threads} threads, {sockets} sockets each"
    ));
    Ok(Box::new(Reference::new(settings, devices::one_each()?)))
}

/// NCCL's sockets.
pub struct Reference {
    settings: Settings,
    devices: Vec<Device>,
    /// Connections that are being opened, by the number in their handle.
    pending: Mutex<HashMap<u64, Connecting>>,
    last: AtomicU64,
}

impl Reference {
    /// Over these devices.
    #[must_use]
    pub fn new(settings: Settings, devices: Vec<Device>) -> Reference {
        Reference { settings, devices, pending: Mutex::default(), last: AtomicU64::new(0) }
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<u64, Connecting>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Network for Reference {
    fn count(&self) -> usize {
        self.devices.len()
    }

    fn device(&self, at: usize) -> Option<&Device> {
        self.devices.get(at)
    }

    fn listen(&self, device: usize, handle: &mut Handle) -> Result<Box<dyn Listener>> {
        // One interface is one device.
        let address = self.devices[device].interfaces[0].address;
        let listening = Listening::new(address, &self.settings)?;
        listening.listen_address().write(handle);
        Ok(Box::new(listening))
    }

    fn connect(&self, _: usize, handle: &mut Handle) -> Result<Option<Box<dyn Sender>>> {
        let known = self.pending().remove(&handle::state(handle));
        let mut connecting = match known {
            Some(connecting) => connecting,
            None => {
                handle::set_state(handle, self.last.fetch_add(1, Ordering::Relaxed) + 1);
                Connecting::new(ListenAddress::read(handle)?, &self.settings)
            }
        };
        match connecting.progress()? {
            Some(parts) => Ok(Some(Box::new(Sending::new(parts)))),
            None => {
                self.pending().insert(handle::state(handle), connecting);
                Ok(None)
            }
        }
    }
}
