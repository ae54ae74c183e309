//! The machine of a published page: the topology beside a table, or what its sentences say.
//! Not how a page is read (`busbw_logs::import`), and not a guess: what the page does not say stays unknown.

use busbw_hardware::{
    machine::{GpuModel, Machine, NicKind, Nics, Node, NvLink, models},
    topology::{self, Input, System},
};
use busbw_logs::measurement::{Measurement, Network, Page, StatedNics};

use super::placement::{by_sockets, setting};
use crate::machine_argument::of_run;

/// The largest path MTU of InfiniBand and RoCE, bytes (InfiniBand Architecture Specification, 9.7.1): with any other one the
/// limit is lower.
const LARGEST_RDMA_MTU: u32 = 4096;
/// The MTU that Linux gives an Ethernet interface, bytes (`ETH_DATA_LEN`), and the fastest port whose limit a larger one
/// would raise by less than what a table's rounding hides, Gb/s.
const ETHERNET_MTU: u32 = 1500;
const SLOW_ETHERNET_GBIT: f64 = 1.0;
/// GPUs of a host from which on A100, H100 and their like are SXM boards: cards have bridges between two (NVIDIA's HGX data
/// sheets).
const GPUS_OF_A_BOARD: usize = 8;

/// The machine that the page says, and what was taken for granted; none where it says nothing of it.
pub(super) fn of_page(run: &Measurement) -> Option<(Machine, Vec<String>)> {
    let page = run.page.as_ref()?;
    if let Some(found) = page.topology.as_deref().and_then(|xml| of_topology(run, xml)) {
        return Some(found);
    }
    page.states_machine().then(|| of_sentences(run, page))?
}

fn of_topology(run: &Measurement, xml: &str) -> Option<(Machine, Vec<String>)> {
    let Ok(Input::System(mut system)) = topology::recognise(xml) else { return None };
    if let Some(named) = interfaces(run) {
        keep_named(&mut system, &named);
    }
    let mut machine = topology::machine_of_system(&system, "the topology on the page");
    let mut assumed = vec!["every host is as the topology on the page shows".to_owned()];
    machine.node.nics.iter_mut().for_each(|nics| usual_mtu(nics, &mut assumed));
    Some((machine, assumed))
}

/// What a setting says of interfaces: names, each whole or the beginning of one. None where it names none, or excludes some.
fn interfaces(run: &Measurement) -> Option<Vec<(String, bool)>> {
    let name = if by_sockets(run) { "NCCL_SOCKET_IFNAME" } else { "NCCL_IB_HCA" };
    let value = setting(run, name)?.trim_matches(['"', '\'']);
    if value.is_empty() || value.starts_with('^') {
        return None;
    }
    let whole = value.starts_with('=');
    let names = value.trim_start_matches('=').split(',');
    Some(names.map(|one| (one.split(':').next().unwrap_or(one).to_owned(), whole)).collect())
}

fn is_named(named: &[(String, bool)], interface: &str) -> bool {
    named.iter().any(|(name, whole)| {
        if *whole {
            interface == name
        } else {
            !name.is_empty() && interface.starts_with(name.as_str())
        }
    })
}

/// Leaves the interfaces that the run's settings name.
fn keep_named(system: &mut System, named: &[(String, bool)]) {
    for device in &mut system.devices {
        device.nets.retain(|net| is_named(named, &net.name));
    }
}

/// A table without a topology of its own has the one on the same page that shows the interface that its settings name, if the
/// hosts are the same.
pub(super) fn share_topologies(runs: &mut [Measurement]) {
    let hosts = |run: &Measurement| -> Vec<String> {
        run.devices.iter().map(|device| device.host.clone()).collect()
    };
    let shown: Vec<(String, Vec<String>, String)> = runs
        .iter()
        .filter_map(|run| {
            let xml = run.page.as_ref()?.topology.clone()?;
            Some((run.source.name.clone(), hosts(run), xml))
        })
        .collect();
    for run in runs.iter_mut() {
        let has = run.page.as_ref().is_none_or(|page| page.topology.is_some());
        let Some(named) = interfaces(run).filter(|_| !has && !shown.is_empty()) else { continue };
        let ours = hosts(run);
        let fits = |(source, theirs, xml): &&(String, Vec<String>, String)| {
            *source == run.source.name && *theirs == ours && shows(xml, &named)
        };
        let found = shown.iter().find(fits).map(|(.., xml)| xml.clone());
        if let Some(page) = &mut run.page {
            page.topology = found;
        }
    }
}

