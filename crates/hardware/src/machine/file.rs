//! Machine files: a machine as people write it down in TOML, both ways.
//! Not how a machine is read from its own hardware (`topology`).
//!
//! The format with examples: docs/machine_files.md.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Cpu, CpuVendor, GpuModel, Machine, NicKind, Nics, Node, NvLink, PcieLink};
use super::{models, ready};

/// Why a text is no machine file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct BadMachineFile {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong there, and what is allowed.
    pub message: String,
}

/// The file as it is written. A key that is left out is not known, or as in `machine`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, deserialize_with = "nodes", skip_serializing_if = "Option::is_none")]
    nodes: Option<usize>,
    #[serde(default, deserialize_with = "gpus", skip_serializing_if = "Option::is_none")]
    gpus: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(default, deserialize_with = "capability", skip_serializing_if = "Option::is_none")]
    sm: Option<u32>,
    #[serde(default, with = "link", skip_serializing_if = "Option::is_none")]
    pcie: Option<PcieLink>,
    #[serde(default, deserialize_with = "packet", skip_serializing_if = "Option::is_none")]
    pcie_payload: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<CpuVendor>,
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    sockets: Option<usize>,
    #[serde(default, deserialize_with = "rate", skip_serializing_if = "Option::is_none")]
    between_sockets: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sharp: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nvlink: Option<FileNvLink>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nics: Option<Vec<FileNics>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileNvLink {
    #[serde(default, deserialize_with = "links", skip_serializing_if = "Option::is_none")]
    links: Option<u32>,
    #[serde(default, deserialize_with = "rate", skip_serializing_if = "Option::is_none")]
    line: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    switched: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meshed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    multicast: Option<bool>,
    #[serde(default, deserialize_with = "nodes", skip_serializing_if = "Option::is_none")]
    domain: Option<usize>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileNics {
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    count: Option<usize>,
    fabric: NicKind,
    #[serde(default, deserialize_with = "rate", skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
    #[serde(default, deserialize_with = "mtu", skip_serializing_if = "Option::is_none")]
    mtu: Option<u32>,
    #[serde(default, with = "link", skip_serializing_if = "Option::is_none")]
    slot: Option<PcieLink>,
    #[serde(default, deserialize_with = "packet", skip_serializing_if = "Option::is_none")]
    slot_payload: Option<u16>,
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    sharing: Option<usize>,
}

/// A number within bounds, or an error that says them; toml adds the line.
macro_rules! within {
    ($name:ident, $type:ty, $low:expr, $high:expr, $what:literal) => {
        fn $name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<$type>, D::Error> {
            let value = <$type>::deserialize(from)?;
            if ($low..=$high).contains(&value) {
                return Ok(Some(value));
            }
            let (low, high) = ($low, $high);
            Err(serde::de::Error::custom(format!("{value} is not {}: {low} to {high}", $what)))
        }
    };
}

within!(nodes, usize, 1, 1_000_000, "a number of nodes or GPUs");
within!(gpus, usize, 0, 1024, "a number of GPUs in a node");
within!(count, usize, 1, 1024, "a count");
within!(links, u32, 0, 1024, "a number of links");
within!(capability, u32, 30, 200, "a compute capability × 10");
within!(rate, f64, 1e-3, 1e6, "a rate");
within!(mtu, u32, 256, 65_536, "an MTU in bytes");
within!(packet, u16, 64, 4096, "a packet's payload in bytes");

/// PCIe links as texts: `5.0 x16`.
mod link {
    use super::{Deserialize, Deserializer, PcieLink, Serializer};

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PcieLink>, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Some).map_err(serde::de::Error::custom)
    }

    pub fn serialize<S: Serializer>(link: &Option<PcieLink>, to: S) -> Result<S::Ok, S::Error> {
        match link {
            Some(link) => to.serialize_str(&format!("{}.0 x{}", link.generation, link.width)),
            None => to.serialize_none(),
        }
    }
}

