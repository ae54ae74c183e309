//! `busbw topo`: reads this machine or a file, and prints the tree, the ways, the links, what is wrong.
//! Not the reading of this machine (`topo`) and not the judging (`model::topology`).

use std::{
    fs,
    io::{self, Read, Write},
    path::Path,
};

use anyhow::{Context, Result};
use model::{
    exit::Exit,
    topology::{Input, recognise, write},
};
use native::nvml;

use crate::{
    Refusal,
    answer::{answer, json_line},
    machine,
    options::TopoArguments,
    topo::{self, Report},
};

/// Most bytes of a file; the largest real ones have some 100 kB.
const MOST_BYTES: u64 = 16 << 20;

/// Reads and prints. What is wrong with the host does not fail.
///
/// # Errors
/// A file that cannot be read or is none of the forms, and stdout.
pub fn run(arguments: &TopoArguments) -> Result<Exit> {
    let report = match &arguments.file {
        Some(file) => from_file(file).map_err(|e| Refusal::new(Exit::Usage, format!("{e:#}")))?,
        None => from_machine(arguments.root.as_deref())?,
    };
    if let Some(to) = &arguments.xml {
        let Some(system) = &report.system else {
            let text = format!("--xml: {} tells no tree of devices to write", report.source);
            return Err(Refusal::new(Exit::Usage, text).into());
        };
        return write_xml(to, &write(system));
    }
    answer(
        |out, colour| {
            if arguments.json { json_line(out, &report) } else { report.print(out, colour) }
        },
    )?;
    Ok(Exit::Ok)
}

fn write_xml(to: &Path, xml: &str) -> Result<Exit> {
    if to == Path::new("-") {
        answer(|out, _| out.write_all(xml.as_bytes()))?;
        return Ok(Exit::Ok);
    }
    let refused = |e| Refusal::new(Exit::Usage, format!("cannot write {}: {e}", to.display()));
    fs::write(to, xml).map_err(refused)?;
    Ok(Exit::Ok)
}

fn from_file(file: &Path) -> Result<Report> {
    // A name of a machine that is built in, unless there is such a file.
    let name = file.to_string_lossy();
    if let Some(machine) = model::machine::ready(&name).filter(|_| !file.exists()) {
        let note = "a ready machine: what its makers publish".to_owned();
        return Ok(Report::of_machine(&name, machine, vec![note]));
    }
    let mut bytes = Vec::new();
    let name = if file == Path::new("-") {
        io::stdin()
            .lock()
            .take(MOST_BYTES + 1)
            .read_to_end(&mut bytes)
            .context("cannot read stdin")?;
        "stdin".to_owned()
    } else {
        let opened =
            fs::File::open(file).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes));
        opened.with_context(|| format!("cannot read {}", file.display()))?;
        file.display().to_string()
    };
    anyhow::ensure!(bytes.len() as u64 <= MOST_BYTES, "{name} has more than {MOST_BYTES} bytes");
    let text = String::from_utf8_lossy(&bytes);
    let input = match recognise(&text) {
        Ok(input) => input,
        Err(why) => {
            return machine_file(&name, &text)
                .unwrap_or_else(|| Err(why).context(format!("cannot use {name}")));
        }
    };
    let note = match &input {
        Input::System(system) => {
            let whose = if system.version == 2 { "RCCL" } else { "NCCL" };
            format!(
                "{whose}'s topology: it tells no port states, one end of links, and no host bridges (PHB may be NODE)"
            )
        }
        Input::Graphs(_) => "NCCL's graphs".to_owned(),
        Input::Matrices(_) => "nvidia-smi topo -m: it tells no rates".to_owned(),
    };
    Ok(Report::new(&name, input, vec![note]))
}

/// A machine file, where the text looks like one: keys and values, no table of nvidia-smi.
fn machine_file(name: &str, text: &str) -> Option<Result<Report>> {
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'))?;
    if !first.starts_with('[') && !first.contains('=') || first.starts_with('<') {
        return None;
    }
    let machine = model::machine::parse(text);
    let note = "a machine file: figures as somebody wrote them down".to_owned();
    let report = machine.map(|machine| Report::of_machine(name, machine, vec![note]));
    Some(report.with_context(|| format!("cannot use {name} as a machine file")))
}

/// This machine; or a recorded one, of which no driver can be asked.
fn from_machine(recorded: Option<&Path>) -> Result<Report> {
    let mut notes = Vec::new();
    let (source, root, driver) = match recorded {
        Some(folder) => {
            if !folder.join("sys").is_dir() {
                let text = format!("--root {}: there is no folder sys in it", folder.display());
                return Err(Refusal::new(Exit::Usage, text).into());
            }
            notes.push(
                "a recorded tree: no driver was asked for NVLinks and numbers of GPUs".to_owned(),
            );
            (folder.display().to_string(), machine::Root::new(folder), None)
        }
        None => {
            let driver = nvml::driver();
            if let Err(why) = &driver {
                notes.push(format!("no NVML ({why}): NVLinks and numbers of GPUs are not known"));
            }
            (machine::host_name(), machine::Root::system(), driver.ok())
        }
    };
    let system = topo::read(&root, driver.as_ref());
    if system.devices.is_empty() {
        notes.push("no GPU and no network adapter is on the PCI bus that /sys shows".to_owned());
    }
    Ok(Report::new(&source, Input::System(system), notes))
}
