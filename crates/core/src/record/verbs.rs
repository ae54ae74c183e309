//! The device, port and address that each rank of the `verbs` backend used.
//! Not its speed: that is in rows.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::plan::{Connection, Verb};

/// A rank's RDMA device, and how its messages went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerbsFacts {
    /// World rank.
    pub rank: usize,
    /// What moved messages.
    pub verb: Verb,
    /// The kind of its queue pairs.
    pub connection: Connection,
    /// The device, such as mlx5_0.
    pub device: String,
    /// Its port, from 1.
    pub port: u8,
    /// Index of its address.
    pub gid_index: u8,
    /// The address, as IPv6 or mapped IPv4; `None` on InfiniBand without a router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<String>,
    /// LID on InfiniBand, else 0.
    pub lid: u16,
    /// The protocol: "InfiniBand", "RoCE v1", "RoCE v2", or "RoCE" where the kernel does not say which.
    pub protocol: String,
    /// Line rate of the port, Gb/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gbps: Option<f64>,
    /// The PCIe slot of the device as it is trained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    /// What port and slot can send one way, less the headers of packets, GB/s; none where the port's rate is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// Largest payload of a packet, in bytes.
    pub mtu: u32,
    /// NUMA node of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<u32>,
    /// Network interface of the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Bytes up to which messages are copied when they are posted, as the device granted it.
    pub inline_bytes: u32,
    /// Whether the device may write to memory in any order (PCIe relaxed ordering), as far as it was asked to.
    #[serde(default)]
    pub relaxed_ordering: bool,
    /// The GPU that holds the rank's buffers; without one they are in the host's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<BufferGpu>,
    /// Why this device, port and address.
    pub why: String,
}

/// The GPU that holds a rank's buffers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferGpu {
    /// Its number among the GPUs that the rank's process sees.
    pub ordinal: usize,
    /// Its PCI address.
    pub address: String,
    /// Its name.
    pub name: String,
    /// How the device was given its memory: "dma-buf", or "peer memory" (nvidia_peermem).
    pub export: String,
    /// Why this GPU.
    pub why: String,
}

/// A PCIe slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// 1 to 6.
    pub generation: u8,
    /// Lanes.
    pub width: u8,
}

impl VerbsFacts {
    /// Port, rate and slot: `mlx5_0/1 at 400 Gb/s in PCIe 5.0 x16`.
    pub fn port_and_slot(&self) -> String {
        let rate = self.gbps.map_or_else(String::new, |gbps| format!(" at {gbps} Gb/s"));
        let slot = self.slot.map_or_else(String::new, |Slot { generation, width }| {
            format!(" in PCIe {generation}.0 x{width}")
        });
        format!("{}/{}{rate}{slot}", self.device, self.port)
    }

    fn said(&self) -> String {
        let VerbsFacts { verb, connection, device, port, protocol, mtu, .. } = self;
        let rate = self.gbps.map_or_else(String::new, |gbps| format!(" at {gbps} Gb/s"));
        let address = match &self.gid {
            Some(gid) => format!("GID {} {gid}", self.gid_index),
            None => format!("LID {}", self.lid),
        };
        let memory = self.gpu.as_ref().map_or_else(String::new, |gpu| {
            format!(", memory of GPU {} ({}, {})", gpu.ordinal, gpu.address, gpu.export)
        });
        format!(
            "RDMA {} over {} on {device}/{port} ({protocol}{rate}, {address}, MTU {mtu}){memory}",
            verb.name(),
            connection.name(),
        )
    }
}

/// Adds what a rank says of its port to what all have said: its last report counts.
pub fn add_port(ports: &mut Vec<VerbsFacts>, facts: &VerbsFacts) {
    ports.retain(|earlier| earlier.rank != facts.rank);
    ports.push(facts.clone());
}

/// Part of a sentence: which devices ranks used, each once.
pub fn rdma_devices_used<'f>(all: impl IntoIterator<Item = &'f VerbsFacts>) -> String {
    let each: BTreeSet<String> = all.into_iter().map(VerbsFacts::said).collect();
    each.into_iter().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_said_once() {
        let rank = |rank: usize| VerbsFacts {
            rank,
            verb: Verb::Write,
            connection: Connection::Rc,
            device: "mlx5_0".to_owned(),
            port: 1,
            gid_index: 3,
            gid: Some("10.0.0.1".to_owned()),
            lid: 0,
            protocol: "RoCE v2".to_owned(),
            gbps: Some(400.0),
            slot: Some(Slot { generation: 5, width: 16 }),
            limit: Some(48.9),
            mtu: 4096,
            numa: Some(0),
            interface: None,
            inline_bytes: 0,
            relaxed_ordering: true,
            gpu: None,
            why: String::new(),
        };
        let one = "RDMA write over RC on mlx5_0/1 (RoCE v2 at 400 Gb/s, GID 3 10.0.0.1, MTU 4096)";
        assert_eq!(rdma_devices_used(&[rank(0), rank(1)]), one);
        assert_eq!(rank(0).port_and_slot(), "mlx5_0/1 at 400 Gb/s in PCIe 5.0 x16");
        let infiniband = VerbsFacts { gid: None, lid: 7, ..rank(1) };
        assert!(infiniband.said().contains("LID 7"), "{}", infiniband.said());
        let gpu = BufferGpu {
            ordinal: 3,
            address: "0000:19:00.0".to_owned(),
            name: "NVIDIA H200".to_owned(),
            export: "dma-buf".to_owned(),
            why: String::new(),
        };
        let on_gpu = VerbsFacts { gpu: Some(gpu), ..rank(0) }.said();
        assert!(on_gpu.ends_with("), memory of GPU 3 (0000:19:00.0, dma-buf)"), "{on_gpu}");
    }
}
