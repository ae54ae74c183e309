//! `busbw lint`: reads files or stdin and prints findings; also the check of the environment at every start.
//! Not the rules (`busbw-lint`).

use std::{
    fs,
    io::{self, IsTerminal, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use busbw_core::{
    exit::Exit,
    finding::{Finding, Place, Severity},
    record::Folded,
};

use crate::{options::LintArguments, sources};
use busbw_core::exit::ExitError;
use busbw_host::machine;
use busbw_lint as lint;
use busbw_lint::{Options, PREFIX_MATCH};
use busbw_logs::measurement::version_text;
use busbw_render::{
    answer::{answer, json_line},
    findings,
};
use busbw_store as store;

/// Reads and checks the sources. The exit code is 1 if a finding is more than a note.
///
/// # Errors
/// A file cannot be read.
pub fn run(arguments: &LintArguments) -> Result<Exit> {
    let usage = |text: String| ExitError::new(Exit::Usage, text);
    let nccl_version = match &arguments.nccl {
        None => None,
        Some(text) => Some(
            text.parse()
                .map_err(|_| usage(format!("--nccl {text} is no version such as 2.28.9")))?,
        ),
    };
    let options = Options { nccl_version };
    let stdin = Path::new("-").to_owned();
    if arguments.files.is_empty() && io::stdin().is_terminal() {
        let text = "there is nothing to check: name a script, an mpirun line in a file, or a run; `-` reads stdin";
        return Err(usage(text.to_owned()).into());
    }
    let files =
        if arguments.files.is_empty() { std::slice::from_ref(&stdin) } else { &arguments.files };
    let mut wrong = false;
    for file in files {
        let mut found = match record(file) {
            Some(path) => {
                of_record(&store::read(&path?).map_err(|e| usage(e.to_string()))?, &options)
            }
            None => {
                let text = read(&sources::announced(file)).map_err(|e| usage(format!("{e:#}")))?;
                lint::lint_text(&text, &options)
            }
        };
        for finding in &mut found {
            let Some(place) = finding.place.take() else { continue };
            let file = Some(file.to_string_lossy().into_owned());
            *finding = finding.clone().place(Place { file, ..place });
        }
        wrong |= found.iter().any(|finding| finding.severity.is_wrong());
        answer(|out, colour| {
            if arguments.json {
                return found.iter().try_for_each(|finding| json_line(out, finding));
            }
            findings(out, &found, colour)
        })?;
    }
    Ok(if wrong { Exit::Internal } else { Exit::Ok })
}

/// The record that a word names: the id of a run, or a file of that kind.
fn record(word: &Path) -> Option<Result<PathBuf>> {
    if word.is_file() {
        let named_so = word.extension().is_some_and(|extension| extension == "jsonl");
        return (named_so && store::read(word).is_ok()).then(|| Ok(word.to_owned()));
    }
    if word == Path::new("-") || word.exists() {
        return None;
    }
    // No id either: a file that cannot be read.
    match sources::find_one(word) {
        Ok(path) if path == word => None,
        found => Some(found),
    }
}

/// Findings about the settings that a record has, for the NCCL that the run had.
fn of_record(record: &Folded, options: &Options) -> Vec<Finding> {
    let [_, version] = record.run.nccl;
    let ran = (version > 0).then(|| version_text(version).parse().ok()).flatten();
    let mut options = *options;
    options.nccl_version = options.nccl_version.or(ran);
    let settings = record.run.environment.iter();
    lint::lint_environment(settings.map(|(name, value)| (name.as_str(), value.as_str())), &options)
}

/// A file's text, or stdin's for `-`; bytes that are no UTF-8 become replacement characters.
fn read(file: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        io::stdin().lock().read_to_end(&mut bytes).context("cannot read stdin")?;
    } else {
        bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Findings about this process's own settings, without notes. They go to stderr and into the record, so
/// secrets are masked before the rules run.
pub fn look_at_environment() -> Vec<String> {
    look_at(Vec::new())
}

/// The same for `set`, secrets masked, together with what they leave of our own settings. What is wrong
/// with those alone is left out, unless nothing is set.
pub fn look_at(set: Vec<(String, String)>) -> Vec<String> {
    let names: Vec<String> = set.iter().map(|(name, _)| name.clone()).collect();
    let variables: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .map(|(name, value)| {
            let value = store::shown(&name, &value);
            (name, value)
        })
        .filter(|(name, _)| !names.contains(name))
        .chain(set)
        .collect();
    let pairs = variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let devices = machine::device_names(&machine::Root::system());
    lint::lint_environment(pairs, &Options::default())
        .into_iter()
        .filter(|finding| finding.severity != Severity::Note)
        .filter(|finding| {
            let names_it = |variable: &str| names.iter().any(|name| name == variable);
            names.is_empty() || finding.variable().is_some_and(names_it)
        })
        .filter(|finding| finding.rule != PREFIX_MATCH || takes_more(finding, &devices))
        .map(|finding| finding.to_string())
        .collect()
}

/// Whether a list of name prefixes matches a device of this machine that it does not name in full: only
/// then it is reported at every start.
fn takes_more(finding: &Finding, devices: &[String]) -> bool {
    let value = finding.place.as_ref().and_then(|place| place.value.as_deref());
    let names: Vec<&str> = value.unwrap_or("").split(',').map(device_of_entry).collect();
    devices.iter().any(|device| {
        !names.contains(&device.as_str()) && names.iter().any(|name| device.starts_with(name))
    })
}

/// `mlx5_1:1` names the device mlx5_1.
fn device_of_entry(entry: &str) -> &str {
    entry.trim().split(':').next().unwrap_or("")
}
