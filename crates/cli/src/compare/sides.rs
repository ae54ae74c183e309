//! Which runs the words of the command line mean: files, folders, runs of the history, references.
//! Not what they say of each other.

use std::{
    io::{self, Write},
    path::Path,
};

use anyhow::{Result, bail};
use busbw_analysis::comparison::{Repeated, Sameness, Side, distinct};
use busbw_logs::measurement::Measurement;
use serde::Serialize;

use super::copies::Copies;
use crate::options::CompareArguments;
use busbw_analysis::references;
use busbw_core::quantity::{count, list};
use busbw_logs::import::{self, Lines};
use busbw_store as store;

/// A side, and what it was read from.
#[derive(Debug, Serialize)]
pub(super) struct Source {
    #[serde(flatten)]
    pub side: Side,
    /// What ran, in a line.
    pub about: String,
    /// Whether it is shipped: how far its sizes go is nobody's plan.
    pub is_reference: bool,
    /// What of its sources was not read.
    pub unread: Unread,
    /// Runs that say the same as another one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repeated: Vec<Repeated>,
    #[serde(skip)]
    pub runs: Vec<Measurement>,
}

/// How much of a side's sources was not read.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Unread {
    /// Rows beyond those that are kept.
    pub rows_left_out: u64,
    /// Runs beyond those that are kept.
    pub runs_left_out: u64,
    /// Rows that are cut or have no figures.
    pub rows_cut: u64,
    /// Lines of no known kind.
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

    /// In words; none where all was read.
    pub(super) fn words(&self) -> Option<String> {
        let said: Vec<String> = [
            (self.rows_left_out, "row", "beyond those that are kept"),
            (self.runs_left_out, "run", "beyond those that are kept"),
            (self.rows_cut, "row", "cut or without figures"),
            (self.lines_unrecognised, "line", "of no known kind"),
            (self.records_damaged, "record", "damaged"),
        ]
        .iter()
        .filter(|(number, ..)| *number > 0)
        .map(|(number, one, what)| format!("{} {what}", count(*number, one)))
        .collect();
        (!said.is_empty()).then(|| format!("not read: {}", said.join(", ")))
    }
}

/// The sides in order, the baseline first.
///
/// # Errors
/// A word that means nothing, or one that cannot be read; fewer than two sides.
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
    if let Some(name) = &arguments.with {
        sources.insert(0, reference(name)?);
    } else if let [only] = sources.as_slice()
        && arguments.by.is_none()
    {
        let Some((nearest, likeness)) = references::nearest(&only.runs) else {
            bail!(
                "one side only, and no reference measured what {} did on as many ranks and hosts: name another, or one of `busbw references`",
                only.side.name
            );
        };
        let source = reference(nearest.name)?;
        let _ = writeln!(
            io::stderr(),
            "busbw: compared with the reference {}: {} ({})",
            nearest.name,
            nearest.hardware,
            likeness.words(nearest.gpu)
        );
        sources.insert(0, source);
    }
    if sources.is_empty() {
        bail!("nothing to compare: name records, logs, folders or runs, or use --last 2");
    }
    Ok(sources)
}

fn read(word: &Path) -> Result<Source> {
    let text = word.to_string_lossy();
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
            // Whatever else lies in a folder is none of ours, but a record that is damaged is.
            Err(error) if is_record(&file.path) => {
                unread.records_damaged += 1;
                let _ = writeln!(io::stderr(), "busbw: left out: {error}");
            }
            Err(_) => {}
        }
    }
    if runs.is_empty() {
        bail!("{text}: no file in it is a log or a record");
    }
    let mut side = source(&text, runs, unread);
    side.repeated.splice(0..0, copies.found);
    Ok(side)
}

fn is_record(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json" || extension == "jsonl")
}

fn reference(name: &str) -> Result<Source> {
    let Some(found) = references::find(name) else {
        let names: Vec<&str> = references::all().iter().map(|one| one.name).collect();
        bail!("there is no reference {name}: there are {}", list(&names, "and"));
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
    /// What keeps its runs from being whole.
    pub(super) fn incomplete(&self) -> Vec<String> {
        let failed = self.runs.iter().flat_map(|run| &run.errors);
        let mut said: Vec<String> = failed.map(|e| format!("{}: {e}", self.side.name)).collect();
        let left_out = self.unread.rows_left_out;
        if left_out > 0 {
            said.push(format!(
                "{}: {} beyond those that are kept",
                self.side.name,
                count(left_out, "row")
            ));
        }
        said
    }
}

impl Source {
    /// What is to be known before its figures are: what was not read, and what was read twice.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut said: Vec<String> = self.unread.words().into_iter().collect();
        let (out, kept): (Vec<&Repeated>, Vec<&Repeated>) =
            self.repeated.iter().partition(|one| one.left_out);
        if let Some(first) = out.first() {
            let why = match first.by {
                Sameness::Text => "the same bytes",
                Sameness::Id => "the same run",
                Sameness::Start => "the same start and figures",
                Sameness::Figures | Sameness::FewFigures => "the same figures in every row",
            };
            said.push(format!(
                "{} left out as read before ({} is {}: {why})",
                count(out.len() as u64, "run"),
                first.name,
                first.of
            ));
        }
        if let Some(first) = kept.first() {
            said.push(format!(
                "{} with the figures of another one, and counted: too few rows tell whether it is the same launch ({} and {})",
                count(kept.len() as u64, "run"),
                first.name,
                first.of
            ));
        }
        said
    }
}

/// Lets sides that do not say their ranks take those of the others, and says so.
pub(super) fn agree_on_ranks(sources: &mut [Source]) -> Vec<String> {
    let mut remarks = Vec::new();
    for at in 0..sources.len() {
        for other in (0..sources.len()).filter(|other| *other != at) {
            let theirs = sources[other].side.clone();
            if let Some(ranks) = sources[at].side.assume_ranks_of(&theirs) {
                remarks.push(format!(
                    "{} does not say its ranks: {ranks} are assumed, as of {}",
                    sources[at].side.name, theirs.name
                ));
            }
        }
    }
    remarks
}
