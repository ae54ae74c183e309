//! A host as the XML that NCCL reads with NCCL_TOPO_FILE (NCCL 2.30.7, src/graph/xml.cc).
//! The format has no place for both ends of a link, port states and names of GPUs: they are left out.

use std::fmt::Write;

use super::{Cpu, Device, Gpu, GpuLinkKind, Net, Parent, PcieReading, System};
use crate::machine::PcieLink;

/// The whole file. What was read from such a file comes out with the same meaning; from a real machine,
/// a link is written as NCCL itself takes it, as the better that both ends can have.
pub fn write(system: &System) -> String {
    let mut out = Out(String::new());
    let mut root = Tag::new("system");
    root.put("version", system.version.max(1));
    root.text("name", system.name.as_deref());
    out.open(0, root);
    for (at, cpu) in system.cpus.iter().enumerate() {
        let mut tag = Tag::new("cpu");
        describe_cpu(&mut tag, cpu);
        out.open(1, tag);
        children(&mut out, system, Parent::Cpu(at));
        nic(&mut out, 2, &cpu.nets);
        out.close(1, "cpu");
    }
    out.close(0, "system");
    out.0
}

/// Devices stand after what they hang on, so a walk with a stack of open elements writes all of them.
fn children(out: &mut Out, system: &System, top: Parent) {
    let below = |parent: Parent| {
        let devices = system.devices.iter().enumerate();
        devices.filter(move |(_, device)| device.parent == parent).map(|(at, _)| at).rev()
    };
    // None closes what was opened.
    let mut left: Vec<Option<usize>> = below(top).map(Some).collect();
    let mut depth = 2;
    while let Some(next) = left.pop() {
        let Some(at) = next else {
            depth -= 1;
            out.close(depth, "pci");
            continue;
        };
        let Some(device) = system.devices.get(at) else { continue };
        out.open(depth, pci(device));
        depth += 1;
        left.push(None);
        left.extend(below(Parent::Device(at)).filter(|below| *below > at).map(Some));
        for peer in &device.peers {
            let mut tag = Tag::new("pcilink");
            tag.text("target", Some(peer));
            out.empty(depth, tag);
        }
        if let Some(gpu) = &device.gpu {
            write_gpu(out, depth, gpu);
        }
        nic(out, depth, &device.nets);
    }
}

fn describe_cpu(tag: &mut Tag, cpu: &Cpu) {
    tag.hex("host_hash", cpu.host_hash, 0);
    tag.put_some("numaid", cpu.numa);
    tag.text("affinity", cpu.affinity.as_deref());
    tag.text("arch", cpu.arch.as_deref());
    tag.text("vendor", cpu.vendor.as_deref());
    tag.put_some("familyid", cpu.family);
    tag.put_some("modelid", cpu.model);
}

fn pci(device: &Device) -> Tag {
    let mut tag = Tag::new("pci");
    tag.text("busid", Some(&device.address));
    tag.hex("class", device.class, 6);
    tag.hex("vendor", device.vendor, 4);
    tag.hex("device", device.device, 4);
    tag.hex("subsystem_vendor", device.subsystem_vendor, 4);
    tag.hex("subsystem_device", device.subsystem_device, 4);
    let taken = device.link.best().map_or(device.link.now, PcieReading::from);
    let speed = taken.generation.map(|generation| {
        let lane = PcieLink { generation, width: 1, max_payload: None };
        format!("{:.1} GT/s PCIe", lane.gigatransfers())
    });
    if taken != PcieReading::default() || device.class.is_some() {
        tag.text("link_speed", Some(speed.as_deref().unwrap_or("")));
        tag.put("link_width", taken.width.unwrap_or(0));
    }
    tag
}

fn write_gpu(out: &mut Out, depth: usize, gpu: &Gpu) {
    let mut tag = Tag::new("gpu");
    tag.put_some("dev", gpu.index);
    tag.put_some("sm", gpu.sm);
    tag.text("gcn", gpu.gcn.as_deref());
    tag.put_some("arch", gpu.arch);
    tag.put_some("rank", gpu.rank);
    tag.put_some("gdr", gpu.gdr.map(u8::from));
    if gpu.links.is_empty() && gpu.c2c.is_none() {
        return out.empty(depth, tag);
    }
    out.open(depth, tag);
    for link in &gpu.links {
        let mut tag = Tag::new(match link.kind {
            GpuLinkKind::NvLink => "nvlink",
            GpuLinkKind::Xgmi => "xgmi",
        });
        tag.text("target", Some(&link.target));
        tag.put("count", link.count);
        tag.hex("tclass", link.class, 6);
        out.empty(depth + 1, tag);
    }
    if let Some((mbps, count)) = gpu.c2c {
        let mut tag = Tag::new("c2c");
        tag.put("bw", mbps);
        tag.put("count", count);
        out.empty(depth + 1, tag);
    }
    out.close(depth, "gpu");
}

fn nic(out: &mut Out, depth: usize, nets: &[Net]) {
    if nets.is_empty() {
        return;
    }
    out.open(depth, Tag::new("nic"));
    for net in nets {
        let mut tag = Tag::new("net");
        tag.text("name", Some(&net.name));
        tag.put_some("dev", net.dev);
        tag.put_some("latency", net.latency);
        tag.put_some("speed", net.mbps);
        tag.put_some("port", net.port);
        tag.hex("guid", net.guid, 0);
        tag.put_some("maxconn", net.maxconn);
        tag.put_some("gdr", net.gdr.map(u8::from));
        tag.put_some("coll", net.coll.map(u8::from));
        out.empty(depth + 1, tag);
    }
    out.close(depth, "nic");
}

/// The beginning of an element.
struct Tag(String);

impl Tag {
    fn new(name: &str) -> Tag {
        Tag(format!("<{name}"))
    }

    fn put(&mut self, name: &str, value: impl std::fmt::Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, " {name}=\"{value}\"");
    }

    fn put_some(&mut self, name: &str, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    fn hex(&mut self, name: &str, value: Option<impl Into<u64>>, digits: usize) {
        if let Some(value) = value {
            self.put(name, format_args!("0x{:0digits$x}", value.into()));
        }
    }

    /// Text, with what XML keeps for itself written out.
    fn text(&mut self, name: &str, value: Option<&str>) {
        let Some(value) = value else { return };
        let mut safe = String::with_capacity(value.len());
        for c in value.chars() {
            match c {
                '&' => safe.push_str("&amp;"),
                '<' => safe.push_str("&lt;"),
                '>' => safe.push_str("&gt;"),
                '"' => safe.push_str("&quot;"),
                // A reader makes spaces of these where they stand bare.
                '\n' | '\r' | '\t' => {
                    let _ = write!(safe, "&#{};", u32::from(c));
                }
                // XML has no way to write these.
                c if c < ' ' => {}
                c => safe.push(c),
            }
        }
        self.put(name, safe);
    }
}

struct Out(String);

impl Out {
    fn line(&mut self, depth: usize, text: &str, end: &str) {
        let _ = writeln!(self.0, "{:indent$}{text}{end}", "", indent = depth * 2);
    }

    fn open(&mut self, depth: usize, tag: Tag) {
        self.line(depth, &tag.0, ">");
    }

    fn empty(&mut self, depth: usize, tag: Tag) {
        self.line(depth, &tag.0, "/>");
    }

    fn close(&mut self, depth: usize, name: &str) {
        self.line(depth, &format!("</{name}"), ">");
    }
}
