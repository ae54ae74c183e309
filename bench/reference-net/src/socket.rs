//! One TCP socket, as src/misc/socket.cc and src/os/linux.cc of NCCL set it up and move bytes over it.
//! Not what the bytes mean.

use std::{
    mem::MaybeUninit,
    net::{IpAddr, SocketAddr},
    os::fd::OwnedFd,
};

use nccl_plugin_abi::Status;
use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send,
        socket_with, sockopt,
    },
};

use super::Settings;
use nccl_plugin_busbw::network::{Failure, Result};

/// A connected socket and its peer's address.
#[derive(Debug)]
pub(super) struct Socket {
    pub fd: OwnedFd,
    pub peer: SocketAddr,
}

/// Direction of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Send,
    Receive,
}

/// Opens a socket to connect or listen with, bound to `from` if given.
pub(super) fn opened(
    family: &SocketAddr,
    from: Option<IpAddr>,
    settings: &Settings,
) -> Result<OwnedFd> {
    let family = if family.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)
        .map_err(|error| Failure::system("cannot open a socket", &error))?;
    set_flags(&socket, settings)?;
    if let Some(from) = from {
        bind(&socket, &SocketAddr::new(from, 0))
            .map_err(|error| Failure::system(&format!("cannot bind a socket to {from}"), &error))?;
    }
    Ok(socket)
}

/// Sets NCCL's socket options.
pub(super) fn set_flags(socket: &OwnedFd, settings: &Settings) -> Result<()> {
    let set = || {
        sockopt::set_tcp_nodelay(socket, true)?;
        if let Some(bytes) = settings.send_buffer {
            sockopt::set_socket_send_buffer_size(socket, bytes)?;
        }
        if let Some(bytes) = settings.receive_buffer {
            sockopt::set_socket_recv_buffer_size(socket, bytes)?;
        }
        Ok(())
    };
    set().map_err(|error: Errno| Failure::system("cannot set a socket's options", &error))
}

impl Socket {
    /// One system call, as NCCL makes it, for the rest of `size` bytes after `offset`. Returns the bytes that moved.
    ///
    /// # Safety
    /// So many bytes are there, and may be read, or written where they are received.
    ///
    /// # Errors
    /// When the other end is gone.
    pub unsafe fn progress(
        &self,
        direction: Direction,
        data: *mut u8,
        size: usize,
        offset: usize,
    ) -> Result<usize> {
        let (place, left) = (data.wrapping_add(offset), size - offset);
        let moved = match direction {
            Direction::Send => {
                // SAFETY: as the caller says.
                let bytes = unsafe { std::slice::from_raw_parts(place, left) };
                send(&self.fd, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
            }
            Direction::Receive => {
                // SAFETY: as the caller says.
                let bytes = unsafe {
                    std::slice::from_raw_parts_mut(place.cast::<MaybeUninit<u8>>(), left)
                };
                recv(&self.fd, bytes, RecvFlags::DONTWAIT).map(|((here, _), _)| here.len())
            }
        };
        match moved {
            Ok(0) if direction == Direction::Receive && left > 0 => {
                Err(self.lost("it closed the connection"))
            }
            Ok(bytes) => Ok(bytes),
            Err(Errno::INTR | Errno::AGAIN) => Ok(0),
            Err(error) => Err(self.lost(&error.to_string())),
        }
    }

    fn lost(&self, why: &str) -> Failure {
        Failure::new(Status::REMOTE, format!("lost {}: {why}", self.peer))
    }
}
