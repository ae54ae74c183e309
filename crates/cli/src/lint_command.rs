//! `busbw lint`: reads files or stdin and prints findings; also the check of the environment at every start.
//! Not the rules (`busbw-lint`).

use std::{
    fs,
    io::{self, Read, Write},
    path::Path,
};

use anyhow::{Context, Result};
use busbw_core::exit::Exit;

use crate::options::LintArguments;
use busbw_core::exit::ExitError;
use busbw_host::machine;
use busbw_lint as lint;
use busbw_lint::{Finding, Options, Rule, Severity};
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
    let files =
        if arguments.files.is_empty() { std::slice::from_ref(&stdin) } else { &arguments.files };
    let mut worst = None;
    let mut out = io::stdout().lock();
    for file in files {
        let text = read(file).map_err(|e| usage(format!("{e:#}")))?;
        for finding in lint::lint_text(&text, &options) {
            worst = worst.max(Some(seriousness(&finding)));
            let printed = if arguments.json {
                print_json(&mut out, file, &finding)
            } else if files.len() > 1 {
                writeln!(out, "{}: {finding}", file.display())
            } else {
                writeln!(out, "{finding}")
            };
            match printed {
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Ok),
                other => other.context("cannot write to stdout")?,
            }
        }
    }
    Ok(if worst > Some(0) { Exit::Internal } else { Exit::Ok })
}

fn seriousness(finding: &Finding) -> u8 {
    match finding.severity {
        Severity::Note => 0,
        Severity::Warning => 1,
        Severity::Error => 2,
    }
}

fn print_json(out: &mut impl Write, file: &Path, finding: &Finding) -> io::Result<()> {
    let mut value = serde_json::to_value(finding)?;
    if let Some(object) = value.as_object_mut() {
        object.insert("file".to_owned(), file.to_string_lossy().into());
    }
    writeln!(out, "{value}")
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
        .filter(|finding| names.is_empty() || names.contains(&finding.variable))
        .filter(|finding| finding.rule != Rule::PrefixMatch || takes_more(finding, &devices))
        .map(|finding| finding.to_string())
        .collect()
}

/// Whether a list of name prefixes matches a device of this machine that it does not name in full: only
/// then it is reported at every start.
fn takes_more(finding: &Finding, devices: &[String]) -> bool {
    let names: Vec<&str> =
        finding.value.as_deref().unwrap_or("").split(',').map(device_of_entry).collect();
    devices.iter().any(|device| {
        !names.contains(&device.as_str()) && names.iter().any(|name| device.starts_with(name))
    })
}

/// `mlx5_1:1` names the device mlx5_1.
fn device_of_entry(entry: &str) -> &str {
    entry.trim().split(':').next().unwrap_or("")
}
