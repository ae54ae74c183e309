//! The counters of this host's GPUs, RDMA ports and interfaces while a row is measured.
//! docs/counters.md says what each counter proves.
//! Not which transports were set up: NCCL's log says that.

mod difference;
mod gpus;
mod interfaces;
mod pauses;
mod rdma;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use busbw_core::record::{Counted, DeviceCounters, DeviceKind, Unread};

use crate::machine::Root;

/// How long all devices together may take to answer: a broken one may never do.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// A source of counters. Each is read in a thread of its own, so that its devices do not wait for
/// those of others.
trait Source: Send + Sync {
    /// Its devices as they are now. A device that does not answer is missing, or has no counts.
    fn read(&self) -> Vec<Reading>;
}

/// The state of a device at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reading {
    device: String,
    kind: DeviceKind,
    counts: Vec<Count>,
    /// The reasons for lowered clocks.
    throttled: Vec<&'static str>,
    /// Errors reported since the last reading.
    xids: Vec<u64>,
}

/// The value of a counter at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Count {
    /// Its name in the record.
    name: &'static str,
    value: u64,
    /// The amount of one step, in the unit of its name.
    step: u64,
    /// Whether it may have 32 bits and wrap around.
    narrow: bool,
}

/// A device whose counters cannot be read.
fn silent(device: String, kind: DeviceKind) -> DeviceCounters {
    DeviceCounters {
        device,
        kind,
        grown: BTreeMap::new(),
        reset: Vec::new(),
        throttled: Vec::new(),
        xids: Vec::new(),
        lost: false,
    }
}

/// The counters of this host.
pub struct Counters {
    /// How long all devices together may take to answer.
    read_timeout: Duration,
    sources: Vec<Arc<dyn Source>>,
    counted: Option<Counted>,
    /// The readings before the current row.
    before: Option<Vec<Reading>>,
    /// Errors that GPUs' drivers reported and that no row has yet.
    xids: BTreeMap<String, Vec<u64>>,
}

impl Default for Counters {
    fn default() -> Counters {
        let (sources, xids) = (Vec::new(), BTreeMap::new());
        Counters { read_timeout: READ_TIMEOUT, sources, counted: None, before: None, xids }
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counters").field("counted", &self.counted).finish_non_exhaustive()
    }
}

impl Counters {
    /// Starts to watch the network and the GPUs at these PCI addresses, unless that was done
    /// before. AMD's GPUs have no counters here.
    pub fn watch(&mut self, root: &Root, gpus: Option<&[String]>) -> &Counted {
        if self.counted.is_none() {
            let (mut sources, mut unread) = (Vec::new(), Vec::new());
            match gpus {
                Some([]) => {}
                Some(gpus) => gpus::find(gpus, &mut sources, &mut unread),
                None => unread.push(Unread {
                    kind: DeviceKind::Gpu,
                    counter: None,
                    devices: Vec::new(),
                    reason: "only NVIDIA's GPUs are read, through NVML".to_owned(),
                }),
            }
            rdma::find(root, &mut sources, &mut unread);
            interfaces::find(root, &mut sources, &mut unread);
            self.sources = sources;
            let begun = Instant::now();
            let devices = self.look().into_iter().map(|reading| (reading.device, reading.kind));
            let devices = devices.collect();
            let reading_us = begun.elapsed().as_micros() as u64;
            self.counted = Some(Counted { devices, reading_us, unread });
        }
        // Bytes that moved before this launch's first row belong to no row.
        self.before = None;
        self.counted.get_or_insert_default()
    }

    /// Begins a row. Its counts start where those of the last row ended: ranks wait for every
    /// reading.
    pub fn before_row(&mut self) {
        if self.before.is_none() && !self.sources.is_empty() {
            self.before = Some(self.look());
        }
    }

    /// Ends a row. Returns what was counted since [`Counters::before_row`].
    pub fn after_row(&mut self) -> Vec<DeviceCounters> {
        let Some(before) = self.before.take() else { return Vec::new() };
        let now = self.look();
        let mut devices = difference::difference(&before, &now);
        self.before = Some(now);
        for (name, xids) in std::mem::take(&mut self.xids) {
            match devices.iter_mut().find(|other| other.device == name) {
                Some(device) => device.xids = xids,
                None => devices.push(DeviceCounters { xids, ..silent(name, DeviceKind::Gpu) }),
            }
        }
        devices
    }

    /// The errors that GPUs' drivers reported since the last row, by GPU: they may explain a failed
    /// run.
    pub fn unclaimed_xids(&mut self) -> BTreeMap<String, Vec<u64>> {
        self.look();
        std::mem::take(&mut self.xids)
    }

