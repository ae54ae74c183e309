//! busbw's own network: messages in chunks over many TCP connections to each peer.
//! Not NCCL's tables (`exported`), nor what is sent where and when: that is `busbw_multipath`. docs/plugin.md
//! tells the design.
//!
//! `manager` is a thread that accepts and connects paths. `sender` and `receiver` put sockets and threads around the state
//! machines of a connection's two ends. Whoever calls moves the bytes, and `engine` has threads that help.

mod clock;
pub mod engine;
mod events;
mod exit;
pub mod fault;
mod flag;
#[cfg(fuzzing)]
pub mod fuzzing;
mod handle;
mod locks;
#[cfg(all(test, loom))]
mod loom_models;
mod manager;
mod memory;
mod pending;
pub mod rdma;
mod receiver;
mod results;
mod routes;
mod sender;
mod sockets;
mod state_machine;
mod stats;
mod sync;
mod threads;
mod watch;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock},
};

use nccl_plugin_abi::net_stats::NetStats;

pub use self::stats::stats_file;
use self::{
    engine::Engine, fault::Fault, handle::Listening, locks::lock, manager::Manager,
    pending::Pending, sender::Sending, stats::Stats,
};
use crate::{
    devices::Device,
    network::{Handle, Listener, Network, Result, Sender},
};

/// The network.
pub struct Multipath {
    devices: Vec<Device>,
    fault: Option<Fault>,
    /// The file of statistics.
    stats: Option<PathBuf>,
    threads: Option<usize>,
    engine: OnceLock<Arc<Engine>>,
    manager: OnceLock<Arc<Manager>>,
    starting: Mutex<()>,
    pending: Pending<sender::Connection>,
}

impl Multipath {
    /// Over these devices, with so many threads (or as many as fit the machine). Paths are broken if a fault says so.
    #[must_use]
    pub fn new(devices: Vec<Device>, threads: Option<usize>, fault: Option<Fault>) -> Multipath {
        Multipath {
            devices,
            fault,
            stats: None,
            threads,
            engine: OnceLock::new(),
            manager: OnceLock::new(),
            starting: Mutex::default(),
            pending: Pending::default(),
        }
    }

    /// The same, with what its paths do written to a file, as `nccl_plugin_abi::net_stats` has it.
    #[must_use]
    pub fn written_to(self, file: Option<PathBuf>) -> Multipath {
        Multipath { stats: file, ..self }
    }

    /// What paths have done so far, as the file has it; nothing where none was asked for, or no call was made.
    #[must_use]
    pub fn counted(&self) -> Option<NetStats> {
        Some(self.manager.get()?.stats()?.counted())
    }

    /// The thread, started at the first call: whether to listen or to connect.
    fn manager(&self) -> Result<Arc<Manager>> {
        let _starting = lock(&self.starting);
        if let Some(manager) = self.manager.get() {
            return Ok(manager.clone());
        }
        let interfaces = self.devices.iter().flat_map(|device| device.interfaces.clone());
        let interfaces = interfaces.collect::<Vec<_>>();
        // Kept also where the manager does not start: the next call tries that again.
        let engine = match self.engine.get() {
            Some(engine) => engine.clone(),
            None => {
                let engine = Engine::start(self.threads);
                self.engine.get_or_init(|| engine).clone()
            }
        };
        let manager = Manager::start(&interfaces, self.fault, engine)?;
        if let Some(file) = &self.stats {
            manager.write_down(Stats::new(file.clone(), &interfaces));
        }
        Ok(self.manager.get_or_init(|| manager).clone())
    }
}

impl Network for Multipath {
    fn count(&self) -> usize {
        self.devices.len()
    }

    fn device(&self, at: usize) -> Option<&Device> {
        self.devices.get(at)
    }

    fn listen(&self, _: usize, handle: &mut Handle) -> Result<Box<dyn Listener>> {
        let manager = self.manager()?;
        let connection = receiver::Connection::new(&manager)?;
        let there = manager.open(connection.clone());
        there.write(handle);
        Ok(Box::new(receiver::Listening::new(connection, there.listener)))
    }

    fn connect(&self, device: usize, handle: &mut Handle) -> Result<Option<Box<dyn Sender>>> {
        let made = self.pending.connect(handle, |there| self.connection(device, there))?;
        Ok(made.map(|shared| Box::new(Sending::new(shared)) as Box<dyn Sender>))
    }
}

impl Multipath {
    fn connection(&self, device: usize, there: &Listening) -> Result<Arc<sender::Connection>> {
        let routes = routes::between(
            &self.devices[device].interfaces,
            &there.addresses,
            &crate::devices::addresses(),
            self.manager()?.engine.has_threads(),
        )?;
        let hello = busbw_multipath::frame::Hello {
            secret: there.secret,
            listener: there.listener,
            path: 0,
            // There are at most MAX_PATHS.
            paths: routes.paths.len() as u16,
            epoch: 0,
        };
        sender::Connection::new(&self.manager()?, hello, routes.paths, routes.chunk)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{IpAddr, Ipv4Addr},
        time::{Duration, Instant},
    };

    use super::*;
    use crate::devices::Interface;

    #[test]
    fn connections_that_nobody_asks_for_end() {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let lo = Interface { name: "lo".to_owned(), address, prefix: 8, speed: None, path: None };
        let (name, interfaces) = (c"busbw".to_owned(), vec![lo]);
        let device = Device {
            name,
            path: None,
            guid: 0,
            speed: 10_000,
            port: 0,
            kinds: 1,
            interfaces,
            parts: Vec::new(),
        };
        let network = Multipath::new(vec![device], Some(0), None);
        let until = Instant::now() + Duration::from_secs(10);
        let mut listener = loop {
            let mut handle = [0; 128];
            let listener = network.listen(0, &mut handle).unwrap();
            if network.connect(0, &mut handle).unwrap().is_none() {
                break listener;
            }
            // It was there at once, since this thread was suspended.
            assert!(Instant::now() < until, "no connection is asked for twice");
        };
        // It has come up.
        while listener.accept().unwrap().is_none() {
            assert!(Instant::now() < until, "no connection");
        }
        let shared = network.pending.all();
        network.pending.end_abandoned(Instant::now());
        assert_eq!(network.pending.all().len(), 1);
        network.pending.end_abandoned(Instant::now() + pending::ABANDONED);
        assert!(network.pending.all().is_empty());
        // The manager may just be looking at it.
        while shared[0].strong_count() > 0 {
            assert!(Instant::now() < until, "it is kept");
        }
    }
}
