//! Plugins: networks, tuners, profilers from other libraries, and the events of each.
//! Not what a plugin does.
//!
//! Formats: NCCL's src/plugin/*.cc (2.21 to 2.32), src/net.cc (2.18 to 2.20), and the messages of
//! nccl-rdma-sharp-plugins.

use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use super::tally::keep;

/// A plugin and an event of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Plugin {
    /// `net`, `collnet`, `tuner`, `profiler`, `env`, `gin` or `rma`.
    pub kind: String,
    /// The plugin's own name, or the library's where only that is printed.
    pub name: String,
    /// The interface that NCCL uses of it, such as `v8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Its own version, such as aws-ofi-nccl's 1.6.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The event.
    pub state: PluginState,
}

/// What happened to a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PluginState {
    /// No such library.
    Missing,
    /// The library is there and was refused.
    Failed,
    /// Loaded.
    Loaded,
    /// Initialized; a network has devices.
    Initialized,
    /// A communicator uses it.
    Assigned,
}

impl Plugin {
    /// Reads a message; `None` if it is not about a plugin.
    pub(super) fn read(cursor: Cursor<'_>) -> Option<Plugin> {
        titled(cursor).or_else(|| named_by_kind(cursor)).or_else(|| otherwise(cursor))
    }

    fn new(kind: &str, name: &str, state: PluginState) -> Option<Plugin> {
        let name = name.trim();
        let (name, interface) = match name.strip_suffix(')').and_then(|n| n.rsplit_once(" (")) {
            Some((name, version)) if is_version(version) => (name, Some(version.to_owned())),
            _ => (name, None),
        };
        let kind = kind.to_owned();
        (!name.is_empty()).then(|| Plugin {
            kind,
            name: keep(name),
            interface,
            version: None,
            state,
        })
    }
}

/// `v8`.
fn is_version(word: &str) -> bool {
    word.strip_prefix('v').is_some_and(|number| number.parse::<u32>().is_ok())
}

/// `NET/Plugin: …`, with a blank before the colon in older releases.
fn titled(mut at: Cursor<'_>) -> Option<Plugin> {
    use PluginState::{Assigned, Failed, Initialized, Loaded, Missing};
    let kind = kind(at.one_of(&KINDS)?)?;
    at.literal("/Plugin")?;
    at.blanks();
    at.literal(": ")?;
    let saying = at.one_of(&[
        "Loaded net plugin ",
        "Loaded collnet plugin ",
        "Loaded coll plugin ",
        "Loaded gin plugin ",
        "Loaded rma plugin ",
        "Loaded ",
        "Using tuner plugin ",
        "Using ",
        "Assigned plugin ",
        "Initialized plugin ",
        "Failed to initialize plugin ",
        "Could not find:",
        "Plugin load (",
        "dlerror=",
    ])?;
    let text = at.text()?;
    match saying {
        "Loaded collnet plugin " | "Loaded coll plugin " => Plugin::new("collnet", text, Loaded),
        // Without a version it is "Using internal net plugin."
        "Using " if !text.ends_with(')') => None,
        "Assigned plugin " => {
            let name = text.split(" type ").next()?;
            Plugin::new(kind, name.strip_suffix(" to comm").unwrap_or(name), Assigned)
        }
        "Initialized plugin " => Plugin::new(kind, text, Initialized),
        "Failed to initialize plugin " => Plugin::new(kind, text, Failed),
        // A sentence about what is used instead may follow.
        "Could not find:" => {
            let libraries = text.split(". ").next()?.trim_end_matches('.');
            Plugin::new(kind, libraries, Missing)
        }
        "Plugin load (" => Plugin::new(kind, text.split(')').next()?, Missing),
        "dlerror=" => Plugin::new(kind, text.split(['(', ')']).nth(1)?, Missing),
        _ => Plugin::new(kind, text, Loaded),
    }
}

/// `Initialized NET plugin IB`: from 2.27 on, of network plugins and built-in networks alike.
fn named_by_kind(mut at: Cursor<'_>) -> Option<Plugin> {
    use PluginState::{Assigned, Failed, Initialized, Loaded};
    let saying = at.one_of(&[
        "Initialized ",
        "Failed to initialize ",
        "Assigned ",
        "Successfully loaded external ",
        "External ",
    ])?;
    let kind = kind(at.until(" plugin ")?)?;
    let text = at.text()?;
    match saying {
        "Initialized " => Plugin::new(kind, text, Initialized),
        "Failed to initialize " => Plugin::new(kind, text, Failed),
        "Assigned " => Plugin::new(kind, text.strip_suffix(" to comm")?, Assigned),
        "External " => Plugin::new(kind, text.strip_suffix(" is unsupported")?, Failed),
        _ => Plugin::new(kind, text, Loaded),
    }
}

/// Messages of plugins: `Using tuner plugin: 'x'` (2.19 and 2.20), `P2P plugin v8 IBext_v8`
/// (nccl-rdma-sharp-plugins), `NET/OFI Using aws-ofi-nccl 1.6.0`.
fn otherwise(mut at: Cursor<'_>) -> Option<Plugin> {
    let saying = at.one_of(&[
        "Using tuner plugin: ",
        "P2P plugin ",
        "NET/OFI Using aws-ofi-nccl ",
        "NET/OFI Initializing aws-ofi-nccl ",
    ])?;
    let text = at.text()?;
    match saying {
        "Using tuner plugin: " => {
            Plugin::new("tuner", text.trim_matches('\''), PluginState::Loaded)
        }
        "P2P plugin " => {
            let (interface, name) = match text.split_once(' ') {
                Some((interface, name)) if is_version(interface) => (Some(interface), name),
                _ => (None, text),
            };
            let plugin = Plugin::new("net", name, PluginState::Loaded)?;
            Some(Plugin { interface: interface.map(str::to_owned), ..plugin })
        }
        _ => {
            let plugin = Plugin::new("net", "aws-ofi-nccl", PluginState::Loaded)?;
            Some(Plugin { version: Some(keep(text)), ..plugin })
        }
    }
}