    /// Reads every source in a thread of its own, and drops a source that does not answer in time.
    fn look(&mut self) -> Vec<Reading> {
        let (answers, heard) = mpsc::channel();
        let mut missing = Vec::new();
        for (number, source) in self.sources.iter().enumerate() {
            let (source, answer) = (Arc::clone(source), answers.clone());
            let read = move || drop(answer.send((number, source.read())));
            // If the thread cannot be started, its devices count as lost, too.
            let _ = std::thread::Builder::new().name("counters".to_owned()).spawn(read);
            missing.push(number);
        }
        drop(answers);
        let mut readings = Vec::new();
        let due = Instant::now() + self.read_timeout;
        while let Ok((number, answer)) =
            heard.recv_timeout(due.saturating_duration_since(Instant::now()))
        {
            missing.retain(|other| *other != number);
            readings.extend(answer);
        }
        let mut number = 0..;
        self.sources.retain(|_| number.next().is_none_or(|number| !missing.contains(&number)));
        for reading in readings.iter_mut().filter(|reading| !reading.xids.is_empty()) {
            self.xids.entry(reading.device.clone()).or_default().append(&mut reading.xids);
        }
        readings.sort_by(|a, b| (a.kind, &a.device).cmp(&(b.kind, &b.device)));
        readings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    /// Answers when the test has nothing more to look at.
    struct Stuck(Arc<Barrier>);

    impl Source for Stuck {
        fn read(&self) -> Vec<Reading> {
            self.0.wait();
            Vec::new()
        }
    }

    #[test]
    fn a_device_that_never_answers_is_given_up() {
        let over = Arc::new(Barrier::new(2));
        let mut counters = Counters {
            read_timeout: Duration::from_millis(10),
            sources: vec![Arc::new(Stuck(Arc::clone(&over)))],
            ..Counters::default()
        };
        counters.before_row();
        assert!(counters.after_row().is_empty());
        assert!(counters.sources.is_empty());
        over.wait();
    }

    /// A GPU that reports an error at every reading.
    struct Failing;

    impl Source for Failing {
        fn read(&self) -> Vec<Reading> {
            let (device, kind) = ("0000:19:00".to_owned(), DeviceKind::Gpu);
            let (counts, throttled) = (Vec::new(), Vec::new());
            vec![Reading { device, kind, counts, throttled, xids: vec![79] }]
        }
    }

    #[test]
    fn no_error_of_a_gpu_is_forgotten() {
        let mut counters = Counters { sources: vec![Arc::new(Failing)], ..Counters::default() };
        counters.look();
        counters.before_row();
        let [gpu] = &counters.after_row()[..] else { panic!("there is one GPU") };
        assert_eq!(gpu.xids, [79, 79, 79]);
        assert_eq!(counters.unclaimed_xids()["0000:19:00"], [79]);
        assert!(counters.xids.is_empty());
    }

    #[test]
    fn the_network_of_a_recorded_tree() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let port = "sys/class/infiniband/mlx5_0/ports/1";
        let state = |data: &str, timeouts: &str, lo: &str| {
            write(&format!("{port}/counters/port_xmit_data"), data);
            write(&format!("{port}/counters/port_rcv_errors"), "0\n");
            write(&format!("{port}/hw_counters/local_ack_timeout_err"), timeouts);
            let head = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop\n";
            let none = "0 0 0 0 0 0 0 0";
            write("proc/net/dev", &format!("{head}    lo: {lo} 1 {none} {none}\n"));
        };
        state("4294967290\n", "7\n", "1000");
        let mut counters = Counters::default();
        let counted = counters.watch(&Root::new(folder.path()), None).clone();
        assert_eq!(counted.devices["mlx5_0/1"], DeviceKind::Rdma);
        assert_eq!(counted.devices["lo"], DeviceKind::Interface);
        assert!(counters.after_row().is_empty(), "no row was begun");
        counters.before_row();
        state("4\n", "9\n", "5000");
        let [rdma, lo] = &counters.after_row()[..] else { panic!("two devices have changed") };
        // Ten steps over the end of 32 bits, of four bytes each.
        let grown: Vec<_> = rdma.grown.iter().map(|(name, by)| (name.as_str(), *by)).collect();
        assert_eq!(grown, [("ack_timeouts", 2), ("tx_bytes", 40)]);
        assert_eq!((lo.device.as_str(), lo.moved()), ("lo", 4000));
        counters.before_row();
        std::fs::remove_dir_all(folder.path().join("sys")).unwrap();
        let after = counters.after_row();
        assert!(
            matches!(&after[..], [gone] if gone.lost && gone.device == "mlx5_0/1"),
            "{after:?}"
        );
    }
}
