//! Reads logs: nccl-tests' tables and reports of any version, OSU's text, busbw's records, and lines of
//! NCCL's log in between. The results are `Measurement`s.
//! Not a verdict on them (`busbw-analysis`), and not busbw's own outputs.
//!
//! Text is streamed line by line, in linear time and bounded memory. Recognised lines are kept, others are
//! counted. A source without a recognised line is refused with one reason.

mod broken;
mod command;
mod device_list;
mod folder;
mod format;
mod json;
pub(crate) mod lines;
mod markup;
mod nccl_message;
mod nccl_report;
mod nccl_tests;
mod osu;
mod page;
mod print;
mod progress;
mod prose;
mod runs;
mod section;
mod settings_table;
mod text;
mod watch;
mod words;
mod wrapped;

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use crate::measurement::{Known, Measurement, Memory, Origin};
use serde::Serialize;
use thiserror::Error;

use busbw_store as store;

use format::Listed;

pub use folder::{Entry, Found, files, find};
pub use print::{print, source, subject};
pub use text::Text;

/// The formats of text whose tables begin with a title or a header. A line is shown to them in this order.
const FORMATS: &[Listed] = &[Listed::of::<osu::Table>(), Listed::of::<settings_table::Table>()];

/// Maximum of runs of one source kept by [`read`]; further runs are counted.
pub(crate) const MAX_RUNS: usize = 4096;

/// Why a source cannot be read.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The file.
    #[error("cannot read {name}: {source}")]
    File {
        /// Its name.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// A folder.
    #[error("{name} is a folder: name the files in it, such as {name}/*")]
    Folder {
        /// Its name.
        name: String,
    },
    /// A file without an end.
    #[error("{name} is {what}: name a file or a pipe")]
    Endless {
        /// Its name.
        name: String,
        /// The kind of file.
        what: &'static str,
    },
    /// No byte.
    #[error("{name} is empty")]
    Empty {
        /// Its name.
        name: String,
    },
    /// Text in an encoding or format that is not read.
    #[error("{name} is {what}: {instead}")]
    Encoded {
        /// Its name.
        name: String,
        /// The format.
        what: &'static str,
        /// What to do.
        instead: &'static str,
    },
    /// Bytes that are no text.
    #[error("{name} is binary: it has a zero byte at offset {at}")]
    Binary {
        /// Its name.
        name: String,
        /// Where.
        at: u64,
    },
    /// Text without a recognised line.
    #[error(
        "{name} is not a log of nccl-tests, OSU or busbw: {why}. A table's rows begin with size, count \
         and type (nccl-tests), or follow a line \"# Size … Latency (us)\" (OSU)"
    )]
    Strange {
        /// Its name.
        name: String,
        /// What was found.
        why: String,
    },
    /// JSON that is damaged or of an unknown format.
    #[error("{name}: {why}")]
    Json {
        /// Its name.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// A record that cannot be read.
    #[error(transparent)]
    Record(#[from] store::ReadError),
}

/// The runs of a source.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Imported {
    /// The runs, in order.
    pub measurements: Vec<Measurement>,
    /// The counts of its lines.
    pub lines: Lines,
}

/// The counts of a text's lines.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Lines {
    /// Lines that are not blank.
    pub all: u64,
    /// Rows of tables, each counted once, whole or cut.
    pub rows: u64,
    /// Rows that are cut, or whose figures are not numbers.
    pub cut: u64,
    /// Lines that are the rest of a row.
    #[serde(skip_serializing_if = "is_zero")]
    pub joined: u64,
    /// Lines of NCCL.
    pub nccl: u64,
    /// Other recognised lines: head, devices, foot.
    pub known: u64,
    /// Zero bytes that were skipped.
    #[serde(skip_serializing_if = "is_zero")]
    pub zeros: u64,
    /// Lines that were not recognised.
    pub unrecognised: u64,
    /// The first of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// Runs beyond the 4096 that are kept.
    #[serde(skip_serializing_if = "is_zero")]
    pub runs_left_out: u64,
}

