//! On which machine a run may have been, where nothing says it: for every ready machine that fits, the share of its limit that the
//! result would be; those that could not be so fast; what others measured; and the one fact that would decide.
//! Not the limit or the bottleneck (`limit`): a hypothesis sets neither, and no finding is made of it.

use busbw_core::quantity::{list, percent, rate};
use busbw_hardware::{
    limits::{self, RankPlacement, Resource},
    machine::{Machine, Node, NvLink, PcieLink, models, ready},
};
use busbw_logs::measurement::{Figure, Measurement, Memory, ranks_of_another_run};
use serde::Serialize;

use super::{
    choice::{self, Basis},
    context::{Context, by_mpi, on_processors, plural},
    hardware::Hardware,
    limit::{logged_algorithm, set_algorithm},
    placement::place,
};
use crate::references;

/// Of a run that names no GPU, machines that it would use less than this share (25 %) of are not worth a line.
const LIKELY_PERCENT: f64 = 25.0;
/// Published results within a tenth are named in the brief form.
const NEAR: f64 = 0.1;
/// What must hold where a run in an NVLink domain of several hosts crosses the network.
const HOSTS_APART: &str = "NVLink ends at the host (no MNNVL)";
/// The most hypotheses in the brief form, and the most machines excluded there.
const MAX_BRIEF: usize = 2;
const MAX_EXCLUDED_BRIEF: usize = 3;

/// What may be said of a run whose machine is not known.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hypotheses {
    /// Machines that allow the result, the one whose limit it is nearest to first.
    pub possible: Vec<Hypothesis>,
    /// Machines that could not be so fast, the fastest first.
    pub excluded: Vec<Hypothesis>,
    /// The same test on as many ranks, as others measured it (`busbw references`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<Elsewhere>,
    /// The one fact that would decide.
    pub decides: String,
}

/// A machine that it may have been.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hypothesis {
    /// The ready machines that it stands for, by the names that `--machine` takes.
    pub machines: Vec<&'static str>,
    /// The models of their GPUs.
    pub gpus: Vec<String>,
    /// Hosts, and ranks on each.
    pub hosts: usize,
    /// Ranks on each host.
    pub ranks_per_host: usize,
    /// What would set the limit, such as `8 × 400 Gb/s NICs a host`.
    pub limited_by: String,
    /// The limit of the algorithm that the result fits, busbw, GB/s; of an excluded machine its highest.
    pub limit: f64,
    /// The result, percent of this limit.
    pub percent: f64,
    /// What must hold as well, and no source confirms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
}

/// A published result of the same test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Elsewhere {
    /// The reference's name.
    pub reference: &'static str,
    /// The hardware.
    pub hardware: &'static str,
    /// Its best busbw, GB/s.
    pub busbw: f64,
}

/// The hypotheses on a run; none where its limit is known, nothing could be rated, or no ready machine fits.
pub(super) fn of(context: &Context<'_>, hardware: &Hardware) -> Option<Hypotheses> {
    let (run, nodes) = (context.run, hardware.nodes);
    let busbw = context.busbw().filter(|_| run.rank_count().is_some_and(|ranks| ranks > 1))?;
    let host = run.test.memory.is_some_and(|memory| memory.value == Memory::Host);
    let rated = run.test.figure == Figure::Bandwidths
        && run.collective().is_some()
        && run.group().is_none()
        && !(host || by_mpi(run) || on_processors(run));
    // Of a named machine it is known why there is no limit.
    let open = context.ceiling.is_none() && context.growth.is_none() && hardware.machine.is_none();
    if !rated || !open || run.failure.cause().is_some() || ranks_of_another_run(run).is_some() {
        return None;
    }
    let model = match run.devices.first() {
        Some(first) => Some(models::find(&first.name)?),
        None => None,
    };
    if run.devices.iter().any(|device| models::find(&device.name) != model) {
        return None;
    }
    let mut found = Hypotheses {
        possible: Vec::new(),
        excluded: Vec::new(),
        measured: elsewhere(run, model, busbw),
        decides: String::new(),
    };
    let mut bridged = false;
    for (name, machine) in
        ready::names().iter().filter_map(|name| Some((*name, ready::ready(name)?)))
    {
        let gpu = machine.node.gpu.as_ref().and_then(|gpu| models::find(&gpu.name));
        if model.is_some() && gpu != model {
            continue;
        }
        let narrow = in_half_a_slot(&machine).map(|machine| (machine, None));
        let apart = with_hosts_apart(&machine).filter(|_| model.is_some());
        let apart = apart.map(|machine| (machine, Some(HOSTS_APART)));
        let fit = |machine, condition| hypothesis(context, name, machine, nodes, condition);
        if let Some(fit) = fit(machine, None) {
            bridged |= fit.set_by == Resource::NvLink;
            let kept = if fit.exceeded { &mut found.excluded } else { &mut found.possible };
            add(kept, fit.hypothesis);
        }
        for (machine, condition) in [narrow, apart].into_iter().flatten() {
            let changed = |fit: &Fit| !fit.exceeded && fit.set_by != Resource::NvLink;
            if let Some(fit) = fit(machine, condition).filter(changed) {
                add(&mut found.possible, fit.hypothesis);
            }
        }
    }
    if model.is_none() {
        found.possible.retain(|one| one.percent >= LIKELY_PERCENT);
    }
    found.possible.sort_by(|a, b| b.percent.total_cmp(&a.percent));
    found.excluded.sort_by(|a, b| b.limit.total_cmp(&a.limit));
    let one_host = run.hosts.or(nodes) == Some(1);
    found.decides = decides(model.is_some(), one_host, bridged).to_owned();
    (!found.possible.is_empty()).then_some(found)
}

