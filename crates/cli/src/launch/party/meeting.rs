//! Where the processes of a job meet: on one host at a socket without a file, named after the user and the
//! job, else at a port of the first process's host.
//! Not what they say there.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, ToSocketAddrs},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use model::exit::Exit;
use rustix::process::getuid;

use super::{line::Line, proof};
use crate::{Refusal, machine, options::Launched};

/// How long one attempt to connect may take.
const CONNECT: Duration = Duration::from_secs(2);

/// The place, and what proves that one belongs there.
#[derive(Debug)]
pub(super) struct Meeting {
    place: Place,
    /// The job's secret, or, where its launcher has none, only its name.
    pub(super) key: String,
}

#[derive(Debug)]
enum Place {
    /// An abstract socket's name.
    Host(String),
    /// Host and port of the first process.
    Network(String, u16),
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
    /// When nothing tells that all of them, and no others, would come to.
    pub(super) fn of(launched: &Launched) -> Result<Meeting> {
        // Hydra names no job, but its processes come from one process of its own on each host.
        let hydra = || machine::ancestor(&machine::Root::system(), "hydra_pmi_proxy");
        let job = launched.job.clone().or_else(|| launched.one_host.then(hydra).flatten());
        let place = match (&job, &launched.first) {
            (Some(job), _) if launched.one_host => {
                let secret = launched.secret.as_deref().unwrap_or_default();
                let variables = launched.said.split('=').next().unwrap_or_default();
                let whole = format!("{} {variables} {job} {secret}", getuid().as_raw());
                Place::Host(format!("busbw-{}", proof::name(&whole)))
            }
            (_, Some((host, port))) => Place::Network(host.clone(), *port),
            _ => {
                let text = format!(
                    "this process is one of several of a launcher ({}), and no variable tells where they can meet: set MASTER_ADDR to the first process's host and MASTER_PORT to a free port there, the same for all",
                    launched.said
                );
                return Err(Refusal::new(Exit::Usage, text).into());
            }
        };
        let name =
            job.or_else(|| launched.first.as_ref().map(|(host, port)| format!("{host} {port}")));
        let key = launched.secret.clone().or(name).unwrap_or_default();
        Ok(Meeting { place, key })
    }

    /// Whether all processes are on this host.
    pub(super) fn is_here(&self) -> bool {
        matches!(self.place, Place::Host(_))
    }

    /// For messages.
    pub(super) fn describe(&self) -> String {
        match &self.place {
            Place::Host(_) => "on this host".to_owned(),
            Place::Network(host, port) => format!("at {host}, port {port}"),
        }
    }

    /// Opens it, as its first process.
    ///
    /// # Errors
    /// When it is taken.
    pub(super) fn listen(&self) -> Result<Listener> {
        let listener = match &self.place {
            Place::Host(name) => SocketAddr::from_abstract_name(name)
                .and_then(|address| UnixListener::bind_addr(&address))
                .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
                .map(Listener::Host)
                .context("cannot open a socket for the other processes of this launcher's job; does another run of the same job still meet there?")?,
            Place::Network(_, port) => TcpListener::bind((Ipv6Addr::UNSPECIFIED, *port))
                .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)))
                .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
                .map(Listener::Network)
                .with_context(|| format!("cannot listen on port {port} for the other processes of this launcher's job: set MASTER_ADDR and MASTER_PORT to a free port of this host"))?,
        };
        Ok(listener)
    }

    /// Connects to it, once.
    ///
    /// # Errors
    /// When nobody listens there, or somebody else does.
    pub(super) fn connect(&self) -> io::Result<Line> {
        match &self.place {
            Place::Host(name) => {
                let address = SocketAddr::from_abstract_name(name)?;
                Line::of_user(UnixStream::connect_addr(&address)?)
            }
            Place::Network(host, port) => {
                let mut last = io::Error::other("the name has no address");
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, CONNECT) {
                        Ok(stream) => return Line::across(stream),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
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
