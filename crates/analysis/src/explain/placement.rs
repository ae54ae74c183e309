//! Where a run's ranks were on a machine: a pure function of both and of `--nodes`.
//! Not which machine it was (`hardware`), and not what it allows (`busbw_hardware::limits`).

use busbw_hardware::{
    limits::{Inside, Memory, RankPlacement},
    machine::{Machine, models},
};
use busbw_library_logs::nccl::Communicator;
use busbw_logs::measurement::{self, Measurement};

use super::context::plural;

/// A machine, where ranks are on it, and what was taken for granted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Known {
    pub machine: Machine,
    /// Whether the user named it; else it is as its run has it.
    pub named: bool,
    /// Or what is missing to know it.
    pub placement: Result<RankPlacement, String>,
    pub assumed: Vec<String>,
    /// What the run says otherwise than the machine that was named for it.
    pub contradictions: Vec<String>,
}

/// Finds where the ranks are.
pub(super) fn place(mut machine: Machine, run: &Measurement, nodes: Option<usize>) -> Known {
    let mut assumed = Vec::new();
    if spans_no_nodes(run)
        && let Some(nvlink) = &mut machine.node.nvlink
    {
        nvlink.domain = nvlink.domain.min(machine.node.gpus.max(1));
    }
    if let (Some(joined), Some(nvlink)) = (joined_by_nvlink(run), &mut machine.node.nvlink) {
        nvlink.domain = nvlink.domain.max(joined);
    }
    let spread = match run.rank_count() {
        Some(ranks) if ranks > 0 => spread(&mut machine, run, ranks, nodes, &mut assumed),
        _ => Err("the number of ranks".to_owned()),
    };
    let host = run.test.memory.is_some_and(|memory| memory.value == measurement::Memory::Host);
    let placement = spread.map(|placement| RankPlacement {
        inside: inside(run),
        memory: if host { Memory::Host } else { Memory::Gpu },
        sockets: by_sockets(run),
        ..placement
    });
    if let Ok(placement) = &placement
        && placement.nodes_joined(&machine) > 1
        && joined_by_nvlink(run).is_none()
    {
        let hosts = placement.nodes_joined(&machine);
        assumed.push(format!(
            "NVLink joins the GPUs of the {hosts} hosts (MNNVL), as {} has it: the log does not say so",
            machine.name
        ));
    }
    Known { machine, named: false, placement, assumed, contradictions: Vec::new() }
}

fn spread(
    machine: &mut Machine,
    run: &Measurement,
    ranks: usize,
    nodes: Option<usize>,
    assumed: &mut Vec<String>,
) -> Result<RankPlacement, String> {
    let gpus = machine.node.gpus.max(1);
    if let Some(hosts) = nodes.or(run.hosts) {
        let counted = several_nodes(run).filter_map(|one| one.nodes).max().unwrap_or(0) as usize;
        if nodes.is_none() && counted > hosts {
            return Err(format!(
                "a limit for {hosts} {} that NCCL takes for {counted} nodes: what goes between nodes there stays in the host",
                plural(hosts, "host")
            ));
        }
        machine.nodes = machine.nodes.max(hosts);
        if !ranks.is_multiple_of(hosts.max(1)) {
            return Err(format!("how many of the {ranks} ranks each of the {hosts} hosts had"));
        }
        let each = ranks / hosts.max(1);
        if machine.node.gpus > 0 && each > gpus {
            return Err(format!("a machine of at least {each} GPUs a host"));
        }
        return Ok(RankPlacement::new(hosts, each));
    }
    if machine.nodes == 1 && ranks > gpus {
        let needed = ranks.div_ceil(gpus);
        assumed.push(format!(
            "{needed} hosts like {}, since one has {gpus} {}",
            machine.name,
            plural(gpus, "GPU")
        ));
        machine.nodes = needed;
    }
    let placement = RankPlacement::filling(machine, ranks)
        .ok_or_else(|| "how many ranks each host had (--nodes)".to_owned())?;
    let RankPlacement { nodes, per_node, .. } = placement;
    if nodes > 1 {
        assumed.push(format!("{per_node} {} on each of {nodes} hosts", plural(per_node, "rank")));
    } else if ranks > 1 {
        assumed.push("all ranks on one host".to_owned());
    }
    Ok(placement)
}

