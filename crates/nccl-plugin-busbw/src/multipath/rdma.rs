//! busbw's network over RDMA: the same messages in chunks, whose paths are queue pairs that write into the receiver's memory.
//! Not over TCP (`multipath`), whose connection manager makes these paths' handshakes; docs/plugin.md tells the design.
//!
//! `sender` and `receiver` put libibverbs around the transport's state machine: the sender's decides which path takes which chunk,
//! and the receiver counts what has arrived, since devices place the bytes by themselves.

mod acknowledgement;
mod arrival;
mod clear_to_send;
mod exchange;
mod flush;
mod memory;
mod offered;
mod ports;
mod queue_pairs;
mod receiver;
mod registrations;
mod retired;
mod sender;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock},
};

use busbw_multipath::{MAX_PATHS, frame::Hello};
use busbw_verbs::{Service, VerbsError};
use nccl_plugin_abi::Status;

#[cfg(fuzzing)]
pub(super) use self::exchange::decode;
use self::{
    offered::Offered,
    ports::{OpenPort, Opened, Port},
    sender::Sending,
};
use super::{
    engine::Engine,
    fault::Fault,
    handle::Listening,
    locks::lock,
    manager::Manager,
    pending::Pending,
    routes,
    stats::{Stats, stats_file},
};
use crate::{
    devices::{self, Device, Interface},
    log,
    network::{Failure, Handle, Listener, Network, Result, Sender},
};

/// Which queue pairs are the paths: RC or UC, as perftest's `--connection` calls them.
const CONNECTION: &str = "BUSBW_NET_CONNECTION";
/// Ports of a connection at most, as NCCL has it for the ports that it merges (NCCL_NET_MAX_DEVS_PER_NIC: 4, and 8 from NCCL 2.30 on).
pub(super) const MAX_PORTS: usize = 8;
/// Paths of a connection at least: a switch spreads them over its links by their ports of UDP, one for each queue pair.
const PATHS: usize = 4;
/// Bytes of a chunk.
const CHUNK: u32 = 64 << 10;

/// The network.
pub struct Rdma {
    /// Interfaces of the handshakes.
    interfaces: Vec<Interface>,
    ports: Vec<Port>,
    opened: Opened,
    offered: Offered,
    /// Of the queue pairs that are paths.
    service: Service,
    fault: Option<Fault>,
    /// The file of statistics.
    stats: Option<PathBuf>,
    manager: OnceLock<Arc<Manager>>,
    starting: Mutex<()>,
    pending: Pending<sender::Connection>,
}

impl Rdma {
    /// Over the RDMA ports of this host that NCCL_IB_HCA leaves. Paths are broken if a fault says so.
    ///
    /// # Errors
    /// No port can be used, or no interface for the handshakes.
    pub fn new(fault: Option<Fault>) -> Result<Rdma> {
        let ports = ports::usable(Path::new("/"))?;
        let is_merged = match std::env::var(ports::MERGE).ok().as_deref() {
            None | Some("" | "0") => false,
            Some("1") => true,
            Some(other) => return Err(Failure::variable(ports::MERGE, other, "0 or 1")),
        };
        let service = match std::env::var(CONNECTION).ok().as_deref() {
            None | Some("" | "RC") => Service::Reliable,
            Some("UC") => Service::Unreliable,
            Some(other) => return Err(Failure::variable(CONNECTION, other, "RC or UC")),
        };
        let offered = Offered::new(&ports, is_merged);
        let told = ports.iter().map(|port| {
            let kind = if port.is_ethernet { "RoCE" } else { "InfiniBand" };
            format!(
                "{}:{} ({kind}, {} Gb/s, GID {})",
                port.device, port.number, port.gbps, port.gid_index
            )
        });
        let told = told.collect::<Vec<_>>().join(" ");
        let count = offered.count();
        log::info(&format!("NET/busbw: RDMA, {count} device(s) over {told}"));
        Ok(Rdma {
            interfaces: devices::interfaces()?,
            opened: Opened::new(&ports),
            ports,
            offered,
            service,
            fault,
            stats: stats_file(),
            manager: OnceLock::new(),
            starting: Mutex::default(),
            pending: Pending::default(),
        })
    }

    /// The thread, started at the first call: whether to listen or to connect.
    fn manager(&self) -> Result<Arc<Manager>> {
        let _starting = lock(&self.starting);
        if let Some(manager) = self.manager.get() {
            return Ok(manager.clone());
        }
        retired::start()?;
        // Devices move bytes: no thread of ours does.
        let manager = Manager::start(&self.interfaces, self.fault, Engine::start(Some(0)))?;
        if let Some(file) = &self.stats {
            manager.write_down(Stats::new(file.clone(), &self.interfaces));
        }
        Ok(self.manager.get_or_init(|| manager).clone())
    }

    /// The ports of a device, open.
    fn open(&self, device: usize) -> Result<Vec<Arc<OpenPort>>> {
        let ports = self.offered.ports_of(device)?;
        ports.into_iter().map(|at| self.opened.get(&self.ports, at)).collect()
    }

    fn connection(&self, device: usize, there: &Listening) -> Result<Arc<sender::Connection>> {
        let ports = self.open(device)?;
        let own = devices::addresses();
        let count = PATHS.max(ports.len()).min(MAX_PATHS);
        let routes = routes::spread_between(&self.interfaces, &there.addresses, &own, count)?;
        let hello = Hello {
            secret: there.secret,
            listener: there.listener,
            path: 0,
            // There are at most MAX_PATHS.
            paths: routes.len() as u16,
            epoch: 0,
        };
        sender::Connection::new(&self.manager()?, hello, routes, ports, self.service, CHUNK)
    }
}

impl Network for Rdma {
    fn count(&self) -> usize {
        self.offered.count()
    }

    fn device(&self, at: usize) -> Option<&Device> {
        self.offered.device(at)
    }

    fn begin(&self) {
        self.offered.begin();
    }

    fn end(&self) {
        self.offered.end();
    }

    fn merge(&self, parts: &[usize]) -> Result<usize> {
        self.offered.merge(&self.ports, parts)
    }

    fn listen(&self, device: usize, handle: &mut Handle) -> Result<Box<dyn Listener>> {
        let manager = self.manager()?;
        let connection = receiver::Connection::new(&manager, self.open(device)?)?;
        let there = manager.open(connection.clone());
        there.write(handle);
        Ok(Box::new(receiver::Listening::new(connection, there.listener)))
    }

    fn connect(&self, device: usize, handle: &mut Handle) -> Result<Option<Box<dyn Sender>>> {
        let made = self.pending.connect(handle, |there| self.connection(device, there))?;
        Ok(made.map(|shared| Box::new(Sending::new(shared)) as Box<dyn Sender>))
    }
}

/// For NCCL.
fn refused(error: VerbsError) -> Failure {
    Failure::new(Status::SYSTEM, error.to_string())
}