/// A machine whose GPUs are joined by PCIe alone, with half their lanes: a board of 16 lanes is often in a slot that has 8.
fn in_half_a_slot(machine: &Machine) -> Option<Machine> {
    let link = machine.node.pcie.filter(|_| machine.node.nvlink.is_none())?;
    let half = PcieLink::new(link.generation, link.width / 2)?;
    let node = Node { pcie: Some(half), ..machine.node.clone() };
    Some(Machine { node, ..machine.clone() })
}

/// A machine whose NVLink spans hosts, as if it ended at each of them.
fn with_hosts_apart(machine: &Machine) -> Option<Machine> {
    let domain = machine.node.gpus;
    let nvlink = machine.node.nvlink.as_ref().filter(|nvlink| nvlink.domain > domain)?;
    let nvlink = NvLink { domain, ..nvlink.clone() };
    let node = Node { nvlink: Some(nvlink), ..machine.node.clone() };
    Some(Machine { node, ..machine.clone() })
}

/// A run as it would be on a machine.
struct Fit {
    hypothesis: Hypothesis,
    set_by: Resource,
    /// Whether the result is above the limit.
    exceeded: bool,
}

/// A run on a ready machine; none where it does not fit there.
fn hypothesis(
    context: &Context<'_>,
    name: &'static str,
    machine: Machine,
    nodes: Option<usize>,
    condition: Option<&str>,
) -> Option<Fit> {
    let busbw = context.busbw()?;
    let known = place(machine, context.run, nodes);
    let placement = known.placement.ok()?;
    let candidates = limits::candidates(&known.machine, context.run.collective()?, &placement);
    let (limit, choice) =
        choice::choose(&candidates, logged_algorithm(context), set_algorithm(context), busbw)?;
    let set_by = limit.bottleneck?;
    let bound = limit.payload.as_ref()?.busbw;
    let unconfirmed = choice.conditions.first().filter(|_| choice.basis == Basis::Conditional);
    let condition = condition.map(str::to_owned).or(unconfirmed.map(|(_, why)| why.clone()));
    let hypothesis = Hypothesis {
        machines: vec![name],
        gpus: known.machine.node.gpu.iter().map(|gpu| gpu.name.clone()).collect(),
        hosts: placement.nodes,
        ranks_per_host: placement.per_node,
        limited_by: limited_by(&known.machine, &placement, set_by),
        limit: bound,
        percent: busbw / bound * 100.0,
        condition,
    };
    Some(Fit { hypothesis, set_by, exceeded: choice.basis == Basis::Exceeded })
}

/// Machines of the same limit by the same links are one hypothesis.
fn add(all: &mut Vec<Hypothesis>, new: Hypothesis) {
    let same = |one: &&mut Hypothesis| {
        one.limited_by == new.limited_by
            && (one.hosts, one.ranks_per_host) == (new.hosts, new.ranks_per_host)
            && rate(one.limit) == rate(new.limit)
            && one.condition == new.condition
    };
    match all.iter_mut().find(same) {
        Some(one) => {
            one.machines.extend(new.machines);
            one.gpus.extend(
                new.gpus.into_iter().filter(|gpu| !one.gpus.contains(gpu)).collect::<Vec<_>>(),
            );
        }
        None => all.push(new),
    }
}

fn limited_by(machine: &Machine, placement: &RankPlacement, by: Resource) -> String {
    let node = &machine.node;
    let links = node.nvlink.as_ref().and_then(|nvlink| nvlink.links);
    match by {
        Resource::Nic | Resource::NicSlot => {
            let groups = node.nics.iter().filter_map(|nics| {
                let each = nics.rate.filter(|_| placement.sockets || nics.count > 0)?;
                Some(format!("{} × {each:.0} Gb/s {}", nics.count, plural(nics.count, "NIC")))
            });
            format!("{} a host", list(&groups.collect::<Vec<_>>(), "and"))
        }
        Resource::GpuPcie => node.pcie.map_or(by.name().to_owned(), |link| link.to_string()),
        Resource::NvLink => match (links, machine.links_called()) {
            (Some(links), "NVLink") => format!("{links} NVLinks"),
            (Some(links), called) => format!("{links} {called} links"),
            (None, called) => called.to_owned(),
        },
        Resource::GpuLinks | Resource::BetweenSockets => by.name().to_owned(),
    }
}

