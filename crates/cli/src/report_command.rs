//! `busbw report`: reads runs, results of other commands and the files of a job, and writes them as one page.
//! Not its contents (`busbw-report`).

use std::{
    io::{self, Write},
    path::PathBuf,
};

use anyhow::Result;
use busbw_core::exit::Exit;

use crate::{options::ReportArguments, output_file, sources};
use busbw_analysis::explain::Hardware;
use busbw_core::exit::ExitError;
use busbw_core::printable::Printable;
use busbw_report as report;
use busbw_report::{KnownNames, Sources, Text};
use busbw_store as store;

/// Writes the page.
///
/// # Errors
/// A source cannot be read, or the output exists or cannot be written: exit code 2.
pub fn run(arguments: &ReportArguments) -> Result<Exit> {
    let refuse = |text: String| ExitError::new(Exit::Usage, text);
    let output = arguments.output.as_path();
    // Before anything is read: a typing mistake shall not cost a long wait.
    output_file::check(output, arguments.force)
        .map_err(|why| refuse(format!("cannot write the report: {why}")))?;
    let found = |source: &PathBuf| -> PathBuf {
        // The id of a run in the data folder; what is none of these is refused where it is read.
        if source.exists() || source.as_os_str() == "-" {
            return sources::announced(source);
        }
        let found = store::find_result(source).or_else(|_| store::find(Some(source)));
        found.unwrap_or_else(|_| source.clone())
    };
    let newest = match arguments.sources.is_empty() {
        true => Some(store::find(None).map_err(|e| refuse(format!("{e:#}")))?),
        false => None,
    };
    let paths: Vec<PathBuf> =
        newest.into_iter().chain(arguments.sources.iter().map(found)).collect();
    let mut sources = Sources::read(paths.iter().map(PathBuf::as_path))?;
    if sources.runs.iter().any(|run| run.id.is_some()) {
        sources.history = report::history();
    }
    // A folder may describe its machine itself.
    let described = sources.machines.first().map(|path| path.to_string_lossy().into_owned());
    let machine = arguments.machine.as_deref().or(described.as_deref());
    let hardware = Hardware::read(machine, arguments.nodes).map_err(|e| refuse(e.to_string()))?;
    for path in &sources.machines {
        let used = machine == path.to_str();
        let what = if used { "the machine is as it describes it" } else { "a machine, not used" };
        sources.texts.push(Text { name: path.display().to_string(), text: what.to_owned() });
    }
    for unread in &sources.unread {
        let _ = writeln!(Printable::new(io::stderr(), false), "busbw: {unread}");
    }
    let known = arguments.redact.then(|| {
        let mut known = KnownNames::of(&sources);
        sources.files.iter().chain(&paths).for_each(|path| known.learn(path));
        known
    });
    let report = report::report(sources, &hardware, arguments.title.clone());
    let report = match known {
        Some(known) => report::redacted(report, &known)?,
        None => report,
    };
    let mut page = Vec::new();
    // Names and settings may hold anything, and a page may be printed.
    Printable::new(&mut page, false).write_all(report::page(&report)?.as_bytes())?;
    let page = String::from_utf8(page)?;
    let bytes = page.len();
    output_file::write(output, &page, arguments.force)
        .map_err(|why| refuse(format!("cannot write the report: {why}")))?;
    let _ = writeln!(
        io::stderr(),
        "busbw: {}: {} kB, {} rows{}",
        if output.as_os_str() == "-" { "stdout".into() } else { output.to_string_lossy() },
        bytes.div_ceil(1000),
        report.lines(),
        if report.redacted {
            ", names and addresses replaced: read it once before you send it"
        } else {
            ""
        }
    );
    Ok(Exit::Ok)
}
