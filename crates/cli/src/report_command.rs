//! `busbw report`: reads runs, sweeps and matrices of pairs, and writes them as one page.
//! Not what stands on it (`report`).

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::Result;
use model::exit::Exit;

use crate::{
    Refusal,
    explain::Hardware,
    options::ReportArguments,
    report::{self, Known, Sources},
};

/// Writes the page.
///
/// # Errors
/// A source that cannot be read, an output that is there already or cannot be written: exit code 2.
pub fn run(arguments: &ReportArguments) -> Result<Exit> {
    let refuse = |text: String| Refusal::new(Exit::Usage, text);
    let output = arguments.output.as_path();
    // Before anything is read: a typing mistake shall not cost a long wait.
    check_output(output, arguments.force).map_err(refuse)?;
    let hardware = Hardware::read(arguments.machine.as_deref(), arguments.nodes)
        .map_err(|e| refuse(e.to_string()))?;
    let newest = match arguments.sources.is_empty() {
        true => Some(crate::store::find(None).map_err(|e| refuse(format!("{e:#}")))?),
        false => None,
    };
    let paths = newest.iter().chain(&arguments.sources).map(PathBuf::as_path);
    let sources = Sources::read(paths)?;
    let known = Known::of(&sources);
    let report = report::report(sources, &hardware, arguments.title.clone());
    let report = if arguments.redact { report::redacted(report, &known)? } else { report };
    let page = report::page(&report)?;
    let bytes = page.len();
    write(output, &page, arguments.force)
        .map_err(|e| refuse(format!("cannot write the report to {}: {e}", output.display())))?;
    let rows: usize = report.series.iter().map(|series| series.rows.len()).sum();
    let _ = writeln!(
        io::stderr(),
        "busbw: {}: {} kB, {rows} rows{}",
        output.display(),
        bytes.div_ceil(1000),
        if report.redacted { ", names and addresses replaced: read it once before you send it" } else { "" }
    );
    Ok(Exit::Ok)
}

fn check_output(output: &Path, force: bool) -> Result<(), String> {
    let name = output.display();
    match fs::metadata(output) {
        Ok(found) if found.is_dir() => {
            Err(format!("cannot write the report to {name}: it is a folder; name a file in it"))
        }
        Ok(_) if !force => {
            Err(format!("{name} exists: name another file with -o, or overwrite it with --force"))
        }
        _ => Ok(()),
    }
}

/// Writes the page whole, or leaves what was there.
fn write(output: &Path, page: &str, force: bool) -> io::Result<()> {
    // A device or a pipe is written, not replaced.
    if fs::metadata(output).is_ok_and(|found| !found.is_file()) {
        return fs::write(output, page);
    }
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
        .tempfile_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(page.as_bytes())?;
    let kept = if force { file.persist(output) } else { file.persist_noclobber(output) };
    kept.map(drop).map_err(|e| e.error)
}