const KINDS: [&str; 10] =
    ["NET", "network", "TUNER", "tuner", "PROFILER", "profiler", "ENV", "env", "GIN", "RMA"];

fn kind(said: &str) -> Option<&'static str> {
    Some(match said {
        "NET" | "network" => "net",
        "TUNER" | "tuner" => "tuner",
        "PROFILER" | "profiler" => "profiler",
        "ENV" | "env" => "env",
        "GIN" => "gin",
        "RMA" => "rma",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use PluginState::{Assigned, Failed, Initialized, Loaded, Missing};

    #[test]
    fn every_generation_of_the_lines() {
        for (text, kind, name, interface, state) in [
            (
                "NET/Plugin: Loaded net plugin NCCL RDMA Plugin v6 (v6)",
                "net",
                "NCCL RDMA Plugin v6",
                Some("v6"),
                Loaded,
            ),
            ("NET/Plugin : Loaded coll plugin SHARP (v6)", "collnet", "SHARP", Some("v6"), Loaded),
            ("PROFILER/Plugin: Loaded Inspector (v5)", "profiler", "Inspector", Some("v5"), Loaded),
            ("TUNER/Plugin: Using tuner plugin example", "tuner", "example", None, Loaded),
            ("TUNER/Plugin: Using example (v5)", "tuner", "example", Some("v5"), Loaded),
            ("Using tuner plugin: 'example'", "tuner", "example", None, Loaded),
            (
                "NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin.",
                "net",
                "libnccl-net.so",
                None,
                Missing,
            ),
            (
                "NET/Plugin: Could not find:libnccl-net.so. Using internal network plugin.",
                "net",
                "libnccl-net.so",
                None,
                Missing,
            ),
            (
                "TUNER/Plugin: Could not find: a.so b.so. Using internal tuner plugin.",
                "tuner",
                "a.so b.so",
                None,
                Missing,
            ),
            (
                "PROFILER/Plugin: Could not find: libnccl-profiler.so.",
                "profiler",
                "libnccl-profiler.so",
                None,
                Missing,
            ),
            (
                "NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open",
                "net",
                "libnccl-net.so",
                None,
                Missing,
            ),
            (
                "NET/Plugin : dlerror=libnccl-net.so: cannot open No plugin found (libnccl-net.so), using internal implementation",
                "net",
                "libnccl-net.so",
                None,
                Missing,
            ),
            (
                "GIN/Plugin: Assigned plugin GIN_IB_GDAKI type 3 to comm",
                "gin",
                "GIN_IB_GDAKI",
                None,
                Assigned,
            ),
            (
                "GIN/Plugin: Loaded gin plugin Libfabric_GDAKI (v14)",
                "gin",
                "Libfabric_GDAKI",
                Some("v14"),
                Loaded,
            ),
            ("RMA/Plugin: Loaded rma plugin X (v16)", "rma", "X", Some("v16"), Loaded),
            ("RMA/Plugin: Assigned plugin Libfabric to comm", "rma", "Libfabric", None, Assigned),
            ("RMA/Plugin: Initialized plugin X", "rma", "X", None, Initialized),
            ("RMA/Plugin: Failed to initialize plugin X", "rma", "X", None, Failed),
            ("PROFILER/Plugin: Loaded P (v7)", "profiler", "P", Some("v7"), Loaded),
            ("Assigned GIN plugin GIN_XXXX to comm", "gin", "GIN_XXXX", None, Assigned),
            ("Initialized NET plugin Socket", "net", "Socket", None, Initialized),
            ("Failed to initialize NET plugin IB", "net", "IB", None, Failed),
            (
                "Successfully loaded external network plugin /opt/libx.so",
                "net",
                "/opt/libx.so",
                None,
                Loaded,
            ),
            ("External tuner plugin libt.so is unsupported", "tuner", "libt.so", None, Failed),
            ("P2P plugin v8 IBext_v8", "net", "IBext_v8", Some("v8"), Loaded),
            ("P2P plugin IBext", "net", "IBext", None, Loaded),
        ] {
            let plugin = Plugin::read(Cursor::new(text, false)).expect(text);
            let got = (plugin.kind.as_str(), plugin.name.as_str(), plugin.interface.as_deref());
            assert_eq!((got, plugin.state), ((kind, name, interface), state), "{text}");
        }
    }

    #[test]
    fn a_plugin_may_tell_its_own_version() {
        for text in ["NET/OFI Using aws-ofi-nccl 1.6.0", "NET/OFI Initializing aws-ofi-nccl 1.6.0"]
        {
            let plugin = Plugin::read(Cursor::new(text, false)).expect(text);
            assert_eq!(
                (plugin.name.as_str(), plugin.version.as_deref()),
                ("aws-ofi-nccl", Some("1.6.0"))
            );
        }
    }

    #[test]
    fn lines_that_tell_of_no_plugin() {
        for text in [
            "NET/Plugin: Failed to find ncclNetPlugin_v7 symbol.",
            "NET/Plugin: Using internal network plugin.",
            "ENV/Plugin: Closing env plugin ncclEnvDefault",
            "WALL/Plugin: Loaded x (v1)",
            "Assigned NET plugin Socket",
            "Using network Socket",
        ] {
            assert_eq!(Plugin::read(Cursor::new(text, false)), None, "{text}");
        }
        assert_eq!(Plugin::read(Cursor::new("Initialized NET plugin Sock", true)), None);
    }
}
