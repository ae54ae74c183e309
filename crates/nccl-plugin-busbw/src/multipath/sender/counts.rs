//! What each path has done, for NCCL's log and the file of statistics.
//! Not how fast it is (`choice`), nor the file (`stats`).

use std::{
    net::SocketAddr,
    os::fd::OwnedFd,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use nccl_plugin_abi::net_stats::{NetConnection, NetPath, PathState};

use super::{End, Link, Shared};
use crate::multipath::{keeper::lock, sockets};

/// What a path has done.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Bytes of chunks that came by it.
    pub bytes: AtomicU64,
    /// Chunks that went over another one as well, since this one was late.
    pub doubled: AtomicU64,
    /// Chunks that were under way when it was lost.
    pub again: AtomicU64,
    /// How often it was lost.
    pub lost: AtomicU64,
    /// What the kernel knew of TCP connections that it has had.
    past: Mutex<Kernel>,
}

/// What the kernel knows of TCP connections: of the last one, and sums over all.
#[derive(Debug, Default, Clone, Copy)]
struct Kernel {
    local: Option<SocketAddr>,
    rtt: u32,
    min_rtt: u32,
    segments: u64,
    retransmitted: u64,
}

impl Kernel {
    /// The same after one more connection.
    fn and(self, socket: &OwnedFd) -> Kernel {
        let Some(health) = sockets::health(socket) else { return self };
        Kernel {
            local: sockets::local(socket).or(self.local),
            rtt: health.rtt,
            min_rtt: health.min_rtt,
            segments: self.segments + u64::from(health.segments),
            retransmitted: self.retransmitted + u64::from(health.retransmitted),
        }
    }
}

impl Counts {
    /// A TCP connection is over, by which so many chunks were under way: its socket is closed.
    pub(super) fn ended(&self, socket: OwnedFd, chunks: usize) {
        self.again.fetch_add(chunks as u64, Ordering::Relaxed);
        let mut past = lock(&self.past);
        *past = past.and(&socket);
    }
}

impl Link {
    fn counted(&self) -> NetPath {
        let Counts { bytes, doubled, again, lost, past } = &self.counts;
        let past = *lock(past);
        let (state, kernel, is_lost) = match &*lock(&self.end) {
            End::Live(live) if live.doubted => (PathState::Doubted, past.and(&live.socket), false),
            End::Live(live) => (PathState::Up, past.and(&live.socket), false),
            End::Absent(absent) => {
                (PathState::Absent, past, absent.loss.is_some() && absent.refused.is_none())
            }
        };
        let (timed_bytes, timed_ns) = self.load.all_measured();
        let known = |micros: u32| (micros > 0).then_some(micros);
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        NetPath {
            local: kernel.local.or(self.from.map(|from| SocketAddr::new(from, 0))),
            remote: self.to,
            state,
            bytes: count(bytes),
            timed_bytes,
            timed_us: timed_ns / 1000,
            rtt_us: known(kernel.rtt),
            // The kernel says so where it has seen none.
            min_rtt_us: known(kernel.min_rtt).filter(|micros| *micros < u32::MAX),
            segments: kernel.segments,
            retransmitted: kernel.retransmitted,
            doubled: count(doubled),
            again: count(again),
            lost: count(lost) + u64::from(is_lost),
        }
    }
}

impl Shared {
    /// What its paths have done so far.
    pub(in crate::multipath) fn counted(&self) -> NetConnection {
        let opened = SystemTime::now().checked_sub(self.started.elapsed());
        let opened = opened.and_then(|opened| opened.duration_since(UNIX_EPOCH).ok());
        NetConnection {
            peer: self.links[0].to.ip(),
            opened: opened.unwrap_or_default().as_secs(),
            closed: false,
            broken: self.over.get().filter(|over| !over.wanted).map(|over| over.why.clone()),
            paths: self.links.iter().map(Link::counted).collect(),
        }
    }
}

/// "12.3 MB at 1.23 GB/s, 7 segments again, 4 chunks doubled, 1 times lost".
pub(super) fn told(path: &NetPath) -> String {
    let mut told = format!("{:.1} MB", path.bytes as f64 / 1e6);
    if let Some(rate) = path.rate() {
        told += &format!(" at {rate:.2} GB/s");
    }
    for (count, what) in [
        (path.retransmitted, "segments again"),
        (path.doubled, "chunks doubled"),
        (path.lost, "times lost"),
    ] {
        if count > 0 {
            told += &format!(", {count} {what}");
        }
    }
    told
}
