//! A log without a table, explained by itself: what came up, over which network, and what was missing.
//! Not failures (`failure`): where the log has a cause of one, it says nothing.

use busbw_core::{
    finding::{Confidence, Finding, Severity},
    quantity::{count, list},
};
use busbw_library_logs::{
    failure::Ending,
    nccl::{Communicator, Counted, NcclFacts, Plugin, PluginState, transports_set_up},
};

use super::{super::context::Context, LOG_ALONE, diagnostics};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let run = context.run;
    let alone = run.rows.is_empty() && run.errors.is_empty() && run.paths.is_empty();
    if !alone || run.failure.cause().is_some() || (run.library.is_empty() && run.failure.is_empty())
    {
        return Vec::new();
    }
    let well = run.failure.ending() == Ending::Well;
    if run.library.is_empty() {
        let cause = if well {
            "nothing failed: the run ended well"
        } else {
            "nothing failed: the warnings in the log are harmless"
        };
        return vec![note(cause)];
    }
    let diagnosed = diagnostics::sentence(context);
    // What NCCL's own diagnostics found comes before how far the job came.
    if diagnosed.is_some() && diagnostics::healthy(context) == Some(false) {
        return Vec::new();
    }
    if let Some(diagnosed) = &diagnosed
        && largest(&run.library).is_none()
    {
        let mut finding = note(diagnosed.clone());
        finding.evidence.extend(diagnostics::bandwidths(context));
        return vec![finding];
    }
    let mut cause = match (well, started(&run.library)) {
        (true, what) => format!("nothing failed: the run ended well; {what}"),
        (false, what) => what,
    };
    if let Some(network) = network(&run.library) {
        cause.push_str(&format!(", over {network}"));
    }
    let missing = plugins_missing(&run.library);
    if !missing.is_empty() {
        let was = if missing.len() == 1 { "was" } else { "were" };
        let names = list(&missing, "and");
        let beginning = if well { "nothing failed: " } else { "" };
        let rest = cause.trim_start_matches("nothing failed: ");
        cause = format!("{beginning}the net plugin {names} {was} not found; {rest}");
    }
    let mut finding = note(cause).evidence(transports_set_up(&run.library));
    finding.evidence.extend(channels(&run.library));
    finding.evidence.extend(diagnosed);
    if !missing.is_empty() {
        finding.severity = Severity::Warning;
        finding = finding
            .remedy("install the plugin where the loader finds it (LD_LIBRARY_PATH), or unset NCCL_NET_PLUGIN")
            .confirm("NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET; the lines NET/Plugin");
    }
    vec![finding]
}

fn note(cause: impl Into<String>) -> Finding {
    Finding::new(LOG_ALONE, Severity::Note, cause).confidence(Confidence::Certain)
}

/// `NCCL 2.32.3 came up: 8 ranks on 2 hosts`.
fn started(library: &[NcclFacts]) -> String {
    let version = library.iter().flat_map(|facts| &facts.versions).next();
    let version = version.map_or(String::new(), |version| {
        format!(" {}", version.what.text.split('+').next().unwrap_or_default())
    });
    let Some(largest) = largest(library) else {
        return format!("NCCL{version} was loaded, and the log names no communicator");
    };
    let ready = largest.ranks.iter().filter(|rank| rank.initialized).count();
    let ranks = count(u64::from(largest.nranks), "rank");
    let hosts = hosts(largest).map_or(String::new(), |n| format!(" on {}", count(n, "host")));
    // A part of a log may lack the lines that say so.
    let connected = library.iter().any(|facts| !facts.connected.is_empty());
    match ready {
        0 if connected => format!("NCCL{version} came up: {ranks}{hosts}"),
        0 => format!(
            "NCCL{version}: {ranks}{hosts}, and no rank says that its communicator is complete"
        ),
        n if n >= largest.nranks as usize => format!("NCCL{version} came up: {ranks}{hosts}"),
        n => format!("NCCL{version} came up on {n} of {ranks}{hosts} whose output is here"),
    }
}

fn largest(library: &[NcclFacts]) -> Option<&Communicator> {
    library.iter().flat_map(|facts| &facts.communicators).max_by_key(|one| one.nranks)
}

/// The hosts of a communicator: as NCCL counts nodes, else those whose ranks are listed.
fn hosts(one: &Communicator) -> Option<u64> {
    let mut names: Vec<&str> = one.ranks.iter().map(|rank| rank.host.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    // NVLink across hosts makes one node of them.
    let listed = one.ranks.len() == one.nranks as usize;
    match (one.nodes, listed) {
        (_, true) => Some(names.len() as u64),
        (nodes, false) => nodes.map(u64::from),
    }
}

/// The networks that communicators use, and whether GPUs' memory is reached directly.
fn network(library: &[NcclFacts]) -> Option<String> {
    let mut names: Vec<&str> =
        library.iter().flat_map(|facts| facts.networks.keys()).map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let direct = library.iter().flat_map(|facts| &facts.gpu_direct).any(|said| said.what.enabled);
    let direct = if direct { " with GPU Direct RDMA" } else { "" };
    (!names.is_empty()).then(|| format!("network {}{direct}", list(&names, "and")))
}

/// How many channels there are, as most messages say, or as releases before 2.17 number them.
pub(super) fn channels(library: &[NcclFacts]) -> Option<String> {
    let stated = library.iter().flat_map(|facts| &facts.channels).max_by_key(|one| one.said);
    let Some(Counted { what, .. }) = stated else {
        let most = library.iter().filter_map(|facts| facts.ordered_channels).max()?;
        return Some(count(u64::from(most), "channel"));
    };
    Some(format!(
        "{} for collectives, {} for messages",
        count(u64::from(what.coll), "channel"),
        what.p2p
    ))
}

/// Net plugins that a variable asked for and that no library gives.
fn plugins_missing(library: &[NcclFacts]) -> Vec<&str> {
    let asked = |name: &str| {
        library.iter().any(|facts| {
            let values = facts.environment.get("NCCL_NET_PLUGIN");
            values.is_some_and(|values| values.keys().any(|value| name.contains(value.as_str())))
        })
    };
    let plugins = library.iter().flat_map(|facts| &facts.plugins).map(|counted| &counted.what);
    let mut missing: Vec<&str> = plugins
        .filter(|Plugin { kind, state, .. }| kind == "net" && *state == PluginState::Missing)
        .map(|plugin| plugin.name.as_str())
        .filter(|name| asked(name))
        .collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}