/// Whether a topology has an interface of these names.
fn shows(xml: &str, named: &[(String, bool)]) -> bool {
    let nets = xml.split("<net ").skip(1);
    let names = nets.filter_map(|net| net.split_once("name=\"")?.1.split_once('"'));
    names.into_iter().any(|(name, _)| is_named(named, name))
}

fn of_sentences(run: &Measurement, page: &Page) -> Option<(Machine, Vec<String>)> {
    let (mut machine, mut assumed) = match of_run(run) {
        Some(found) => found,
        None => (stated(run, page), vec!["the machine is as the page says".to_owned()]),
    };
    let gpus = machine.node.gpus;
    if let Some(nvlink) = &mut machine.node.nvlink {
        nvlink.links = nvlink.links.or(page.links);
        nvlink.line = nvlink.line.or(page.link_line);
        if page.nvlink_joins_hosts {
            nvlink.domain = nvlink.domain.max(gpus * machine.nodes);
        }
    }
    // What a log or a record says of NICs is more than a sentence.
    let unknown = machine.node.nics.is_empty();
    if let Some(nics) = page.nics.filter(|nics| unknown && carries(run, nics)) {
        let mut nics = group(run, nics, gpus);
        // Of an unknown network only the line rate counts.
        if page.nics.is_some_and(|nics| nics.network.is_some()) {
            usual_mtu(&mut nics, &mut assumed);
        }
        machine.node.nics = vec![nics];
    }
    Some((machine, assumed))
}

/// Whether the NICs that are stated can be those of a run: sockets do not use InfiniBand by itself, and which interface of a
/// port with RDMA they use is not said.
fn carries(run: &Measurement, nics: &StatedNics) -> bool {
    !by_sockets(run) || nics.network == Some(Network::Ethernet)
}

fn group(run: &Measurement, stated: StatedNics, gpus: usize) -> Nics {
    let each = if stated.for_each_gpu { gpus.max(1) } else { 1 };
    // A list of whole names; `mlx5` alone is all of them.
    let listed = interfaces(run).filter(|names| {
        names
            .iter()
            .all(|(name, _)| name.contains('_') && name.ends_with(|c: char| c.is_ascii_digit()))
    });
    let most = listed.map_or(usize::MAX, |names| names.len());
    Nics {
        count: (stated.count * each).min(most),
        rate: Some(stated.gbit),
        kind: match stated.network {
            Some(Network::Roce) => NicKind::Roce,
            Some(Network::Ethernet) => NicKind::Ethernet,
            // Of either kind of RDMA.
            Some(Network::InfiniBand) | None => NicKind::InfiniBand,
        },
        mtu: stated.mtu,
        slot: None,
        sharing: 1,
    }
}

fn usual_mtu(nics: &mut Nics, assumed: &mut Vec<String>) {
    let usual = match nics.kind {
        _ if nics.mtu.is_some() => return,
        NicKind::InfiniBand | NicKind::Roce => LARGEST_RDMA_MTU,
        NicKind::Ethernet if nics.rate.is_some_and(|rate| rate <= SLOW_ETHERNET_GBIT) => {
            ETHERNET_MTU
        }
        NicKind::Ethernet => return,
    };
    nics.mtu = Some(usual);
    let why = if usual == ETHERNET_MTU { "Linux's own" } else { "the largest" };
    assumed.push(format!("an MTU of {usual} B, {why}"));
}

/// The machine of a run that lists no devices.
fn stated(run: &Measurement, page: &Page) -> Machine {
    let by_ranks = || run.rank_count()?.checked_div(run.hosts?);
    let gpus = match &page.model {
        None if page.gpus.is_none() => 0,
        _ => page.gpus.or_else(by_ranks).unwrap_or(0),
    };
    let name = page.model.as_deref().map(|model| board(model, page, gpus));
    let model = name.as_deref().and_then(models::find);
    let has_nvlink = match model {
        Some(model) => model.links.is_some(),
        None => name.is_some(),
    };
    let nvlink = (has_nvlink && page.nvlink != Some(false) && gpus > 0).then(|| NvLink {
        links: page.links,
        line: page.link_line.or(model.and_then(|model| model.line)),
        switched: gpus >= GPUS_OF_A_BOARD
            && model.is_none_or(|model| model.sm.is_some_and(|sm| sm >= 80)),
        meshed: model.is_some_and(|model| model.sm.is_some_and(|sm| sm >= 80)).then_some(true),
        multicast: None,
        domain: gpus,
    });
    let gpu = name.map(|name| {
        let name = model.map_or(name, |model| model.name.to_owned());
        GpuModel { name, sm: model.and_then(|model| model.sm) }
    });
    let nodes = run.hosts.or(page.nodes).unwrap_or(1);
    let node = Node { gpus, gpu, nvlink, pcie: None, cpu: None, nics: Vec::new() };
    Machine { name: "the page's machine".to_owned(), nodes, node, sharp: None }
}

