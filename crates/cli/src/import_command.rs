//! `busbw import`: what logs and records of anyone hold, for people or as folded records.
//! Not the reading (`import`), and not what the figures mean (`explain`).

use std::{
    io::{self, Write},
    path::PathBuf,
};

use anyhow::Result;
use busbw_core::exit::Exit;
use busbw_logs::measurement::Folded;

use crate::options::ImportArguments;
use busbw_core::{
    printable::{Printable, printable},
    quantity::count,
};
use busbw_logs::import::{self, Entry, Found};
use busbw_render::answer::{Out, answer, json_line};

/// Reads every source and prints its runs as they come. A source that gives none is said, and makes the
/// exit code 2 if it was named; of a folder's files only if none gives any.
///
/// # Errors
/// When stdout cannot be written.
pub fn run(arguments: &ImportArguments) -> Result<Exit> {
    let words = match arguments.sources.as_slice() {
        [] => &[PathBuf::from("-")],
        words => words,
    };
    let Found { files, made_up } = import::find(words);
    for folder in &made_up {
        say(&format!(
            "{} is passed over: the kernel makes up the files in it; name one to read it",
            folder.display()
        ));
    }
    let mut told = Told::default();
    answer(|out, colour| {
        for file in &files {
            told.read(out, file, arguments.json, colour)?;
        }
        Ok(())
    })?;
    if files.len() > 1 {
        say(&format!(
            "{}: {}, {}; {} refused",
            count(files.len() as u64, "file"),
            count(told.runs, "run"),
            count(told.rows, "row"),
            told.refused
        ));
    }
    Ok(if told.named_refused || told.runs == 0 { Exit::Usage } else { Exit::Ok })
}

/// What was read so far.
#[derive(Default)]
struct Told {
    runs: u64,
    rows: u64,
    refused: u64,
    named_refused: bool,
}

impl Told {
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
                    say(&format!("{name}: {}", import::source(&lines).unwrap_or_default()));
                }
            }
            Ok(lines) => {
                let (runs, rows) = (count(self.runs - runs, "run"), count(self.rows - rows, "row"));
                let rest = import::source(&lines).map_or(String::new(), |said| format!("; {said}"));
                writeln!(out, "{name}: {runs}, {rows}{rest}\n")?;
            }
            Err(error) => {
                self.refused += 1;
                self.named_refused |= !file.found;
                out.flush()?;
                say(&error.to_string());
            }
        }
        Ok(())
    }
}

fn say(text: &str) {
    let _ = writeln!(Printable::new(io::stderr(), false), "busbw: {text}");
}
