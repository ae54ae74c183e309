//! Where the rendezvous of a job takes place: on one host at an abstract Unix socket, named after the user and
//! the job; otherwise at a TCP port of the coordinator's host.
//! Not the messages.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    os::{
        fd::{AsFd, BorrowedFd},
        linux::net::SocketAddrExt,
        unix::net::{self, UnixListener, UnixStream},
    },
};

use anyhow::{Context, Result};
use busbw_core::exit::Exit;
use rustix::process::getuid;

use super::{
    coordinator_endpoints::{self, Finder},
    interface::{self, ChosenInterface},
};
use crate::launched::{CoordinatorAddress, Launched};
use crate::rendezvous::{authentication, connect, framed_stream::FramedStream};
use busbw_core::exit::ExitError;
use busbw_host::machine;

/// Hydra's proxy process on each host.
const HYDRA: &str = "hydra_pmi_proxy";

/// Length of the listener's queue: beyond it the kernel drops SYNs, and clients retry after 1 s. The kernel caps it at
/// net.core.somaxconn.
const BACKLOG: i32 = 1 << 14;

/// The address of the rendezvous, and the key that authenticates its processes.
#[derive(Debug)]
pub struct Rendezvous {
    address: RendezvousAddress,
    /// The job's secret, or, where its launcher has none, its name.
    pub(super) key: String,
    /// What `--interface` selected, for a rendezvous over TCP.
    pub(super) interface: Option<ChosenInterface>,
    /// Why `--interface` selected nothing. The rendezvous takes place all the same, so that every process
    /// reports it.
    interface_error: Option<String>,
    /// Finds the coordinator's endpoints, as long as this worker tries.
    finder: Finder,
}

#[derive(Debug)]
enum RendezvousAddress {
    /// The name of an abstract Unix socket.
    Host(String),
    /// A port of the coordinator's host.
    Network(CoordinatorAddress),
}

/// A listening socket.
#[derive(Debug)]
pub(super) enum Listener {
    Host(UnixListener),
    Network(TcpListener),
}

impl Rendezvous {
    /// The rendezvous of this process's job.
    ///
    /// # Errors
    /// When the launcher's variables do not determine an address.
    pub fn of(launched: &Launched) -> Result<Rendezvous> {
        // Hydra names no job, but on each host all its processes have one proxy as ancestor.
        let root = machine::Root::system();
        let hydra = || machine::ancestor(&root, HYDRA);
        let job = launched.job.clone().or_else(|| launched.one_host.then(hydra).flatten());
        let of_hydra =
            || CoordinatorAddress::of_hydra(&machine::command_of_ancestor(&root, HYDRA)?);
        let first = launched.coordinator.clone().or_else(of_hydra);
        let address = match (&job, first) {
            (Some(job), _) if launched.one_host => {
                let secret = launched.secret.as_deref().unwrap_or_default();
                let variables = launched.variables.split('=').next().unwrap_or_default();
                let whole = format!("{} {variables} {job} {secret}", getuid().as_raw());
                RendezvousAddress::Host(format!("busbw-{}", authentication::hashed_name(&whole)))
            }
            (_, Some(first)) => {
                if first.assumed && launched.rank == 0 {
                    is_here(&first)?;
                }
                RendezvousAddress::Network(first)
            }
            _ => {
                let text = format!(
                    "this process is one of several of a launcher ({}), and no variable gives the rendezvous address: set MASTER_ADDR to the host of process 0 and MASTER_PORT to a free port there, the same for all processes",
                    launched.variables
                );
                return Err(ExitError::new(Exit::Usage, text).into());
            }
        };
        let name = job.or_else(|| match &address {
            RendezvousAddress::Network(CoordinatorAddress { hosts, port, .. }) => {
                Some(format!("{} {port}", hosts.join(",")))
            }
            RendezvousAddress::Host(_) => None,
        });
        let key = launched.secret.clone().or(name).unwrap_or_default();
        let (interface, interface_error) = match (&address, &launched.interface) {
            (RendezvousAddress::Network(..), Some(word)) => {
                let all = interface::addresses().context("cannot list this host's interfaces")?;
                match interface::choose(word, &all) {
                    Ok(chosen) => (Some(chosen), None),
                    Err(text) => (None, Some(text)),
                }
            }
            _ => (None, None),
        };
        Ok(Rendezvous { address, key, interface, interface_error, finder: Finder::default() })
    }

    /// What `--interface` selected.
    pub(super) fn interface(&self) -> Option<&ChosenInterface> {
        self.interface.as_ref()
    }

    /// Why `--interface` selects nothing on this host.
    pub(super) fn interface_error(&self) -> Option<ExitError> {
        self.interface_error.as_ref().map(|text| ExitError::new(Exit::Usage, text))
    }

    /// The endpoints to which a worker that connected to our address `at` is redirected; none where `at` is
    /// selected, or nothing was selected.
    pub(super) fn redirect_for(&self, at: Option<IpAddr>) -> Vec<SocketAddr> {
        match (&self.interface, &self.address, at) {
            (Some(chosen), RendezvousAddress::Network(first), Some(at)) if !chosen.contains(at) => {
                chosen.endpoints(first.port)
            }
            _ => Vec::new(),
        }
    }

    /// Whether all processes are on this host.
    pub(super) fn is_here(&self) -> bool {
        matches!(self.address, RendezvousAddress::Host(_))
    }

