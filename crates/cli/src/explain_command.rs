//! `busbw explain`: reads logs and records, explains them and prints the explanations; of a job that hangs the verdict.
//! Not the reading (`busbw_logs::import`, `hang_evidence`), and not the rules (`busbw_analysis`).

use std::{
    io::{self, Write},
    path::Path,
};

use anyhow::Result;
use busbw_core::exit::Exit;
use busbw_core::{
    environment::{RELAYED, SWEPT},
    printable::Printable,
    quantity::count,
};

use crate::{hang_evidence::HangEvidence, options::ExplainArguments, ready_machines, sources};
use busbw_analysis::{
    explain::{self, Explanation, Hardware},
    hang::{self, HangReport},
};
use busbw_core::exit::ExitError;
use busbw_logs::import::{self, Entry};
use busbw_render::answer::{Out, answer, json_line};
use busbw_runner::request::Summary;

/// What says the last line of this process's own run. A sweep has a table for all its launches, and a relayed run's
/// line is said where its record is.
pub fn of_this_run() -> Option<Summary> {
    let elsewhere = [SWEPT, RELAYED].iter().any(|name| std::env::var_os(name).is_some());
    (!elsewhere).then_some(explain::summary)
}

/// Explains all sources together. A source that cannot be read is named on stderr and makes the exit
/// code 2.
///
/// # Errors
/// `--machine` describes no machine, or stdout cannot be written.
pub fn run(arguments: &ExplainArguments) -> Result<Exit> {
    if arguments.list_machines {
        return ready_machines::list(arguments.json);
    }
    let on_stdin = arguments.sources.iter().any(|word| word.as_os_str() == "-");
    if arguments.machine.as_deref() == Some("-") && (on_stdin || arguments.sources.is_empty()) {
        let text = "--machine - and the log cannot both be stdin: name a file for one of them";
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    let mut hang = HangEvidence::default();
    let mut exit = Exit::Ok;
    if let Some(address) = &arguments.ras {
        hang.ask_ras(address);
    }
    // RAS alone is enough to explain.
    let named = match (&arguments.ras, arguments.sources.is_empty()) {
        (Some(_), true) => Vec::new(),
        _ => sources::find(&arguments.sources)?,
    };
    let sources = hang.take(&named, &mut exit);
    let hardware = Hardware::read(arguments.machine.as_deref(), arguments.nodes)
        .map_err(|e| ExitError::new(Exit::Usage, e.to_string()))?;
    let mut runs = Vec::new();
    let mut refused = Vec::new();
    let mut left_out = Vec::new();
    for Entry { path: source, found } in &sources {
        match import::read_path(source) {
            Ok(read) => {
                remark(source, &read.lines);
                hang.logs(source, &read.measurements);
                for run in read.measurements {
                    match hardware.refuses(&run) {
                        Some(why) => refused.push(format!("{}: {why}", source.display())),
                        None => runs.push(run),
                    }
                }
            }
            // A folder has files of other programs, too.
            Err(_) if *found => left_out.push(source.as_path()),
            Err(e) => {
                let _ = writeln!(Printable::new(io::stderr(), false), "busbw: {e}");
                exit = Exit::Usage;
            }
        }
    }
    if arguments.verbose && !left_out.is_empty() {
        say_left_out(&left_out);
    }
    refused.dedup();
    for why in &refused {
        let _ = writeln!(Printable::new(io::stderr(), false), "busbw: --nodes: {why}");
        exit = Exit::Usage;
    }
    let verdict = hang.judge(&mut exit);
    // What tells of a hang may tell how fast the job was, too: beside a verdict that finds a fault nobody asks for that.
    if !verdict.as_ref().is_some_and(|one| one.verdict.is_fault()) {
        runs.splice(0..0, named.iter().flat_map(|path| import::watched(path)));
    }
    if verdict.is_none() && runs.is_empty() && exit == Exit::Ok {
        let text = "nothing that was named can be read as a log, a record or a dump";
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    let explanations = explain::explain(runs, &hardware);
    answer(|out, colour| {
        if let Some(verdict) = &verdict {
            print_hang(out, verdict, arguments, colour)?;
        }
        // Without a file there is nothing else to say.
        match explanations.is_empty() && verdict.is_some() {
            true => Ok(()),
            false => print(out, &explanations, arguments, colour),
        }
    })?;
    Ok(exit)
}

fn print_hang(
    out: &mut Out,
    verdict: &HangReport,
    arguments: &ExplainArguments,
    colour: bool,
) -> io::Result<()> {
    match arguments {
        ExplainArguments { json: true, .. } => json_line(out, verdict),
        ExplainArguments { markdown: true, .. } => hang::print_markdown(out, verdict),
        _ => hang::print(out, verdict, arguments.verbose, colour),
    }
}

fn print(
    out: &mut Out,
    explanations: &[Explanation],
    arguments: &ExplainArguments,
    colour: bool,
) -> io::Result<()> {
    match arguments {
        ExplainArguments { json: true, .. } => {
            explanations.iter().try_for_each(|one| json_line(out, one))
        }
        ExplainArguments { markdown: true, .. } => explain::print_markdown(out, explanations),
        ExplainArguments { verbose: true, .. } => explain::print_all(out, explanations, colour),
        _ => explain::print_briefly(out, explanations, colour),
    }
}

/// Says which files of folders are no logs or dumps.
fn say_left_out(files: &[&Path]) {
    let name = |path: &&Path| {
        path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    };
    let mut names: Vec<String> = files.iter().take(MAX_NAMED).map(name).collect();
    if let Some(more) = files.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
        names.push(format!("{more} more"));
    }
    let text = format!(
        "{} of the folders cannot be read as logs or dumps: {}",
        count(files.len() as u64, "file"),
        names.join(", ")
    );
    let _ = writeln!(Printable::new(io::stderr(), false), "busbw: {text}");
}

/// The most files that are named.
const MAX_NAMED: usize = 3;

/// Prints the number of lines of a source that were not read, on stderr.
fn remark(source: &Path, lines: &import::Lines) {
    if let Some(unread) = lines.unread() {
        let _ =
            writeln!(Printable::new(io::stderr(), false), "busbw: {}: {unread}", source.display());
    }
}
