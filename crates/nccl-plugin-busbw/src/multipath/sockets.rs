//! Sockets of paths: made, tuned, written, read, and what the kernel knows of them.
//! Not what goes over them.

use std::{
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    time::Duration,
};

use busbw_multipath::{SMALL, frame::Frame};
use rustix::{
    io::{Errno, retry_on_intr},
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags,
        SocketType, bind, connect, getsockname, listen, recv, recvmsg, sendmsg, socket_with,
        sockopt,
    },
};

/// Connections that may wait to be accepted: as many as the kernel lets.
const BACKLOG: i32 = 4096;
/// A path whose host has vanished, and to which nothing is being sent, is lost after 5 + 5 × 1 s.
const KEEP_ALIVE: (Duration, Duration, u32) = (Duration::from_secs(5), Duration::from_secs(1), 5);

/// Bytes that are looked at, at most: a header and a small message.
const LOOK_BYTES: usize = Frame::BYTES + SMALL;

/// For paths within a host, where nothing is congested: they send at once what the window lets. BBR, which is some
/// systems' default, sends by a timer, which costs more than the way: a fifth of the sender's processor.
const UNPACED: [&str; 2] = ["cubic", "reno"];

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

/// Begins to connect, from a port of the kernel's choice unless there is another than 0.
pub(super) fn dialing(from: Option<SocketAddr>, to: SocketAddr) -> Io<OwnedFd> {
    let socket = stream(to.ip())?;
    // A port may be had once more while others have it with other peers.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if let Some(from) = from {
        if from.port() == 0 {
            choose_late(&socket);
        }
        bind(&socket, &from)?;
    }
    tune(&socket)?;
    if to.ip().is_loopback() || from.is_some_and(|from| from.ip() == to.ip()) {
        do_not_pace(&socket);
    }
    match connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// Has the kernel choose the port where the socket connects: one that is in use with another peer will do, so that ports
/// do not run out before each peer has had all of them.
fn choose_late(socket: &OwnedFd) {
    let yes: libc::c_int = 1;
    // SAFETY: the kernel reads an int; the socket is open. Both versions of IP take it; a kernel that does not know it
    // chooses the port at once.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const yes).cast(),
            size_of_val(&yes) as libc::socklen_t,
        );
    }
}

/// A path within this host does not wait for timers; the system may not let us choose.
fn do_not_pace(socket: &OwnedFd) {
    let _ = UNPACED.iter().any(|control| sockopt::set_tcp_congestion(socket, control).is_ok());
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
pub(super) fn give_up(socket: &OwnedFd) {
    let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
    cut(socket);
}

/// Breaks the connection, for both ends; also where a child of this process has a copy of the socket, for which
/// closing it does nothing.
pub(super) fn cut(socket: &OwnedFd) {
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
}

/// A socket whose connection is [broken](cut) when it is closed.
pub(super) struct CutOnDrop(OwnedFd);

impl CutOnDrop {
    pub(super) fn new(socket: OwnedFd) -> CutOnDrop {
        CutOnDrop(socket)
    }
}

impl std::ops::Deref for CutOnDrop {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.0
    }
}

impl Drop for CutOnDrop {
    fn drop(&mut self) {
        cut(&self.0);
    }
}

/// Sends what the kernel takes now, in bytes; nothing if it takes nothing.
pub(super) fn send(socket: impl AsFd, parts: &[IoSlice<'_>]) -> Io<Option<usize>> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    at_once(|| match parts {
        // The kernel has less to do for it.
        [all] => rustix::net::send(&socket, all, flags),
        _ => sendmsg(&socket, parts, &mut SendAncillaryBuffer::default(), flags),
    })
}

