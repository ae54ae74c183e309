//! `busbw topo`: reads this machine or a file, and prints the tree, the paths, the links, what is wrong.
//! Not the reading of this machine (`busbw_host::topo`) and not the judging (`busbw_hardware::topology`).

use std::{fs, io::Write, path::Path};

use anyhow::Result;
use busbw_core::exit::Exit;
use busbw_ffi::nvml;
use busbw_hardware::topology::write;

use crate::topo::Report;
use crate::{fabric_source, options::TopoArguments, sources};
use busbw_analysis::machine_argument::{Described, MachineArgument};
use busbw_core::exit::ExitError;
use busbw_host::machine;
use busbw_render::answer::{answer, json_line};

/// Reads and prints. Findings do not change the exit code.
///
/// # Errors
/// A file cannot be read or has no known format, or stdout cannot be written.
pub fn run(arguments: &TopoArguments) -> Result<Exit> {
    if let Some(file) = arguments.file.as_deref().filter(|file| fabric_source::is_fabric(file)) {
        if arguments.xml.is_some() {
            let text = format!("--xml: {} is a fabric, not a host", file.display());
            return Err(ExitError::new(Exit::Usage, text).into());
        }
        return crate::topo::fabric::show(file, arguments.json);
    }
    let report = match &arguments.file {
        Some(word) => {
            let named = MachineArgument::read(&sources::announced(word))
                .map_err(|e| ExitError::new(Exit::Usage, e.to_string()))?;
            Report::new(&named.name, named.described, vec![named.note])
        }
        None => from_machine(arguments.root.as_deref())?,
    };
    if let Some(to) = &arguments.xml {
        let Some(system) = &report.system else {
            let text = format!("--xml: {} tells no tree of devices to write", report.source);
            return Err(ExitError::new(Exit::Usage, text).into());
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
    let refused = |e| ExitError::new(Exit::Usage, format!("cannot write {}: {e}", to.display()));
    fs::write(to, xml).map_err(refused)?;
    Ok(Exit::Ok)
}

/// This machine; or a recorded one, of which no driver can be asked.
fn from_machine(recorded: Option<&Path>) -> Result<Report> {
    let mut notes = Vec::new();
    let (source, root, driver) = match recorded {
        Some(folder) => {
            if !folder.join("sys").is_dir() {
                let text = format!("--root {}: there is no folder sys in it", folder.display());
                return Err(ExitError::new(Exit::Usage, text).into());
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
    let system = busbw_host::topo::read(&root, driver.as_ref());
    if system.devices.is_empty() {
        notes.push("no GPU and no network adapter is on the PCI bus that /sys shows".to_owned());
    }
    Ok(Report::new(&source, Described::System(system), notes))
}
