//! Resolves the sides named on the command line: files, folders, runs of the history, references.
//! Not their comparison.

use std::{
    io::{self, Write},
    path::Path,
};

use anyhow::{Result, bail};
use busbw_analysis::comparison::{Repeated, Sameness, Side, distinct};
use busbw_logs::measurement::{Form, Measurement};
use serde::Serialize;

use crate::compare::duplicate_files::Copies;
use crate::{options::CompareArguments, sources};
use busbw_analysis::references;
use busbw_core::printable::Printable;
use busbw_core::quantity::{count, list};
use busbw_logs::import::{self, Lines};
use busbw_store as store;

/// A side, and the sources it was read from.
#[derive(Debug, Serialize)]
pub(super) struct Source {
    #[serde(flatten)]
    pub side: Side,
    /// What ran, in one line.
    pub about: String,
    /// Whether it is a reference of the program: then sizes that the candidate lacks do not fail a gate.
    pub is_reference: bool,
    /// The parts of its sources that were not read.
    pub unread: Unread,
    /// Runs that repeat another one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repeated: Vec<Repeated>,
    #[serde(skip)]
    pub runs: Vec<Measurement>,
}

/// How much of a side's sources was not read.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Unread {
    /// Rows beyond the maximum that is kept.
    pub rows_left_out: u64,
    /// Runs beyond the maximum that is kept.
    pub runs_left_out: u64,
    /// Rows that are cut or have no figures.
    pub rows_cut: u64,
    /// Lines that were not recognised.
    pub lines_unrecognised: u64,
    /// Records that are damaged.
    pub records_damaged: u64,
}

impl Unread {
    fn add(&mut self, lines: &Lines) {
        self.runs_left_out += lines.runs_left_out;
        self.rows_cut += lines.cut;
        self.lines_unrecognised += lines.unrecognised;
    }

    /// As a remark; none where everything was read.
    pub(super) fn words(&self) -> Option<String> {
        let parts: Vec<String> = [
            (self.rows_left_out, "row", "beyond the maximum"),
            (self.runs_left_out, "run", "beyond the maximum"),
            (self.rows_cut, "row", "cut or without figures"),
            (self.lines_unrecognised, "line", "not recognised"),
            (self.records_damaged, "record", "damaged"),
        ]
        .iter()
        .filter(|(number, ..)| *number > 0)
        .map(|(number, one, what)| format!("{} {what}", count(*number, one)))
        .collect();
        (!parts.is_empty()).then(|| format!("not read: {}", parts.join(", ")))
    }
}

/// The sides in order, the baseline first.
///
/// # Errors
/// A name is no file, run or reference, or cannot be read; there are fewer than two sides.
pub(super) fn resolve(arguments: &CompareArguments) -> Result<Vec<Source>> {
    let mut words = arguments.sources.clone();
    if let Some(last) = arguments.last {
        let found = store::last(last)?;
        if found.len() < last {
            bail!(
                "--last {last}: there are {} in the history (busbw list)",
                count(found.len() as u64, "run")
            );
        }
        words.extend(found);
    }
    let mut sources: Vec<Source> = words.iter().map(|word| read(word)).collect::<Result<_>>()?;
    let of_a_job = |source: &&Source| source.runs.iter().any(|run| run.source.form == Form::Watch);
    if let Some(source) = sources.iter().find(of_a_job) {
        bail!(
            "{}: files of busbw's profiler are of one job, whose ranks and communicators are no launches of their own: busbw watch --against RUN holds a job against a run",
            source.side.name
        );
    }
    if let Some(name) = &arguments.with {
        sources.insert(0, reference(name)?);
    } else if let [only] = sources.as_slice()
        && arguments.by.is_none()
        && (arguments.fail_below_limit.is_none() || arguments.fail_below.is_some())
    {
        let Some((nearest, likeness)) = references::nearest(&only.runs) else {
            bail!(
                "there is only one side, and no reference has the test of {} on as many ranks and hosts: name another side, or one of `busbw references`",
                only.side.name
            );
        };
        let source = reference(nearest.name)?;
        let _ = writeln!(
            Printable::new(io::stderr(), false),
            "busbw: compared with the reference {}: {} ({})",
            nearest.name,
            nearest.hardware,
            likeness.words(nearest.gpu)
        );
        sources.insert(0, source);
    }
    if sources.is_empty() {
        bail!("there is nothing to compare: name records, logs, folders or runs, or use --last 2");
    }
    Ok(sources)
}

