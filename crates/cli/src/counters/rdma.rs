//! Ports of RDMA devices: bytes, errors, retransmissions, congestion, as sysfs has them.
//! Not interfaces: a port's RDMA traffic does not pass through those.

use std::{path::Path, sync::Arc};

use model::record::{DeviceKind, Unread};

use super::{Count, Reading, Source};
use crate::machine::Root;

/// Where RDMA devices are.
const DEVICES: &str = "sys/class/infiniband";

/// Files of a port in the order of the names in the record, the step of each, and whether it may have
/// 32 bits. Of several with one name the first that there is counts. Each driver has some of them.
/// (Linux, Documentation/ABI/stable/sysfs-class-infiniband; NVIDIA, "Understanding mlx5 Linux Counters
/// and Status Parameters"; drivers/infiniband/sw/rxe/rxe_hw_counters.c; drivers/infiniband/hw/efa.)
const FILES: [(&str, &str, u64, bool); 31] = [
    ("tx_bytes", "counters/port_xmit_data", 4, true),
    ("tx_bytes", "hw_counters/tx_bytes", 1, false),
    ("rx_bytes", "counters/port_rcv_data", 4, true),
    ("rx_bytes", "hw_counters/rx_bytes", 1, false),
    ("xmit_wait", "counters/port_xmit_wait", 1, true),
    ("xmit_discards", "counters/port_xmit_discards", 1, false),
    ("rx_errors", "counters/port_rcv_errors", 1, false),
    ("symbol_errors", "counters/symbol_error", 1, false),
    ("link_recoveries", "counters/link_error_recovery", 1, false),
    ("link_downs", "counters/link_downed", 1, false),
    ("integrity_errors", "counters/local_link_integrity_errors", 1, false),
    ("out_of_sequence", "hw_counters/out_of_sequence", 1, false),
    ("out_of_sequence", "hw_counters/out_of_seq_request", 1, false),
    ("sequence_errors", "hw_counters/packet_seq_err", 1, false),
    ("sequence_errors", "hw_counters/rcvd_seq_err", 1, false),
    ("implied_sequence_errors", "hw_counters/implied_nak_seq_err", 1, false),
    ("ack_timeouts", "hw_counters/local_ack_timeout_err", 1, false),
    ("ack_timeouts", "hw_counters/completer_retry_err", 1, false),
    ("rnr_retries", "hw_counters/rnr_nak_retry_err", 1, false),
    ("rnr_retries", "hw_counters/send_rnr_err", 1, false),
    ("retries_exceeded", "hw_counters/req_transport_retries_exceeded", 1, false),
    ("retries_exceeded", "hw_counters/retry_exceeded_err", 1, false),
    ("adaptive_retransmits", "hw_counters/roce_adp_retrans", 1, false),
    ("icrc_errors", "hw_counters/rx_icrc_encapsulated", 1, false),
    ("retransmitted_bytes", "hw_counters/retrans_bytes", 1, false),
    ("cnp_sent", "hw_counters/np_cnp_sent", 1, false),
    ("cnp_handled", "hw_counters/rp_cnp_handled", 1, false),
    ("cnp_ignored", "hw_counters/rp_cnp_ignored", 1, false),
    ("ecn_marked", "hw_counters/np_ecn_marked_roce_packets", 1, false),
    ("rx_dropped", "hw_counters/rx_drops", 1, false),
    ("link_downs", "hw_counters/link_downed", 1, false),
];

/// A port, and which of the files it has.
struct Port {
    root: Root,
    name: String,
    folder: String,
    files: Vec<(&'static str, &'static str, u64, bool)>,
}

/// Adds every port of every RDMA device: firmware answers slowly, so each is a source of its own.
pub(super) fn find(root: &Root, sources: &mut Vec<Arc<dyn Source>>, unread: &mut Vec<Unread>) {
    let mut silent = Vec::new();
    for device in root.names(DEVICES) {
        for number in root.names(format!("{DEVICES}/{device}/ports")) {
            let folder = format!("{DEVICES}/{device}/ports/{number}");
            let name = format!("{device}/{number}");
            let mut port = Port { root: root.clone(), name, folder, files: Vec::new() };
            for file in FILES {
                if port.files.iter().all(|(name, ..)| *name != file.0)
                    && port.value(file.1).is_some()
                {
                    port.files.push(file);
                }
            }
            if !port.files.iter().any(|(name, ..)| *name == "tx_bytes") {
                silent.push(port.name.clone());
            }
            if !port.files.is_empty() {
                sources.push(Arc::new(port));
            }
        }
    }
    if !silent.is_empty() {
        unread.push(Unread {
            kind: DeviceKind::Rdma,
            counter: Some("tx_bytes".to_owned()),
            devices: silent,
            reason: "their driver has no such counters".to_owned(),
        });
    }
}

impl Port {
    fn value(&self, file: &str) -> Option<u64> {
        self.root.text(Path::new(&self.folder).join(file))?.parse().ok()
    }
}

impl Source for Port {
    fn read(&self) -> Vec<Reading> {
        let counts: Vec<Count> = self
            .files
            .iter()
            .filter_map(|(name, file, step, narrow)| {
                let value = self.value(file)?;
                Some(Count { name, value, step: *step, narrow: *narrow })
            })
            .collect();
        if counts.is_empty() {
            return Vec::new();
        }
        vec![Reading {
            device: self.name.clone(),
            kind: DeviceKind::Rdma,
            counts,
            throttled: Vec::new(),
            xids: Vec::new(),
        }]
    }
}

#[cfg(test)]
mod tests {
    use model::record::Meaning;

    use super::*;

    #[test]
    fn every_counter_means_something() {
        for (name, ..) in FILES {
            assert!(Meaning::of(name).is_some(), "{name}");
        }
    }

    #[test]
    fn drivers_have_their_own_files() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, value: &str| {
            let path = folder.path().join(DEVICES).join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, value).unwrap();
        };
        write("rxe0/ports/1/hw_counters/retry_exceeded_err", "4\n");
        write("efa0/ports/1/hw_counters/tx_bytes", "8192\n");
        write("mlx5_0/ports/1/counters/port_xmit_data", "N/A\n");
        let (mut sources, mut unread) = (Vec::new(), Vec::new());
        find(&Root::new(folder.path()), &mut sources, &mut unread);
        let readings: Vec<Reading> = sources.iter().flat_map(|source| source.read()).collect();
        let counts = |reading: &Reading| (reading.counts[0].name, reading.counts[0].value);
        let [efa, rxe] = &readings[..] else { panic!("{readings:?}") };
        assert_eq!((efa.device.as_str(), counts(efa)), ("efa0/1", ("tx_bytes", 8192)));
        assert_eq!((rxe.device.as_str(), counts(rxe)), ("rxe0/1", ("retries_exceeded", 4)));
        assert_eq!(unread[0].devices, ["mlx5_0/1", "rxe0/1"]);
    }
}
