//! What busbw's net plugin counted in one process: its connections that send, and every path of each.
//! Not the counting (`nccl-plugin-busbw`), and not what follows from it (`busbw-analysis`).

use std::{
    cmp::Reverse,
    net::{IpAddr, SocketAddr},
};

use serde::{Deserialize, Serialize};

/// The version of the format that is written. Readers refuse newer ones.
pub const VERSION: u32 = 1;
/// The variable that says where: `%h` and `%p` are host and process, as in NCCL_DEBUG_FILE.
pub const VARIABLE: &str = "BUSBW_NET_STATS";
/// Connections that a reader takes, paths of each, and interfaces; more than busbw's plugin writes.
const MOST: (usize, usize, usize) = (4096, 64, 1024);

/// One process's connections.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NetStats {
    /// Version of the format, [`VERSION`]. Its name is what such a document is known by.
    pub busbw_net_stats: u32,
    /// World rank; of several in one process the first. In records only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// Host name up to the first dot.
    pub host: String,
    /// Process.
    pub pid: u32,
    /// When it was written, seconds since 1970.
    pub written: u64,
    /// Interfaces that paths could use.
    pub interfaces: Vec<NetInterface>,
    /// Connections that send: those that were closed, then the others; where they are too many, those that sent
    /// most.
    pub connections: Vec<NetConnection>,
    /// The sums of those that are not listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<NetTotals>,
}

/// An interface's address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetInterface {
    /// Name, such as eth0.
    pub name: String,
    /// An address of it.
    pub address: IpAddr,
    /// Mb/s, where the kernel says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_mbps: Option<u32>,
}

/// A connection that sends, over its paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetConnection {
    /// The first address of the other host.
    pub peer: IpAddr,
    /// When it was opened, seconds since 1970.
    pub opened: u64,
    /// Whether it was closed.
    pub closed: bool,
    /// Why it broke, if it did, and was not closed by either end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
    /// Its paths.
    pub paths: Vec<NetPath>,
}

/// A path of a connection: one TCP connection after the other, as each is lost; over RDMA one queue pair after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetPath {
    /// Our end of the last one, where it is known; its port is 0 where there has been none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<SocketAddr>,
    /// The other end.
    pub remote: SocketAddr,
    /// The RDMA port that it goes over, such as mlx5_0:1; its addresses are those of its handshakes then, and nothing is known of
    /// segments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// How it is.
    pub state: PathState,
    /// Bytes of messages that the other end's plugin acknowledged; of what went by two paths, by the first.
    pub bytes: u64,
    /// Those of messages longer than 8 KiB, acknowledged so many or more at once: `timed_bytes / timed_us` is the
    /// path's rate in MB/s while it was busy.
    pub timed_bytes: u64,
    /// Microseconds that these took, each from when the first of them left, or the acknowledgement before came,
    /// until their own came: waiting for a receiver that is late included.
    pub timed_us: u64,
    /// The kernel's smoothed time of a round trip, microseconds (TCP_INFO).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<u32>,
    /// The shortest round trip that the kernel has seen lately, microseconds (TCP_INFO).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rtt_us: Option<u32>,
    /// Segments with data that the kernel sent, over all TCP connections of the path (TCP_INFO).
    pub segments: u64,
    /// Those of them that it sent again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retransmitted: u64,
    /// Chunks that went over another path as well, since this one was late.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub doubled: u64,
    /// Chunks that were under way when it was lost, and went over others again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub again: u64,
    /// How often it was lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
}

/// How a path is; of a closed connection, how it was then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathState {
    /// It takes chunks.
    Up,
    /// Acknowledgements are late: its chunks were sent over other paths as well, and it gets none until one arrives.
    Doubted,
    /// There is no TCP connection.
    Absent,
}

/// Sums over connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NetTotals {
    /// How many connections.
    pub connections: u64,
    /// As in [`NetPath`], of all of their paths.
    pub bytes: u64,
    /// The same.
    pub segments: u64,
    /// The same.
    pub retransmitted: u64,
    /// The same.
    pub doubled: u64,
    /// The same.
    pub again: u64,
    /// The same.
    pub lost: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The file of a process, of what [`VARIABLE`] says; `%%` is a percent sign.
pub fn file(pattern: &str, host: &str, pid: u32) -> String {
    let mut name = String::new();
    let mut chars = pattern.chars();
    while let Some(char) = chars.next() {
        match (char, chars.as_str().chars().next()) {
            ('%', Some('h')) => name.push_str(host),
            ('%', Some('p')) => name.push_str(&pid.to_string()),
            ('%', Some('%')) => name.push('%'),
            (other, _) => {
                name.push(other);
                continue;
            }
        }
        chars.next();
    }
    name
}

