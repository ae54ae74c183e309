//! A record as it is listed: what ran on what, its best figure and how it ended; launches of a sweep as one.
//! Not their filter and not their table (`list_command`).

use std::path::{Path, PathBuf};

use busbw_core::{
    quantity::count,
    record::{Folded, Status},
};
use busbw_logs::measurement::{Figure, Measurement};
use busbw_store::{self as store, ReadError};
use serde::Serialize;

/// A run, or the launches of a sweep, as listed.
#[derive(Debug, Serialize)]
pub(super) struct Listed {
    /// The name that other commands take.
    pub id: String,
    #[serde(flatten)]
    pub about: About,
    /// The records.
    #[serde(skip)]
    pub paths: Vec<PathBuf>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum About {
    Run(Box<Summary>),
    /// A record that cannot be read, and why.
    Damaged {
        damaged: String,
    },
}

#[derive(Debug, Serialize)]
pub(super) struct Summary {
    pub started: String,
    pub host: String,
    pub device: String,
    pub collective: String,
    pub backend: String,
    /// NCCL's (or RCCL's) version, where it was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nccl: Option<String>,
    pub ranks: usize,
    pub rows: usize,
    /// GB/s, and the size at which, bytes; none of a latency test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_busbw: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_size: Option<u64>,
    /// Of a latency test, the time of its smallest message, microseconds, and its size, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_size: Option<u64>,
    /// Launches of a sweep or a tuning that this line stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launches: Option<usize>,
    /// Whether it is a tuning, whose launches leave no records here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_tuning: bool,
    pub verdict: String,
}

impl Listed {
    /// When it began, local time; none of what cannot be read.
    pub(super) fn started(&self) -> Option<&str> {
        match &self.about {
            About::Run(run) => Some(&run.started),
            About::Damaged { .. } => None,
        }
    }
}

/// Reads a record.
pub(super) fn read_record(path: &Path) -> Listed {
    let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let about = match store::read(path) {
        Ok(record) => About::Run(Box::new(summary(record))),
        Err(error) => About::Damaged { damaged: shorter(&error, path) },
    };
    Listed { id, about, paths: vec![path.to_owned()] }
}

/// Why a record cannot be read, without its path, which stands beside it.
fn shorter(error: &ReadError, path: &Path) -> String {
    let text = error.to_string();
    let path = path.display().to_string();
    text.replace(&format!("{path}, "), "")
        .replace(&format!("{path}: "), "")
        .replace(&format!("{path} "), "")
}

fn summary(record: Folded) -> Summary {
    let verdict = verdict(&record);
    let (started, host) = (record.run.started.clone(), record.run.machine.host.clone());
    let backend = record.run.plan.backend.name().to_owned();
    let run = Measurement::from_record(record, "");
    let times = run.test.figure == Figure::Latency;
    let peak = run.peak().filter(|_| !times).map(|peak| (peak.figure(), peak.row.size));
    let least = run.rows.iter().filter(|_| times).min_by_key(|row| row.size);
    let latency = least.and_then(|row| Some((run.halves(row).next()?.1.time_us?, row.size)));
    let device = run.devices.first().map_or(String::new(), |device| device.name.clone());
    Summary {
        started,
        host,
        device,
        collective: run.test_name().to_owned(),
        backend,
        nccl: run.nccl.clone(),
        ranks: run.rank_count().unwrap_or(0),
        rows: run.rows.len(),
        peak_busbw: peak.and_then(|(busbw, _)| busbw),
        peak_size: peak.map(|(_, size)| size),
        latency_us: latency.map(|(us, _)| us),
        latency_size: latency.map(|(_, size)| size),
        launches: None,
        is_tuning: false,
        verdict,
    }
}

fn verdict(record: &Folded) -> String {
    match &record.end {
        None => {
            let pending = record.unsettled() as u64;
            let rows = match pending {
                0 => String::new(),
                _ => format!("; {} of launches before the last", count(pending, "row")),
            };
            format!("no end: killed, or still running{rows}")
        }
        Some(end) if end.out_of_bounds > 0 => {
            format!("WRONG data in {}", count(end.out_of_bounds, "check"))
        }
        Some(end) => match end.status {
            Status::Complete => "ok".to_owned(),
            Status::Interrupted => "interrupted".to_owned(),
            Status::ReaderGone => "reader gone".to_owned(),
            Status::Failed => format!("failed (exit {})", end.exit.code()),
        },
    }
}

/// Launches of a sweep become one, where the first of them stood: with the best of their figures, and the first verdict that is
/// not ok.
pub(super) fn folded(all: Vec<Listed>) -> Vec<Listed> {
    let mut kept: Vec<Listed> = Vec::new();
    for one in all {
        let (Some(sweep), About::Run(run)) = (store::sweep_of(&one.id), &one.about) else {
            kept.push(one);
            continue;
        };
        let sweep = sweep.to_owned();
        let first = kept.iter_mut().find(|other| other.id == sweep);
        match first {
            Some(Listed { about: About::Run(sum), paths, .. }) => {
                sum.add(run);
                paths.extend(one.paths);
            }
            _ => {
                let Listed { about: About::Run(mut run), paths, .. } = one else { continue };
                run.launches = Some(1);
                kept.push(Listed { id: sweep, about: About::Run(run), paths });
            }
        }
    }
    kept
}

impl Summary {
    fn add(&mut self, other: &Summary) {
        self.launches = self.launches.map(|launches| launches + 1);
        self.rows = self.rows.saturating_add(other.rows);
        if other.peak_busbw > self.peak_busbw {
            (self.peak_busbw, self.peak_size) = (other.peak_busbw, other.peak_size);
        }
        if other.latency_us.is_some_and(|us| self.latency_us.is_none_or(|least| us < least)) {
            (self.latency_us, self.latency_size) = (other.latency_us, other.latency_size);
        }
        if self.verdict == "ok" {
            self.verdict.clone_from(&other.verdict);
        }
    }
}
