//! Files become a trace: what a file is shows its content, not its name.
//! Not what a form means (`nccl_log`, `inspector`, `flight_recorder`, `record`).

use std::{
    io::{self, BufRead, Cursor, Read},
    path::Path,
};

use memchr::memmem;
use thiserror::Error;

use super::call::{Trace, TraceSource};
use super::collected::Collected;
use super::inspector::Inspector;
use super::{flight_recorder, nccl_log::Log, profiler, record};
use crate::flight_recorder::{Dump, MAX_DUMP_BYTES, is_dump};
use crate::import::{self, ImportError, lines};

/// Bytes at the beginning of a file by which it is recognised.
const HEAD_BYTES: u64 = 1 << 16;
/// Why text is no trace.
const NO_NCCL: &str = "it is text without a line of NCCL";

/// Why files are no trace.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The file.
    #[error("cannot read {name}: {source}")]
    File {
        /// Its name.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// A file of another form.
    #[error(
        "{name} has no calls of a job: {why}. A trace is NCCL's log (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL), NCCL Inspector's files, dumps of PyTorch's flight recorder, files of busbw's profiler, or a record of busbw"
    )]
    Strange {
        /// Its name.
        name: String,
        /// What was found.
        why: String,
    },
    /// A damaged dump.
    #[error("{name} is no dump of PyTorch's flight recorder that can be read: {why}")]
    Dump {
        /// Its name.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// A path that cannot be read, or a damaged record.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// Files of two sources.
    #[error("{name} is {is}, and {before} is {was}: name files of one source")]
    Mixed {
        /// The file.
        name: String,
        /// What it is.
        is: &'static str,
        /// A file before it.
        before: String,
        /// What that is.
        was: &'static str,
    },
    /// Nothing is left.
    #[error("no call can be used: {why}")]
    Nothing {
        /// The reasons.
        why: String,
    },
}

/// Reads the files of a trace, one for each rank or one for all.
#[derive(Debug, Default)]
pub struct Reader {
    first: Option<(TraceSource, String)>,
    log: Log,
    collected: Collected,
}

impl Reader {
    /// Reads a file, or stdin for `-`: [`Reader::read`].
    ///
    /// # Errors
    /// As there; also where the path is a folder or never ends.
    pub fn read_path(&mut self, path: &Path) -> Result<(), TraceError> {
        self.read(&mut *import::open(path)?, &path.display().to_string())
    }

    /// Reads the file `name` to its end.
    ///
    /// # Errors
    /// The file cannot be read, is no trace, or is of another source than the files before it.
    pub fn read(&mut self, from: &mut dyn BufRead, name: &str) -> Result<(), TraceError> {
        let fail = |source| TraceError::File { name: name.to_owned(), source };
        let mut head = Vec::new();
        from.take(HEAD_BYTES).read_to_end(&mut head).map_err(fail)?;
        if let Some((what, instead)) = lines::encoded(&head) {
            return Err(strange(name, format!("it is {what}: {instead}")));
        }
        let source = recognise(&head).map_err(|why| strange(name, why))?;
        let is_other = self.first.as_ref().is_some_and(|(first, _)| *first != source);
        if is_other && source == TraceSource::NcclLog && !has(&head, "NCCL ") {
            return Err(strange(name, NO_NCCL.to_owned()));
        }
        self.is_of(source, name)?;
        let mut from = Cursor::new(head).chain(from);
        match source {
            TraceSource::NcclLog => {
                let before = self.log.counts();
                let zeros = lines::each(&mut from, |line| self.log.line(line, &mut self.collected));
                if zeros.map_err(fail)?.is_binary {
                    return Err(strange(name, "it is binary".to_owned()));
                }
                let now = self.log.counts();
                if now.0 == before.0 {
                    return Err(strange(name, NO_NCCL.to_owned()));
                }
                if now.1 == before.1 {
                    let why = "it is NCCL's log without its calls: set NCCL_DEBUG_SUBSYS=INIT,COLL";
                    return Err(strange(name, why.to_owned()));
                }
            }
            TraceSource::Inspector => {
                let mut inspector = Inspector::default();
                let each = |line: &str| inspector.line(line, name, &mut self.collected);
                lines::each(&mut from, each).map_err(fail)?;
                inspector.finish(&mut self.collected);
            }
            TraceSource::FlightRecorder => {
                let damaged = |why| TraceError::Dump { name: name.to_owned(), why };
                let mut bytes = Vec::new();
                from.take(MAX_DUMP_BYTES + 1).read_to_end(&mut bytes).map_err(fail)?;
                if bytes.len() as u64 > MAX_DUMP_BYTES {
                    return Err(damaged(format!("it has more than {MAX_DUMP_BYTES} bytes")));
                }
                let dump = Dump::parse(&bytes).map_err(damaged)?;
                flight_recorder::read(&dump, name, &mut self.collected);
            }
            TraceSource::Profiler => {
                let mut bytes = Vec::new();
                from.take(MAX_DUMP_BYTES + 1).read_to_end(&mut bytes).map_err(fail)?;
                if bytes.len() as u64 > MAX_DUMP_BYTES {
                    return Err(strange(name, format!("it has more than {MAX_DUMP_BYTES} bytes")));
                }
                profiler::read(&bytes, &mut self.collected).map_err(|why| strange(name, why))?;
            }
            TraceSource::Record => {
                for run in import::read(from, name)?.measurements {
                    record::read(&run, &mut self.collected);
                }
            }
        }
        self.first.get_or_insert((source, name.to_owned()));
        Ok(())
    }