/// Why `--nodes` cannot be what a run had on a machine.
pub(super) fn refuse(machine: Option<&Machine>, run: &Measurement, nodes: usize) -> Option<String> {
    let ranks = run.rank_count().filter(|ranks| *ranks > 1)?;
    let hosts = plural(nodes, "host");
    if nodes == 0 || !ranks.is_multiple_of(nodes) {
        return Some(format!("{ranks} ranks cannot be spread evenly over {nodes} {hosts}"));
    }
    let machine = machine.filter(|machine| machine.node.gpus > 0)?;
    let gpus = machine.node.gpus;
    (ranks / nodes > gpus).then(|| {
        format!(
            "{nodes} {hosts} of {} {} {} GPUs, and there are {ranks} ranks",
            machine.name,
            if nodes == 1 { "has" } else { "have" },
            nodes * gpus
        )
    })
}

/// What a run says otherwise than the machine that the user names for it.
pub(super) fn contradictions(
    machine: &Machine,
    run: &Measurement,
    nodes: Option<usize>,
) -> Vec<String> {
    let mut found = Vec::new();
    let gpus = machine.node.gpus;
    let name = &machine.name;
    if let (Some(listed), Some(described)) = (run.devices.first(), &machine.node.gpu)
        && let (Some(ran), Some(said)) = (models::find(&listed.name), models::find(&described.name))
        && ran.name != said.name
    {
        found
            .push(format!("the run's GPUs are {}, those of {name} are {}", listed.name, said.name));
    }
    let highest = run.devices.iter().map(|device| device.device).max().unwrap_or(0);
    let each = run.rank_count().zip(run.hosts.filter(|hosts| *hosts > 0));
    let each = each.map_or(0, |(ranks, hosts)| ranks.div_ceil(hosts)).max(highest + 1);
    if gpus > 0 && each > gpus {
        found.push(format!("the run has {each} GPUs a host, {name} has {gpus}"));
    }
    if let (Some(nodes), Some(hosts)) = (nodes, run.hosts)
        && nodes != hosts
    {
        let hosts = format!("{hosts} {}", plural(hosts, "host"));
        found.push(format!("the run's ranks are listed on {hosts}, --nodes says {nodes}"));
    }
    found
}

/// Communicators that span nodes, as NCCL counts nodes.
fn several_nodes(run: &Measurement) -> impl Iterator<Item = &Communicator> {
    let all = run.library.iter().flat_map(|facts| &facts.communicators);
    all.filter(|one| one.nodes.is_some_and(|nodes| nodes > 1))
}

/// The GPUs that NVLink joins across hosts (MNNVL), where NCCL's log says so: it counts them as one node.
pub(super) fn joined_by_nvlink(run: &Measurement) -> Option<usize> {
    let all = run.library.iter().flat_map(|facts| &facts.communicators);
    let joined = all.filter(|one| one.mnnvl == Some(true));
    joined.filter_map(|one| one.nranks.checked_div(one.nodes?)).max().map(|gpus| gpus as usize)
}

/// Whether NCCL's log or its settings say that NVLink ends at the node.
fn spans_no_nodes(run: &Measurement) -> bool {
    setting(run, "NCCL_MNNVL_ENABLE") == Some("0")
        || several_nodes(run).find_map(|one| one.mnnvl) == Some(false)
}

pub(super) fn inside(run: &Measurement) -> Inside {
    let off = |name: &str| setting(run, name) == Some("1");
    match (off("NCCL_P2P_DISABLE"), off("NCCL_SHM_DISABLE")) {
        (true, true) => Inside::Network,
        (true, false) => Inside::HostMemory,
        _ => Inside::Best,
    }
}

/// Whether NCCL's log or its settings say that it uses sockets.
pub(super) fn by_sockets(run: &Measurement) -> bool {
    let mut networks = run.library.iter().flat_map(|facts| facts.networks.keys()).peekable();
    if networks.peek().is_some() {
        return networks.all(|network| network == "Socket");
    }
    setting(run, "NCCL_IB_DISABLE") == Some("1") || setting(run, "NCCL_NET") == Some("Socket")
}

/// What carries the bytes of a run that its command line or its environment keeps from the best way; none where nothing is
/// kept out, or where busbw recorded the run.
pub(super) fn carried(run: &Measurement) -> Option<&'static str> {
    if run.source.form.facts().recorded || !run.library.is_empty() {
        return None;
    }
    match (inside(run), by_sockets(run)) {
        (Inside::Network, true) => Some("over TCP sockets (P2P and SHM are off)"),
        (Inside::Network, false) => Some("over NICs alone (P2P and SHM are off)"),
        (Inside::HostMemory, true) => Some("over TCP sockets and host memory (P2P is off)"),
        (Inside::HostMemory, false) => Some("through host memory (P2P is off)"),
        (Inside::Best, true) => Some("over TCP sockets"),
        (Inside::Best, false) => None,
    }
}