/// Reads a machine file.
///
/// # Errors
/// The line at fault, what is wrong, and what is allowed.
pub fn parse(text: &str) -> Result<Machine, BadMachineFile> {
    let file: File = toml::from_str(text).map_err(|error| BadMachineFile {
        line: line_of(text, error.span().map_or(0, |span| span.start)),
        message: error.message().trim_end().replace('\n', "; "),
    })?;
    let at = |key: &str| line_of_key(text, key);
    let base = match &file.machine {
        None => None,
        Some(name) => Some(ready::ready(name).ok_or_else(|| BadMachineFile {
            line: at("machine"),
            message: format!(
                "no ready machine is called `{name}`; there are {}",
                ready::names().join(", ")
            ),
        })?),
    };
    build(file, base).map_err(|(key, message)| BadMachineFile { line: at(key), message })
}

/// A machine as a file, which `parse` reads back as the same machine.
pub fn write(machine: &Machine) -> String {
    let node = &machine.node;
    let file = File {
        machine: None,
        name: Some(machine.name.clone()),
        nodes: Some(machine.nodes),
        gpus: Some(node.gpus),
        model: node.gpu.as_ref().map(|gpu| gpu.name.clone()),
        sm: node.gpu.as_ref().and_then(|gpu| gpu.sm),
        pcie: node.pcie,
        pcie_payload: node.pcie.and_then(|link| link.max_payload),
        cpu: node.cpu.as_ref().map(|cpu| cpu.vendor),
        sockets: node.cpu.as_ref().and_then(|cpu| cpu.sockets),
        between_sockets: node.cpu.as_ref().and_then(|cpu| cpu.between_sockets),
        sharp: machine.sharp,
        nvlink: Some(match &node.nvlink {
            None => FileNvLink {
                links: Some(0),
                line: None,
                switched: None,
                meshed: None,
                multicast: None,
                domain: None,
            },
            Some(nvlink) => FileNvLink {
                links: nvlink.links,
                line: nvlink.line,
                switched: Some(nvlink.switched),
                meshed: nvlink.meshed,
                multicast: nvlink.multicast,
                domain: Some(nvlink.domain),
            },
        }),
        nics: Some(node.nics.iter().map(write_nics).collect()),
    };
    // Nothing in it can fail to be TOML: no maps, and every table after the values.
    toml::to_string(&file).unwrap_or_default()
}

fn write_nics(nics: &Nics) -> FileNics {
    FileNics {
        count: Some(nics.count),
        fabric: nics.kind,
        rate: nics.rate,
        mtu: nics.mtu,
        slot: nics.slot,
        slot_payload: nics.slot.and_then(|slot| slot.max_payload),
        sharing: Some(nics.sharing),
    }
}

