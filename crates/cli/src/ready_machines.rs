//! `busbw explain --list-machines`: the ready machines, with their GPUs, links, NICs and the source of each.
//! Not one of them as a picture (`busbw topo NAME`), and not what a run reaches there (`explain_command`).

use std::io::Write;

use anyhow::Result;
use busbw_core::exit::Exit;
use busbw_hardware::machine::{Machine, ready};
use busbw_render::answer::{answer, json_line};
use serde::Serialize;

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    source: String,
    machine: Machine,
}

/// Lists the ready machines.
///
/// # Errors
/// stdout cannot be written.
pub fn list(json: bool) -> Result<Exit> {
    let all: Vec<Listed> = ready::names()
        .into_iter()
        .filter_map(|name| {
            Some(Listed { name, source: ready::source(name)?, machine: ready::ready(name)? })
        })
        .collect();
    answer(|out, _| {
        if json {
            return all.iter().try_for_each(|one| json_line(out, one));
        }
        for one in &all {
            writeln!(out, "{}: {}", one.name, hardware(&one.machine))?;
            write!(out, "  ")?;
            busbw_render::wrapped(out, 2, 2, &one.source)?;
        }
        Ok(())
    })?;
    Ok(Exit::Ok)
}

/// `8 × H100 SXM, 18 NVLinks of 25 GB/s, PCIe 5.0 x16, 8 × 400 Gb/s infiniband`.
fn hardware(machine: &Machine) -> String {
    let node = &machine.node;
    let gpu = node.gpu.as_ref().map_or("GPU", |gpu| gpu.name.as_str());
    let mut parts = vec![format!("{} × {gpu}", node.gpus)];
    if machine.nodes > 1 {
        parts = vec![format!("{} hosts of {} × {gpu}", machine.nodes, node.gpus)];
    }
    if let Some((links, line)) =
        node.nvlink.as_ref().and_then(|nvlink| Some((nvlink.links?, nvlink.line?)))
    {
        parts.push(match machine.links_called() {
            "NVLink" => format!("{links} NVLinks of {line} GB/s"),
            other => format!("{links} {other} links of {line} GB/s"),
        });
    }
    parts.extend(node.pcie.map(|link| link.to_string()));
    for nics in &node.nics {
        let rate = nics.rate.map_or(String::new(), |rate| format!("{rate} Gb/s "));
        parts.push(format!("{} × {rate}{}", nics.count, nics.kind.name()));
    }
    if node.nics.is_empty() {
        parts.push("NICs not said".to_owned());
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_in_a_line() {
        let line = |name: &str| hardware(&ready::ready(name).expect("ready"));
        assert_eq!(
            line("dgx-h100"),
            "8 × H100 SXM, 18 NVLinks of 25 GB/s, PCIe 5.0 x16, 8 × 400 Gb/s infiniband"
        );
        assert_eq!(
            line("mi300x"),
            "8 × MI300X, 7 xGMI links of 64 GB/s, PCIe 5.0 x16, NICs not said"
        );
        assert_eq!(line("dgx-spark"), "1 × GB10, 2 × 100 Gb/s roce");
        assert_eq!(
            line("gb300-nvl72"),
            "18 hosts of 4 × GB300, 18 NVLinks of 50 GB/s, 4 × 800 Gb/s infiniband"
        );
    }
}
