//! `NET/IB: WQE …` (2.31 on, NCCL_IB_WQE_LATENCY_THRESHOLD_NS): how long work requests of a queue pair took from post to poll.
//! Not bandwidth, and not which queue pair stands out (`busbw explain`).
//!
//! Formats: NCCL's src/transport/net_ib (`ncclIbWqeLatReportQpSummary`, `reportSlow`, `reportStall`), strings of libnccl 2.31.2;
//! RCCL prints the summary of its own network as `NET/IB-CAST`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use super::message::Origin;
use super::tally::{is_zero, keep};

/// The most queue pairs that are kept.
const MAX_QUEUE_PAIRS: usize = 4096;

/// A queue pair, and the time of its work requests from post to poll in nanoseconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct WqeLatency {
    /// Host, as NCCL prints it.
    pub host: String,
    /// Process.
    pub pid: u32,
    /// `send` or `recv`: the end of the connection.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub direction: String,
    /// The peer's address, such as `10.0.0.2<44123>`.
    pub peer: String,
    /// Device, such as `mlx5_3`.
    pub device: String,
    /// Number of the queue pair.
    pub qpn: u32,
    /// Port of the device.
    pub port: u32,
    /// The summary, which NCCL prints when it closes the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<WqeSummary>,
    /// Lines that a work request was slower than the threshold; NCCL prints few of them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slow_lines: u64,
    /// Lines that a work request had no completion after the threshold.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stall_lines: u64,
    /// The longest wait of those, nanoseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub longest_stall_ns: u64,
}

/// The summary of a queue pair; times in nanoseconds. Of several the last.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct WqeSummary {
    /// Work requests.
    pub count: u64,
    /// Those that took longer than the threshold.
    pub slow: u64,
    /// The threshold.
    pub threshold_ns: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub std_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 90 % were faster.
    pub p90_ns: u64,
    /// 99 % were faster.
    pub p99_ns: u64,
    /// 99.9 % were faster.
    pub p999_ns: u64,
    /// The slowest.
    pub max_ns: u64,
}

/// (host, process, device, port, queue pair)
type Key = (String, u32, String, u32, u32);

/// The queue pairs read so far.
#[derive(Debug, Default)]
pub(super) struct WqeLatencies {
    all: BTreeMap<Key, WqeLatency>,
    left_out: u64,
}

impl WqeLatencies {
    /// Reads a message; none of its business gives `None`.
    pub(super) fn read(&mut self, origin: Origin<'_>, mut at: Cursor<'_>) -> Option<()> {
        at.one_of(&["NET/IB: WQE ", "NET/IB-CAST: WQE "])?;
        let mut one =
            match at.one_of(&["latency summary [", "slow: peer=", "stall (no CQE): peer="])? {
                "latency summary [" => summary(at)?,
                "slow: peer=" => WqeLatency { slow_lines: 1, ..local(&mut at)? },
                _ => {
                    let mut one = local(&mut at)?;
                    at.until(" age=")?;
                    (one.stall_lines, one.longest_stall_ns) = (1, at.number()?);
                    at.literal("ns ")?;
                    one
                }
            };
        (one.host, one.pid) = (keep(origin.host), origin.pid);
        self.add(one);
        Some(())
    }

    fn add(&mut self, one: WqeLatency) {
        let key = (one.host.clone(), one.pid, one.device.clone(), one.port, one.qpn);
        if self.all.len() >= MAX_QUEUE_PAIRS && !self.all.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let Some(known) = self.all.get_mut(&key) else {
            self.all.insert(key, one);
            return;
        };
        if one.summary.is_some() {
            (known.summary, known.direction) = (one.summary, one.direction);
        }
        known.slow_lines += one.slow_lines;
        known.stall_lines += one.stall_lines;
        known.longest_stall_ns = known.longest_stall_ns.max(one.longest_stall_ns);
    }

    /// By host, process, device, port and number.
    pub(super) fn finish(self, left_out: &mut u64) -> Vec<WqeLatency> {
        *left_out += self.left_out;
        self.all.into_values().collect()
    }
}

