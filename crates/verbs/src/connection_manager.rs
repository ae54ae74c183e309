//! librdmacm, opened at run time: connects queue pairs by IP addresses, as perftest's `-R` does. The kernel's connection manager
//! chooses device, address and route.
//! Not which ends meet (`busbw-runner`), and not queue pairs that are connected by addresses that the ends tell each other
//! (`connection`).
//!
//! The queue pairs are ours, and not made by the library: it says how each of their states is reached (rdma_init_qp_attr(3)).

mod abi;
mod identifier;

use std::{
    ffi::{c_char, c_int, c_void},
    io,
    net::{IpAddr, SocketAddr},
    path::Path,
    ptr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use dynamic_library::{Library, LoadError, table, text};
use rustix::{
    fd::BorrowedFd,
    fs::{OFlags, fcntl_setfl},
};

use self::abi::event;
use crate::{VerbsError, abi::QueuePairAttributes, error::refused};

const NAME: &str = "librdmacm.so.1";
/// Requests that may wait to be accepted.
const BACKLOG: c_int = 1024;
/// How long an address and a route may take to be found.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(2);

table! {
    /// The functions that are used.
    Calls: 1 {
        create_event_channel = [c"rdma_create_event_channel"] () -> *mut abi::Channel;
        destroy_event_channel = [c"rdma_destroy_event_channel"] (*mut abi::Channel) -> ();
        create_id = [c"rdma_create_id"] (*mut abi::Channel, *mut *mut abi::Identifier, *mut c_void, c_int) -> c_int;
        destroy_id = [c"rdma_destroy_id"] (*mut abi::Identifier) -> c_int;
        bind_addr = [c"rdma_bind_addr"] (*mut abi::Identifier, *mut c_void) -> c_int;
        listen = [c"rdma_listen"] (*mut abi::Identifier, c_int) -> c_int;
        resolve_addr = [c"rdma_resolve_addr"] (*mut abi::Identifier, *mut c_void, *mut c_void, c_int) -> c_int;
        resolve_route = [c"rdma_resolve_route"] (*mut abi::Identifier, c_int) -> c_int;
        connect = [c"rdma_connect"] (*mut abi::Identifier, *mut abi::Parameters) -> c_int;
        accept = [c"rdma_accept"] (*mut abi::Identifier, *mut abi::Parameters) -> c_int;
        establish = [c"rdma_establish"] (*mut abi::Identifier) -> c_int;
        get_cm_event = [c"rdma_get_cm_event"] (*mut abi::Channel, *mut *mut abi::Event) -> c_int;
        ack_cm_event = [c"rdma_ack_cm_event"] (*mut abi::Event) -> c_int;
        init_qp_attr = [c"rdma_init_qp_attr"] (*mut abi::Identifier, *mut QueuePairAttributes, *mut c_int) -> c_int;
        get_src_port = [c"rdma_get_src_port"] (*mut abi::Identifier) -> u16;
        event_str = [c"rdma_event_str"] (c_int) -> *const c_char;
    }
}

/// The library, and a channel on which it tells what has happened to the identifiers of this one.
pub struct ConnectionManager {
    calls: &'static Calls,
    channel: *mut abi::Channel,
}

// SAFETY: a pointer to what the library guards by itself (rdma_cm(7): all calls are thread safe).
unsafe impl Send for ConnectionManager {}
// SAFETY: as above.
unsafe impl Sync for ConnectionManager {}

/// One end of a connection, or who listens for them (`struct rdma_cm_id`).
pub struct Identifier {
    manager: Arc<ConnectionManager>,
    id: *mut abi::Identifier,
}

// SAFETY: as `ConnectionManager`.
unsafe impl Send for Identifier {}

/// Tells identifiers apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(usize);

/// What has happened to an identifier.
pub enum Happened {
    /// The address of the other end was found; a route is next.
    AddressFound,
    /// And so was the route.
    RouteFound,
    /// Somebody asks to be connected, and says this.
    Requested(Identifier, Vec<u8>),
    /// The other end has accepted: our queue pair is next.
    Accepted,
    /// Both ends are connected.
    Established,
    /// The other end has ended the connection, or it is over here.
    Ended,
    /// It cannot be connected: why.
    Failed(String),
}

impl ConnectionManager {
    /// Opens the library, once a process, and a channel.
    ///
    /// # Errors
    /// The loader does not find it, or /dev/infiniband/rdma_cm cannot be used.
    pub fn open() -> Result<Arc<ConnectionManager>, ManagerError> {
        static OPEN: OnceLock<Result<Calls, LoadError>> = OnceLock::new();
        let load = || Ok(Calls::open(&Library::open(Path::new(NAME))?, 0));
        let calls = OPEN.get_or_init(load).as_ref().map_err(Clone::clone)?;
        let create =
            calls.create_event_channel.ok_or(VerbsError::Absent("rdma_create_event_channel"))?;
        // SAFETY: it takes nothing.
        let channel = unsafe { create() };
        if channel.is_null() {
            let error = io::Error::last_os_error();
            return Err(refused("rdma_create_event_channel", "this host", &error).into());
        }
        // The library goes back to its file by itself where an event is nobody's, and would wait there.
        // SAFETY: the library's file, which stays open as long as the channel.
        let file = unsafe { BorrowedFd::borrow_raw((*channel).file) };
        let manager = Arc::new(ConnectionManager { calls, channel });
        fcntl_setfl(file, OFlags::RDWR | OFlags::NONBLOCK).map_err(|error| {
            let error = io::Error::from(error);
            ManagerError::from(refused("fcntl", "the channel of events", &error))
        })?;
        Ok(manager)
    }

    fn identifier(self: &Arc<Self>) -> Result<Identifier, VerbsError> {
        let create = self.calls.create_id.ok_or(VerbsError::Absent("rdma_create_id"))?;
        let mut id = ptr::null_mut();
        // SAFETY: the channel is open, and there is a place for the identifier.
        let status =
            unsafe { create(self.channel, &raw mut id, ptr::null_mut(), abi::RELIABLE_PORTS) };
        checked("rdma_create_id", "this host", status)?;
        Ok(Identifier { manager: Arc::clone(self), id })
    }

    /// Listens at an address of this host; the second is the port.
    ///
    /// # Errors
    /// The address is of no RDMA device.
    pub fn listen(self: &Arc<Self>, at: IpAddr) -> Result<(Identifier, u16), VerbsError> {
        let listener = self.identifier()?;
        let on = at.to_string();
        let bind = self.calls.bind_addr.ok_or(VerbsError::Absent("rdma_bind_addr"))?;
        let listen = self.calls.listen.ok_or(VerbsError::Absent("rdma_listen"))?;
        let mut address = encoded(SocketAddr::new(at, 0));
        // SAFETY: the identifier exists; the address is a complete structure.
        checked("rdma_bind_addr", &on, unsafe { bind(listener.id, address.as_mut_ptr().cast()) })?;
        // SAFETY: as above.
        checked("rdma_listen", &on, unsafe { listen(listener.id, BACKLOG) })?;
        let port = self.calls.get_src_port.ok_or(VerbsError::Absent("rdma_get_src_port"))?;
        // SAFETY: as above. The port is in network byte order.
        let port = u16::from_be(unsafe { port(listener.id) });
        Ok((listener, port))
    }

    /// Begins to find the other end's address, from one of this host.
    ///
    /// # Errors
    /// The address is of no RDMA device, or the other one not reached from it.
    pub fn call(self: &Arc<Self>, from: IpAddr, to: SocketAddr) -> Result<Identifier, VerbsError> {
        let caller = self.identifier()?;
        let resolve = self.calls.resolve_addr.ok_or(VerbsError::Absent("rdma_resolve_addr"))?;
        let (mut own, mut other) = (encoded(SocketAddr::new(from, 0)), encoded(to));
        let (own, other) = (own.as_mut_ptr().cast(), other.as_mut_ptr().cast());
        // SAFETY: the identifier exists; the addresses are complete structures.
        let status = unsafe { resolve(caller.id, own, other, milliseconds(RESOLVE_TIMEOUT)) };
        checked("rdma_resolve_addr", &to.to_string(), status)?;
        Ok(caller)
    }

    /// The next thing that has happened, and to which identifier; nothing if nothing did.
    ///
    /// # Errors
    /// The channel cannot be read.
    pub fn next(self: &Arc<Self>) -> Result<Option<(Key, Happened)>, VerbsError> {
        let get = self.calls.get_cm_event.ok_or(VerbsError::Absent("rdma_get_cm_event"))?;
        let acknowledge = self.calls.ack_cm_event.ok_or(VerbsError::Absent("rdma_ack_cm_event"))?;
        let mut event = ptr::null_mut();
        // SAFETY: the channel is open, and there is a place for the event.
        let status = unsafe { get(self.channel, &raw mut event) };
        if status != 0 && io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock {
            return Ok(None);
        }
        checked("rdma_get_cm_event", "this host", status)?;
        // SAFETY: the library's event, until it is acknowledged.
        let abi::Event { id, listener, kind, status, parameters } = unsafe { ptr::read(event) };
        let said = match kind {
            event::CONNECT_REQUEST if !parameters.said.is_null() => {
                let bytes = usize::from(parameters.said_bytes);
                // SAFETY: so many bytes of the event, which is still there.
                unsafe { std::slice::from_raw_parts(parameters.said.cast::<u8>(), bytes) }.to_vec()
            }
            _ => Vec::new(),
        };
        // SAFETY: once, and nothing of it is used behind this.
        unsafe { acknowledge(event) };
        let happened = match kind {
            event::ADDRESS_RESOLVED => Happened::AddressFound,
            event::ROUTE_RESOLVED => Happened::RouteFound,
            event::CONNECT_REQUEST => {
                Happened::Requested(Identifier { manager: Arc::clone(self), id }, said)
            }
            event::CONNECT_RESPONSE => Happened::Accepted,
            event::ESTABLISHED => Happened::Established,
            event::DISCONNECTED | event::TIMEWAIT_EXIT => Happened::Ended,
            _ => Happened::Failed(self.told(kind, status)),
        };
        let whose = if kind == event::CONNECT_REQUEST { listener } else { id };
        Ok(Some((Key(whose.addr()), happened)))
    }

    fn told(&self, kind: c_int, status: c_int) -> String {
        let name = match self.calls.event_str {
            // SAFETY: any number is allowed; the text is the library's own.
            Some(call) => unsafe { text(call(kind)) },
            None => format!("event {kind}"),
        };
        match status {
            0 => name,
            // Some are the system's, negative; others the connection manager's (a rejection's reason).
            ..0 => format!("{name}: {}", io::Error::from_raw_os_error(-status)),
            _ => format!("{name}, status {status}"),
        }
    }
}

impl Drop for ConnectionManager {
    fn drop(&mut self) {
        if let Some(destroy) = self.calls.destroy_event_channel {
            // SAFETY: once; identifiers hold on to the channel, so that none is left.
            unsafe { destroy(self.channel) };
        }
    }
}

/// Why there is no connection manager.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManagerError {
    /// The library is not there.
    #[error(
        "{0}; install rdma-core's librdmacm1 (Debian, Ubuntu) or librdmacm (RHEL), or connect without -R"
    )]
    Load(#[from] LoadError),
    /// It cannot be used.
    #[error(
        "{0}; the kernel's module rdma_ucm may be missing, or /dev/infiniband/rdma_cm is not given to this container"
    )]
    Verbs(#[from] VerbsError),
}

