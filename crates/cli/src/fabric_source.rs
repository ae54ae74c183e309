//! The fabric that a word names: a fabric file, `-`, or an example; and flow files.
//! Not the formats (`busbw_hardware::{fabric, flows}`).

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use anyhow::Result;
use busbw_analysis::machine_argument::MachineArgument;
use busbw_core::exit::{Exit, ExitError};
use busbw_hardware::{
    fabric::{self, Fabric},
    flows::{self, FlowFile},
    machine::{Machine, ready},
};

/// Maximum size of a fabric file, bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads a fabric. The machine that a file names is a ready machine, or a file beside it.
///
/// # Errors
/// The file cannot be read or is no fabric file: the line, what is wrong there, what is allowed.
pub fn read(word: &Path) -> Result<Fabric> {
    let text = text_of(word)?;
    let folder = word.parent().unwrap_or(Path::new(""));
    fabric::parse(&text, &|name| machine_of(name, folder))
        .map_err(|error| usage(format!("{}, {error}", word.display())).into())
}

/// Whether a file is a fabric file rather than one of a machine: it has tiers of switches.
pub fn is_fabric(word: &Path) -> bool {
    let has_tiers = |text: &str| {
        let line =
            |line: &str| line.trim().starts_with("[[tiers]]") || line.trim().starts_with("tiers");
        text.lines().any(line)
    };
    word.extension().is_some_and(|ending| ending == "toml")
        && fs::metadata(word).is_ok_and(|file| file.is_file() && file.len() <= MAX_FILE_BYTES)
        && fs::read_to_string(word).is_ok_and(|text| has_tiers(&text))
}

/// Reads a flow file, or `-`.
///
/// # Errors
/// It cannot be read or is no flow file: the line, and what is wrong there.
pub fn read_flows(word: &Path) -> Result<FlowFile> {
    let text = bounded(word, "flow file", "docs/fabric.md has one")?;
    flows::parse(&text).map_err(|error| usage(format!("{}, {error}", word.display())).into())
}

fn text_of(word: &Path) -> Result<String> {
    if !word.exists()
        && let Some(example) = fabric::example(&word.to_string_lossy())
    {
        return Ok(example.to_owned());
    }
    bounded(word, "fabric file", "`busbw plan --example clos-2tier` prints one to start from")
}

fn bounded(word: &Path, what: &str, remedy: &str) -> Result<String> {
    let mut bytes = Vec::new();
    let read = if word == Path::new("-") {
        io::stdin().lock().take(MAX_FILE_BYTES).read_to_end(&mut bytes)
    } else {
        fs::File::open(word).and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut bytes))
    };
    read.map_err(|e| usage(format!("cannot read the {what} {}: {e}; {remedy}", word.display())))?;
    String::from_utf8(bytes).map_err(|_| usage(format!("{} is no text", word.display())).into())
}

fn machine_of(name: &str, folder: &Path) -> Result<Machine, String> {
    if let Some(machine) = ready::ready(name) {
        return Ok(machine);
    }
    let beside = folder.join(name);
    if !beside.exists() {
        return Err(format!(
            "`{name}` is no ready machine ({}), and there is no such file beside the fabric file",
            ready::names().join(", ")
        ));
    }
    let named = MachineArgument::read(&beside).and_then(|named| named.machine());
    named.map_err(|error| error.to_string())
}

fn usage(text: String) -> ExitError {
    ExitError::new(Exit::Usage, text)
}
