//! `busbw algorithms`: which algorithm the `host` backend takes at which size here, and measuring it anew.
//! Not the measuring itself: ranks do that at the start of a run.

use std::{
    io::{self, Write},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use busbw_core::{Collective, algorithm::Table, exit::Exit};

use crate::options::AlgorithmsArguments;
use busbw_host::machine;
use busbw_render::answer::{answer, json_line};
use busbw_store::algorithms::{self, Measured};

/// Prints the tables of this machine.
///
/// # Errors
/// When measuring fails, or stdout.
pub fn run(arguments: &AlgorithmsArguments) -> Result<Exit> {
    let machine = machine::read(&machine::Root::system());
    let wanted = arguments.ranks.map(usize::from);
    if arguments.measure {
        let ranks = wanted.unwrap_or(machine.cpu.cores.len().max(2));
        algorithms::forget(&machine, ranks)?;
        for collective in Collective::ALL {
            measure(collective, ranks)?;
        }
    }
    let mut measured = algorithms::measured(&machine);
    measured.tables.retain(|table| wanted.is_none_or(|ranks| table.ranks == ranks));
    answer(
        |out, _| if arguments.json { json_line(out, &measured) } else { print(out, &measured) },
    )?;
    Ok(Exit::Ok)
}

/// Starts the shortest run: it measures the algorithms first, as every run does that finds no measurement of them.
fn measure(collective: Collective, ranks: usize) -> Result<()> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let _ = writeln!(io::stderr(), "busbw: measuring {} on {ranks} ranks", collective.name());
    let size = format!("-b 32M -e 32M -n 1 -w 0 -c 0 --batches 1 -g {ranks} --no-record --csv");
    let mut run = Command::new(program);
    // Groups, gates and traffic of the user's own runs do not apply to this one.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("NCCL_TESTS_") {
            run.env_remove(name);
        }
    }
    let output = run
        .arg(collective.name())
        .args(size.split(' '))
        .stdin(Stdio::null())
        .output()
        .context("cannot start a run to measure with")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or("it printed nothing");
        bail!("measuring {} failed: {last}", collective.name());
    }
    Ok(())
}

fn print(out: &mut impl Write, measured: &Measured) -> io::Result<()> {
    let Measured { cpu, cores, busbw, tables } = measured;
    writeln!(out, "# {cpu}, {cores} cores, busbw {busbw}")?;
    if let Ok(path) = algorithms::path() {
        writeln!(out, "# kept in {}", path.display())?;
    }
    if tables.is_empty() {
        return writeln!(out, "# nothing measured yet: a run does it, or --measure");
    }
    writeln!(out, "# {:<13} {:>5} {:>12}  algorithm", "collective", "ranks", "from bytes")?;
    for table in tables {
        for (from, choice) in &table.steps {
            let (name, ranks) = (table.collective.name(), table.ranks);
            writeln!(out, "  {name:<13} {ranks:>5} {from:>12}  {choice}")?;
        }
        let Table { measured_to, .. } = table;
        writeln!(
            out,
            "  {:<13} {:>5} {measured_to:>12}  is the largest that was measured",
            "", ""
        )?;
    }
    Ok(())
}