/// Receives what is there, in bytes: 0 at the end, nothing if nothing is there yet.
pub(super) fn receive(socket: impl AsFd, parts: &mut [IoSliceMut<'_>]) -> Io<Option<usize>> {
    at_once(|| match parts {
        // The kernel has less to do for it.
        [all] => recv(&socket, &mut **all, RecvFlags::DONTWAIT).map(|(bytes, _)| bytes),
        _ => recvmsg(&socket, parts, &mut RecvAncillaryBuffer::default(), RecvFlags::DONTWAIT)
            .map(|message| message.bytes),
    })
}

/// As [`receive`], but the kernel has it, too, until it is [taken out](take_out).
pub(super) fn look(socket: &OwnedFd, room: &mut [u8]) -> Io<Option<usize>> {
    let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
    at_once(|| recv(socket, &mut *room, flags).map(|(bytes, _)| bytes))
}

/// Takes out so many bytes that were looked at, [`LOOK_BYTES`] at most. TCP does not write them once more
/// (tcp(7), MSG_TRUNC).
pub(super) fn take_out(socket: &OwnedFd, bytes: usize) -> Io<()> {
    let mut room = [const { MaybeUninit::<u8>::uninit() }; LOOK_BYTES];
    let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
    let taken = at_once(|| {
        recv(socket, &mut room[..bytes.min(LOOK_BYTES)], flags).map(|(_, bytes)| bytes)
    })?;
    // It was there.
    if taken == Some(bytes) { Ok(()) } else { Err(Errno::IO) }
}

/// What a call did, in bytes; nothing where it would have to wait.
fn at_once(call: impl FnMut() -> Io<usize>) -> Io<Option<usize>> {
    match retry_on_intr(call) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Errno::AGAIN) => Ok(None),
        Err(error) => Err(error),
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
    /// Smoothed round trip, and the shortest seen lately, microseconds; 0 if there was none.
    pub rtt: u32,
    pub min_rtt: u32,
    /// Segments with data that were sent, and those of them that were sent again.
    pub segments: u32,
    pub retransmitted: u32,
}

/// How long nothing has been heard of the other end, if that is why the connection was given up.
pub(super) fn silence(socket: &OwnedFd) -> Duration {
    let (idle, each, times) = KEEP_ALIVE;
    let silence = health(socket).map_or(Duration::ZERO, |health| health.silence);
    if silence < idle + each * times { Duration::ZERO } else { silence }
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
        rtt: info.tcpi_rtt,
        // An older kernel leaves zeros from here on.
        min_rtt: info.tcpi_min_rtt,
        segments: info.tcpi_data_segs_out,
        retransmitted: info.tcpi_total_retrans,
    })
}

/// Bytes of what was given to the kernel that the other end's has not acknowledged (SIOCOUTQ).
pub(super) fn unacknowledged(socket: &OwnedFd) -> Option<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one int; the socket is open.
    let code = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    usize::try_from(bytes).ok().filter(|_| code == 0)
}

/// Our end of a connection.
pub(super) fn local(socket: &OwnedFd) -> Option<SocketAddr> {
    SocketAddr::try_from(getsockname(socket).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn an_address_alone_takes_no_port() {
        for from in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            // There may be no IPv6 here.
            let Ok((_listener, to)) = listening(from) else { continue };
            let from = SocketAddr::new(from, 0);
            let socket = stream(from.ip()).unwrap();
            choose_late(&socket);
            bind(&socket, &from).unwrap();
            assert_eq!(local(&socket), Some(from));
            let socket = dialing(Some(from), to).unwrap();
            let at = local(&socket).unwrap();
            assert_eq!(at.ip(), from.ip());
            assert_ne!(at.port(), 0);
        }
    }

    #[test]
    fn a_path_within_a_host_does_not_wait_for_timers() {
        let (_listener, to) = listening(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
        let socket = dialing(Some(SocketAddr::new(to.ip(), 0)), to).unwrap();
        let control = sockopt::tcp_congestion(&socket).unwrap();
        assert!(UNPACED.contains(&&control[..]), "{control}");
    }

    #[test]
    fn a_port_can_be_had_once_more() {
        let (_listener, to) = listening(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
        let (_other_listener, elsewhere) = listening(to.ip()).unwrap();
        let shared = |from, to, second| {
            let first = dialing(from, to).unwrap();
            let at = local(&first).unwrap();
            dialing(Some(at), second).ok().map(|other| (first, at, other))
        };
        // With another peer at once, with the same one when the first is over. The kernel may choose a port that
        // somebody else has, who does not share it.
        let from = Some(SocketAddr::new(to.ip(), 0));
        let (first, at, _other) = (0..20).find_map(|_| shared(from, to, elsewhere)).unwrap();
        assert!((0..20).any(|_| shared(None, elsewhere, to).is_some()));
        assert_eq!(dialing(Some(at), to).unwrap_err(), Errno::ADDRNOTAVAIL);
        give_up(&first);
        drop(first);
        assert_eq!(local(&dialing(Some(at), to).unwrap()), Some(at));
    }
}
