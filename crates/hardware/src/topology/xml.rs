//! NCCL's and RCCL's topology XML: what NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE reads (NCCL 2.30.7,
//! src/graph/xml.cc), templates without GPUs included. Not the graphs (`graphs`).

use super::{
    Cpu, Device, Ends, Gpu, GpuLink, GpuLinkKind, Net, NetKind, Parent, PcieReading, Refused,
    System, elements::Element,
};

/// Reads the element `<system>` of a parsed document. Elements that NCCL does not know are left out, as
/// it does.
pub(super) fn system(root: Element) -> Result<System, Refused> {
    let version = root.number::<u32>("version")?.unwrap_or(1);
    if !(1..=2).contains(&version) {
        return Err(root.refuse(format_args!("has version {version}; NCCL writes 1, RCCL 2")));
    }
    let mut system =
        System { version, name: root.text("name").map(str::to_owned), ..System::default() };
    // What is left to read, with what it hangs on; the first one last.
    let mut left: Vec<(Element, Parent)> = Vec::new();
    for element in root.children().filter(|element| element.name() == "cpu") {
        system.cpus.push(cpu(element)?);
        let here = Parent::Cpu(system.cpus.len() - 1);
        left.extend(element.children().rev().map(|child| (child, here)));
        while let Some((element, parent)) = left.pop() {
            if element.name() != "pci" {
                within(&mut system, element, parent)?;
                continue;
            }
            system.devices.push(device(element, parent)?);
            let here = Parent::Device(system.devices.len() - 1);
            left.extend(element.children().rev().map(|child| (child, here)));
        }
    }
    for device in &mut system.devices {
        name_kinds(device);
    }
    for net in system.cpus.iter_mut().flat_map(|cpu| &mut cpu.nets) {
        net.kind = Some(NetKind::Socket);
    }
    Ok(system)
}

fn cpu(element: Element) -> Result<Cpu, Refused> {
    let owned = |name| element.text(name).map(str::to_owned);
    Ok(Cpu {
        numa: element.number("numaid")?,
        affinity: owned("affinity"),
        arch: owned("arch"),
        vendor: owned("vendor"),
        family: element.number("familyid")?,
        model: element.number("modelid")?,
        host_hash: element.number_or_hidden("host_hash"),
        socket: None,
        nets: Vec::new(),
    })
}

fn device(element: Element, parent: Parent) -> Result<Device, Refused> {
    // NCCL gives the better of what both ends can have; newer ones, of a GPU, what it is now.
    let now = PcieReading::parse(element.text("link_speed"), element.text("link_width"));
    Ok(Device {
        address: element.needed("busid")?.to_ascii_lowercase(),
        parent,
        class: element.number("class")?,
        vendor: element.number("vendor")?,
        device: element.number("device")?,
        subsystem_vendor: element.number("subsystem_vendor")?,
        subsystem_device: element.number("subsystem_device")?,
        link: Ends { now, ..Ends::default() },
        host_bridge: None,
        peers: Vec::new(),
        gpu: None,
        nets: Vec::new(),
    })
}

/// A `<gpu>`, `<nic>` or `<pcilink>`, which belong to what they stand in.
fn within(system: &mut System, element: Element, parent: Parent) -> Result<(), Refused> {
    let device = match parent {
        Parent::Device(at) => system.devices.get_mut(at),
        Parent::Cpu(_) => None,
    };
    match (element.name(), device, parent) {
        ("gpu", Some(device), _) => device.gpu = Some(gpu(element)?),
        ("gpu", None, _) => return Err(element.refuse("stands in no <pci>")),
        ("pcilink", Some(device), _) => {
            device.peers.push(element.needed("target")?.to_ascii_lowercase());
        }
        ("nic", Some(device), _) => device.nets.extend(nets(element)?),
        ("nic", None, Parent::Cpu(at)) => {
            if let Some(cpu) = system.cpus.get_mut(at) {
                cpu.nets.extend(nets(element)?);
            }
        }
        _ => {}
    }
    Ok(())
}

fn gpu(element: Element) -> Result<Gpu, Refused> {
    let mut gpu = Gpu {
        index: element.number("dev")?,
        sm: element.number("sm")?,
        gcn: element.text("gcn").map(str::to_owned),
        arch: element.number("arch")?,
        rank: element.number("rank")?,
        gdr: element.flag("gdr")?,
        ..Gpu::default()
    };
    for child in element.children() {
        let kind = match child.name() {
            "nvlink" => GpuLinkKind::NvLink,
            "xgmi" => GpuLinkKind::Xgmi,
            "c2c" => {
                let (mbps, count) = (child.number("bw")?, child.number("count")?);
                gpu.c2c = Some((mbps.unwrap_or(0), count.unwrap_or(1)));
                continue;
            }
            _ => continue,
        };
        gpu.links.push(GpuLink {
            kind,
            target: child.needed("target")?.to_ascii_lowercase(),
            count: child.number("count")?.unwrap_or(1),
            class: child.number("tclass")?,
        });
    }
    Ok(gpu)
}

fn nets(nic: Element) -> Result<Vec<Net>, Refused> {
    nic.children().filter(|child| child.name() == "net").map(net).collect()
}

fn net(element: Element) -> Result<Net, Refused> {
    // A driver that does not know its speed says -1; NCCL then takes 10 Gb/s.
    let mbps = element.number::<i64>("speed")?;
    Ok(Net {
        name: element.text("name").unwrap_or("?").to_owned(),
        dev: element.number("dev")?,
        mbps: mbps.and_then(|mbps| u32::try_from(mbps).ok()).filter(|mbps| *mbps > 0),
        port: element.number("port")?,
        guid: element.number_or_hidden("guid"),
        latency: element.decimal("latency")?,
        maxconn: element.number("maxconn")?,
        gdr: element.flag("gdr")?,
        coll: element.flag("coll")?,
        ..Net::default()
    })
}

/// How the interfaces of a device speak: NCCL numbers RDMA ports from 1 and gives sockets port 0
/// (src/transport/net_ib, net_socket.cc); the device's class tells InfiniBand, and Amazon's EFA speaks
/// neither.
fn name_kinds(device: &mut Device) {
    const AMAZON: u16 = 0x1d0f;
    const INFINIBAND: u32 = 0x0207;
    for net in &mut device.nets {
        net.kind = match (net.port, device.class.map(|class| class >> 8)) {
            (Some(0), _) => Some(NetKind::Socket),
            (Some(_), Some(INFINIBAND)) => Some(NetKind::Infiniband),
            (Some(_), Some(0x0200)) if device.vendor != Some(AMAZON) => Some(NetKind::Roce),
            _ => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::recognise;

    #[test]
    fn what_people_hide_is_not_known() {
        let text = |hash: &str, numa: &str| {
            format!(
                "<system version=\"1\"><cpu host_hash=\"{hash}\" numaid=\"{numa}\" affinity=\"x\"/></system>"
            )
        };
        for hash in ["0xREDACTED", "xxxx", "0x****************", ""] {
            assert!(recognise(&text(hash, "0")).is_ok(), "{hash}");
        }
        // The tree is made of the rest.
        assert!(recognise(&text("0x1", "none")).is_err());
    }
}