impl NetStats {
    /// Keeps the connections that sent most, so many at most; the others are summed.
    pub fn keep(&mut self, most: usize) {
        if self.connections.len() <= most {
            return;
        }
        let mut sent: Vec<(Reverse<u64>, usize)> =
            self.connections.iter().map(|one| Reverse(one.bytes())).zip(0..).collect();
        sent.sort_unstable();
        let mut stays = vec![false; self.connections.len()];
        sent.iter().take(most).for_each(|(_, at)| stays[*at] = true);
        let others = self.others.get_or_insert_default();
        let mut stays = stays.into_iter();
        self.connections.retain(|one| {
            let stay = stays.next().unwrap_or(false);
            if !stay {
                others.add(one);
            }
            stay
        });
    }

    /// Whether it is of a version and a size that can be read.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self) -> Result<(), String> {
        let found = self.busbw_net_stats;
        if found > VERSION {
            return Err(format!(
                "it has version {found} of net statistics; this busbw reads up to {VERSION}: use a newer one"
            ));
        }
        let most = self.connections.iter().map(|one| one.paths.len()).max().unwrap_or(0);
        let (connections, paths, interfaces) = MOST;
        if self.connections.len() > connections
            || most > paths
            || self.interfaces.len() > interfaces
        {
            return Err(format!(
                "more than {connections} connections of {paths} paths, or than {interfaces} interfaces: no plugin of busbw's wrote that"
            ));
        }
        Ok(())
    }

    /// Sums over all connections, listed or not.
    pub fn totals(&self) -> NetTotals {
        let mut all = self.others.unwrap_or_default();
        self.connections.iter().for_each(|one| all.add(one));
        all
    }
}

impl NetConnection {
    /// Bytes of all paths.
    pub fn bytes(&self) -> u64 {
        self.paths.iter().fold(0, |sum, path| sum.saturating_add(path.bytes))
    }
}

impl NetPath {
    /// GB/s while it was busy; nothing where nothing was timed.
    pub fn rate(&self) -> Option<f64> {
        let known = self.timed_bytes > 0 && self.timed_us > 0;
        known.then(|| self.timed_bytes as f64 / self.timed_us as f64 / 1e3)
    }
}

impl NetTotals {
    /// Adds a connection.
    pub fn add(&mut self, one: &NetConnection) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.connections, 1);
        for path in &one.paths {
            add(&mut self.bytes, path.bytes);
            add(&mut self.segments, path.segments);
            add(&mut self.retransmitted, path.retransmitted);
            add(&mut self.doubled, path.doubled);
            add(&mut self.again, path.again);
            add(&mut self.lost, path.lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn connection(bytes: u64) -> NetConnection {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let path = NetPath {
            local: None,
            remote: SocketAddr::new(address, 1),
            port: None,
            state: PathState::Up,
            bytes,
            timed_bytes: bytes,
            timed_us: 100,
            rtt_us: Some(20),
            min_rtt_us: None,
            segments: 10,
            retransmitted: 0,
            doubled: 0,
            again: 0,
            lost: 1,
        };
        NetConnection { peer: address, opened: 1, closed: true, broken: None, paths: vec![path; 2] }
    }

    #[test]
    fn names_of_files() {
        assert_eq!(file("/a/%h.%p.json", "n1", 42), "/a/n1.42.json");
        assert_eq!(file("%%p %x %", "n1", 42), "%p %x %");
    }

    #[test]
    fn the_busiest_stay_in_their_order_and_nothing_is_lost_of_the_others() {
        let mut stats = NetStats {
            connections: [5, 900, 7, 1000].map(connection).into(),
            ..NetStats::default()
        };
        let all = stats.totals();
        stats.keep(2);
        let kept: Vec<u64> = stats.connections.iter().map(NetConnection::bytes).collect();
        assert_eq!(kept, [1800, 2000]);
        let others = NetTotals { connections: 2, bytes: 24, segments: 40, lost: 4, ..all };
        assert_eq!(stats.others, Some(others));
        assert_eq!(stats.totals(), all);
        assert_eq!(all.connections, 4);
    }

    #[test]
    fn what_is_too_large_or_too_new_is_refused() {
        let newer = NetStats { busbw_net_stats: VERSION + 1, ..NetStats::default() };
        assert!(newer.check().unwrap_err().contains("version 2"));
        let large = NetStats { connections: vec![connection(1); 5000], ..NetStats::default() };
        assert!(large.check().is_err());
        assert_eq!(NetStats::default().check(), Ok(()));
    }

    #[test]
    fn rates_are_of_what_was_timed() {
        assert_eq!(connection(0).paths[0].rate(), None);
        // 5 MB in 100 us.
        assert_eq!(connection(5_000_000).paths[0].rate(), Some(50.0));
    }
}
