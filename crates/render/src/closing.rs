//! The evidence sentence on stderr: the transports that NCCL or MPI set up or the net plugin that was
//! used, and the devices that counted bytes.
//! It reports the counters and nothing more: neither whose bytes they are, nor paths that no device
//! counts.

use busbw_core::quantity::decimal_bytes;
use std::collections::BTreeMap;

use busbw_core::record::{
    Counted, DeviceCounters, DeviceKind, LibraryFacts, Meaning, NetFacts, Row, Unread, VerbsFacts,
    plugins_used, rdma_devices_used,
};
use busbw_library_logs::{
    mpi::{MpiFacts, transports_named},
    nccl::{NcclFacts, transports_set_up},
};

/// A network device that moved less than this share of what the busiest one moved is not named.
const MIN_NAMED_SHARE: f64 = 0.01;

/// The input of the sentence, as it arrives.
#[derive(Debug, Default)]
pub struct Closing {
    /// The reports of all processes' NCCL, without the parts that the sentence does not need.
    libraries: Vec<NcclFacts>,
    /// The last report of MPI, by rank.
    mpi: BTreeMap<usize, MpiFacts>,
    /// The reports of net plugins.
    net: Vec<NetFacts>,
    /// The RDMA devices of ranks.
    verbs: Vec<VerbsFacts>,
    /// Bytes that left all GPUs over NVLink.
    nvlink: u64,
    /// Bytes that each network device moved in its busier direction.
    network: BTreeMap<(DeviceKind, String), u64>,
    /// Whether counters were read in some row.
    rows: bool,
}

impl Closing {
    /// Adds a library's report from one process.
    pub fn library(&mut self, said: &LibraryFacts) {
        match said {
            LibraryFacts::Nccl(facts) => {
                let (choices, graphs) = (Vec::new(), Vec::new());
                self.libraries.push(NcclFacts { choices, graphs, ..(**facts).clone() });
            }
            LibraryFacts::Mpi(facts) => drop(self.mpi.insert(facts.rank, (**facts).clone())),
            LibraryFacts::Net(facts) => self.net.push((**facts).clone()),
            LibraryFacts::Verbs(facts) => self.verbs.push((**facts).clone()),
            // Used by `explain` alone.
            LibraryFacts::Paths(_) => {}
        }
    }

    /// A row of any launch.
    pub fn row(&mut self, row: &Row) {
        self.rows |= row.out_of_place.is_some();
        self.devices(&row.counters);
    }

    fn devices(&mut self, counters: &[DeviceCounters]) {
        for device in counters {
            match device.kind {
                DeviceKind::Gpu => {
                    let sent = device.of(Meaning::Sent).map(|(_, by)| by);
                    self.nvlink = sent.fold(self.nvlink, u64::saturating_add);
                }
                kind => {
                    let sum = self.network.entry((kind, device.device.clone())).or_default();
                    *sum = sum.saturating_add(device.moved());
                }
            }
        }
    }