/// A variable as the record has it, as the command line passes it (`-x NAME=value`, `NAME=value`), or
/// as NCCL says that it took it.
pub(super) fn setting<'a>(run: &'a Measurement, name: &str) -> Option<&'a str> {
    let recorded = run.environment.get(name).map(String::as_str);
    let passed = || {
        let words = run.command.as_deref()?.split_ascii_whitespace();
        let mut pairs = words.filter_map(|word| word.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    let taken = || {
        let values = run.library.iter().filter_map(|facts| facts.environment.get(name));
        values.flat_map(|values| values.keys()).next().map(String::as_str)
    };
    recorded.or_else(passed).or_else(taken)
}

#[cfg(test)]
mod tests {
    use busbw_hardware::machine::ready;
    use busbw_logs::measurement::{Device, Known as Value};

    use super::*;

    fn run(ranks: usize, hosts: Option<usize>) -> Measurement {
        Measurement { ranks: Some(Value::stated(ranks)), hosts, ..Measurement::default() }
    }

    fn on(name: &str, run: &Measurement, nodes: Option<usize>) -> Known {
        place(ready::ready(name).unwrap(), run, nodes)
    }

    #[test]
    fn as_said_or_as_they_fit() {
        for (ranks, hosts, nodes, placed) in [
            (8, Some(1), None, (1, 8)),
            (16, Some(2), None, (2, 8)),
            (16, None, None, (2, 8)),
            (16, None, Some(4), (4, 4)),
            (8, Some(1), Some(2), (2, 4)),
        ] {
            let placement = on("dgx-h100", &run(ranks, hosts), nodes).placement.unwrap();
            assert_eq!((placement.nodes, placement.per_node), placed);
        }
        let assumed = on("dgx-h100", &run(2, None), None).assumed;
        assert_eq!(assumed, ["all ranks on one host"]);
        assert!(on("dgx-h100", &run(9, Some(1)), None).placement.is_err());
        assert!(on("dgx-h100", &run(9, Some(2)), None).placement.is_err());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let machine = ready::ready("dgx-h100").unwrap();
        let refused = |ranks, nodes| refuse(Some(&machine), &run(ranks, None), nodes);
        assert_eq!(
            refused(16, 1).as_deref(),
            Some("1 host of DGX H100 has 8 GPUs, and there are 16 ranks")
        );
        assert_eq!(refused(8, 3).as_deref(), Some("8 ranks cannot be spread evenly over 3 hosts"));
        assert!(refused(8, 0).is_some());
        assert_eq!(refused(16, 2), None);
        assert_eq!(refused(16, 4), None);
        assert_eq!(refuse(None, &run(16, None), 1), None);
    }

    #[test]
    fn what_the_run_says_otherwise() {
        let device =
            |name: &str, device| Device { name: name.to_owned(), device, ..Device::default() };
        let mut found = run(8, Some(1));
        found.devices = (0..8).map(|at| device("NVIDIA A100-SXM4-80GB", at)).collect();
        let against =
            |name: &str, nodes| contradictions(&ready::ready(name).unwrap(), &found, nodes);
        assert_eq!(
            against("dgx-h100", None),
            ["the run's GPUs are NVIDIA A100-SXM4-80GB, those of DGX H100 are H100 SXM"]
        );
        assert!(against("gb200-nvl72", None)[1].starts_with("the run has 8 GPUs a host"));
        assert!(against("dgx-a100", Some(2))[0].contains("--nodes says 2"));
        assert_eq!(against("dgx-a100", Some(1)), [] as [String; 0]);
    }

    #[test]
    fn a_rack_of_one_domain_is_an_assumption() {
        let assumed = on("gb200-nvl72", &run(8, Some(2)), None).assumed;
        assert!(assumed.iter().any(|one| one.contains("MNNVL")), "{assumed:?}");
        let mut told = run(8, Some(2));
        told.command = Some("mpirun -x NCCL_MNNVL_ENABLE=0 all_reduce_perf".to_owned());
        assert_eq!(on("gb200-nvl72", &told, None).assumed, [] as [String; 0]);
    }

    #[test]
    fn settings_decide_what_carries_bytes() {
        let mut off = run(8, Some(1));
        off.command = Some("NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_IB_DISABLE=1 x".to_owned());
        let placement = on("dgx-h100", &off, None).placement.unwrap();
        assert!(placement.sockets);
        assert_eq!(placement.inside, Inside::Network);
    }
}
