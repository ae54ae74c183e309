//! Sockets of paths: made, tuned, written, read, and what the kernel knows of them.
//! Not what goes over them.

use std::{
    io::{IoSlice, IoSliceMut},
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags,
        SocketType, bind, connect, getsockname, listen, recvmsg, sendmsg, socket_with, sockopt,
    },
};

/// Connections that may wait to be accepted: as many as the kernel lets.
const BACKLOG: i32 = 4096;
/// A path whose host has vanished, and to which nothing is being sent, is lost after 5 + 5 × 1 s.
const KEEP_ALIVE: (Duration, Duration, u32) = (Duration::from_secs(5), Duration::from_secs(1), 5);

type Io<T> = rustix::io::Result<T>;

fn stream(address: IpAddr) -> Io<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
}

/// Listens on a port of the kernel's choice.
pub(super) fn listening(address: IpAddr) -> Io<(OwnedFd, SocketAddr)> {
    let socket = stream(address)?;
    bind(&socket, &SocketAddr::new(address, 0))?;
    listen(&socket, BACKLOG)?;
    let at = SocketAddr::try_from(getsockname(&socket)?)?;
    Ok((socket, at))
}

/// Begins to connect from a port of the kernel's choice.
pub(super) fn dialing(from: Option<IpAddr>, to: SocketAddr) -> Io<OwnedFd> {
    let socket = stream(to.ip())?;
    if let Some(from) = from {
        bind(&socket, &SocketAddr::new(from, 0))?;
    }
    tune(&socket)?;
    match connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// What every path's socket is set to.
pub(super) fn tune(socket: &OwnedFd) -> Io<()> {
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEP_ALIVE.0)?;
    sockopt::set_tcp_keepintvl(socket, KEEP_ALIVE.1)?;
    sockopt::set_tcp_keepcnt(socket, KEEP_ALIVE.2)
}

/// For the end that only acknowledges: keep-alive says nothing while an acknowledgement is on its way, for minutes where
/// nothing comes through any more. Not for the end that sends: a receiver that does not read yet would be lost, too.
pub(super) fn give_up_acknowledging(socket: &OwnedFd) -> Io<()> {
    let (idle, each, times) = KEEP_ALIVE;
    sockopt::set_tcp_user_timeout(socket, (idle + each * times).as_millis() as u32)
}

/// Has the socket reset its connection when it is closed: what it still holds is sent elsewhere.
pub(super) fn reset_at_close(socket: &OwnedFd) {
    let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}

/// Breaks the connection, for both ends.
pub(super) fn cut(socket: &OwnedFd) {
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
}

/// Sends what the kernel takes now, in bytes; nothing if it takes nothing.
pub(super) fn send(socket: impl AsFd, parts: &[IoSlice<'_>]) -> Io<Option<usize>> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    loop {
        match sendmsg(&socket, parts, &mut SendAncillaryBuffer::default(), flags) {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Receives what is there, in bytes: 0 at the end, nothing if nothing is there yet.
pub(super) fn receive(socket: impl AsFd, parts: &mut [IoSliceMut<'_>]) -> Io<Option<usize>> {
    loop {
        match recvmsg(&socket, parts, &mut RecvAncillaryBuffer::default(), RecvFlags::DONTWAIT) {
            Ok(message) => return Ok(Some(message.bytes)),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// What the kernel knows of a connection (TCP_INFO, linux/tcp.h).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Health {
    /// Segments on their way.
    pub unacknowledged: u32,
    /// Timeouts since the last acknowledgement.
    pub timeouts: u8,
    /// Time since the last acknowledgement came.
    pub silence: Duration,
}

/// Nothing if the kernel does not say.
pub(super) fn health(socket: &OwnedFd) -> Option<Health> {
    // SAFETY: plain numbers, for which zeros are right.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `info`; the socket is open.
    let code = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    (code == 0).then(|| Health {
        unacknowledged: info.tcpi_unacked,
        timeouts: info.tcpi_retransmits,
        silence: Duration::from_millis(info.tcpi_last_ack_recv.into()),
    })
}