    /// The address, for messages.
    pub(super) fn describe(&self) -> String {
        match &self.address {
            RendezvousAddress::Host(_) => "on this host".to_owned(),
            RendezvousAddress::Network(CoordinatorAddress { hosts, file, port, .. }) => {
                let file = file.iter().map(|file| format!("the address in {}", file.display()));
                let all: Vec<String> = file.chain(hosts.iter().cloned()).collect();
                format!("at {}, port {port}", all.join(" or "))
            }
        }
    }

    /// Listens, as the coordinator.
    ///
    /// # Errors
    /// When the address is in use.
    pub(super) fn listen(&self) -> Result<Listener> {
        let listener = match &self.address {
            RendezvousAddress::Host(name) => net::SocketAddr::from_abstract_name(name)
                .and_then(|address| UnixListener::bind_addr(&address))
                .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
                .map(Listener::Host)
                .context("cannot listen for the other processes of this launcher's job: another run of the same job may still be in its rendezvous")?,
            RendezvousAddress::Network(CoordinatorAddress { port, .. }) => TcpListener::bind((Ipv6Addr::UNSPECIFIED, *port))
                .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)))
                .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
                // Again, for a longer queue: the standard library asks for 128.
                .and_then(|listener| Ok(rustix::net::listen(&listener, BACKLOG).map(|()| listener)?))
                .map(Listener::Network)
                .with_context(|| format!("cannot listen on port {port} for the other processes of this launcher's job: set MASTER_ADDR and MASTER_PORT to a free port of this host"))?,
        };
        Ok(listener)
    }

    /// Connects to the coordinator: to its addresses, or to the endpoints of a `redirect`. Every `attempt` begins
    /// with another address, since another program may listen at some of them; only the file's comes always first.
    ///
    /// # Errors
    /// When no address accepts, or none is reachable over the selected interface.
    pub(super) fn connect(
        &self,
        redirect: &[SocketAddr],
        attempt: usize,
    ) -> io::Result<FramedStream> {
        let first = match &self.address {
            RendezvousAddress::Host(name) => {
                let address = net::SocketAddr::from_abstract_name(name)?;
                return FramedStream::from_unix(UnixStream::connect_addr(&address)?);
            }
            RendezvousAddress::Network(first) => first,
        };
        let (mut endpoints, told, missing) = match redirect {
            [] => {
                let known = self.finder.find(first);
                let told = known.told.iter().copied();
                (told.chain(known.named).collect(), known.told.iter().len(), known.missing)
            }
            redirect => (redirect.to_vec(), 0, Vec::new()),
        };
        if endpoints.is_empty() && !missing.is_empty() {
            return Err(io::Error::other(missing.join("; ")));
        }
        let turned = &mut endpoints[told..];
        turned.rotate_left(attempt % turned.len().max(1));
        let route = |to: SocketAddr| match &self.interface {
            None => Some((None, to)),
            // A redirect means this host's selected interface, too.
            Some(chosen) => match chosen.route(to, !redirect.is_empty()) {
                Some((from, to)) => Some((Some(from), to)),
                None => redirect.is_empty().then_some((None, to)),
            },
        };
        let routes: Vec<(Option<SocketAddr>, SocketAddr)> =
            endpoints.into_iter().filter_map(route).collect();
        let stream = connect::connect_first(&routes).map_err(|error| {
            let all = std::iter::once(error.to_string()).chain(missing);
            io::Error::other(all.collect::<Vec<_>>().join("; "))
        })?;
        FramedStream::from_tcp(stream)
    }
}

/// Checks that process 0 runs on the host that the workers assume: where the launcher runs, or where the
/// allocation begins.
fn is_here(first: &CoordinatorAddress) -> Result<()> {
    let ours = interface::addresses().context("cannot list this host's interfaces")?;
    // A host may resolve its own name to 127.0.1.1.
    let is_ours = |ip: IpAddr| ip.is_loopback() || ours.iter().any(|address| address.ip == ip);
    // All must match: every host has some of them, such as a container bridge's.
    let all = coordinator_endpoints::resolve(&first.hosts, first.port).named;
    // A pod may not resolve its own name.
    let here = machine::host_name();
    let is_own_name = |host: &String| host.split('.').next() == here.split('.').next();
    let is_here = match all.as_slice() {
        [] => first.hosts.iter().all(is_own_name),
        all => all.iter().all(|address| is_ours(address.ip())),
    };
    if is_here {
        return Ok(());
    }
    let text = format!(
        "process 0 is on {}, and the workers would connect to {}, where the launcher runs or the allocation begins: set MASTER_ADDR to the host of process 0 and MASTER_PORT to a free port there, the same for all processes",
        machine::host_name(),
        first.hosts.join(" or ")
    );
    Err(ExitError::new(Exit::Usage, text).into())
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Host(listener) => listener.as_fd(),
            Listener::Network(listener) => listener.as_fd(),
        }
    }
}

impl Listener {
    /// The next connection, without blocking.
    pub(super) fn accept(&self) -> io::Result<FramedStream> {
        match self {
            Listener::Host(listener) => FramedStream::from_unix(listener.accept()?.0),
            Listener::Network(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(false)?;
                FramedStream::from_tcp(stream)
            }
        }
    }
}
