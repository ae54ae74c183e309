//! `busbw explain`: reads logs and records, and prints what they say.
//! Not the reading (`import`) and not the judging (`explain`).

use std::{
    io::{self, Write},
    path::Path,
};

use anyhow::Result;
use busbw_core::exit::Exit;

use crate::options::ExplainArguments;
use busbw_analysis::explain::{self, Explanation, Hardware};
use busbw_core::exit::ExitError;
use busbw_logs::import;
use busbw_render::answer::{Out, answer, json_line};

/// Explains every source together. What cannot be read is said, and makes the exit code 2.
///
/// # Errors
/// `--machine` that describes no machine, and stdout.
pub fn run(arguments: &ExplainArguments) -> Result<Exit> {
    let stdin = Path::new("-").to_owned();
    let sources = if arguments.sources.is_empty() {
        std::slice::from_ref(&stdin)
    } else {
        &arguments.sources
    };
    if arguments.machine.as_deref() == Some("-") && sources.contains(&stdin) {
        let text = "--machine - and the log cannot both be stdin: name a file for one of them";
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    let hardware = Hardware::read(arguments.machine.as_deref(), arguments.nodes)
        .map_err(|e| ExitError::new(Exit::Usage, e.to_string()))?;
    let mut runs = Vec::new();
    let mut exit = Exit::Ok;
    let mut refused = Vec::new();
    for source in sources {
        match import::read_path(source) {
            Ok(read) => {
                remark(source, &read.lines);
                for run in read.measurements {
                    match hardware.refuses(&run) {
                        Some(why) => refused.push(format!("{}: {why}", source.display())),
                        None => runs.push(run),
                    }
                }
            }
            Err(e) => {
                let _ = writeln!(io::stderr(), "busbw: {e}");
                exit = Exit::Usage;
            }
        }
    }
    refused.dedup();
    for why in &refused {
        let _ = writeln!(io::stderr(), "busbw: --nodes: {why}");
        exit = Exit::Usage;
    }
    let told = explain::explain(runs, &hardware);
    answer(|out, colour| print(out, &told, arguments.json, colour))?;
    Ok(exit)
}

fn print(out: &mut Out, told: &[Explanation], json: bool, colour: bool) -> io::Result<()> {
    if json {
        return told.iter().try_for_each(|one| json_line(out, one));
    }
    explain::print_all(out, told, colour)
}

/// What was not read of a source, on stderr.
fn remark(source: &Path, lines: &import::Lines) {
    if let Some(unread) = lines.unread() {
        let _ = writeln!(io::stderr(), "busbw: {}: {unread}", source.display());
    }
}
