//! The data folder, a path for a new record, and finding one again by its name.
//! Not reading or writing.

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context, Result, bail};
use jiff::{Zoned, civil::DateTime};

use super::reader;

/// Extension of records.
const EXTENSION: &str = "jsonl";

/// `$XDG_DATA_HOME/busbw/runs`, or its default.
fn folder() -> Result<PathBuf> {
    Ok(data_folder()?.join("runs"))
}

fn data_folder() -> Result<PathBuf> {
    let data = dirs::data_dir().context(
        "there is no data folder for records: set HOME or XDG_DATA_HOME, give --record PATH, or use --no-record",
    )?;
    Ok(data.join("busbw"))
}

/// A path for the result of sweep `id`; creates its folder.
///
/// # Errors
/// There is no data folder, or it cannot be created.
pub fn new_result_path(id: &str) -> Result<PathBuf> {
    let folder = data_folder()?.join("sweeps");
    fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make the folder for results, {}", folder.display()))?;
    Ok(folder.join(format!("{id}.json")))
}

/// The result of the sweep with this id, as `busbw list` shows it.
///
/// # Errors
/// There is no data folder, or no such result.
pub fn find_result(id: &Path) -> Result<PathBuf> {
    let text = id.to_string_lossy();
    if id.components().count() != 1 || sweep_of(&format!("{text}-1-1")) != Some(&*text) {
        bail!("{text} is no id of a sweep");
    }
    let path = data_folder()?.join("sweeps").join(format!("{text}.json"));
    if path.is_file() { Ok(path) } else { bail!("there is no result {}", path.display()) }
}

/// The results in the data folder, in the order of their ids.
///
/// # Errors
/// There is no data folder.
pub fn results() -> Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(data_folder()?.join("sweeps")) else { return Ok(Vec::new()) };
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "json") && path.is_file())
        .collect();
    paths.sort();
    Ok(paths)
}

/// The records of the launches of a sweep, by its id.
///
/// # Errors
/// There is no data folder.
pub fn launches_of(sweep: &Path) -> Result<Vec<PathBuf>> {
    let id = |path: &PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let of_it = |path: &PathBuf| {
        id(path).is_some_and(|id| sweep_of(&id).is_some_and(|of| Path::new(of) == sweep))
    };
    Ok(records()?.into_iter().filter(of_it).collect())
}

/// The id of the sweep whose launch a run was, by its own: DATE-TIME-sweep-PROGRAM-PROCESS-ENVIRONMENT-LAUNCH.
pub fn sweep_of(run: &str) -> Option<&str> {
    let ends: Vec<usize> = run.match_indices('-').map(|(at, _)| at).collect();
    let mut words = run.split('-');
    let command = words.nth(2)?;
    let process = words.nth(1)?;
    let is_sweep = matches!(command, "sweep" | "transports" | "tune") && ends.len() >= 6;
    let numbered = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
    run.get(..*ends.get(4)?).filter(|_| is_sweep && numbered)
}

/// A path for the record of run `id`; creates its folder.
///
/// # Errors
/// There is no data folder, or it cannot be created.
pub fn new_path(id: &str) -> Result<PathBuf> {
    let folder = folder()?;
    fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make the folder for records, {}", folder.display()))?;
    Ok(folder.join(format!("{id}.{EXTENSION}")))
}

/// The record that `name` selects: a file, the id of a run, the beginning of one, or the newest
/// run.
///
/// # Errors
/// No record matches, or several do.
pub fn find(name: Option<&Path>) -> Result<PathBuf> {
    let Some(name) = name else { return newest() };
    if name.is_file() {
        return Ok(name.to_owned());
    }
    let text = name.to_string_lossy();
    if name.components().count() != 1 {
        bail!("there is no record {text}");
    }
    let mut matching = records()?.into_iter().filter(|path| {
        path.file_stem().is_some_and(|stem| stem.to_string_lossy().starts_with(&*text))
    });
    let first = matching.next().with_context(|| {
        format!(
            "{text} is no file, and no run in {} has an id that begins like it",
            folder().unwrap_or_default().display()
        )
    })?;
    match matching.next() {
        None => Ok(first),
        Some(second) => bail!(
            "{text} could be {} or {}: write more of it",
            first.file_stem().unwrap_or_default().to_string_lossy(),
            second.file_stem().unwrap_or_default().to_string_lossy()
        ),
    }
}

fn newest() -> Result<PathBuf> {
    let mut last = last(1)?;
    last.pop()
        .with_context(|| "there is no record yet: run a benchmark first, such as busbw all_reduce")
}

/// The newest records, at most `count`, the oldest of them first.
///
/// # Errors
/// There is no data folder.
pub fn last(count: usize) -> Result<Vec<PathBuf>> {
    let mut paths = records()?;
    paths.sort_by_cached_key(|path| age(path));
    Ok(paths.split_off(paths.len().saturating_sub(count)))
}

/// When a run began, as its record says: copies and late writes do not make it newer. A file that
/// does not say it is sorted by its last write. Runs of the same second are in the order of
/// writing.
fn age(path: &Path) -> (Option<DateTime>, Option<SystemTime>) {
    let written = fs::metadata(path).and_then(|about| about.modified()).ok();
    let began = reader::started(path).and_then(|text| text.parse().ok());
    let local = |time: SystemTime| Some(Zoned::try_from(time).ok()?.datetime());
    (began.or_else(|| written.and_then(local)), written)
}

/// All records.
fn records() -> Result<Vec<PathBuf>> {
    let folder = folder()?;
    let Ok(entries) = fs::read_dir(&folder) else { return Ok(Vec::new()) };
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        // Opening a pipe would block until somebody writes.
        .filter(|path| path.extension().is_some_and(|e| e == EXTENSION) && path.is_file())
        .collect();
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_name_their_sweep() {
        let sweep = "20261124-155647-sweep-all_reduce_perf-6590";
        assert_eq!(sweep_of(&format!("{sweep}-1-2")), Some(sweep));
        assert_eq!(sweep_of(&format!("{sweep}-ring-ll128-2")), Some(sweep));
        for other in [sweep, "20261124-155647-all_reduce_perf-6590", "x", "a-b-sweep-d-e-1-1"] {
            assert_eq!(sweep_of(other), None, "{other}");
        }
        assert!(find_result(Path::new("../sweeps/x")).is_err());
    }
}
