//! The plugin interfaces: which versions of a plugin's symbol each release looks for. Not the interfaces themselves
//! (`nccl-plugin-abi`).

use std::sync::LazyLock;

use busbw_core::nccl_version::Version;

use crate::table;

/// A kind of plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginKind {
    /// ncclNetPlugin_vN.
    Net,
    /// ncclCollNetPlugin_vN, in the same library.
    CollNet,
    /// ncclTunerPlugin_vN.
    Tuner,
    /// ncclProfiler_vN.
    Profiler,
    /// ncclEnvPlugin_vN.
    Env,
    /// ncclGinPlugin_vN: sends that a GPU begins by itself.
    Gin,
    /// ncclRmaPlugin_vN: one-sided operations.
    Rma,
}

impl PluginKind {
    /// What stands before the version in the symbol's name.
    pub const fn symbol(self) -> &'static str {
        match self {
            PluginKind::Net => "ncclNetPlugin_v",
            PluginKind::CollNet => "ncclCollNetPlugin_v",
            PluginKind::Tuner => "ncclTunerPlugin_v",
            PluginKind::Profiler => "ncclProfiler_v",
            PluginKind::Env => "ncclEnvPlugin_v",
            PluginKind::Gin => "ncclGinPlugin_v",
            PluginKind::Rma => "ncclRmaPlugin_v",
        }
    }

    fn of(word: &str) -> Option<PluginKind> {
        Some(match word {
            "net" => PluginKind::Net,
            "collnet" => PluginKind::CollNet,
            "tuner" => PluginKind::Tuner,
            "profiler" => PluginKind::Profiler,
            "env" => PluginKind::Env,
            "gin" => PluginKind::Gin,
            "rma" => PluginKind::Rma,
            _ => return None,
        })
    }
}

/// The versions that a release looks for, ascending. A release whose library was not read looks for those of the one before it
/// that was. `None` where no release up to this one knows such plugins, or where it is older than all that were read.
pub fn versions_tried(kind: PluginKind, release: Version) -> Option<&'static [u32]> {
    let known = all().iter().rfind(|row| row.kind == kind && row.since <= release);
    known.map(|row| &*row.versions)
}

/// Every symbol of a plugin that some release looks for: (kind, symbol), newest version first.
pub fn symbols() -> Vec<(PluginKind, String)> {
    let mut every: Vec<(PluginKind, u32)> = Vec::new();
    for row in all() {
        every.extend(row.versions.iter().map(|version| (row.kind, *version)));
    }
    every.sort_by_key(|(kind, version)| (kind.symbol(), std::cmp::Reverse(*version)));
    every.dedup();
    every.into_iter().map(|(kind, version)| (kind, format!("{}{version}", kind.symbol()))).collect()
}

struct Tried {
    since: Version,
    kind: PluginKind,
    versions: Vec<u32>,
}

fn all() -> &'static [Tried] {
    static ALL: LazyLock<Vec<Tried>> = LazyLock::new(|| {
        let rows = table::rows(include_str!("generated/plugins.tsv"));
        rows.filter_map(|row| tried(&row)).collect()
    });
    &ALL
}

fn tried(row: &[&'static str]) -> Option<Tried> {
    let &[since, kind, versions] = row else {
        return None;
    };
    let versions = versions.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
    Some(Tried { since: table::release(since)?, kind: PluginKind::of(kind)?, versions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        assert_eq!(all().len(), include_str!("generated/plugins.tsv").lines().count() - 1);
    }

    #[test]
    fn each_symbol_is_there_once() {
        let symbols = symbols();
        let of_net = symbols.iter().filter(|(kind, _)| *kind == PluginKind::Net);
        let of_net: Vec<&str> = of_net.map(|(_, symbol)| &**symbol).collect();
        assert_eq!(of_net.first(), Some(&"ncclNetPlugin_v12"));
        assert_eq!(of_net.len(), 9, "{of_net:?}");
    }

    #[test]
    fn what_releases_look_for() {
        let net = |patch| versions_tried(PluginKind::Net, patch);
        assert_eq!(net(Version::new(2, 18, 1)), Some(&[4, 5, 6][..]));
        assert_eq!(net(Version::new(2, 25, 9)), Some(&[5, 6, 7, 8, 9][..]));
        assert_eq!(net(Version::new(2, 3, 0)), None);
        assert_eq!(versions_tried(PluginKind::Rma, Version::new(2, 28, 9)), None);
        let profiler = versions_tried(PluginKind::Profiler, Version::new(2, 32, 3));
        assert_eq!(profiler, Some(&[1, 2, 3, 4, 5, 6, 7][..]));
    }
}
