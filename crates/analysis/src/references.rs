//! What others measured, shipped in the program: tables with their hardware and source.
//! Not what the hardware allows (`busbw_hardware::limits`), and not this machine's history (`busbw-store`).

use anyhow::{Context, Result};
use busbw_hardware::machine::models;
use busbw_logs::measurement::Measurement;

use busbw_logs::import;

/// A set of runs on one system.
#[derive(Debug)]
pub struct Reference {
    /// Its name for `--with`.
    pub name: &'static str,
    /// Its hardware, and other conditions of the figures.
    pub hardware: &'static str,
    /// The GPU, as `machine::models` calls it.
    pub gpu: &'static str,
    /// Number of hosts.
    pub hosts: usize,
    /// Who measured it, and how it came here.
    pub source: &'static str,
    text: &'static str,
}

const REPORT: &str = "a public write-up; its table as published";
const OURS: &str =
    "our own, nccl-tests 2.19.6, NCCL 2.28.9, driver 580, CUDA 13.0, NVLink multicast (NVLS) off";

macro_rules! reference {
    ($name:literal, $hosts:literal, $gpu:literal, $source:expr, $hardware:literal) => {
        Reference {
            name: $name,
            hardware: $hardware,
            gpu: $gpu,
            hosts: $hosts,
            source: $source,
            text: include_str!(concat!("../references/", $name, ".jsonl")),
        }
    };
}

static ALL: [Reference; 12] = [
    reference!(
        "8x-h200-nvlink",
        1,
        "H200 SXM",
        OURS,
        "one host, 8 × H200, NVLink 4; `-g 8` in one process"
    ),
    reference!(
        "8x-h200-shm",
        1,
        "H200 SXM",
        OURS,
        "one host, 8 × H200, NCCL_P2P_DISABLE=1: through host memory"
    ),
    reference!(
        "8x-h200-socket-lo",
        1,
        "H200 SXM",
        OURS,
        "one host, 8 × H200, P2P and SHM off: sockets over loopback, defaults"
    ),
    reference!(
        "8x-h200-socket-lo-tuned",
        1,
        "H200 SXM",
        OURS,
        "the same with 4 threads × 4 sockets"
    ),
    reference!(
        "8x-h800-nvlink",
        1,
        "H800 SXM",
        REPORT,
        "one host, 8 × H800, NVLink 4 with 8 links a GPU"
    ),
    reference!("8x-h100-nvlink", 1, "H100 SXM", REPORT, "one host, 8 × H100, NVLink 4"),
    reference!(
        "16x-h100-8x-400gbps-ib",
        2,
        "H100 SXM",
        REPORT,
        "2 hosts of 8 × H100, 8 × 400 Gb/s InfiniBand each"
    ),
    reference!(
        "16x-h100-4x-400gbps-ib",
        2,
        "H100 SXM",
        REPORT,
        "2 hosts of 8 × H100, 4 × 400 Gb/s InfiniBand each"
    ),
    reference!(
        "32x-h800-4x-400gbps-ib",
        4,
        "H800 SXM",
        REPORT,
        "4 hosts of 8 × H800, 4 × 400 Gb/s InfiniBand each; the figures of its all_reduce are those of 16 ranks"
    ),
    reference!(
        "2x4-gb200-mnnvl",
        2,
        "GB200",
        REPORT,
        "2 hosts of 4 × GB200 in one NVLink 5 domain"
    ),
    reference!(
        "2x4-gb200-400gbps-ib",
        2,
        "GB200",
        REPORT,
        "the same with NVLink between hosts off: 400 Gb/s InfiniBand each"
    ),
    reference!(
        "2x-h100-2x-200gbps-roce-osu",
        2,
        "H100 SXM",
        REPORT,
        "2 hosts of H100, 2 × 200 Gb/s RoCE a pair: OSU's latency and bandwidth"
    ),
];

/// All references.
pub fn all() -> &'static [Reference] {
    &ALL
}

/// The one of that name, or the only one whose name begins so.
pub fn find(name: &str) -> Option<&'static Reference> {
    let mut alike = all().iter().filter(|one| one.name.starts_with(name));
    let exact = all().iter().find(|one| one.name == name);
    exact.or_else(|| alike.next().filter(|_| alike.next().is_none()))
}

impl Reference {
    /// Its runs.
    ///
    /// # Errors
    /// None in practice: the text is part of the program, and a test reads it.
    pub fn runs(&self) -> Result<Vec<Measurement>> {
        let read = import::read(self.text.as_bytes(), self.name)
            .with_context(|| format!("the reference {} is damaged", self.name))?;
        Ok(read.measurements)
    }
}

