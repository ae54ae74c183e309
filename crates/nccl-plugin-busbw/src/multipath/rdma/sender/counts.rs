//! What each path has done, for NCCL's log and the file of statistics.
//! Not the file (`stats`).

use std::{net::SocketAddr, sync::Weak};

use nccl_plugin_abi::net_stats::{NetConnection, NetPath};

use super::{Connection, State};
use crate::{
    log,
    multipath::{
        locks::lock,
        sender::counts::{state, told},
        stats::{Counted, opened},
    },
};

impl Counted for Connection {
    fn counted(&self) -> NetConnection {
        self.counted_in(&lock(&self.state))
    }
}

impl Connection {
    fn counted_in(&self, of: &State) -> NetConnection {
        let broken = self.ended.get().filter(|(_, end)| !end.is_wanted());
        NetConnection {
            peer: self.routes[0].1.ip(),
            opened: opened(self.now()),
            closed: false,
            broken: broken.map(|(why, _)| why.clone()),
            paths: (0..of.paths.len()).map(|path| self.counted_path(of, path)).collect(),
        }
    }

    fn counted_path(&self, of: &State, number: usize) -> NetPath {
        let (from, to) = self.routes[number];
        let counts = of.core.counts(number);
        NetPath {
            local: from.map(|from| SocketAddr::new(from, 0)),
            remote: to,
            port: Some(self.port_name(number)),
            state: state(of.core.state(number)),
            bytes: counts.bytes,
            timed_bytes: counts.timed.0,
            timed_us: counts.timed.1 / 1000,
            // Of an unreliable one.
            rtt_us: of
                .core
                .round_trip(number)
                .and_then(|time| u32::try_from(time.as_micros()).ok()),
            min_rtt_us: None,
            segments: 0,
            retransmitted: 0,
            doubled: counts.hedged,
            again: counts.requeued,
            lost: counts.lost,
        }
    }

    /// Says what the connection has done: it ends.
    pub(super) fn tell_counts(&self, of: &State) {
        let counted = NetConnection { closed: true, ..self.counted_in(of) };
        let path =
            |path: &NetPath| format!("{} {}", path.port.as_deref().unwrap_or_default(), told(path));
        let paths = counted.paths.iter().map(path).collect::<Vec<_>>().join("; ");
        log::info(&format!("NET/busbw: paths to {}: {paths}", counted.peer));
        if let Some(stats) = self.manager.stats() {
            let itself: Weak<dyn Counted> = self.itself.clone();
            stats.closed(&itself, counted, self.manager.clock.now());
        }
    }
}