    /// The sentence, if there is a report or a count.
    pub fn sentence(&self, counted: Option<&Counted>) -> Option<String> {
        let mut parts = Vec::new();
        if !self.libraries.is_empty() {
            parts.push(transports_set_up(&self.libraries));
        }
        if !self.mpi.is_empty() {
            let all: Vec<MpiFacts> = self.mpi.values().cloned().collect();
            parts.push(transports_named(&all));
        }
        if !self.net.is_empty() {
            parts.push(plugins_used(&self.net));
        }
        if !self.verbs.is_empty() {
            parts.push(rdma_devices_used(&self.verbs));
        }
        if let Some(counted) = counted.filter(|_| self.rows) {
            parts.push(format!("counters: {}", self.moved(counted)));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    fn moved(&self, counted: &Counted) -> String {
        let gpus: Vec<&Unread> = unread(counted, |kind| kind == DeviceKind::Gpu).collect();
        let is_read = |kind| counted.devices.values().any(|other| *other == kind);
        let mut parts = Vec::new();
        match (self.nvlink, gpus.first()) {
            (0, Some(unread)) => parts.push(format!("NVLink was not read ({})", unread.reason)),
            // Without GPUs there is none.
            (0, None) if !is_read(DeviceKind::Gpu) => {}
            (0, None) => parts.push("NVLink moved nothing".to_owned()),
            (moved, None) => parts.push(format!("NVLink moved {}", decimal_bytes(moved))),
            (moved, Some(_)) => {
                parts.push(format!("NVLink moved {}, not read on all GPUs", decimal_bytes(moved)));
            }
        }
        let most = self.network.values().copied().max().unwrap_or(0).max(self.nvlink);
        let busy =
            self.network.iter().filter(|(_, moved)| **moved as f64 > MIN_NAMED_SHARE * most as f64);
        let busy: Vec<String> =
            busy.map(|((_, name), moved)| format!("{name} {}", decimal_bytes(*moved))).collect();
        if !busy.is_empty() {
            parts.push(busy.join(", "));
        } else if is_read(DeviceKind::Interface) || is_read(DeviceKind::Rdma) {
            let devices = "no network device of this host moved";
            parts.push(match self.nvlink {
                0 => format!("{devices} anything"),
                _ => format!("{devices} more than 1 % of that"),
            });
        }
        for unread in unread(counted, |kind| kind != DeviceKind::Gpu) {
            let names = match unread.devices.as_slice() {
                [] => "network interfaces".to_owned(),
                devices => devices.join(", "),
            };
            parts.push(format!("not read: {names} ({})", unread.reason));
        }
        parts.join(", ")
    }
}

/// Why the bytes of some kinds of devices are not counted.
fn unread(counted: &Counted, of: impl Fn(DeviceKind) -> bool) -> impl Iterator<Item = &Unread> {
    counted.unread.iter().filter(move |unread| of(unread.kind) && unread.hides_bytes())
}

#[cfg(test)]
mod tests {
    use busbw_library_logs::nccl::parse;

    use super::*;

    fn counted(unread: &[(DeviceKind, &str)]) -> Counted {
        let devices = [("0000:19:00", DeviceKind::Gpu), ("lo", DeviceKind::Interface)];
        let unread = unread.iter().map(|(kind, counter)| Unread {
            kind: *kind,
            counter: Some((*counter).to_owned()),
            devices: vec!["it".to_owned()],
            reason: "why".to_owned(),
        });
        let devices = devices.map(|(name, kind)| (name.to_owned(), kind)).into();
        Counted { devices, reading_us: 0, unread: unread.collect() }
    }

    fn closing(gpu: u64, lo: u64) -> Closing {
        let mut closing = Closing { rows: true, ..Closing::default() };
        let device = |device: &str, kind, name: &str, by| DeviceCounters {
            device: device.to_owned(),
            kind,
            grown: [(name.to_owned(), by)].into(),
            reset: Vec::new(),
            throttled: Vec::new(),
            xids: Vec::new(),
            lost: false,
        };
        closing.devices(&[
            device("0000:19:00", DeviceKind::Gpu, "nvlink_tx_bytes", gpu),
            device("lo", DeviceKind::Interface, "rx_bytes", lo),
        ]);
        closing
    }

    #[test]
    fn what_the_counters_show() {
        let said = |gpu, lo| closing(gpu, lo).sentence(Some(&counted(&[]))).unwrap();
        let nothing_else = "no network device of this host moved more than 1 % of that";
        assert_eq!(said(812 << 30, 5), format!("counters: NVLink moved 872 GB, {nothing_else}"));
        assert_eq!(said(0, 24_000_000), "counters: NVLink moved nothing, lo 24.0 MB");
        assert_eq!(said(1_000, 11), "counters: NVLink moved 1.00 kB, lo 11 B");
        let nothing =
            "counters: NVLink moved nothing, no network device of this host moved anything";
        assert_eq!(said(0, 0), nothing);
    }

    #[test]
    fn what_was_not_read_is_said() {
        let unread =
            counted(&[(DeviceKind::Gpu, "nvlink_tx_bytes"), (DeviceKind::Rdma, "tx_bytes")]);
        let said = closing(0, 7).sentence(Some(&unread)).unwrap();
        assert_eq!(said, "counters: NVLink was not read (why), lo 7 B, not read: it (why)");
        let said = closing(5000, 7).sentence(Some(&unread)).unwrap();
        assert!(said.contains("NVLink moved 5.00 kB, not read on all GPUs, no network"), "{said}");
        let errors = counted(&[(DeviceKind::Gpu, "nvlink_replays")]);
        assert!(!closing(5, 0).sentence(Some(&errors)).unwrap().contains("not read"));
    }

    #[test]
    fn set_up_and_counted_are_two_things() {
        let mut closing = closing(5000, 7);
        let line = "vm:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n";
        let facts = parse(&format!("{line}vm:1:1 [0] NCCL INFO Connected all rings\n"));
        closing.library(&LibraryFacts::Nccl(facts.into()));
        let said = closing.sentence(Some(&counted(&[]))).unwrap();
        let begin = "transports set up: 1 connection P2P/CUMEM; counters: NVLink moved 5.00 kB, ";
        assert!(said.starts_with(begin), "{said}");
        assert_eq!(Closing::default().sentence(Some(&counted(&[]))), None);
    }

    #[test]
    fn the_last_word_of_an_mpi_counts_and_there_is_no_nvlink_without_gpus() {
        let mut closing = Closing { rows: true, ..closing(0, 24_000_000) };
        for tcp in [1, 3] {
            let btls = [("tcp".to_owned(), vec![[1, tcp]])].into();
            let facts = MpiFacts { pml: Some("ob1".to_owned()), btls, ..MpiFacts::default() };
            closing.library(&LibraryFacts::Mpi(facts.into()));
        }
        let mut counted = counted(&[]);
        counted.devices.retain(|_, kind| *kind != DeviceKind::Gpu);
        let begin = "transports set up: PML ob1, 3 connections tcp (Open MPI's log); ";
        let said = closing.sentence(Some(&counted)).unwrap();
        assert_eq!(said, format!("{begin}counters: lo 24.0 MB"));
    }

    #[test]
    fn amounts() {
        for (amount, text) in
            [(999, "999 B"), (9_994, "9.99 kB"), (9_996, "10.0 kB"), (123_456_789, "123 MB")]
        {
            assert_eq!(decimal_bytes(amount), text);
        }
    }
}
