//! Where the processes of a job meet: on one host at a socket without a file, named after the user and the
//! job, else at a port of the first process's host.
//! Not what they say there.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs},
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
    interface::{self, Chosen},
    line::Line,
    proof, reach,
};
use crate::launched::{First, Launched};
use busbw_core::exit::ExitError;
use busbw_host::machine;

/// Hydra's process on each host.
const HYDRA: &str = "hydra_pmi_proxy";

/// How many processes may be about to come in: of more at once the kernel would drop some, who would try
/// again after a second. It takes no more than net.core.somaxconn.
const BACKLOG: i32 = 1 << 14;

/// The place, and what proves that one belongs there.
#[derive(Debug)]
pub struct Meeting {
    pub place: Place,
    /// The job's secret, or, where its launcher has none, only its name.
    pub key: String,
    /// The interface that was asked for, where they meet on the network.
    pub interface: Option<Chosen>,
    /// Why that is none. They meet all the same, so that all hear of it.
    pub wrong: Option<String>,
}

#[derive(Debug)]
enum Place {
    /// An abstract socket's name.
    Host(String),
    /// The first process's, by all names of its host.
    Network(First),
}

/// A listening place.
#[derive(Debug)]
pub(super) enum Listener {
    Host(UnixListener),
    Network(TcpListener),
}

impl Meeting {
    /// Where processes of this job meet.
    ///
    /// # Errors
    /// When nothing tells where all of them, and no others, would come to.
    pub fn of(launched: &Launched) -> Result<Meeting> {
        // Hydra names no job, but its processes come from one process of its own on each host.
        let root = machine::Root::system();
        let hydra = || machine::ancestor(&root, HYDRA);
        let job = launched.job.clone().or_else(|| launched.one_host.then(hydra).flatten());
        let of_hydra = || First::of_hydra(&machine::command_of_ancestor(&root, HYDRA)?);
        let first = launched.first.clone().or_else(of_hydra);
        let place = match (&job, first) {
            (Some(job), _) if launched.one_host => {
                let secret = launched.secret.as_deref().unwrap_or_default();
                let variables = launched.said.split('=').next().unwrap_or_default();
                let whole = format!("{} {variables} {job} {secret}", getuid().as_raw());
                Place::Host(format!("busbw-{}", proof::name(&whole)))
            }
            (_, Some(first)) => {
                if first.supposed && launched.rank == 0 {
                    is_here(&first)?;
                }
                Place::Network(first)
            }
            _ => {
                let text = format!(
                    "this process is one of several of a launcher ({}), and no variable tells where they can meet: set MASTER_ADDR to the first process's host and MASTER_PORT to a free port there, the same for all",
                    launched.said
                );
                return Err(ExitError::new(Exit::Usage, text).into());
            }
        };
        let name = job.or_else(|| match &place {
            Place::Network(First { hosts, port, .. }) => {
                Some(format!("{} {port}", hosts.join(",")))
            }
            Place::Host(_) => None,
        });
        let key = launched.secret.clone().or(name).unwrap_or_default();
        let (interface, wrong) = match (&place, &launched.interface) {
            (Place::Network(..), Some(word)) => {
                let all = interface::addresses().context("cannot list this host's interfaces")?;
                match interface::choose(word, &all) {
                    Ok(chosen) => (Some(chosen), None),
                    Err(text) => (None, Some(text)),
                }
            }
            _ => (None, None),
        };
        Ok(Meeting { place, key, interface, wrong })
    }

    /// The interface that was asked for.
    pub fn interface(&self) -> Option<&Chosen> {
        self.interface.as_ref()
    }

    /// Why what was asked for is no interface of this host.
    pub fn wrong(&self) -> Option<ExitError> {
        self.wrong.as_ref().map(|text| ExitError::new(Exit::Usage, text))
    }

    /// Where somebody is to come who came to our address `at`: nowhere else, if that was chosen or nothing
    /// was.
    pub(super) fn instead_of(&self, at: Option<IpAddr>) -> Vec<SocketAddr> {
        match (&self.interface, &self.place, at) {
            (Some(chosen), Place::Network(first), Some(at)) if !chosen.holds(at) => {
                chosen.places(first.port)
            }
            _ => Vec::new(),
        }
    }

