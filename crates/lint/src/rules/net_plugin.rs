//! A net plugin that NCCL 2.28 and 2.29 load once and then forget.
//! Not whether the plugin is found (`doctor`), nor what it does.

use busbw_core::{
    finding::{Finding, Severity},
    nccl_version::Version,
};

use crate::settings::View;

const PLUGIN: &str = "NCCL_NET_PLUGIN";
/// Keeps the library loaded, and so its name known.
const REFERENCES: &str = "NCCL_NET_PLUGIN_REF_COUNT";
/// ncclNetPluginUnload of src/plugin/net.cc forgets the name in these: seen with 2.28.9, read in the others. 2.27 does so, too, and
/// holds a reference by default.
const FORGETFUL: std::ops::Range<Version> = Version::new(2, 28, 0)..Version::new(2, 30, 0);

/// What the settings prove.
pub(super) fn check(view: &View<'_>, in_use: Option<Version>) -> Option<Finding> {
    let in_use = in_use.filter(|version| FORGETFUL.contains(version))?;
    let at = view.get(PLUGIN)?;
    let is_none = at.literal().is_some_and(|value| value.is_empty() || value == "none");
    let keeps = view.get(REFERENCES).is_some_and(|count| count.literal() != Some("0"));
    if is_none || keeps {
        return None;
    }
    let cause = format!(
        "NCCL {in_use} forgets {PLUGIN} when a process destroys its last communicator: the next one goes over NCCL's own transports"
    );
    let remedy = format!(
        "set {REFERENCES}=1 too, if a process makes communicators after it has destroyed all of them"
    );
    Some(Finding::new("forgotten-plugin", Severity::Note, cause).remedy(remedy).place(at.place()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, lint_text};

    fn found(settings: &str, version: Option<Version>) -> usize {
        let text = format!("export {settings}\n./run\n");
        let found = lint_text(&text, &Options { nccl_version: version });
        found.iter().filter(|finding| finding.rule == "forgotten-plugin").count()
    }

    #[test]
    fn releases_that_forget() {
        let plugin = "NCCL_NET_PLUGIN=/c/libnccl-net-busbw.so";
        let versions = [(27, 7, 0), (28, 3, 1), (28, 9, 1), (29, 7, 1), (30, 7, 0), (32, 3, 0)];
        for (minor, patch, expected) in versions {
            assert_eq!(found(plugin, Some(Version::new(2, minor, patch))), expected, "2.{minor}");
        }
        assert_eq!(found(plugin, None), 0);
        let in_use = Some(Version::new(2, 28, 9));
        assert_eq!(found("NCCL_NET_PLUGIN=none", in_use), 0);
        assert_eq!(found(&format!("NCCL_NET_PLUGIN_REF_COUNT=1 {plugin}"), in_use), 0);
    }
}
