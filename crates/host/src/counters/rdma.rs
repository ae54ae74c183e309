//! Ports of RDMA devices: bytes, errors, retransmissions, congestion, as sysfs has them.
//! Not interfaces: a port's RDMA traffic does not pass through those.

use std::{path::Path, sync::Arc};

use busbw_core::record::{DeviceKind, Unread};

use super::{Count, Reading, Source};
use crate::machine::Root;

/// Where RDMA devices are.
const DEVICES: &str = "sys/class/infiniband";

/// A file of a port, and the name of its counter in the record.
#[derive(Debug, Clone, Copy)]
struct File {
    name: &'static str,
    path: &'static str,
    /// Bytes, or events, of one step.
    step: u64,
    /// Whether it may have 32 bits.
    narrow: bool,
}

/// A counter of 64 bits, of events or bytes.
const fn file(name: &'static str, path: &'static str) -> File {
    File { name, path, step: 1, narrow: false }
}

/// One of mlx5's queue counters: firmware has 32 bits (Linux, drivers/infiniband/hw/mlx5/counters.c,
/// mlx5_ib_query_q_counters).
const fn queue(name: &'static str, path: &'static str) -> File {
    File { narrow: true, ..file(name, path) }
}

/// The counter files of ports; each driver has some of them. Of several files with one name the
/// first that exists counts. Data is counted in units of four octets (Linux,
/// Documentation/ABI/stable/sysfs-class-infiniband), the rest in events (NVIDIA, "Understanding
/// mlx5 Linux Counters and Status Parameters"; Linux, drivers/infiniband/sw/rxe/rxe_hw_counters.c,
/// drivers/infiniband/hw/efa/efa_verbs.c and drivers/infiniband/hw/bnxt_re/hw_counters.c). Old ports have 32 bits.
const FILES: [File; 43] = [
    File { step: 4, narrow: true, ..file("tx_bytes", "counters/port_xmit_data") },
    file("tx_bytes", "hw_counters/tx_bytes"),
    File { step: 4, narrow: true, ..file("rx_bytes", "counters/port_rcv_data") },
    file("rx_bytes", "hw_counters/rx_bytes"),
    File { step: 1, narrow: true, ..file("xmit_wait", "counters/port_xmit_wait") },
    file("xmit_discards", "counters/port_xmit_discards"),
    file("xmit_discards", "hw_counters/tx_roce_discards"),
    file("rx_errors", "counters/port_rcv_errors"),
    file("rx_errors", "hw_counters/rx_roce_errors"),
    file("symbol_errors", "counters/symbol_error"),
    file("link_recoveries", "counters/link_error_recovery"),
    file("link_downs", "counters/link_downed"),
    file("integrity_errors", "counters/local_link_integrity_errors"),
    queue("out_of_sequence", "hw_counters/out_of_sequence"),
    file("out_of_sequence", "hw_counters/out_of_seq_request"),
    queue("sequence_errors", "hw_counters/packet_seq_err"),
    file("sequence_errors", "hw_counters/rcvd_seq_err"),
    file("sequence_errors", "hw_counters/seq_err_naks_rcvd"),
    queue("implied_sequence_errors", "hw_counters/implied_nak_seq_err"),
    queue("duplicate_requests", "hw_counters/duplicate_request"),
    file("duplicate_requests", "hw_counters/dup_req"),
    queue("ack_timeouts", "hw_counters/local_ack_timeout_err"),
    file("ack_timeouts", "hw_counters/completer_retry_err"),
    file("ack_timeouts", "hw_counters/to_retransmits"),
    // What the sender got: rxe counts what the receiver sent as send_rnr_err.
    queue("rnr_retries", "hw_counters/rnr_nak_retry_err"),
    file("rnr_retries", "hw_counters/rcvd_rnr_err"),
    file("rnr_retries", "hw_counters/rnr_naks_rcvd"),
    queue("retries_exceeded", "hw_counters/req_transport_retries_exceeded"),
    file("retries_exceeded", "hw_counters/retry_exceeded_err"),
    file("retries_exceeded", "hw_counters/max_retry_exceeded"),
    queue("adaptive_retransmits", "hw_counters/roce_adp_retrans"),
    file("icrc_errors", "hw_counters/rx_icrc_encapsulated"),
    file("retransmitted_bytes", "hw_counters/retrans_bytes"),
    file("cnp_sent", "hw_counters/np_cnp_sent"),
    file("cnp_sent", "hw_counters/tx_cnp_pkts"),
    file("cnp_handled", "hw_counters/rp_cnp_handled"),
    file("cnp_handled", "hw_counters/rx_cnp_pkts"),
    file("cnp_ignored", "hw_counters/rp_cnp_ignored"),
    file("ecn_marked", "hw_counters/np_ecn_marked_roce_packets"),
    file("ecn_marked", "hw_counters/rx_ecn_marked_pkts"),
    file("rx_dropped", "hw_counters/rx_drops"),
    file("rx_dropped", "hw_counters/rx_roce_discards"),
    file("link_downs", "hw_counters/link_downed"),
];

