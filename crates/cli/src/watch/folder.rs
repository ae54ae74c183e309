//! Finding a job's files and reading what was added to them.
//! Not their lines (`busbw_watch_file`).

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context, Result};
use busbw_core::exit::{Exit, ExitError};
use busbw_watch_file::WatchFile;

use super::HOW;

/// The most files that are read: a process has two at most.
const MOST_FILES: usize = 20_000;
/// The most bytes of one file: the profiler writes half of that.
const MOST_BYTES: u64 = 64 << 20;

/// Files by their names.
type Files = Vec<(String, WatchFile)>;

/// The files of a job, with what was read of them.
pub(super) struct Folder {
    sources: Vec<PathBuf>,
    read: BTreeMap<PathBuf, Known>,
}

/// A file as far as it was read.
struct Known {
    /// Bytes that were taken: whole lines.
    taken: u64,
    /// When it was made: another file may take its name.
    made: u64,
    content: Option<WatchFile>,
}

impl Folder {
    /// The files of `sources`; without one, those of the newest job in the data folder.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn find(sources: &[PathBuf]) -> Result<Self> {
        Ok(Self { sources: existing(sources)?, read: BTreeMap::new() })
    }

    /// Reads what was added, and forgets what is more than `last` ns old. Beside the files, why some could not be read.
    ///
    /// # Errors
    /// A folder cannot be listed.
    pub(super) fn read(&mut self, last: Option<u64>) -> Result<(Files, Vec<String>)> {
        let mut refused = Vec::new();
        let paths = paths(&self.sources)?;
        self.read.retain(|path, _| paths.contains(path));
        for path in &paths {
            if let Err(why) = self.add(path) {
                refused.push(format!("{}: {why}", path.display()));
            }
        }
        if let Some(ns) = last {
            self.forget(ns);
        }
        let name = |path: &Path| path.display().to_string();
        let files = self.read.iter();
        let files = files.filter_map(|(path, known)| Some((name(path), known.content.clone()?)));
        Ok((files.collect(), refused))
    }

    /// Leaves out what is more than `ns` before the last heartbeat of its process, which has an older file, too, as a rule.
    fn forget(&mut self, ns: u64) {
        let mut newest: BTreeMap<(String, u32, u64), u64> = BTreeMap::new();
        let key = |file: &WatchFile| {
            let process = &file.process;
            (process.host.clone(), process.pid, process.began)
        };
        for file in self.read.values().filter_map(|known| known.content.as_ref()) {
            let last = newest.entry(key(file)).or_default();
            *last = (*last).max(file.last_heartbeat());
        }
        for file in self.read.values_mut().filter_map(|known| known.content.as_mut()) {
            let last = newest.get(&key(file)).copied().unwrap_or(0);
            file.keep_from(last.saturating_sub(ns));
        }
    }

    fn add(&mut self, path: &Path) -> Result<()> {
        use std::os::unix::fs::MetadataExt;
        let mut file = File::open(path)?;
        let facts = file.metadata()?;
        let known =
            self.read.entry(path.to_owned()).or_insert(Known { taken: 0, made: 0, content: None });
        // The profiler has begun a new file of this name, or somebody has.
        if known.made != facts.ino() || facts.len() < known.taken {
            *known = Known { taken: 0, made: facts.ino(), content: None };
        }
        file.seek(SeekFrom::Start(known.taken))?;
        let mut bytes = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut bytes)?;
        match &mut known.content {
            Some(content) => {
                // A line that is being written is taken when it is whole.
                let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                content.take(&bytes[..whole]);
                content.torn = whole < bytes.len();
                known.taken += whole as u64;
            }
            None => {
                let content = WatchFile::parse(&bytes)?;
                let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                known.taken += whole as u64;
                known.content = Some(content);
            }
        }
        Ok(())
    }
}

/// The sources that are named, all there; without one, the folder of the newest job.
///
/// # Errors
/// One cannot be read, or there is no job.
pub(super) fn existing(sources: &[PathBuf]) -> Result<Vec<PathBuf>> {
    if sources.is_empty() {
        return Ok(vec![newest()?]);
    }
    for source in sources {
        fs::metadata(source)
            .with_context(|| format!("cannot read {}", source.display()))
            .map_err(|error| ExitError::new(Exit::Usage, format!("{error:#}")))?;
    }
    Ok(sources.to_vec())
}

/// The files of folders and files, in the order of their names.
///
/// # Errors
/// A folder cannot be listed, or they are too many.
pub(super) fn paths(sources: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for source in sources {
        if source.is_file() {
            paths.push(source.clone());
            continue;
        }
        let entries = fs::read_dir(source)
            .with_context(|| format!("cannot list the folder {}", source.display()))?;
        for entry in entries.flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|end| end == "jsonl") && path.is_file() {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths.dedup();
    if paths.len() > MOST_FILES {
        let text = format!(
            "{} files are more than the {MOST_FILES} that are read: name one job's folder",
            paths.len()
        );
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    Ok(paths)
}

/// The folder of the job that was written to last.
fn newest() -> Result<PathBuf> {
    let none = |where_: String| {
        ExitError::new(Exit::Usage, format!("no job has written anything into {where_}; {HOW}"))
    };
    let data = dirs::data_dir()
        .ok_or_else(|| none("a data folder: HOME and XDG_DATA_HOME are not set".to_owned()))?;
    let all = data.join("busbw").join("watch");
    let changed = |folder: &Path| -> Option<SystemTime> {
        fs::read_dir(folder)
            .ok()?
            .flatten()
            .filter_map(|one| one.metadata().ok()?.modified().ok())
            .max()
    };
    let entries = fs::read_dir(&all).map_err(|_| none(all.display().to_string()))?;
    let folders = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    let newest = folders.filter_map(|folder| Some((changed(&folder)?, folder))).max();
    Ok(newest.map(|(_, folder)| folder).ok_or_else(|| none(all.display().to_string()))?)
}
