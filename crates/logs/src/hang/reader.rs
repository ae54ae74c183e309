//! Files become evidence: what a file is shows its content, not its name.
//! Not what a form means (`recorder`, `watch`, `ras`, `log`).

use busbw_library_logs::{failure::FailureFacts, ras::RasReport};
use busbw_watch_file::WatchFile;
use memchr::memmem;
use thiserror::Error;

use super::{
    evidence::Evidence,
    log,
    ras::Reports,
    recorder::{Digest, Recorders},
    same,
    watch::Watches,
};
use crate::flight_recorder::{Dump, MAX_DUMP_BYTES, is_dump};

/// Why a file is not read.
#[derive(Debug, Error)]
pub enum EvidenceError {
    /// A damaged dump.
    #[error("{name} is no dump of PyTorch's flight recorder that can be read: {why}")]
    Dump {
        /// Its name.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// A file of busbw's profiler.
    #[error("{name} is no file of busbw's profiler that can be read: {why}")]
    Watch {
        /// Its name.
        name: String,
        /// What is wrong.
        why: busbw_watch_file::Trouble,
    },
    /// A report of RAS.
    #[error("{name} is no report of NCCL's RAS that can be read: {why}")]
    Ras {
        /// Its name.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// Another form.
    #[error(
        "{name} tells nothing of a job that hangs: it is no dump of PyTorch's flight recorder, no file of busbw's profiler and no report of NCCL's RAS"
    )]
    Strange {
        /// Its name.
        name: String,
    },
}

/// Reads what tells of a job that hangs.
#[derive(Debug, Default)]
pub struct Reader {
    evidence: Evidence,
    recorders: Recorders,
    watches: Watches,
    /// Taken last: files of the profiler tell which process a rank of theirs is.
    reports: Vec<(String, RasReport)>,
}

/// What a file is.
enum Form {
    Dump,
    Watch,
    Ras,
}

fn form(head: &[u8]) -> Option<Form> {
    let first = head.trim_ascii_start();
    let line = first.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match () {
        () if is_dump(head) => Some(Form::Dump),
        () if is_process(line) => Some(Form::Watch),
        () if RasReport::is_one(head) => Some(Form::Ras),
        () => None,
    }
}

/// Whether a line is the first one of a file of busbw's profiler, whoever wrote its JSON.
fn is_process(line: &[u8]) -> bool {
    let has = |word: &str| memmem::find(line, word.as_bytes()).is_some();
    line.first() == Some(&b'{') && has("\"kind\"") && has("\"process\"") && has("\"began\"")
}

/// Whether a file that begins so is one that [`Reader::read`] takes.
pub fn is_evidence(head: &[u8]) -> bool {
    form(head).is_some()
}

/// A file that was parsed: what takes time, and can be done for several files at once.
#[derive(Debug)]
pub struct Parsed(Content);

#[derive(Debug)]
enum Content {
    /// What a dump says, or why it is left out.
    Dump(Result<Digest, String>),
    Watch(WatchFile),
    Ras(RasReport),
}

impl Parsed {
    /// Parses a whole file: a dump, a file of busbw's profiler, or a report of RAS. `written` is when it was last written, ns
    /// since 1970 by the clock of who wrote it; it tells how long the calls of a dump have stood.
    ///
    /// # Errors
    /// It is damaged, of another version or of another form.
    pub fn of(bytes: &[u8], name: &str, written: Option<u64>) -> Result<Parsed, EvidenceError> {
        let named = || name.to_owned();
        Ok(Parsed(match form(bytes.get(..HEAD_BYTES).unwrap_or(bytes)) {
            Some(Form::Dump) if bytes.len() as u64 > MAX_DUMP_BYTES => {
                let why = format!("it has more than {MAX_DUMP_BYTES} bytes");
                return Err(EvidenceError::Dump { name: named(), why });
            }
            Some(Form::Dump) => {
                let dump =
                    Dump::parse(bytes).map_err(|why| EvidenceError::Dump { name: named(), why })?;
                Content::Dump(Digest::of(&dump, name, written))
            }
            Some(Form::Watch) => Content::Watch(
                WatchFile::parse(bytes)
                    .map_err(|why| EvidenceError::Watch { name: named(), why })?,
            ),
            Some(Form::Ras) => Content::Ras(
                RasReport::parse(bytes).map_err(|why| EvidenceError::Ras { name: named(), why })?,
            ),
            None => return Err(EvidenceError::Strange { name: named() }),
        }))
    }
}

impl Reader {
    /// Parses and takes a file, as [`Parsed::of`] and [`Reader::take`].
    ///
    /// # Errors
    /// As those of [`Parsed::of`].
    pub fn read(
        &mut self,
        bytes: &[u8],
        name: &str,
        written: Option<u64>,
    ) -> Result<(), EvidenceError> {
        self.take(Parsed::of(bytes, name, written)?, name);
        Ok(())
    }

    /// Takes what the file `name` says.
    pub fn take(&mut self, parsed: Parsed, name: &str) {
        match parsed.0 {
            Content::Dump(Ok(digest)) => self.recorders.take(digest, name, &mut self.evidence),
            Content::Dump(Err(why)) => self.evidence.remark(why),
            Content::Watch(file) => self.watches.take(&file, name, &mut self.evidence),
            Content::Ras(report) => self.reports.push((name.to_owned(), report)),
        }
    }

    /// Takes what the log `name` says of failures.
    pub fn log(&mut self, facts: &FailureFacts, name: &str) {
        log::take(facts, name, &mut self.evidence);
    }

    /// All that was read.
    pub fn finish(mut self) -> Evidence {
        self.watches.finish(&mut self.evidence);
        let mut reports = Reports::default();
        for (name, report) in &self.reports {
            reports.take(report, name, &mut self.evidence);
        }
        same::fill(&mut self.evidence);
        same::join(&mut self.evidence);
        self.evidence
    }
}

/// Bytes at the beginning of a file by which it is recognised.
const HEAD_BYTES: usize = 1 << 16;
