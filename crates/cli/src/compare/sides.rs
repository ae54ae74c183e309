//! Which runs the words of the command line mean: files, folders, runs of the history, references.
//! Not what they say of each other.

use std::{
    io::{self, Write},
    path::Path,
};

use anyhow::{Result, bail};
use model::{comparison::Side, measurement::Measurement};
use serde::Serialize;

use crate::{
    import,
    options::CompareArguments,
    quantity::{count, list},
    references, store,
};

/// A side, and what it was read from.
#[derive(Debug, Serialize)]
pub(super) struct Source {
    #[serde(flatten)]
    pub side: Side,
    /// What ran, in a line.
    pub about: String,
    /// Whether it is shipped: how far its sizes go is nobody's plan.
    pub is_reference: bool,
    #[serde(skip)]
    pub runs: Vec<Measurement>,
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
        let Some((nearest, same_gpu)) = references::nearest(&only.runs) else {
            bail!(
                "one side only, and no reference measured what {} did: name another, or one of `busbw references`",
                only.side.name
            );
        };
        let source = reference(nearest.name)?;
        let _ = writeln!(
            io::stderr(),
            "busbw: compared with the reference {}: {} ({})",
            nearest.name,
            nearest.hardware,
            if same_gpu {
                "the nearest by hardware"
            } else {
                "the same test on as many ranks; none has the same GPU, or the runs do not name theirs"
            }
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
        return Ok(source(&text, import::read_path(&path)?.measurements));
    }
    let mut runs = Vec::new();
    for file in import::files(&[word.to_owned()]) {
        match import::read_path(&file.path) {
            Ok(read) => runs.extend(read.measurements),
            Err(error) if !file.found => return Err(error.into()),
            // Whatever else lies in a folder is none of ours, but a record that is damaged is.
            Err(error) if is_record(&file.path) => {
                let _ = writeln!(io::stderr(), "busbw: left out: {error}");
            }
            Err(_) => {}
        }
    }
    if runs.is_empty() {
        bail!("{text}: no file in it is a log or a record");
    }
    Ok(source(&text, runs))
}

fn is_record(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json" || extension == "jsonl")
}

fn reference(name: &str) -> Result<Source> {
    let Some(found) = references::find(name) else {
        let names: Vec<&str> = references::all().iter().map(|one| one.name).collect();
        bail!("there is no reference {name}: there are {}", list(&names, "and"));
    };
    Ok(Source { is_reference: true, ..source(found.name, found.runs()?) })
}

fn source(name: &str, runs: Vec<Measurement>) -> Source {
    let mut about: Vec<String> = runs.iter().map(import::subject).collect();
    about.dedup();
    let about = match about.as_slice() {
        [only] if runs.len() > 1 => format!("{} runs of {only}", runs.len()),
        [first, rest @ ..] if !rest.is_empty() => format!("{first}; {} more runs", runs.len() - 1),
        [only] => only.clone(),
        _ => String::new(),
    };
    Source { side: Side::of(name, &runs), about, is_reference: false, runs }
}

impl Source {
    /// What keeps its runs from being whole.
    pub(super) fn incomplete(&self) -> Vec<String> {
        let failed = self.runs.iter().flat_map(|run| &run.errors);
        let mut said: Vec<String> = failed.map(|e| format!("{}: {e}", self.side.name)).collect();
        let left_out: u64 = self.runs.iter().map(|run| run.rows_left_out).sum();
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
