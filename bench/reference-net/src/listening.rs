//! The end that accepts: all sockets of one connection; sockets with another greeting are closed.
//! Not what they carry.

use std::{
    net::{IpAddr, SocketAddr},
    os::fd::OwnedFd,
};

use rustix::{
    io::Errno,
    net::{SocketAddrAny, SocketFlags, acceptfrom_with, getsockname, listen},
};

use super::{
    PLUGIN_NAME, Settings,
    connecting::{GREETING_BYTES, Parts, greeting},
    connection::Receiving,
    handle::ListenAddress,
    socket::{Direction, Socket, opened, set_flags},
};
use nccl_plugin_busbw::{
    log,
    network::{Failure, Listener, Receiver, Result},
};

/// Backlog, as NCCL sets it.
const BACKLOG: i32 = 16384;

/// Listens for the sockets of one connection.
pub(super) struct Listening {
    socket: OwnedFd,
    address: SocketAddr,
    settings: Settings,
    /// Sockets whose greeting is incomplete, with the bytes received.
    unknown: Vec<(Socket, [u8; GREETING_BYTES], usize)>,
    /// Data sockets by their number, and the one for sizes.
    known: Vec<Option<Socket>>,
}

impl Listening {
    pub fn new(address: IpAddr, settings: &Settings) -> Result<Listening> {
        let socket = opened(&SocketAddr::new(address, 0), Some(address), settings)?;
        let port = listen(&socket, BACKLOG).and_then(|()| getsockname(&socket));
        let address = port
            .and_then(SocketAddr::try_from)
            .map_err(|error| Failure::system(&format!("cannot listen on {address}"), &error))?;
        let known = (0..=settings.sockets()).map(|_| None).collect();
        Ok(Listening { socket, address, settings: settings.clone(), unknown: Vec::new(), known })
    }

    pub fn listen_address(&self) -> ListenAddress {
        ListenAddress {
            address: self.address,
            magic: self.settings.magic,
            // At most 16 and 64.
            threads: self.settings.threads as u8,
            sockets_per_thread: self.settings.sockets_per_thread as u8,
        }
    }

    /// Accepts all connections in the backlog.
    fn accept_pending(&mut self) -> Result<()> {
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match acceptfrom_with(&self.socket, flags) {
                Ok((fd, from)) => {
                    set_flags(&fd, &self.settings)?;
                    let peer = from
                        .and_then(|from: SocketAddrAny| from.try_into().ok())
                        .unwrap_or(self.address);
                    self.unknown.push((Socket { fd, peer }, [0; GREETING_BYTES], 0));
                }
                Err(Errno::AGAIN) => return Ok(()),
                // accept(2): errors of a connection that ended before it was accepted.
                Err(
                    Errno::NETDOWN
                    | Errno::PROTO
                    | Errno::NOPROTOOPT
                    | Errno::HOSTDOWN
                    | Errno::NONET
                    | Errno::HOSTUNREACH
                    | Errno::OPNOTSUPP
                    | Errno::NETUNREACH
                    | Errno::CONNABORTED
                    | Errno::INTR,
                ) => {}
                Err(error) => {
                    return Err(Failure::system(
                        &format!("cannot accept on {}", self.address),
                        &error,
                    ));
                }
            }
        }
    }

    /// Reads a socket's greeting: keeps a socket of ours, closes another, and keeps one with an incomplete greeting for later.
    fn read_greeting(
        &mut self,
        (socket, mut words, mut received): (Socket, [u8; GREETING_BYTES], usize),
    ) {
        // SAFETY: the words' place is ours.
        match unsafe {
            socket.progress(Direction::Receive, words.as_mut_ptr(), GREETING_BYTES, received)
        } {
            Ok(bytes) => received += bytes,
            // It closed before its greeting was complete.
            Err(_) => return,
        }
        if received < GREETING_BYTES {
            self.unknown.push((socket, words, received));
            return;
        }
        let index = words[GREETING_BYTES - 1];
        let place = self.known.get_mut(usize::from(index)).filter(|place| place.is_none());
        match place {
            Some(place) if words == greeting(self.settings.magic, index) => *place = Some(socket),
            _ => log::info(&format!(
                "NET/{PLUGIN_NAME}: connection from {} has another greeting: closed",
                socket.peer
            )),
        }
    }
}

impl Listener for Listening {
    fn accept(&mut self) -> Result<Option<Box<dyn Receiver>>> {
        self.accept_pending()?;
        for one in std::mem::take(&mut self.unknown) {
            self.read_greeting(one);
        }
        if !self.known.iter().all(Option::is_some) {
            return Ok(None);
        }
        let mut data: Vec<Socket> = self.known.iter_mut().filter_map(Option::take).collect();
        let threads = self.settings.threads;
        let parts = data.pop().map(|control| Parts { data, control, threads });
        Ok(parts.map(|parts| Box::new(Receiving::new(parts)) as Box<dyn Receiver>))
    }
}
