//! Recognises a file of the report: runs, the result of a sweep, a tuning or a check, a matrix of pairs, or what the profiler
//! of a job's process wrote.
//! Not how logs and records are read (`busbw-logs`).

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use anyhow::Result;
use busbw_core::{exit::Exit, pairs::Pairs};
use busbw_logs::measurement::Measurement;
use serde_json::{Deserializer, Value};

use crate::data::Text;
use busbw_analysis::check::{self, CheckReport};
use busbw_analysis::machine_argument::MachineArgument;
use busbw_analysis::sweep::{Outcome, RESULT_FILE, read as read_sweep};
use busbw_core::exit::ExitError;
use busbw_core::quantity::count;
use busbw_logs::import;
use busbw_tune::tuned::{self, Tuned};
use busbw_watch_file::WatchFile;

/// Keys by which results are known; busbw writes them first.
const SWEEP_KEY: &str = "sweep_schema";
const PAIRS_KEY: &str = "pairs_schema";
const TUNE_KEY: &str = "tune_schema";
const CHECK_KEY: &str = "check_schema";

/// Maximum size of a result, bytes: JSON is read as a whole.
const MAX_RESULT_BYTES: u64 = 256 << 20;

/// How deep a folder is looked through, and the most files of it; of a job's profiler there are two a process.
const MAX_DEPTH: usize = 4;
const MAX_FILES: usize = 1000;
const MAX_WATCHED: usize = 20_000;
/// Maximum size of a file of a job's profiler, bytes: it writes half of that.
const MAX_WATCHED_BYTES: u64 = 64 << 20;

/// Maximum size of a text about a machine, bytes.
const MAX_TEXT_BYTES: u64 = 64 << 10;

/// What only one program prints.
const TELLING: [(&str, &str); 4] = [
    ("NVIDIA-SMI", "nvidia-smi"),
    ("Attached GPUs", "nvidia-smi -q"),
    ("CA type:", "ibstat"),
    ("hca_id:", "ibv_devinfo"),
];

/// The contents of all files.
#[derive(Debug, Default)]
pub struct Sources {
    /// Runs of records and logs.
    pub runs: Vec<Measurement>,
    /// Results of sweeps.
    pub sweeps: Vec<Outcome>,
    /// Results of tunings.
    pub tunings: Vec<Tuned>,
    /// Matrices of pairs.
    pub pairs: Vec<Pairs>,
    /// Results of checks.
    pub checks: Vec<CheckReport>,
    /// What the profiler of each process of a job wrote, with the file's name.
    pub watched: Vec<(String, WatchFile)>,
    /// The files that were read.
    pub files: Vec<PathBuf>,
    /// Files of a folder that describe a machine: what `--machine` takes.
    pub machines: Vec<PathBuf>,
    /// Other texts of a folder about a machine, such as those of ibstat.
    pub texts: Vec<Text>,
    /// Earlier runs, to compare with.
    pub history: Vec<Measurement>,
    /// Remarks about the parts of files that were not read.
    pub unread: Vec<String>,
}

impl Sources {
    /// Reads every file.
    ///
    /// # Errors
    /// The first that cannot be read, with exit code 2.
    pub fn read<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<Sources> {
        let mut sources = Sources::default();
        for path in paths {
            let read = match path.is_dir() && !path.join(RESULT_FILE).is_file() {
                true => sources.add_folder(path),
                false => sources.add(path),
            };
            read.map_err(|why| ExitError::new(Exit::Usage, why))?;
        }
        Ok(sources)
    }

    /// Reads what a folder holds: what is no source is named, and the rest is read.
    fn add_folder(&mut self, folder: &Path) -> Result<(), String> {
        let name = folder.display();
        let mut found = Found::default();
        let cut = files(folder, MAX_DEPTH, &mut found)
            .map_err(|e| format!("cannot read the folder {name}: {e}"))?;
        if cut {
            self.unread.push(format!(
                "{name}: only its first {MAX_FILES} files ({MAX_WATCHED} of a profiler), {MAX_DEPTH} folders deep, were looked at"
            ));
        }
        let (before, mut first) = (self.files.len(), None);
        for path in found.others.iter().chain(&found.watched) {
            let Err(why) = self.add(path) else { continue };
            if MachineArgument::read(path).is_ok() {
                self.machines.push(path.clone());
            } else if let Some(text) = about_a_machine(path) {
                self.texts.push(text);
            } else {
                let shown = path.display().to_string();
                let why = if why.contains(&shown) { why } else { format!("{shown}: {why}") };
                first.get_or_insert_with(|| why.clone());
                self.unread.push(why);
            }
        }
        match (self.files.len() > before, first) {
            (true, _) => Ok(()),
            (false, Some(why)) => Err(format!(
                "in the folder {name} there is no run, sweep, tuning, check, job or matrix of pairs; the first of {}: {why}",
                count((found.others.len() + found.watched.len()) as u64, "file")
            )),
            (false, None) => Err(format!(
                "in the folder {name} there is no run, sweep, tuning, check, job or matrix of pairs"
            )),
        }
    }

    fn add(&mut self, path: &Path) -> Result<(), String> {
        self.read_one(path)?;
        self.files.push(path.to_owned());
        Ok(())
    }

