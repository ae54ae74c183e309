//! What each path has done, for NCCL's log and the file of statistics.
//! Not the file (`stats`).

use std::{net::SocketAddr, os::fd::OwnedFd, sync::Mutex};

use busbw_multipath::State;
use nccl_plugin_abi::net_stats::{NetConnection, NetPath, PathState};

use super::{Connection, Path};
use crate::multipath::{
    locks::lock,
    sockets,
    stats::{Counted, opened},
};

/// What the kernel knew of TCP connections that a path has had.
#[derive(Debug, Default)]
pub(super) struct Kernel(Mutex<Known>);

/// Of the last of them, and sums over all.
#[derive(Debug, Default, Clone, Copy)]
struct Known {
    local: Option<SocketAddr>,
    rtt: u32,
    min_rtt: u32,
    segments: u64,
    retransmitted: u64,
}

impl Known {
    /// The same after one more connection.
    fn and(self, socket: &OwnedFd) -> Known {
        let Some(health) = sockets::health(socket) else { return self };
        Known {
            local: sockets::local(socket).or(self.local),
            rtt: health.rtt,
            min_rtt: health.min_rtt,
            segments: self.segments + u64::from(health.segments),
            retransmitted: self.retransmitted + u64::from(health.retransmitted),
        }
    }
}

impl Kernel {
    /// A TCP connection has ended: its socket is closed.
    pub(super) fn ended(&self, socket: OwnedFd) {
        let mut known = lock(&self.0);
        *known = known.and(&socket);
    }

    /// Our end of the last connection.
    pub(super) fn last_local(&self) -> Option<SocketAddr> {
        lock(&self.0).local
    }
}

impl Path {
    fn kernel(&self) -> Known {
        let past = *lock(&self.kernel.0);
        lock(&self.stream).as_ref().map_or(past, |stream| past.and(&stream.socket))
    }
}

impl Counted for Connection {
    fn counted(&self) -> NetConnection {
        NetConnection {
            peer: self.paths[0].to.ip(),
            opened: opened(self.now()),
            closed: false,
            broken: self.broken(),
            paths: (0..self.paths.len()).map(|path| self.counted_path(path)).collect(),
        }
    }
}

impl Connection {
    fn counted_path(&self, number: usize) -> NetPath {
        let path = &self.paths[number];
        let kernel = path.kernel();
        let core = self.core.lock();
        let counts = core.counts(number);
        let known = |micros: u32| (micros > 0).then_some(micros);
        NetPath {
            local: kernel.local.or(path.from.map(|from| SocketAddr::new(from, 0))),
            remote: path.to,
            port: None,
            state: state(core.state(number)),
            bytes: counts.bytes,
            timed_bytes: counts.timed.0,
            timed_us: counts.timed.1 / 1000,
            rtt_us: known(kernel.rtt),
            // The kernel says so where it has seen none.
            min_rtt_us: known(kernel.min_rtt).filter(|micros| *micros < u32::MAX),
            segments: kernel.segments,
            retransmitted: kernel.retransmitted,
            doubled: counts.hedged,
            again: counts.requeued,
            lost: counts.lost,
        }
    }
}

/// As the file has it.
pub(in crate::multipath) fn state(state: State) -> PathState {
    match state {
        State::Up => PathState::Up,
        State::Suspected => PathState::Doubted,
        State::Down => PathState::Absent,
    }
}

/// "12.3 MB at 1.23 GB/s, 7 segments retransmitted, 4 chunks hedged, 1 times lost".
pub(in crate::multipath) fn told(path: &NetPath) -> String {
    let mut told = format!("{:.1} MB", path.bytes as f64 / 1e6);
    if let Some(rate) = path.rate() {
        told += &format!(" at {rate:.2} GB/s");
    }
    for (count, what) in [
        (path.retransmitted, "segments retransmitted"),
        (path.doubled, "chunks hedged"),
        (path.again, "chunks sent again"),
        (path.lost, "times lost"),
    ] {
        if count > 0 {
            told += &format!(", {count} {what}");
        }
    }
    told
}
