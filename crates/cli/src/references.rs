//! What others measured, shipped in the program: tables with their hardware and source.
//! Not what the hardware allows (`model::limits`), and not this machine's history (`store`).

use anyhow::{Context, Result};
use model::{Collective, measurement::Measurement};

use crate::import;

/// A set of runs on one system.
#[derive(Debug)]
pub struct Reference {
    /// What `--with` calls it.
    pub name: &'static str,
    /// Its hardware, and what else the figures depend on.
    pub hardware: &'static str,
    /// Words of which a run's devices must have one to be of like hardware.
    gpu: &'static str,
    /// Who measured it, and how it came here.
    pub source: &'static str,
    text: &'static str,
}

const REPORT: &str = "a public write-up; its table as published";
const OURS: &str =
    "our own, nccl-tests 2.19.6, NCCL 2.28.9, driver 580, CUDA 13.0, NVLink multicast (NVLS) off";

macro_rules! reference {
    ($name:literal, $gpu:literal, $source:expr, $hardware:literal) => {
        Reference {
            name: $name,
            hardware: $hardware,
            gpu: $gpu,
            source: $source,
            text: include_str!(concat!("../references/", $name, ".jsonl")),
        }
    };
}

static ALL: [Reference; 12] = [
    reference!(
        "8x-h200-nvlink",
        "H200",
        OURS,
        "one host, 8 × H200, NVLink 4; `-g 8` in one process"
    ),
    reference!(
        "8x-h200-shm",
        "H200",
        OURS,
        "one host, 8 × H200, NCCL_P2P_DISABLE=1: through host memory"
    ),
    reference!(
        "8x-h200-socket-lo",
        "H200",
        OURS,
        "one host, 8 × H200, P2P and SHM off: sockets over loopback, defaults"
    ),
    reference!("8x-h200-socket-lo-tuned", "H200", OURS, "the same with 4 threads × 4 sockets"),
    reference!("8x-h800-nvlink", "H800", REPORT, "one host, 8 × H800, NVLink 4 with 8 links a GPU"),
    reference!("8x-h100-nvlink", "H100", REPORT, "one host, 8 × H100, NVLink 4"),
    reference!(
        "16x-h100-8x-400gbps-ib",
        "H100",
        REPORT,
        "2 hosts of 8 × H100, 8 × 400 Gb/s InfiniBand each"
    ),
    reference!(
        "16x-h100-4x-400gbps-ib",
        "H100",
        REPORT,
        "2 hosts of 8 × H100, 4 × 400 Gb/s InfiniBand each"
    ),
    reference!(
        "32x-h800-4x-400gbps-ib",
        "H800",
        REPORT,
        "4 hosts of 8 × H800, 4 × 400 Gb/s InfiniBand each; the figures of its all_reduce are those of 16 ranks"
    ),
    reference!("2x4-gb200-mnnvl", "GB200", REPORT, "2 hosts of 4 × GB200 in one NVLink 5 domain"),
    reference!(
        "2x4-gb200-400gbps-ib",
        "GB200",
        REPORT,
        "the same with NVLink between hosts off: 400 Gb/s InfiniBand each"
    ),
    reference!(
        "2x-h100-2x-200gbps-roce-osu",
        "H100",
        REPORT,
        "2 hosts of H100, 2 × 200 Gb/s RoCE a pair: OSU's latency and bandwidth"
    ),
];

/// All of them.
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
    /// None that a test has not seen: the text is part of the program.
    pub fn runs(&self) -> Result<Vec<Measurement>> {
        let read = import::read(self.text.as_bytes(), self.name)
            .with_context(|| format!("the reference {} is damaged", self.name))?;
        Ok(read.measurements)
    }
}

/// The reference whose hardware is nearest to that of some runs: of those that measured one of their
/// collectives on as many ranks, one with the same GPU before others; and whether the GPU is the same.
pub fn nearest(runs: &[Measurement]) -> Option<(&'static Reference, bool)> {
    let collectives: Vec<Collective> = runs.iter().filter_map(Measurement::collective).collect();
    let ranks: Vec<usize> = runs.iter().filter_map(Measurement::rank_count).collect();
    let has_gpu = |gpu: &str| {
        let mut devices = runs.iter().flat_map(|run| &run.devices);
        devices.any(|device| device.name.split([' ', '-']).any(|word| word == gpu))
    };
    let likeness = |one: &Reference| {
        let theirs = one.runs().unwrap_or_default();
        let shared = theirs.iter().any(|run| {
            run.collective().is_some_and(|c| collectives.contains(&c))
                && run.rank_count().is_some_and(|n| ranks.contains(&n))
        });
        shared.then(|| has_gpu(one.gpu))
    };
    let mut best: Option<(bool, &Reference)> = None;
    for one in all() {
        if let Some(likeness) = likeness(one).filter(|found| best.is_none_or(|(b, _)| *found && !b))
        {
            best = Some((likeness, one));
        }
    }
    best.map(|(same, one)| (one, same))
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
            Some(("8x-h200-nvlink", false))
        );
        let h200 = find("8x-h200-shm").unwrap().runs().unwrap();
        assert_eq!(
            nearest(&h200).map(|(one, same)| (one.name, same)),
            Some(("8x-h200-nvlink", true))
        );
        assert!(nearest(&[]).is_none());
    }
}