    fn read_one(&mut self, path: &Path) -> Result<(), String> {
        let name = path.display();
        if import::is_watched(path) {
            let file = watched(path).map_err(|why| format!("{name}: {why}"))?;
            self.watched.push((name.to_string(), file));
            return Ok(());
        }
        if let Some(text) = result_text(path).map_err(|e| format!("cannot read {name}: {e}"))? {
            return self.add_results(&text).map_err(|why| format!("{name}: {why}"));
        }
        let read = import::read_path(path).map_err(|e| e.to_string())?;
        self.unread.extend(read.lines.unread().map(|unread| format!("{name}: {unread}")));
        for run in read.measurements.iter().filter(|run| run.rows_left_out > 0) {
            self.unread.push(format!(
                "{name}: of {}, {} beyond the first {} were left out",
                run.test_name(),
                count(run.rows_left_out, "row"),
                run.rows.len()
            ));
        }
        for mut run in read.measurements {
            self.pairs.append(&mut run.pairs);
            self.runs.push(run);
        }
        Ok(())
    }

    /// Results, one after the other.
    fn add_results(&mut self, text: &str) -> Result<(), String> {
        for value in Deserializer::from_str(text).into_iter::<Value>() {
            let value = value.map_err(|e| format!("damaged JSON: {e}"))?;
            if value.get(SWEEP_KEY).is_some() {
                self.sweeps.push(read_sweep(&value.to_string())?);
            } else if value.get(PAIRS_KEY).is_some() {
                let pairs: Pairs = serde_json::from_value(value)
                    .map_err(|e| format!("this is no matrix of pairs: {e}"))?;
                self.pairs.push(pairs.checked().map_err(|e| e.to_string())?);
            } else if value.get(TUNE_KEY).is_some() {
                self.tunings.push(read_tuning(&value)?);
            } else if value.get(CHECK_KEY).is_some() {
                self.checks.push(read_check(value)?);
            } else {
                return Err(
                    "among results there is something else: give it a file of its own".to_owned()
                );
            }
        }
        Ok(())
    }
}

/// The result of a tuning.
fn read_tuning(value: &Value) -> Result<Tuned, String> {
    let form = value.get(TUNE_KEY).cloned().unwrap_or_default();
    tuned::read(&value.to_string()).ok_or_else(|| match value.get("search") {
        // What `busbw tune` keeps until it ends.
        Some(_) => "this tuning has not ended: go on with busbw tune --resume".to_owned(),
        None if form != tuned::SCHEMA => {
            format!("this tuning has form {form}, and this busbw reads {}", tuned::SCHEMA)
        }
        None => "this is no result of busbw tune: it lacks parts of one".to_owned(),
    })
}

/// The result of a check.
fn read_check(value: Value) -> Result<CheckReport, String> {
    let form = value.get(CHECK_KEY).cloned().unwrap_or_default();
    if form != check::SCHEMA {
        return Err(format!("this check has form {form}, and this busbw reads {}", check::SCHEMA));
    }
    serde_json::from_value(value).map_err(|e| format!("this is no result of busbw check: {e}"))
}

/// What the profiler of a process wrote.
fn watched(path: &Path) -> Result<WatchFile, String> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(|e| format!("cannot read it: {e}"))?;
    file.take(MAX_WATCHED_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|e| format!("cannot read it: {e}"))?;
    WatchFile::parse(&bytes).map_err(|why| why.to_string())
}

/// The files below a folder.
#[derive(Default)]
struct Found {
    /// Those of a job's profiler.
    watched: Vec<PathBuf>,
    /// All others.
    others: Vec<PathBuf>,
}

/// The files below a folder, by name; whether there are more than are looked at. A sweep's folder is one source. Hidden
/// files and links are left out.
fn files(folder: &Path, depth: usize, found: &mut Found) -> io::Result<bool> {
    let entries: io::Result<Vec<fs::DirEntry>> = fs::read_dir(folder)?.collect();
    let mut paths: Vec<PathBuf> = entries?
        .into_iter()
        .filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_file()))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    let mut cut = false;
    for path in paths {
        let is_source = !path.is_dir() || path.join(RESULT_FILE).is_file();
        match is_source {
            true if import::is_watched(&path) && found.watched.len() < MAX_WATCHED => {
                found.watched.push(path);
            }
            true if found.others.len() < MAX_FILES => found.others.push(path),
            false if depth > 1 => cut |= files(&path, depth - 1, found)?,
            _ => cut = true,
        }
    }
    Ok(cut)
}

/// A text of a program that tells of a machine, and which no reader here takes.
fn about_a_machine(path: &Path) -> Option<Text> {
    if fs::metadata(path).ok()?.len() > MAX_TEXT_BYTES {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    let of = TELLING.iter().find(|(word, _)| text.contains(word)).map(|(_, program)| *program)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Some(Text { name: format!("{name} ({of})"), text: busbw_store::masked(&text) })
}

/// The text of results: of a sweep's folder, or of a file of JSON that begins as one.
fn result_text(path: &Path) -> io::Result<Option<String>> {
    let result = path.join(RESULT_FILE);
    let path = if result.is_file() { &result } else { path };
    let is_json =
        path.extension().is_some_and(|extension| extension == "json" || extension == "jsonl");
    if !is_json || !path.is_file() || fs::metadata(path)?.len() > MAX_RESULT_BYTES {
        return Ok(None);
    }
    // A binary file is refused where runs are read, with the reason.
    let text = match fs::read_to_string(path) {
        Err(e) if e.kind() == io::ErrorKind::InvalidData => return Ok(None),
        other => other?,
    };
    let begins = |key: &str| {
        let inside = text.trim_start().strip_prefix('{').map(str::trim_start);
        inside.and_then(|text| text.strip_prefix('"')).is_some_and(|text| text.starts_with(key))
    };
    Ok([SWEEP_KEY, PAIRS_KEY, TUNE_KEY, CHECK_KEY].into_iter().any(begins).then_some(text))
}
