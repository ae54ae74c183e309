//! `busbw import`: reads logs and records of any program and prints their runs, as text or as folded records.
//! Not the parsing (`busbw_logs::import`), and not the meaning of the figures (`busbw-analysis`).

use std::io::{self, Write};

use anyhow::Result;
use busbw_core::exit::Exit;
use busbw_logs::measurement::Folded;

use crate::{options::ImportArguments, sources};
use busbw_core::{
    printable::{Printable, printable},
    quantity::count,
};
use busbw_logs::import::{self, Entry, Found};
use busbw_render::answer::{Out, answer, json_line};

/// Reads every source and prints its runs as they are read. A named source without a run is reported on
/// stderr and makes the exit code 2; a folder does so only if none of its files has one.
///
/// # Errors
/// When stdout cannot be written.
pub fn run(arguments: &ImportArguments) -> Result<Exit> {
    let words = sources::find(&arguments.sources)?;
    let Found { files, virtual_folders } = import::find(&words);
    for folder in &virtual_folders {
        print_remark(&format!(
            "{} is skipped: it is a virtual file system; name a file in it to read it",
            folder.display()
        ));
    }
    let mut totals = Totals::default();
    answer(|out, colour| {
        for file in &files {
            totals.read(out, file, arguments.json, colour)?;
        }
        Ok(())
    })?;
    if files.len() > 1 {
        print_remark(&format!(
            "{}: {}, {}; {} refused",
            count(files.len() as u64, "file"),
            count(totals.runs, "run"),
            count(totals.rows, "row"),
            totals.refused
        ));
    }
    Ok(if totals.named_refused || totals.runs == 0 { Exit::Usage } else { Exit::Ok })
}

/// Counts over all sources.
#[derive(Default)]
struct Totals {
    runs: u64,
    rows: u64,
    refused: u64,
    named_refused: bool,
}

impl Totals {
    fn read(&mut self, out: &mut Out, file: &Entry, json: bool, colour: bool) -> io::Result<()> {
        let mut written = Ok(());
        let (runs, rows) = (self.runs, self.rows);
        let read = import::each_of(&file.path, &mut |run| {
            self.runs += 1;
            self.rows += run.rows.len() as u64 + run.rows_left_out;
            if written.is_ok() {
                written = if json {
                    json_line(out, &Folded::from(run))
                } else {
                    import::print(out, &run, colour)
                };
            }
        });
        written?;
        let name = file.path.display().to_string();
        let name = printable(&name);
        match read {
            Ok(lines) if json => {
                if lines.unrecognised + lines.cut > 0 {
                    print_remark(&format!(
                        "{name}: {}",
                        import::source(&lines).unwrap_or_default()
                    ));
                }
            }
            Ok(lines) => {
                let (runs, rows) = (count(self.runs - runs, "run"), count(self.rows - rows, "row"));
                let rest =
                    import::source(&lines).map_or(String::new(), |lines| format!("; {lines}"));
                writeln!(out, "{name}: {runs}, {rows}{rest}\n")?;
            }
            Err(error) => {
                self.refused += 1;
                self.named_refused |= !file.found;
                out.flush()?;
                print_remark(&error.to_string());
            }
        }
        Ok(())
    }
}

fn print_remark(text: &str) {
    let _ = writeln!(Printable::new(io::stderr(), false), "busbw: {text}");
}
