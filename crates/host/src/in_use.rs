//! Whether others use this host's GPUs and network now: before something loads them.
//! Not what a run itself moves (`counters`), and not who the others are.

use std::{collections::BTreeMap, thread, time::Duration};

use busbw_core::quantity::rate;

use crate::{doctor::Node, machine::Root};

/// Time between the two readings of the counters.
pub const READING_INTERVAL: Duration = Duration::from_millis(500);

/// Traffic of a device up to this is no load, bytes a second: logins, monitoring, a file system at rest.
const IDLE_BYTES_PER_S: f64 = 20e6;
/// Of a fast device, up to this share of its rate.
const IDLE_SHARE: f64 = 0.02;

/// The bytes that a device has moved since it came up, and its rate.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Moved {
    bytes: u64,
    /// Bytes a second; none where the driver does not say.
    rate: Option<f64>,
}

/// Reads the counters twice, [`READING_INTERVAL`] apart. A sentence for each GPU with processes and each device with
/// traffic; none where nobody uses any.
pub fn in_use(node: &Node) -> Vec<String> {
    let before = moved(&node.root);
    thread::sleep(READING_INTERVAL);
    let after = moved(&node.root);
    let mut all: Vec<String> = node
        .gpus()
        .filter_map(|gpu| {
            let processes = gpu.processes.value().filter(|all| !all.is_empty())?;
            let many = processes.len() as u64;
            let many = if many == 1 { "1 process".to_owned() } else { format!("{many} processes") };
            Some(format!("{many} on GPU {}", gpu.index))
        })
        .collect();
    all.extend(traffic(&before, &after, READING_INTERVAL.as_secs_f64()));
    all
}

/// The same for network devices with one of these names alone: interfaces, and RDMA ports as [`port_name`] has them.
pub fn traffic_now(root: &Root, names: &[String]) -> Vec<String> {
    let before = moved(root);
    thread::sleep(READING_INTERVAL);
    let mut after = moved(root);
    after.retain(|name, _| names.contains(name));
    traffic(&before, &after, READING_INTERVAL.as_secs_f64())
}

/// An RDMA port's name here: `mlx5_0 port 1`.
pub fn port_name(device: &str, port: u32) -> String {
    format!("{device} port {port}")
}

/// The devices that move more than [`IDLE_BYTES_PER_S`] and [`IDLE_SHARE`].
fn traffic(
    before: &BTreeMap<String, Moved>,
    after: &BTreeMap<String, Moved>,
    seconds: f64,
) -> Vec<String> {
    let busy = after.iter().filter_map(|(name, now)| {
        let grown = now.bytes.saturating_sub(before.get(name)?.bytes) as f64 / seconds;
        let idle = now.rate.map_or(0.0, |rate| IDLE_SHARE * rate).max(IDLE_BYTES_PER_S);
        (grown > idle).then(|| format!("{} GB/s of traffic on {name}", rate(grown / 1e9)))
    });
    busy.collect()
}

/// The interfaces that are hardware or stand for it, and the ports of RDMA devices. Loopback, bridges and tunnels move
/// what others count, too.
fn moved(root: &Root) -> BTreeMap<String, Moved> {
    let mut all = BTreeMap::new();
    for name in root.names("sys/class/net") {
        let folder = format!("sys/class/net/{name}");
        if !root.exists(format!("{folder}/device")) {
            continue;
        }
        let read = |counter: &str| root.number::<u64>(format!("{folder}/statistics/{counter}"));
        let Some((received, sent)) = read("rx_bytes").zip(read("tx_bytes")) else { continue };
        let mbps = root.number::<i64>(format!("{folder}/speed")).filter(|mbps| *mbps > 0);
        let rate = mbps.map(|mbps| mbps as f64 * 1e6 / 8.0);
        all.insert(name, Moved { bytes: received.max(sent), rate });
    }
    for device in crate::machine::rdma(root) {
        for port in &device.ports {
            let folder =
                format!("sys/class/infiniband/{}/ports/{}/counters", device.name, port.number);
            // In units of four bytes: IBA 16.1.3.5.
            let read = |counter: &str| root.number::<u64>(format!("{folder}/{counter}"));
            let Some((received, sent)) = read("port_rcv_data").zip(read("port_xmit_data")) else {
                continue;
            };
            let rate = port.gbps.map(|gbps| gbps * 1e9 / 8.0);
            let bytes = received.max(sent).saturating_mul(4);
            all.insert(port_name(&device.name, port.number), Moved { bytes, rate });
        }
    }
    all
}

/// In one sentence: `b: 2 processes on GPU 3, 4.10 GB/s of traffic on mlx5_0 port 1`; none where nobody uses anything.
pub fn sentence(host: &str, uses: &[String]) -> Option<String> {
    const SHOWN: usize = 3;
    let shown = uses.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    let more = uses.len().saturating_sub(SHOWN) as u64;
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    (!uses.is_empty()).then(|| format!("{host}: {shown}{more}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(bytes: u64, gbps: Option<f64>) -> BTreeMap<String, Moved> {
        let rate = gbps.map(|gbps| gbps * 1e9 / 8.0);
        [("eth0".to_owned(), Moved { bytes, rate })].into()
    }

    #[test]
    fn what_is_load() {
        let grown = |by: u64, gbps| traffic(&at(1000, gbps), &at(1000 + by, gbps), 0.5);
        assert!(grown(0, None).is_empty());
        assert!(grown(9_000_000, None).is_empty());
        assert_eq!(grown(50_000_000, None), ["0.10 GB/s of traffic on eth0"]);
        // 0.1 GB/s of 400 Gb/s is nothing.
        assert!(grown(50_000_000, Some(400.0)).is_empty());
        assert_eq!(grown(2_000_000_000, Some(400.0)), ["4.00 GB/s of traffic on eth0"]);
        // A counter that began anew, and a device that has just come.
        assert!(traffic(&at(9_000_000_000, None), &at(5, None), 0.5).is_empty());
        assert!(traffic(&BTreeMap::new(), &at(9_000_000_000, None), 0.5).is_empty());
    }

    #[test]
    fn a_sentence_is_short() {
        let uses = ["a", "b", "c", "d", "e"].map(str::to_owned);
        assert_eq!(sentence("n1", &uses[..1]).as_deref(), Some("n1: a"));
        assert_eq!(sentence("n1", &[]), None);
        assert!(sentence("n1", &uses).unwrap().starts_with("n1: a, b, c, and 2 more"));
    }
}
