//! The net plugin that the `net` backend used.
//! Not its speed: that is in rows.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// A process's net plugin and its device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetFacts {
    /// World rank.
    pub rank: usize,
    /// Its own name.
    pub plugin: String,
    /// Its file, or the name that was passed to the loader.
    pub path: String,
    /// Version of its table, 8 to 12.
    pub version: u32,
    /// The number of its devices.
    pub devices: usize,
    /// The device that is used.
    pub device: usize,
    /// Its name.
    pub device_name: String,
    /// Its speed by the plugin's own report, Mb/s.
    pub speed: i32,
    /// Its path in /sys; empty where it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pci_path: String,
    /// In records of old versions, whose plugin also did as NCCL's own sockets do: how many of them ("socket:4x4").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

impl NetFacts {
    fn said(&self) -> String {
        let NetFacts { plugin, version, path, device_name, speed, .. } = self;
        let reference = match &self.reference {
            Some(word) => format!(", as {word}"),
            None => String::new(),
        };
        format!(
            "net plugin {plugin}{reference} (table v{version}, {path}) over {device_name}, which it says has {} Gb/s",
            f64::from(*speed) / 1000.0
        )
    }
}

/// Part of a sentence: which plugins and devices ranks used, each once.
pub fn plugins_used<'f>(all: impl IntoIterator<Item = &'f NetFacts>) -> String {
    let each: BTreeSet<String> = all.into_iter().map(NetFacts::said).collect();
    each.into_iter().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_one_device_are_said_once() {
        let rank = |rank| NetFacts {
            rank,
            plugin: "busbw".to_owned(),
            path: "/a/libnccl-net-busbw.so".to_owned(),
            version: 12,
            devices: 1,
            device: 0,
            device_name: "eth0".to_owned(),
            speed: 2500,
            pci_path: String::new(),
            reference: (rank == 2).then(|| "socket:4x4".to_owned()),
        };
        let one = "(table v12, /a/libnccl-net-busbw.so) over eth0, which it says has 2.5 Gb/s";
        assert_eq!(plugins_used(&[rank(0), rank(1)]), format!("net plugin busbw {one}"));
        let other = plugins_used(&[rank(0), rank(2)]);
        assert!(other.contains("net plugin busbw, as socket:4x4 (table"), "{other}");
    }
}