impl Lines {
    /// A remark about the parts that were not read; none where everything was.
    pub fn unread(&self) -> Option<String> {
        let mut parts = Vec::new();
        if self.cut > 0 {
            parts.push(format!("{} of {} rows are cut or have no figures", self.cut, self.rows));
        }
        if self.runs_left_out > 0 {
            parts.push(format!(
                "{} runs beyond the first {MAX_RUNS} were left out",
                self.runs_left_out
            ));
        }
        if self.zeros > 0 {
            let zeros = if self.zeros == 1 { "zero byte was" } else { "zero bytes were" };
            parts.push(format!("{} {zeros} skipped: the file has holes", self.zeros));
        }
        if self.unrecognised > 0 {
            parts.push(format!(
                "{} of {} lines were not recognised and were skipped",
                self.unrecognised, self.all
            ));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Reads a file, or stdin for `-`, and keeps up to 4096 of its runs.
///
/// # Errors
/// [`ImportError`].
pub fn read_path(path: &Path) -> Result<Imported, ImportError> {
    gathered(|each| each_of(path, each))
}

/// The runs that files of busbw's profiler hold: those of a folder together, or one process's. None where there is no such
/// file.
pub fn watched(path: &Path) -> Vec<Measurement> {
    if path.is_dir() {
        return watch::of_folder(path);
    }
    if !is_watched(path) {
        return Vec::new();
    }
    let text = std::fs::read_to_string(path).unwrap_or_default();
    watch::of_text(&text, &path.display().to_string()).unwrap_or_default()
}

/// Whether a path is a file of busbw's profiler, by how it begins.
pub fn is_watched(path: &Path) -> bool {
    // Another file may be large, or never end.
    let mut head = [0; watch::HEAD.len()];
    let begins =
        |file: &mut File| file.read_exact(&mut head).is_ok() && head == *watch::HEAD.as_bytes();
    path.is_file() && File::open(path).as_mut().is_ok_and(begins)
}

/// Passes every run of a file, or of stdin for `-`, to `each_run` as soon as it is complete.
///
/// # Errors
/// [`ImportError`], also where the source has no run.
pub fn each_of(path: &Path, each_run: &mut dyn FnMut(Measurement)) -> Result<Lines, ImportError> {
    let name = path.display().to_string();
    each(&mut *open(path)?, &name, &mut |mut run| {
        add_memory_of_name(&mut run, path);
        each_run(run);
    })
}

/// A file that is read to its end, or stdin for `-`.
pub(crate) fn open(path: &Path) -> Result<Box<dyn BufRead>, ImportError> {
    let name = path.display().to_string();
    if name == "-" {
        return Ok(Box::new(io::stdin().lock()));
    }
    let fail = |source| ImportError::File { name: name.clone(), source };
    let about = std::fs::metadata(path).map_err(fail)?;
    if about.is_dir() {
        return Err(ImportError::Folder { name });
    }
    // Before it is opened: that alone may wait, or take effect.
    if let Some(what) = folder::refusal(path, &about) {
        return Err(ImportError::Endless { name, what });
    }
    let file = File::open(path).map_err(fail)?;
    let file = progress::bar(about.len()).wrap_read(file);
    Ok(Box::new(BufReader::with_capacity(1 << 18, file)))
}

/// Takes the buffers' memory from the file's name, of OSU often its only source: `osu_latency-device.txt`.
fn add_memory_of_name(run: &mut Measurement, path: &Path) {
    if !run.source.form.facts().memory_in_file_name || run.test.memory.is_some() {
        return;
    }
    let stem = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().to_ascii_lowercase())
        .unwrap_or_default();
    let has = |words: &[&str]| {
        stem.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| words.contains(&word))
    };
    let memory = match (has(&["device", "dd", "gpu", "cuda"]), has(&["host", "hh", "cpu"])) {
        (true, false) => Some(Memory::Device),
        (false, true) => Some(Memory::Host),
        _ => None,
    };
    run.test.memory = memory.map(|value| Known { value, origin: Origin::FileName });
}

/// Reads a source to its end.
///
/// # Errors
/// [`ImportError`].
pub fn read(mut from: impl BufRead, name: &str) -> Result<Imported, ImportError> {
    gathered(|each_run| each(&mut from, name, each_run))
}

fn gathered(
    read: impl FnOnce(&mut dyn FnMut(Measurement)) -> Result<Lines, ImportError>,
) -> Result<Imported, ImportError> {
    let mut measurements = Vec::new();
    let mut left_out = 0;
    let mut lines = read(&mut |measurement| {
        if measurements.len() < MAX_RUNS {
            measurements.push(measurement);
        } else {
            left_out += 1;
        }
    })?;
    lines.runs_left_out = left_out;
    Ok(Imported { measurements, lines })
}

/// Passes every run to `each_run` as soon as it is complete.
///
/// # Errors
/// [`ImportError`], also where the source has no run.
pub fn each(
    from: &mut dyn BufRead,
    name: &str,
    each: &mut dyn FnMut(Measurement),
) -> Result<Lines, ImportError> {
    let fail = |source| ImportError::File { name: name.to_owned(), source };
    if let Some((what, instead)) = lines::encoded(from.fill_buf().map_err(fail)?) {
        return Err(ImportError::Encoded { name: name.to_owned(), what, instead });
    }
    let start = lines::first(from).map_err(fail)?;
    match start {
        None => Err(ImportError::Empty { name: name.to_owned() }),
        Some(b'{') => json::each(from, name, each),
        Some(b'[') if lines::is_list(from).map_err(fail)? => json::each(from, name, each),
        Some(_) => text_of(from, name, each),
    }
}

/// Reads text.
fn text_of(
    from: &mut dyn BufRead,
    name: &str,
    each: &mut dyn FnMut(Measurement),
) -> Result<Lines, ImportError> {
    let mut text = Text::new(name, each);
    let zeros = lines::each(from, |line| text.line(line))
        .map_err(|source| ImportError::File { name: name.to_owned(), source })?;
    let read = if zeros.is_binary { None } else { Some(text.finish()) };
    match (read, zeros.first) {
        (Some(Ok(lines)), _) => Ok(Lines { zeros: zeros.count, ..lines }),
        (Some(Err(error)), None) => Err(error),
        (_, at) => Err(ImportError::Binary { name: name.to_owned(), at: at.unwrap_or_default() }),
    }
}

#[cfg(test)]
mod tests;