/// How similar a reference's hardware is to that of some runs, the most similar last.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Likeness {
    /// Another GPU, or the runs do not name theirs.
    Other,
    /// The same chip on another or unknown board: links and power differ.
    OtherBoard(String),
    /// The same GPU.
    Same,
}

impl Likeness {
    /// Why a reference with this GPU was taken.
    pub fn words(&self, gpu: &str) -> String {
        match self {
            Likeness::Same => "the nearest by hardware".to_owned(),
            Likeness::OtherBoard(device) => format!(
                "the same test on as many ranks; its GPUs are {gpu}, the runs name {device}: links may differ"
            ),
            Likeness::Other => {
                "the same test on as many ranks; none has the same GPU, or the runs do not name theirs"
                    .to_owned()
            }
        }
    }

    fn of(runs: &[Measurement], gpu: &str) -> Likeness {
        let names = || runs.iter().flat_map(|run| &run.devices).map(|device| device.name.as_str());
        let is_it = |name: &str| models::find(name).is_some_and(|model| model.name == gpu);
        if names().next().is_some() && names().all(is_it) {
            return Likeness::Same;
        }
        let chip = gpu.split(' ').next().unwrap_or(gpu);
        let other = names().find(|name| name.split([' ', '-']).any(|word| word == chip));
        other.map_or(Likeness::Other, |name| Likeness::OtherBoard(name.to_owned()))
    }
}

/// The reference whose hardware is nearest to that of some runs: of those that measured one of their
/// collectives on as many ranks and, where the runs tell theirs, hosts.
pub fn nearest(runs: &[Measurement]) -> Option<(&'static Reference, Likeness)> {
    let mut best: Option<(Likeness, &Reference)> = None;
    for one in all() {
        let theirs = one.runs().unwrap_or_default();
        let shared = runs.iter().any(|ours| {
            ours.hosts.is_none_or(|hosts| hosts == one.hosts)
                && ours.rank_count().is_some()
                && ours.collective().is_some()
                && theirs.iter().any(|run| {
                    run.collective() == ours.collective() && run.rank_count() == ours.rank_count()
                })
        });
        let likeness = Likeness::of(runs, one.gpu);
        if shared && best.as_ref().is_none_or(|(found, _)| likeness > *found) {
            best = Some((likeness, one));
        }
    }
    best.map(|(likeness, one)| (one, likeness))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_is_whole() {
        for one in all() {
            let runs = one.runs().unwrap();
            assert!(!runs.is_empty(), "{}", one.name);
            for run in &runs {
                assert!(
                    !run.rows.is_empty() && run.rank_count().is_some(),
                    "{}: {run:?}",
                    one.name
                );
            }
            assert!(models::find(one.gpu).is_some(), "{}", one.name);
            assert!(
                runs.iter().all(|run| run.hosts.is_none_or(|n| n == one.hosts)),
                "{}",
                one.name
            );
            assert_eq!(find(one.name).map(|found| found.name), Some(one.name));
        }
        assert_eq!(find("8x-h800").map(|one| one.name), Some("8x-h800-nvlink"));
        assert!(find("8x-h200").is_none(), "four begin so");
    }

    #[test]
    fn the_nearest_has_the_same_gpu() {
        let runs = find("8x-h800-nvlink").unwrap().runs().unwrap();
        // Its table names no device, and another of 8 ranks comes first.
        assert_eq!(
            nearest(&runs).map(|(one, same)| (one.name, same)),
            Some(("8x-h200-nvlink", Likeness::Other))
        );
        let h200 = find("8x-h200-shm").unwrap().runs().unwrap();
        assert_eq!(
            nearest(&h200).map(|(one, same)| (one.name, same)),
            Some(("8x-h200-nvlink", Likeness::Same))
        );
        assert!(nearest(&[]).is_none());
        // Another board with the same chip is not the same GPU, and the answer says so.
        let mut board = h200.clone();
        board[0].devices.iter_mut().for_each(|device| device.name = "NVIDIA H200 NVL".to_owned());
        let (_, likeness) = nearest(&board).unwrap();
        assert_eq!(likeness, Likeness::OtherBoard("NVIDIA H200 NVL".to_owned()));
        assert!(likeness.words("H200 SXM").contains("the runs name NVIDIA H200 NVL"));
        // Eight ranks on two hosts are not eight on one.
        let mut spread = h200;
        spread[0].hosts = Some(2);
        assert!(nearest(&spread).is_some_and(|(one, _)| one.name.starts_with("2x4-gb200")));
        spread[0].hosts = Some(8);
        assert!(nearest(&spread).is_none());
    }
}
