//! Network interfaces: bytes and errors of each, all from one file, and pause frames of adapters.
//! Not RDMA, whose bytes bypass the interface.

use std::{collections::BTreeMap, sync::Arc};

use busbw_core::record::{DeviceKind, Unread};

use super::{Count, Reading, Source, pauses::Pauses};
use crate::machine::Root;

/// Columns of /proc/net/dev after the name, and their names in the record (Linux,
/// net/core/net-procfs.c, dev_seq_printf_stats).
const COLUMNS: [(usize, &str); 6] = [
    (0, "rx_bytes"),
    (2, "rx_errors"),
    (3, "rx_dropped"),
    (8, "tx_bytes"),
    (10, "tx_errors"),
    (11, "tx_dropped"),
];

struct Interfaces {
    root: Root,
    /// Pause counters of adapters whose drivers have them.
    pauses: BTreeMap<String, Pauses>,
}

/// Adds this host's interfaces.
pub(super) fn find(root: &Root, sources: &mut Vec<Arc<dyn Source>>, unread: &mut Vec<Unread>) {
    let mut all = Interfaces { root: root.clone(), pauses: BTreeMap::new() };
    let found = all.read();
    let missing = |counter, devices, reason: &str| Unread {
        kind: DeviceKind::Interface,
        counter,
        devices,
        reason: reason.to_owned(),
    };
    if found.is_empty() {
        let reason = "/proc/net/dev cannot be read, or names none";
        unread.push(missing(None, Vec::new(), reason));
        return;
    }
    let has_device =
        |name: &String| !root.names(&format!("sys/class/net/{name}/device")).is_empty();
    let mut silent = Vec::new();
    for name in found.into_iter().map(|r| r.device).filter(has_device) {
        match Pauses::of(root, &name) {
            Some(pauses) => drop(all.pauses.insert(name, pauses)),
            None => silent.push(name),
        }
    }
    if !silent.is_empty() {
        let reason = "their drivers' statistics (ethtool -S) have none with a known name";
        unread.push(missing(Some("pause_frames".to_owned()), silent, reason));
    }
    sources.push(Arc::new(all));
}

impl Source for Interfaces {
    fn read(&self) -> Vec<Reading> {
        let text = self.root.text("proc/net/dev").unwrap_or_default();
        let mut readings: Vec<Reading> = text.lines().filter_map(line).collect();
        for reading in &mut readings {
            if let Some(pauses) = self.pauses.get(&reading.device) {
                reading.counts.extend(pauses.read());
            }
        }
        readings
    }
}

/// Parses `eth0: 123 1 0 …`; `None` for the two lines of headings.
fn line(line: &str) -> Option<Reading> {
    let (name, columns) = line.split_once(':')?;
    let columns: Vec<&str> = columns.split_whitespace().collect();
    let count = |(column, name): (usize, &'static str)| {
        let value = columns.get(column)?.parse().ok()?;
        Some(Count { name, value, step: 1, narrow: false })
    };
    Some(Reading {
        device: name.trim().to_owned(),
        kind: DeviceKind::Interface,
        counts: COLUMNS.into_iter().map(count).collect::<Option<_>>()?,
        throttled: Vec::new(),
        xids: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_of_linux() {
        let eth0 = line("  eth0: 1002345 900 3 4 0 0 0 12 800123 700 5 6 0 0 0 0").unwrap();
        let values: Vec<u64> = eth0.counts.iter().map(|count| count.value).collect();
        assert_eq!(
            (eth0.device.as_str(), &values[..]),
            ("eth0", &[1002345, 3, 4, 800123, 5, 6][..])
        );
        assert_eq!(line(" face |bytes    packets errs drop fifo frame compressed multicast"), None);
        assert_eq!(line("eth0: 1 2"), None);
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in ".{0,200}") {
            let _ = line(&text);
        }
    }
}