/// The board of a model that is sold as card and as board: SXM where NVLink is said, or eight are in a host.
fn board(model: &str, page: &Page, gpus: usize) -> String {
    let sxm = format!("{model} SXM");
    let joined = page.nvlink == Some(true) || page.links.is_some() || gpus >= GPUS_OF_A_BOARD;
    let sold = models::find(model).is_none() && models::find(&sxm).is_some();
    if sold && joined && page.nvlink != Some(false) { sxm } else { model.to_owned() }
}

#[cfg(test)]
mod tests {
    use busbw_logs::measurement::Known;

    use super::*;

    const XML: &str = r#"<system version="1">
<cpu numaid="0" affinity="ff" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="17">
<pci busid="0000:41:00.0" class="0x030200" vendor="0x10de" device="0x26b9" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="89" rank="0" gdr="1"/></pci>
<pci busid="0000:05:00.0" class="0x020000" link_speed="5.0 GT/s PCIe" link_width="1"><nic><net name="eno1" dev="0" speed="1000" port="0" gdr="0"/></nic></pci>
<pci busid="0000:61:00.0" class="0x020000" link_speed="16.0 GT/s PCIe" link_width="4"><nic><net name="enp97s0np0" dev="1" speed="100000" port="0" gdr="0"/></nic></pci>
</cpu></system>"#;

    fn run(command: &str, page: Page) -> Measurement {
        Measurement {
            command: Some(command.to_owned()),
            ranks: Some(Known::stated(16)),
            page: Some(page),
            ..Measurement::default()
        }
    }

    #[test]
    fn the_interface_that_the_command_names_is_the_one_of_the_topology() {
        for (name, rate) in [("eno1", 1.0), ("=enp97s0np0", 100.0), ("enp97", 100.0)] {
            let page = Page { topology: Some(XML.to_owned()), ..Page::default() };
            let command =
                format!("mpirun -x NCCL_IB_DISABLE=1 -x NCCL_SOCKET_IFNAME={name} all_reduce_perf");
            let (machine, _) = of_page(&run(&command, page)).unwrap();
            let rates: Vec<Option<f64>> = machine.node.nics.iter().map(|nics| nics.rate).collect();
            assert_eq!(rates, [Some(rate)], "{name}");
        }
    }

    #[test]
    fn a_topology_is_shared_by_the_tables_of_its_hosts() {
        let page = Page { topology: Some(XML.to_owned()), ..Page::default() };
        let on =
            |name: &str, page| run(&format!("NCCL_NET=Socket NCCL_SOCKET_IFNAME={name} x"), page);
        let mut runs =
            [on("eno1", page), on("enp97s0np0", Page::default()), on("eth0", Page::default())];
        share_topologies(&mut runs);
        let has: Vec<bool> =
            runs.iter().map(|run| run.page.as_ref().unwrap().topology.is_some()).collect();
        assert_eq!(has, [true, true, false]);
    }

    #[test]
    fn sentences_are_a_machine() {
        let nics = StatedNics {
            count: 8,
            for_each_gpu: false,
            gbit: 400.0,
            network: Some(Network::InfiniBand),
            mtu: None,
        };
        let page = Page {
            gpus: Some(8),
            model: Some("H100".to_owned()),
            nics: Some(nics),
            ..Page::default()
        };
        let (machine, assumed) = of_page(&run("mpirun x", page.clone())).unwrap();
        assert_eq!(machine.node.gpu.as_ref().unwrap().name, "H100 SXM");
        assert_eq!((machine.node.nics[0].count, machine.node.nics[0].mtu), (8, Some(4096)));
        assert!(assumed.iter().any(|one| one.contains("4096")), "{assumed:?}");
        let one = of_page(&run("mpirun -x NCCL_IB_HCA=mlx5_0 x", page.clone())).unwrap().0;
        assert_eq!(one.node.nics[0].count, 1);
        // What carries sockets is not said.
        let sockets = of_page(&run("mpirun -x NCCL_IB_DISABLE=1 x", page)).unwrap().0;
        assert_eq!(sockets.node.nics, []);
        assert_eq!(of_page(&run("mpirun x", Page::default())), None);
    }
}
