//! `busbw explain`: reads logs and records, and prints what they say.
//! Not the reading (`import`) and not the judging (`explain`).

use std::{
    io::{self, IsTerminal, Write},
    path::Path,
};

use anyhow::{Context, Result};
use model::exit::Exit;

use crate::{
    Refusal,
    explain::{self, Explanation, Hardware},
    import,
    options::ExplainArguments,
};

/// Explains every source together. What cannot be read is said, and makes the exit code 2.
///
/// # Errors
/// `--machine` that describes no machine, and stdout.
pub fn run(arguments: &ExplainArguments) -> Result<Exit> {
    let hardware = Hardware::read(arguments.machine.as_deref(), arguments.nodes)
        .map_err(|e| Refusal::new(Exit::Usage, e.to_string()))?;
    let stdin = Path::new("-").to_owned();
    let sources = if arguments.sources.is_empty() {
        std::slice::from_ref(&stdin)
    } else {
        &arguments.sources
    };
    let mut runs = Vec::new();
    let mut exit = Exit::Ok;
    for source in sources {
        match import::read_path(source) {
            Ok(read) => {
                remark(source, &read.lines);
                runs.extend(read.measurements);
            }
            Err(e) => {
                let _ = writeln!(io::stderr(), "busbw: {e}");
                exit = Exit::Usage;
            }
        }
    }
    let told = explain::explain(runs, &hardware);
    let mut out = io::BufWriter::new(io::stdout().lock());
    match print(&mut out, &told, arguments.json).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(exit),
        other => other.map(|()| exit).context("cannot write to stdout"),
    }
}

fn print(out: &mut impl Write, told: &[Explanation], json: bool) -> io::Result<()> {
    let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    for (at, one) in told.iter().enumerate() {
        if json {
            serde_json::to_writer(&mut *out, one)?;
            writeln!(out)?;
            continue;
        }
        if at > 0 {
            writeln!(out)?;
        }
        explain::print(out, one, colour)?;
    }
    Ok(())
}

/// What was not read of a source, on stderr.
fn remark(source: &Path, lines: &import::Lines) {
    let name = source.display();
    let mut said = Vec::new();
    if lines.cut > 0 {
        said.push(format!("{} of {} rows are cut or have no figures", lines.cut, lines.rows));
    }
    if lines.runs_left_out > 0 {
        said.push(format!(
            "{} runs beyond the first {} were left out",
            lines.runs_left_out,
            import::MOST_RUNS
        ));
    }
    if lines.unrecognised > 0 {
        said.push(format!(
            "{} of {} lines are of no known kind and were passed over",
            lines.unrecognised, lines.all
        ));
    }
    if !said.is_empty() {
        let _ = writeln!(io::stderr(), "busbw: {name}: {}", said.join("; "));
    }
}
