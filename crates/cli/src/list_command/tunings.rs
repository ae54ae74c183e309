//! The tunings of the data folder as they are listed.
//! Not their launches, which leave no records there.

use std::{
    fs,
    path::{Path, PathBuf},
};

use busbw_store as store;
use busbw_tune::{Advice, tuned};
use serde::Deserialize;

use super::summary::{About, Listed, Summary};

/// The word of a tuning's id, behind its date and time.
const COMMAND: &str = "tune";
/// The most bytes of a result that are read.
const MAX_BYTES: u64 = 64 << 20;

/// What the result of a tuning, and the state of one under way, have in common.
#[derive(Deserialize)]
struct Head {
    tune_schema: u32,
    started: String,
    backend: String,
    ranks: usize,
    nccl: Option<String>,
    interrupted: bool,
    /// Absent in a state.
    outcome: Option<Outcome>,
    #[serde(default)]
    history: Vec<serde::de::IgnoredAny>,
}

/// The part of an outcome that is listed.
#[derive(Deserialize)]
struct Outcome {
    advice: Advice,
}

/// All of them, the oldest first; what cannot be read is none.
pub(super) fn all() -> Vec<Listed> {
    let paths = store::results().unwrap_or_default();
    paths.iter().filter_map(|path| read(path)).collect()
}

fn read(path: &Path) -> Option<Listed> {
    let id = path.file_stem()?.to_str()?.to_owned();
    let mut words = id.split('-');
    if words.nth(2) != Some(COMMAND) || fs::metadata(path).ok()?.len() > MAX_BYTES {
        return None;
    }
    let benchmark = words.next()?.trim_end_matches("_perf").to_owned();
    let head: Head = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    if head.tune_schema != tuned::SCHEMA {
        return None;
    }
    let verdict = match &head.outcome {
        Some(outcome) if outcome.advice == Advice::Repair => "failed",
        Some(_) if !head.interrupted => "ok",
        // As of a record without an end: such a file may still be written to.
        _ => "no end: interrupted, or still running",
    };
    let file = path.with_extension("csv");
    let paths: Vec<PathBuf> =
        [path.to_owned(), file].into_iter().filter(|path| path.is_file()).collect();
    let summary = Summary {
        started: head.started,
        host: String::new(),
        device: String::new(),
        collective: benchmark,
        backend: head.backend,
        nccl: head.nccl,
        ranks: head.ranks,
        rows: 0,
        peak_busbw: None,
        peak_size: None,
        latency_us: None,
        latency_size: None,
        launches: Some(head.history.len()),
        is_tuning: true,
        verdict: verdict.to_owned(),
    };
    Some(Listed { id, about: About::Run(Box::new(summary)), paths })
}