    /// Whether all processes are on this host.
    pub(super) fn is_here(&self) -> bool {
        matches!(self.place, Place::Host(_))
    }

    /// For messages.
    pub fn describe(&self) -> String {
        match &self.place {
            Place::Host(_) => "on this host".to_owned(),
            Place::Network(First { hosts, port, .. }) => {
                format!("at {}, port {port}", hosts.join(" or "))
            }
        }
    }

    /// Opens it, as its first process.
    ///
    /// # Errors
    /// When it is taken.
    pub(super) fn listen(&self) -> Result<Listener> {
        let listener = match &self.place {
            Place::Host(name) => net::SocketAddr::from_abstract_name(name)
                .and_then(|address| UnixListener::bind_addr(&address))
                .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
                .map(Listener::Host)
                .context("cannot open a socket for the other processes of this launcher's job; does another run of the same job still meet there?")?,
            Place::Network(First { port, .. }) => TcpListener::bind((Ipv6Addr::UNSPECIFIED, *port))
                .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)))
                .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
                // Again, for the length of its queue: the standard library's is 128.
                .and_then(|listener| Ok(rustix::net::listen(&listener, BACKLOG).map(|()| listener)?))
                .map(Listener::Network)
                .with_context(|| format!("cannot listen on port {port} for the other processes of this launcher's job: set MASTER_ADDR and MASTER_PORT to a free port of this host"))?,
        };
        Ok(listener)
    }

    /// Connects to it: to its addresses, or to those that are told `instead`, beginning with another one
    /// at every `attempt`, since somebody else may listen at some of them.
    ///
    /// # Errors
    /// When nobody listens there, or it is not reached over the interface that was asked for.
    pub fn connect(&self, instead: &[SocketAddr], attempt: usize) -> io::Result<Line> {
        let first = match &self.place {
            Place::Host(name) => {
                let address = net::SocketAddr::from_abstract_name(name)?;
                return Line::of_user(UnixStream::connect_addr(&address)?);
            }
            Place::Network(first) => first,
        };
        let mut places: Vec<SocketAddr> = match instead {
            [] => addresses(first)?,
            instead => instead.to_vec(),
        };
        let first = attempt % places.len().max(1);
        places.rotate_left(first);
        let way = |to: SocketAddr| match &self.interface {
            None => Some((None, to)),
            // Where the first process says to come instead, it means our interface, too.
            Some(chosen) => match chosen.way(to, !instead.is_empty()) {
                Some((from, to)) => Some((Some(from), to)),
                None => instead.is_empty().then_some((None, to)),
            },
        };
        let ways: Vec<(Option<SocketAddr>, SocketAddr)> =
            places.into_iter().filter_map(way).collect();
        Line::across(reach::first(&ways)?)
    }
}

/// By which the first process may be reached.
fn addresses(first: &First) -> io::Result<Vec<SocketAddr>> {
    let mut all = Vec::new();
    for host in &first.hosts {
        all.extend((host.as_str(), first.port).to_socket_addrs()?);
    }
    Ok(all)
}

/// Whether this process, the first one, is where the others would look for it, since its launcher runs there or its
/// allocation begins there.
fn is_here(first: &First) -> Result<()> {
    let ours = interface::addresses().context("cannot list this host's interfaces")?;
    // A host may know itself as 127.0.1.1.
    let is_ours = |ip: IpAddr| ip.is_loopback() || ours.iter().any(|address| address.ip == ip);
    // All: some, such as a bridge's for containers, every host has.
    let all = addresses(first).unwrap_or_default();
    if !all.is_empty() && all.iter().all(|address| is_ours(address.ip())) {
        return Ok(());
    }
    let text = format!(
        "the first process is on {}, and the others would look for it at {}, where its launcher runs or its allocation begins: set MASTER_ADDR to its host and MASTER_PORT to a free port there, the same for all",
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
    /// Whoever came since, without waiting.
    pub(super) fn accept(&self) -> io::Result<Line> {
        match self {
            Listener::Host(listener) => Line::of_user(listener.accept()?.0),
            Listener::Network(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(false)?;
                Line::across(stream)
            }
        }
    }
}