fn milliseconds(time: Duration) -> c_int {
    c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX)
}

/// `rdma_*` return -1 and set errno.
fn checked(call: &'static str, on: &str, status: c_int) -> Result<(), VerbsError> {
    match status {
        0 => Ok(()),
        _ => Err(refused(call, on, &io::Error::last_os_error())),
    }
}

/// `struct sockaddr_in`, or `sockaddr_in6`.
fn encoded(address: SocketAddr) -> [u8; 28] {
    let mut bytes = [0; 28];
    let family: u16 = match address {
        SocketAddr::V4(v4) => {
            bytes[4..8].copy_from_slice(&v4.ip().octets());
            2
        }
        SocketAddr::V6(v6) => {
            bytes[8..24].copy_from_slice(&v6.ip().octets());
            bytes[24..].copy_from_slice(&v6.scope_id().to_ne_bytes());
            10
        }
    };
    bytes[..2].copy_from_slice(&family.to_ne_bytes());
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn addresses_are_as_the_kernel_has_them() {
        let v4 = encoded("10.1.2.3:258".parse().unwrap());
        assert_eq!(v4[..8], [2, 0, 1, 2, 10, 1, 2, 3]);
        let v6 = encoded("[fd00::5]:258".parse().unwrap());
        assert_eq!(
            (v6[..4].to_vec(), v6[8], v6[23], &v6[24..]),
            (vec![10, 0, 1, 2], 0xfd, 5, &[0; 4][..])
        );
    }

    #[test]
    fn structures_have_the_librarys_places() {
        assert_eq!(offset_of!(abi::Event, parameters), 24);
        assert_eq!(offset_of!(abi::Parameters, number), 16);
        assert_eq!(size_of::<abi::Parameters>(), 24);
    }
}