/// What decides between machines: which GPUs there are, else what joins hosts, else what joins the GPUs of one.
fn decides(gpus_named: bool, one_host: bool, bridged: bool) -> &'static str {
    match (gpus_named, one_host, bridged) {
        (false, ..) => "the list of devices at the head of the table",
        (true, false, _) => {
            "which NICs there are: the line NET/IB : Using of NCCL_DEBUG=INFO, or --machine"
        }
        (true, true, true) => "whether an NVLink bridge joins the GPUs: nvidia-smi topo -m",
        (true, true, false) => "the lanes of each GPU's slot: sudo lspci -vv | grep LnkSta",
    }
}

/// Published results of the same test on as many ranks and hosts, of the same GPU where it is known, from half of the result to its
/// double.
fn elsewhere(run: &Measurement, model: Option<&models::Model>, busbw: f64) -> Vec<Elsewhere> {
    let alike = references::all().iter().filter(|one| {
        model.is_none_or(|model| model.name == one.gpu)
            && run.hosts.is_none_or(|hosts| hosts == one.hosts)
    });
    let best = |one: &'static references::Reference| {
        let runs = one.runs().unwrap_or_default();
        let same = runs.iter().filter(|theirs| {
            theirs.collective() == run.collective() && theirs.rank_count() == run.rank_count()
        });
        let busbw = same.filter_map(|theirs| theirs.peak()?.half.busbw).reduce(f64::max)?;
        Some(Elsewhere { reference: one.name, hardware: one.hardware, busbw })
    };
    // Other ways of the same GPUs, such as sockets over loopback, tell nothing of this run.
    let near = |one: &Elsewhere| (0.5..=2.0).contains(&(one.busbw / busbw));
    alike.filter_map(best).filter(near).collect()
}

impl Hypothesis {
    /// `2 × 8 H100 SXM by 8 × 400 Gb/s NICs a host`.
    pub(super) fn name(&self) -> String {
        let ranks = match (self.hosts, self.ranks_per_host) {
            (1, ranks) => format!("{ranks} ×"),
            (hosts, ranks) => format!("{hosts} hosts of {ranks} ×"),
        };
        let condition =
            self.condition.as_ref().map_or(String::new(), |why| format!(" where {why}"));
        format!("{ranks} {} by {}{condition}", list(&self.gpus, "or"), self.limited_by)
    }
}

impl Hypotheses {
    /// `if it were A, 481.0 GB/s would be 69 % of its limit; B: 60 %; the reference R reached 479.0; too fast for C and D`.
    pub(super) fn brief(&self, busbw: f64) -> String {
        let mut parts: Vec<String> = Vec::new();
        for one in self.possible.iter().take(MAX_BRIEF) {
            let share = percent(one.percent);
            parts.push(match parts.is_empty() {
                true => format!(
                    "if it were {}, {} GB/s would be {share} % of its limit",
                    one.name(),
                    rate(busbw)
                ),
                false => format!("{}: {share} %", one.name()),
            });
        }
        let off = |one: &Elsewhere| (one.busbw / busbw).ln().abs();
        let nearest = self.measured.iter().min_by(|a, b| off(a).total_cmp(&off(b)));
        if let Some(near) = nearest.filter(|one| off(one) < NEAR) {
            parts.push(format!("the reference {} reached {}", near.reference, rate(near.busbw)));
        }
        // What is far slower nobody takes it for.
        let close = self.excluded.iter().filter(|one| one.limit > busbw / 2.0);
        let excluded: Vec<String> = close.take(MAX_EXCLUDED_BRIEF).map(Hypothesis::name).collect();
        if !excluded.is_empty() {
            parts.push(format!("too fast for {}", list(&excluded, "and")));
        }
        parts.join("; ")
    }

    /// Every hypothesis in a line, for `-v`.
    pub(super) fn lines(&self, busbw: f64) -> Vec<String> {
        let mut lines = vec![format!(
            "hypotheses, of which none sets a limit (what would decide: {}):",
            self.decides
        )];
        for one in &self.possible {
            lines.push(format!(
                "  if it were {} ({}): {} % of {} GB/s",
                one.name(),
                one.machines.join(", "),
                percent(one.percent),
                rate(one.limit)
            ));
        }
        for one in &self.excluded {
            lines.push(format!(
                "  not {} ({}): it allows {} GB/s, {} were measured",
                one.name(),
                one.machines.join(", "),
                rate(one.limit),
                rate(busbw)
            ));
        }
        let measured = |one: &Elsewhere| {
            format!(
                "  others measured {} GB/s (busbw references: {})",
                rate(one.busbw),
                one.reference
            )
        };
        lines.extend(self.measured.iter().map(measured));
        lines
    }
}

#[cfg(test)]
mod tests;