    fn is_of(&self, source: TraceSource, name: &str) -> Result<(), TraceError> {
        match &self.first {
            Some((first, before)) if *first != source => Err(TraceError::Mixed {
                name: name.to_owned(),
                is: source.name(),
                before: before.clone(),
                was: first.name(),
            }),
            _ => Ok(()),
        }
    }

    /// The trace of all files.
    ///
    /// # Errors
    /// No call is left.
    pub fn finish(mut self) -> Result<Trace, TraceError> {
        let Some((source, _)) = self.first else {
            return Err(TraceError::Nothing { why: "no file was a trace".to_owned() });
        };
        self.log.finish(&mut self.collected);
        let trace = self.collected.finish(source);
        if trace.calls.is_empty() {
            let reasons =
                trace.left_out.iter().map(|one| format!("{} ({})", one.reason, one.count));
            let reasons = reasons.collect::<Vec<_>>().join("; ");
            let why = if reasons.is_empty() { "there is none".to_owned() } else { reasons };
            return Err(TraceError::Nothing { why });
        }
        Ok(trace)
    }
}

fn strange(name: &str, why: String) -> TraceError {
    TraceError::Strange { name: name.to_owned(), why }
}

fn has(bytes: &[u8], word: &str) -> bool {
    memmem::find(bytes, word.as_bytes()).is_some()
}

/// What a file is, by its beginning; else why it is nothing.
fn recognise(head: &[u8]) -> Result<TraceSource, String> {
    let has = |word: &str| has(head, word);
    match head.trim_ascii_start() {
        [] => Err("it is empty".to_owned()),
        [0x80, 2..=5, ..] => Ok(TraceSource::FlightRecorder),
        [b'{', ..] => {
            let inspector =
                ["\"coll_perf\"", "\"p2p_perf\"", "\"inspector_output_format_version\""];
            let sweep = "\"sweep_schema\"";
            match () {
                () if inspector.iter().any(|word| has(word)) => Ok(TraceSource::Inspector),
                () if is_dump(head) => Ok(TraceSource::FlightRecorder),
                () if has("\"kind\":\"process\"") => Ok(TraceSource::Profiler),
                () if has(sweep) || has("\"kind\":\"run\"") || has("{\"run\":") => {
                    Ok(TraceSource::Record)
                }
                // A collector's lines may hold those of NCCL.
                () if has("NCCL ") => Ok(TraceSource::NcclLog),
                () => Err("it is JSON of another form".to_owned()),
            }
        }
        _ => Ok(TraceSource::NcclLog),
    }
}