/// The key at fault, and why.
type Fault = (&'static str, String);

fn build(file: File, base: Option<Machine>) -> Result<Machine, Fault> {
    let missing = |key: &'static str| (key, format!("`{key}` is missing"));
    let mut machine = match base {
        Some(machine) => machine,
        None => Machine {
            name: "machine file".to_owned(),
            nodes: file.nodes.ok_or_else(|| missing("nodes"))?,
            node: Node {
                gpus: file.gpus.ok_or_else(|| missing("gpus"))?,
                gpu: None,
                nvlink: None,
                pcie: None,
                cpu: None,
                nics: Vec::new(),
            },
            sharp: None,
        },
    };
    let was = machine.node.gpus;
    machine.name = file.name.unwrap_or(machine.name);
    machine.nodes = file.nodes.unwrap_or(machine.nodes);
    machine.sharp = file.sharp.or(machine.sharp);
    let node = &mut machine.node;
    node.gpus = file.gpus.unwrap_or(node.gpus);
    let changed = file.model.is_some();
    if let Some(name) = file.model {
        node.gpu = Some(GpuModel { name, sm: None });
    }
    match (&mut node.gpu, file.sm) {
        (Some(gpu), Some(sm)) => gpu.sm = Some(sm),
        (None, Some(_)) => {
            return Err(("sm", "`sm` needs a `model` that it belongs to".to_owned()));
        }
        _ => {}
    }
    node.pcie = file.pcie.or(node.pcie);
    payload(&mut node.pcie, file.pcie_payload, "pcie_payload", "pcie")?;
    node.cpu = cpu(node.cpu.take(), file.cpu, file.sockets, file.between_sockets)?;
    let domain = node.gpus.max(1);
    match file.nvlink {
        Some(nvlink) => node.nvlink = links_of(node.nvlink.take(), nvlink, domain),
        // A GPU that is sold with NVLink alone has it; the number of links is unknown.
        None if changed => {
            let known = node.gpu.as_ref().and_then(|gpu| models::find(&gpu.name));
            let plain = unsaid(domain);
            node.nvlink = known.and_then(|model| model.links).map(|_| plain);
        }
        None => {}
    }
    match &mut node.nvlink {
        // A domain of a whole node follows the node's size.
        Some(nvlink) if nvlink.domain == was => nvlink.domain = domain,
        _ => {}
    }
    if let Some(groups) = file.nics {
        node.nics = groups.into_iter().map(nics).collect::<Result<_, _>>()?;
    }
    Ok(machine)
}

fn payload(
    link: &mut Option<PcieLink>,
    bytes: Option<u16>,
    key: &'static str,
    of: &str,
) -> Result<(), Fault> {
    match (link, bytes) {
        (Some(link), Some(bytes)) => link.max_payload = Some(bytes),
        (None, Some(_)) => return Err((key, format!("`{key}` needs `{of}`"))),
        _ => {}
    }
    Ok(())
}

fn cpu(
    before: Option<Cpu>,
    vendor: Option<CpuVendor>,
    sockets: Option<usize>,
    between: Option<f64>,
) -> Result<Option<Cpu>, Fault> {
    let mut cpu = match (before, vendor) {
        (Some(cpu), None) => cpu,
        (Some(cpu), Some(vendor)) => Cpu { vendor, ..cpu },
        (None, Some(vendor)) => Cpu { vendor, sockets: None, between_sockets: None },
        (None, None) if sockets.is_none() && between.is_none() => return Ok(None),
        (None, None) => {
            let key = if sockets.is_some() { "sockets" } else { "between_sockets" };
            let vendors = "`intel`, `amd`, `arm`, `zhaoxin`, `power`";
            return Err((key, format!("`{key}` needs `cpu`: {vendors}")));
        }
    };
    cpu.sockets = sockets.or(cpu.sockets);
    cpu.between_sockets = between.or(cpu.between_sockets);
    Ok(Some(cpu))
}

/// NVLink of which only its presence is known.
const fn unsaid(domain: usize) -> NvLink {
    NvLink { links: None, line: None, switched: true, meshed: None, multicast: None, domain }
}

/// `links = 0` says that there is no NVLink.
fn links_of(before: Option<NvLink>, file: FileNvLink, domain: usize) -> Option<NvLink> {
    if file.links == Some(0) {
        return None;
    }
    let before = before.unwrap_or(unsaid(domain));
    Some(NvLink {
        links: file.links.or(before.links),
        line: file.line.or(before.line),
        switched: file.switched.unwrap_or(before.switched),
        meshed: file.meshed.or(before.meshed),
        multicast: file.multicast.or(before.multicast),
        domain: file.domain.unwrap_or(before.domain),
    })
}

fn nics(file: FileNics) -> Result<Nics, Fault> {
    let mut slot = file.slot;
    payload(&mut slot, file.slot_payload, "slot_payload", "slot")?;
    Ok(Nics {
        count: file.count.unwrap_or(1),
        rate: file.rate,
        kind: file.fabric,
        mtu: file.mtu,
        slot,
        sharing: file.sharing.unwrap_or(1),
    })
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1
}

/// The first line that sets a key, or the first line of all.
fn line_of_key(text: &str, key: &str) -> usize {
    let sets = |line: &str| {
        let rest = line.trim_start().strip_prefix(key);
        rest.is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    text.lines().position(sets).map_or(1, |at| at + 1)
}