/// `send peer=10.0.0.2<44123> dev=mlx5_0 qpn=7 port=1]: n=… max=…`.
fn summary(mut at: Cursor<'_>) -> Option<WqeLatency> {
    let direction = at.one_of(&["send", "recv"])?.to_owned();
    at.literal(" peer=")?;
    let peer = keep(at.until(" dev=")?);
    let device = keep(at.until(" qpn=")?);
    let qpn = at.number()?;
    let port = at.field(" port=")?;
    at.literal("]: n=")?;
    let mut figure = |key: &str| -> Option<u64> {
        at.literal(key)?;
        at.number()
    };
    let count = figure("")?;
    let slow = figure(" slow=")?;
    let threshold_ns = figure(" thr=")?;
    at.literal("ns | post-to-poll ns: mean=")?;
    let mean_ns = at.decimal()?;
    at.literal(" std=")?;
    let std_ns = at.decimal()?;
    let mut figure = |key: &str| -> Option<u64> {
        at.literal(key)?;
        at.number()
    };
    let p50_ns = figure(" p50=")?;
    let p90_ns = figure(" p90=")?;
    let p99_ns = figure(" p99=")?;
    let p999_ns = figure(" p99.9=")?;
    let max_ns = figure(" max=")?;
    at.end()?;
    let summary = WqeSummary {
        count,
        slow,
        threshold_ns,
        mean_ns,
        std_ns,
        p50_ns,
        p90_ns,
        p99_ns,
        p999_ns,
        max_ns,
    };
    Some(WqeLatency {
        direction,
        peer,
        device,
        qpn,
        port,
        summary: Some(summary),
        ..WqeLatency::default()
    })
}

/// `10.0.0.2<44123> | local: qpn=7 dev=mlx5_0 port=1 lid=…`.
fn local(at: &mut Cursor<'_>) -> Option<WqeLatency> {
    let peer = keep(at.until(" | local: qpn=")?);
    let qpn = at.number()?;
    at.literal(" dev=")?;
    let device = keep(at.until(" port=")?);
    let port = at.number()?;
    at.literal(" lid=")?;
    Some(WqeLatency { peer, device, qpn, port, ..WqeLatency::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY: &str = "NET/IB: WQE latency summary [send peer=10.0.0.2<44123> dev=mlx5_3 qpn=1289 port=1]: n=20480 slow=17 thr=1000000ns | post-to-poll ns: mean=21874 std=5120 p50=20480 p90=28672 p99=65536 p99.9=1048576 max=2203344";
    const SLOW: &str = "NET/IB: WQE slow: peer=10.0.0.2<44123> | local: qpn=1289 dev=mlx5_3 port=1 lid=0 localGid=::ffff:10.1.3.1 | remote: qpn=1290 port=1 lid=0 remoteGid=::ffff:10.1.3.2 | thr=1000000ns delta=2203344ns mean=21874ns stddev=5120ns p50=20480ns p90=28672ns p99=65536ns p99.9=1048576ns max=2203344ns count=4096 | t_post=1 t_poll=2203345";
    const STALL: &str = "NET/IB: WQE stall (no CQE): peer=10.0.0.2<44123> | local: qpn=1289 dev=mlx5_3 port=1 lid=0 localGid= | remote: qpn=1290 port=1 lid=0 remoteGid= | stall_thr=1000000ns age=3000000000ns inflight=8";

    #[test]
    fn three_lines_about_one_queue_pair() {
        let origin = Origin { host: "a", pid: 7, device: Some(3) };
        let mut all = WqeLatencies::default();
        for text in [SLOW, SUMMARY, STALL, SLOW] {
            assert!(all.read(origin, Cursor::new(text, false)).is_some(), "{text}");
        }
        assert!(
            all.read(origin, Cursor::new(&SUMMARY.replace("IB:", "IB-CAST:"), false)).is_some()
        );
        for (text, cut) in [(SUMMARY, true), (&SUMMARY[..200], false), (&SLOW[..60], false)] {
            assert_eq!(all.read(origin, Cursor::new(text, cut)), None, "{text}");
        }
        let [one] = &all.finish(&mut 0)[..] else { panic!("one queue pair") };
        assert_eq!((one.peer.as_str(), one.device.as_str()), ("10.0.0.2<44123>", "mlx5_3"));
        assert_eq!((one.qpn, one.port, one.direction.as_str()), (1289, 1, "send"));
        assert_eq!((one.slow_lines, one.stall_lines, one.longest_stall_ns), (2, 1, 3_000_000_000));
        let summary = one.summary.expect("it was printed");
        assert_eq!((summary.count, summary.slow, summary.p99_ns), (20_480, 17, 65_536));
        assert_eq!(
            (summary.mean_ns, summary.p999_ns, summary.max_ns),
            (21_874.0, 1_048_576, 2_203_344)
        );
    }
}