/// A port, and the files that it has.
struct Port {
    root: Root,
    name: String,
    folder: String,
    files: Vec<File>,
}

/// Adds every port of every RDMA device. Firmware answers slowly, so each port is a source of its
/// own.
pub(super) fn find(root: &Root, sources: &mut Vec<Arc<dyn Source>>, unread: &mut Vec<Unread>) {
    let mut silent = Vec::new();
    for device in root.names(DEVICES) {
        for number in root.names(&format!("{DEVICES}/{device}/ports")) {
            let folder = format!("{DEVICES}/{device}/ports/{number}");
            let name = format!("{device}/{number}");
            let mut port = Port { root: root.clone(), name, folder, files: Vec::new() };
            for file in FILES {
                if !port.has(file.name) && port.value(file.path).is_some() {
                    port.files.push(file);
                }
            }
            if !port.has("tx_bytes") {
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
    fn has(&self, counter: &str) -> bool {
        self.files.iter().any(|file| file.name == counter)
    }

    fn value(&self, file: &str) -> Option<u64> {
        self.root.text(Path::new(&self.folder).join(file))?.parse().ok()
    }
}

impl Source for Port {
    fn read(&self) -> Vec<Reading> {
        let counts: Vec<Count> = self
            .files
            .iter()
            .filter_map(|File { name, path, step, narrow }| {
                let value = self.value(path)?;
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
    use busbw_core::record::Meaning;

    use super::*;

    #[test]
    fn every_counter_means_something() {
        for File { name, .. } in FILES {
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
        write("rxe0/ports/1/hw_counters/send_rnr_err", "5\n");
        write("rxe0/ports/1/hw_counters/rcvd_rnr_err", "6\n");
        write("bnxt_re0/ports/1/hw_counters/tx_bytes", "64\n");
        write("bnxt_re0/ports/1/hw_counters/rnr_naks_rcvd", "7\n");
        write("mlx5_0/ports/1/counters/port_xmit_data", "N/A\n");
        let (mut sources, mut unread) = (Vec::new(), Vec::new());
        find(&Root::new(folder.path()), &mut sources, &mut unread);
        let readings: Vec<Reading> = sources.iter().flat_map(|source| source.read()).collect();
        let counts = |reading: &Reading| (reading.counts[0].name, reading.counts[0].value);
        let [bnxt, efa, rxe] = &readings[..] else { panic!("{readings:?}") };
        assert_eq!((bnxt.counts[1].name, bnxt.counts[1].value), ("rnr_retries", 7));
        assert_eq!((efa.device.as_str(), counts(efa)), ("efa0/1", ("tx_bytes", 8192)));
        assert_eq!((rxe.device.as_str(), counts(rxe)), ("rxe0/1", ("rnr_retries", 6)));
        assert_eq!((rxe.counts[1].name, rxe.counts[1].value), ("retries_exceeded", 4));
        assert_eq!(unread[0].devices, ["mlx5_0/1", "rxe0/1"]);
    }
}
