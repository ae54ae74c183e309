//! The net, tuner and profiler libraries that NCCL would load here, and whether it can use them.
//! Does not load them.

use busbw_core::finding::Finding;
use busbw_ffi::search::{self, Candidate, Kind, Standing};
use busbw_nccl_releases::{PluginKind, versions_tried};

use super::{
    Node,
    advice::{About, Advice},
};
use busbw_core::nccl_version::Version;

const ABOUT: About = About("plugins");

/// One kind of plugin.
struct Plugin {
    kind: Kind,
    name: &'static str,
    variable: &'static str,
    interface: PluginKind,
}

const PLUGINS: [Plugin; 3] = [
    Plugin {
        kind: Kind::NetPlugin,
        name: "net plugin",
        variable: "NCCL_NET_PLUGIN",
        interface: PluginKind::Net,
    },
    Plugin {
        kind: Kind::TunerPlugin,
        name: "tuner plugin",
        variable: "NCCL_TUNER_PLUGIN",
        interface: PluginKind::Tuner,
    },
    Plugin {
        kind: Kind::ProfilerPlugin,
        name: "profiler plugin",
        variable: "NCCL_PROFILER_PLUGIN",
        interface: PluginKind::Profiler,
    },
];

/// Checks each kind of plugin.
pub fn check(node: &Node) -> Vec<Finding> {
    PLUGINS.iter().flat_map(|plugin| one(plugin, node)).collect()
}

fn one(plugin: &Plugin, node: &Node) -> Vec<Finding> {
    let Plugin { kind, name, variable, .. } = plugin;
    let found = search::candidates(*kind, &node.environment, node.root.folder());
    let asked = node.variable(variable);
    if let Some(used) = found.iter().find(|c| c.standing == Standing::Used) {
        return vec![judge(plugin, used, node.nccl_version())];
    }
    let refused = found.iter().filter_map(|candidate| match &candidate.standing {
        Standing::Refused(why) => Some(format!("{}: {why}", candidate.path.display())),
        _ => None,
    });
    let refused: Vec<String> = refused.collect();
    match asked {
        Some(asked) if asked.eq_ignore_ascii_case("none") || asked == "STATIC_PLUGIN" => {
            vec![ABOUT.fine(name, format!("none, because {variable}={asked}"))]
        }
        Some(asked) => {
            let why = if refused.is_empty() {
                "there is no such library".to_owned()
            } else {
                refused.join("; ")
            };
            vec![ABOUT.slow(
                name,
                format!("{variable}={asked} cannot be loaded: {why}"),
                &Advice {
                    // NCCL's log: "NET/Plugin: Could not find: ... Using internal network plugin."
                    cost: "NCCL uses its built-in one instead, and reports it only in its log",
                    remedy: "set LD_LIBRARY_PATH to its folder or the variable to its path, or unset it",
                    confirm: "NCCL_DEBUG=INFO 2>&1 | grep -i plugin",
                },
            )]
        }
        None => vec![ABOUT.absent(name, "none found; NCCL uses its own")],
    }
}

fn judge(plugin: &Plugin, used: &Candidate, nccl: Option<Version>) -> Finding {
    let name = plugin.name;
    let symbol = plugin.interface.symbol();
    let path = used.path.display();
    let mut versions: Vec<u32> =
        used.symbols.iter().filter_map(|s| version_of(s, symbol)).collect();
    versions.sort_unstable();
    let listed: Vec<String> = versions.iter().map(|v| format!("v{v}")).collect();
    let seen = format!("{path} ({}), {}", used.origin, listed.join(" "));
    let confirm = format!("nm -D {path} | grep {symbol}");
    if versions.is_empty() {
        let seen = format!("{path} ({}) exports no {symbol}N: NCCL ignores it", used.origin);
        return ABOUT.note(name, seen, &confirm);
    }
    let Some(nccl) = nccl else {
        let why = format!("{seen}; the NCCL version that loads it is not known");
        return ABOUT.unknown(name, why, &confirm);
    };
    if busbw_nccl_releases::releases().first().is_none_or(|oldest| nccl < *oldest) {
        let why = format!("{seen}; which versions NCCL {nccl} tries is not known");
        return ABOUT.unknown(name, why, &confirm);
    }
    let tried = versions_tried(plugin.interface, nccl).unwrap_or_default();
    let tries = match tried {
        [] => "no such plugin".to_owned(),
        [only] => format!("v{only}"),
        [from, .., to] => format!("v{from} to v{to}"),
    };
    if versions.iter().any(|version| tried.contains(version)) {
        return ABOUT.fine(name, format!("{seen}: loaded by NCCL {nccl}, which tries {tries}"));
    }
    ABOUT.slow(
        name,
        format!("{seen}; NCCL {nccl} tries {tries}"),
        &Advice {
            cost: "NCCL ignores it, uses its built-in one, and reports it only in its log",
            remedy: "use a build of the plugin for this NCCL, or another NCCL",
            confirm: &confirm,
        },
    )
}

/// The number at the end of `ncclNetPlugin_v10`.
fn version_of(symbol: &str, beginning: &str) -> Option<u32> {
    symbol.strip_prefix(beginning)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_symbols() {
        assert_eq!(version_of("ncclNetPlugin_v10", "ncclNetPlugin_v"), Some(10));
        assert_eq!(version_of("ncclProfiler_v4", "ncclProfiler_v"), Some(4));
        assert_eq!(version_of("ncclCollNetPlugin_v8", "ncclNetPlugin_v"), None);
    }
}
