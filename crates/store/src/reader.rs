//! Reads a record back, as lines or folded. A record whose writer was killed has no end, and its
//! last line may be cut: complete lines are kept.
//! Not finding it (`paths`).

use crate::{
    environment::{masked, shown},
    line,
};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use busbw_core::record::{End, Folded, Line, Run, SCHEMA};
use serde::Deserialize;
use thiserror::Error;

/// The most bytes of a record's first line that are read: it names every rank's device.
const MAX_HEAD_BYTES: u64 = 64 << 20;

/// Why a record cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file.
    #[error("cannot read {path}: {source}")]
    File {
        /// Its path.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// A line.
    #[error("{path}, line {line}: this is no record of busbw: {why}")]
    Line {
        /// The file.
        path: String,
        /// Line, counted from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// A file without a line.
    #[error(
        "{path} is empty: its run ended before its ranks joined, or is still starting; there is nothing to show"
    )]
    Empty {
        /// The file.
        path: String,
    },
    /// A record of a newer schema.
    #[error("{path} has schema {found}; this busbw reads up to {SCHEMA}: use a newer one")]
    Newer {
        /// The file.
        path: String,
        /// Its schema.
        found: u64,
    },
}

/// When the run of a record began, as it says. Reads the first line only.
pub(super) fn started(path: &Path) -> Option<String> {
    let mut first = Vec::new();
    let file = BufReader::new(File::open(path).ok()?);
    file.take(MAX_HEAD_BYTES).read_until(b'\n', &mut first).ok()?;
    let head: Head = serde_json::from_slice(&first).ok()?;
    head.started.or_else(|| head.run.and_then(|run| run.started))
}

/// Reads a record in either form.
///
/// # Errors
/// The file cannot be read, a line is invalid, or the schema is newer.
pub fn read(path: &Path) -> Result<Folded, ReadError> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path)
        .map_err(|source| ReadError::File { path: name.clone(), source })?;
    parse(&text, &name)
}

/// Parses the text of a record in either form; `name` is for errors.
///
/// # Errors
/// A line is invalid, or the schema is newer.
pub fn parse(text: &str, name: &str) -> Result<Folded, ReadError> {
    let refuse = |line: usize, why: String| ReadError::Line { path: name.to_owned(), line, why };
    if text.is_empty() {
        return Err(ReadError::Empty { path: name.to_owned() });
    }
    let first = text.lines().next().unwrap_or("");
    let head: Head = serde_json::from_str(first)
        .or_else(|_| serde_json::from_str(text))
        .map_err(|e| refuse(1, e.to_string()))?;
    if let Some(found) = head.schema().filter(|s| *s > u64::from(SCHEMA)) {
        return Err(ReadError::Newer { path: name.to_owned(), found });
    }
    if head.run.is_some() {
        // As bytes, as `line` reads: one reader of each type is compiled.
        let folded: Folded =
            serde_json::from_slice(text.as_bytes()).map_err(|e| refuse(e.line(), e.to_string()))?;
        return received(folded).map_err(|why| refuse(1, why));
    }
    let mut run: Option<Run> = None;
    let (mut library, mut net, mut paths, mut rows) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut verbs = Vec::new();
    let mut mpi = BTreeMap::new();
    let mut end: Option<End> = None;
    for (at, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        match line::from_text(line.as_bytes()) {
            Ok(Line::Run(found)) => run = Some(*found),
            Ok(Line::Library(facts)) => library.push(*facts),
            Ok(Line::Mpi(facts)) => drop(mpi.insert(facts.rank, *facts)),
            Ok(Line::Net(facts)) => net.push(*facts),
            Ok(Line::Paths(stats)) => paths.push(*stats),
            Ok(Line::Verbs(facts)) => verbs.push(*facts),
            Ok(Line::Row(row)) => rows.push(*row),
            Ok(Line::End(found)) => end = Some(*found),
            // Only the last line can be cut, and only when it has no newline.
            Err(_) if !text.ends_with('\n') && at + 1 == text.lines().count() && at > 0 => {}
            Err(e) => return Err(refuse(at + 1, e.to_string())),
        }
    }
    let run = run.ok_or_else(|| refuse(1, "it does not begin with a run".to_owned()))?;
    let mpi = mpi.into_values().collect();
    received(Folded { run, library, mpi, net, paths, verbs, rows, end })
        .map_err(|why| refuse(1, why))
}

/// A record as its readers get it: its numbers are possible, and secrets that an older busbw wrote are masked.
fn received(mut record: Folded) -> Result<Folded, String> {
    record.check()?;
    for (name, value) in &mut record.run.environment {
        *value = shown(name, value);
    }
    for word in &mut record.run.args {
        *word = masked(word);
    }
    Ok(record)
}

/// The fields of a first line that tell the two forms and the schema apart.
#[derive(Deserialize)]
struct Head {
    schema: Option<u64>,
    started: Option<String>,
    run: Option<HeadRun>,
}

#[derive(Deserialize)]
struct HeadRun {
    schema: Option<u64>,
    started: Option<String>,
}

impl Head {
    fn schema(&self) -> Option<u64> {
        self.schema.or_else(|| self.run.as_ref().and_then(|run| run.schema))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_is_no_record() {
        assert!(matches!(parse("", "x"), Err(ReadError::Empty { .. })));
        for text in ["hello", "{}", "{\"kind\":\"row\"}\n"] {
            assert!(matches!(parse(text, "x"), Err(ReadError::Line { .. })), "{text}");
        }
        let newer = parse("{\"kind\":\"run\",\"schema\":99}\n", "x");
        assert!(matches!(newer, Err(ReadError::Newer { found: 99, .. })));
    }
}