fn read(word: &Path) -> Result<Source> {
    let text = word.to_string_lossy();
    sources::announced(word);
    if !word.exists() && text != "-" {
        if references::find(&text).is_some() {
            return reference(&text);
        }
        let path = store::find(Some(word)).map_err(|error| {
            anyhow::anyhow!(
                "{text} is no file, no reference (busbw references) and no run: {error:#}"
            )
        })?;
        let read = import::read_path(&path)?;
        return Ok(source(&text, read.measurements, Unread::default()));
    }
    let mut runs = Vec::new();
    let mut unread = Unread::default();
    let mut copies = Copies::default();
    for file in import::files(&[word.to_owned()]) {
        if let Some(of) = copies.of(&file.path) {
            copies.found.push(Repeated {
                name: file.path.display().to_string(),
                of,
                by: Sameness::Text,
                left_out: true,
            });
            continue;
        }
        match import::read_path(&file.path) {
            Ok(read) => {
                unread.add(&read.lines);
                runs.extend(read.measurements);
                copies.read(file.path);
            }
            Err(error) if !file.found => return Err(error.into()),
            // Other files of a folder are ignored; a damaged record is reported.
            Err(error) if is_record(&file.path) => {
                unread.records_damaged += 1;
                let _ = writeln!(Printable::new(io::stderr(), false), "busbw: left out: {error}");
            }
            Err(_) => {}
        }
    }
    if runs.is_empty() {
        bail!("{text} contains no log or record");
    }
    let mut side = source(&text, runs, unread);
    side.repeated.splice(0..0, copies.found);
    Ok(side)
}

/// The figures that a word of the command line names, as one side.
///
/// # Errors
/// It is no file, run or reference, or cannot be read.
pub(crate) fn side(word: &Path) -> Result<Side> {
    Ok(read(word)?.side)
}

/// The runs that a word of the command line names.
///
/// # Errors
/// It is no file, run or reference, or cannot be read.
pub(crate) fn runs(word: &Path) -> Result<Vec<Measurement>> {
    Ok(read(word)?.runs)
}

fn is_record(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json" || extension == "jsonl")
}

fn reference(name: &str) -> Result<Source> {
    let Some(found) = references::find(name) else {
        let names: Vec<&str> = references::all().iter().map(|one| one.name).collect();
        bail!("there is no reference {name}; the references are {}", list(&names, "and"));
    };
    let side = source(found.name, found.runs()?, Unread::default());
    Ok(Source { is_reference: true, ..side })
}

fn source(name: &str, runs: Vec<Measurement>, mut unread: Unread) -> Source {
    let (runs, repeated) = distinct(runs);
    unread.rows_left_out = runs.iter().map(|run| run.rows_left_out).sum();
    let mut about: Vec<String> = runs.iter().map(import::subject).collect();
    about.dedup();
    let about = match about.as_slice() {
        [only] if runs.len() > 1 => format!("{} runs of {only}", runs.len()),
        [first, rest @ ..] if !rest.is_empty() => {
            format!("{first}; {} more", count(runs.len() as u64 - 1, "run"))
        }
        [only] => only.clone(),
        _ => String::new(),
    };
    Source { side: Side::of(name, &runs), about, is_reference: false, unread, repeated, runs }
}

impl Source {
    /// Why its runs are not complete: failures, and rows that were left out.
    pub(super) fn incomplete(&self) -> Vec<String> {
        let failed = self.runs.iter().flat_map(|run| &run.errors);
        let mut reasons: Vec<String> = failed.map(|e| format!("{}: {e}", self.side.name)).collect();
        let left_out = self.unread.rows_left_out;
        if left_out > 0 {
            reasons.push(format!(
                "{}: {} beyond the maximum that is kept",
                self.side.name,
                count(left_out, "row")
            ));
        }
        reasons
    }
}

impl Source {
    /// Remarks above the table: what was not read, and what was read twice.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> = self.unread.words().into_iter().collect();
        let (out, kept): (Vec<&Repeated>, Vec<&Repeated>) =
            self.repeated.iter().partition(|one| one.left_out);
        if let Some(first) = out.first() {
            let why = match first.by {
                Sameness::Text => "the same bytes",
                Sameness::Id => "the same run",
                Sameness::Start => "the same start and figures",
                Sameness::Figures | Sameness::FewFigures => "the same figures in every row",
            };
            remarks.push(format!(
                "{} left out as duplicates ({} is {}: {why})",
                count(out.len() as u64, "run"),
                first.name,
                first.of
            ));
        }
        if let Some(first) = kept.first() {
            remarks.push(format!(
                "{} with the figures of another one, counted as separate launches: too few rows to know ({} and {})",
                count(kept.len() as u64, "run"),
                first.name,
                first.of
            ));
        }
        remarks
    }
}

/// Gives sides that do not state their ranks those of the other sides. Returns a remark for each.
pub(super) fn agree_on_ranks(sources: &mut [Source]) -> Vec<String> {
    let mut remarks = Vec::new();
    for at in 0..sources.len() {
        for other in (0..sources.len()).filter(|other| *other != at) {
            let theirs = sources[other].side.clone();
            if let Some(ranks) = sources[at].side.assume_ranks_of(&theirs) {
                remarks.push(format!(
                    "{} does not state its ranks: {ranks} are assumed, as in {}",
                    sources[at].side.name, theirs.name
                ));
            }
        }
    }
    remarks
}
