//! BUSBW_TUNER, the file of busbw's own tuner: a value that the tuner would refuse, and a tuner that is not loaded.
//! Not the file (the tuner and `busbw tune --show` read it), and not other tuners' files (`tuner_files`).

use busbw_core::{
    environment::TUNER,
    finding::{Finding, Severity},
};
use busbw_tuner_file::Reference;

use crate::settings::View;

/// What names busbw's tuner in NCCL_TUNER_PLUGIN: its file, or the word of which NCCL makes that.
const OURS: &str = "busbw";

/// What the settings prove.
pub(super) fn check(view: &View<'_>) -> Vec<Finding> {
    let Some(at) = view.get(TUNER) else { return Vec::new() };
    let Some(value) = at.literal().filter(|value| !value.is_empty()) else { return Vec::new() };
    let mut findings = Vec::new();
    if let Err(why) = value.parse::<Reference>() {
        let cause = format!("busbw's tuner refuses {value}, and every communicator fails: {why}");
        let remedy = "take the value that `busbw tune --show FILE` prints";
        findings.push(
            Finding::new("own-tuner", Severity::Error, cause).remedy(remedy).place(at.place()),
        );
    }
    let plugin = view.get("NCCL_TUNER_PLUGIN").and_then(|setting| setting.literal());
    if let Some(plugin) = plugin.filter(|plugin| !plugin.is_empty() && !plugin.contains(OURS)) {
        let cause = format!(
            "NCCL_TUNER_PLUGIN={plugin} is not busbw's tuner, and nobody else reads {TUNER}"
        );
        let remedy = "set NCCL_TUNER_PLUGIN=$(busbw plugin path tuner), and BUSBW_TUNER_BEFORE to the other tuner's library if it is to be asked elsewhere";
        findings.push(
            Finding::new("own-tuner", Severity::Note, cause).remedy(remedy).place(at.place()),
        );
    }
    findings
}

#[cfg(test)]
mod tests {
    use busbw_core::finding::Severity;

    use crate::{Options, lint_text};

    const HASH: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn found(settings: &str) -> Vec<(Severity, String)> {
        let text = format!("export {settings}\n./run\n").replace("HASH", HASH);
        let mut found = lint_text(&text, &Options::default());
        found.retain(|finding| finding.rule != "unset-variable");
        found.into_iter().map(|finding| (finding.severity, finding.cause)).collect()
    }

    #[test]
    fn what_the_tuner_takes_is_silent() {
        for settings in [
            "NCCL_TUNER_PLUGIN=/c/libnccl-tuner-busbw.so BUSBW_TUNER=/t.csv#sha256=HASH",
            "NCCL_TUNER_PLUGIN=busbw BUSBW_TUNER=/t.csv#sha256=HASH BUSBW_TUNER_BEFORE=/o.so",
            "NCCL_TUNER_PLUGIN=/c/libnccl-tuner-busbw.so",
            "NCCL_TUNER_PLUGIN=$MINE BUSBW_TUNER=$FILE",
        ] {
            assert_eq!(found(settings), [], "{settings}");
        }
    }

    #[test]
    fn what_it_refuses_or_nobody_reads() {
        let bad = found("NCCL_TUNER_PLUGIN=busbw BUSBW_TUNER=/t.csv");
        assert_eq!(bad.len(), 1, "{bad:?}");
        assert!(bad[0].0 == Severity::Error && bad[0].1.contains("there is no #sha256="));
        let unread = found("NCCL_TUNER_PLUGIN=none BUSBW_TUNER=/t.csv#sha256=HASH");
        assert_eq!(unread.len(), 1, "{unread:?}");
        assert!(unread[0].0 == Severity::Note && unread[0].1.contains("NCCL_TUNER_PLUGIN=none"));
        let example = found("NCCL_TUNER_PLUGIN=busbw NCCL_TUNER_CONFIG_FILE=/t.csv");
        assert_eq!(example.len(), 1, "{example:?}");
        assert!(example[0].1.contains("names busbw, which does not read it"));
    }
}
