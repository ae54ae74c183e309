//! Names of RCCL: mistyped, read by the other library, or not read any more.
//! Not names of NCCL and UCX (`names`, `releases`).

use busbw_core::finding::{Finding, Severity};

use super::either;
use crate::accepted::is_packaging;
use crate::assignment::Assignment;
use crate::document::Document;
use crate::known::tables;
use crate::nearest::{Likeness, nearest};
use crate::rccl::{Library, names};

/// A name that looks like one of RCCL's and that no release known here reads. Nothing is said where nothing is near:
/// the table of recent releases is not complete.
pub(super) fn misspelt(assignment: &Assignment) -> Option<Finding> {
    let name = assignment.name.as_str();
    let tail = name.strip_prefix("RCCL_").filter(|tail| !is_packaging(tail))?;
    if names().contains_key(name) {
        return None;
    }
    let of_nccl = format!("NCCL_{tail}");
    let (cause, right) = if tables().is_current(&of_nccl) {
        ("no RCCL release known here reads it: RCCL reads this variable by NCCL's name", of_nccl)
    } else {
        let family = names().keys().copied().filter(|known| known.starts_with("RCCL_"));
        let (likeness, near) = nearest(name, family)?;
        if likeness == Likeness::OneWord {
            return None;
        }
        ("no RCCL release known here reads it", either(&near))
    };
    let remedy = format!("did you mean {right}?");
    let finding = Finding::new("unknown-variable", Severity::Warning, cause).remedy(remedy);
    Some(finding.place(assignment.place()))
}

/// The name of RCCL for a name of NCCL's family that NCCL does not have.
pub(super) fn own_name(name: &str) -> Option<&'static str> {
    let tail = name.strip_prefix("NCCL_")?;
    names().keys().copied().find(|known| known.strip_prefix("RCCL_") == Some(tail))
}

/// Names of RCCL in a script.
pub(super) fn check(assignment: &Assignment, document: &Document) -> Option<Finding> {
    let releases = names().get(assignment.name.as_str())?;
    let finding = if document.library == Library::Nccl {
        let cause = "RCCL alone reads it, and this text uses NCCL";
        Finding::new("other-library", Severity::Warning, cause)
            .remedy("remove it, unless the same text also runs on AMD GPUs")
    } else {
        let last = releases.last?;
        let cause = match releases.first.filter(|first| *first != last) {
            Some(first) => format!("RCCL is known to read it from ROCm {first} to {last}"),
            None => format!("ROCm {last} is the last release whose RCCL is known to read it"),
        };
        Finding::new("removed-variable", Severity::Note, cause)
            .remedy("remove it, unless your ROCm is that old")
    };
    Some(finding.place(assignment.place()))
}

#[cfg(test)]
mod tests {
    use busbw_core::finding::Severity;

    use crate::{Options, lint_environment, lint_text};

    fn found(text: &str) -> Vec<(String, Severity, String)> {
        let found = lint_text(text, &Options::default());
        found
            .into_iter()
            .map(|f| (f.rule.to_string(), f.severity, f.remedy.unwrap_or_default()))
            .collect()
    }

    #[test]
    fn a_slip_names_the_nearest() {
        for (text, right) in [
            ("export RCCL_MSCCL_ENABEL=0\n", "RCCL_MSCCL_ENABLE?"),
            ("export RCCL_P2P_ENABLE_BATCH=1\n", "RCCL_P2P_BATCH_ENABLE?"),
            ("export RCCL_DEBUG=INFO\n", "NCCL_DEBUG?"),
            ("export NCCL_P2P_BATCH_ENABLE=1\n", "RCCL_P2P_BATCH_ENABLE"),
        ] {
            let found = found(text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert_eq!(found[0].0, "unknown-variable", "{text}");
            assert!(found[0].2.contains(right), "{text}: {found:?}");
        }
    }

    #[test]
    fn what_is_right_or_may_be_newer_is_silent() {
        for text in [
            "export RCCL_IB_QPS_PER_P2P=2 NCCL_NCHANNELS_PER_PEER=4\nmpirun ./run\n",
            "export RCCL_HOME=/opt/rccl RCCL_WARP_DRIVE=1\n",
            "module load rocm\nexport RCCL_P2P_BATCH_ENABLE=1 NCCL_RINGS_REMAP=x\n",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
        let environment = [("RCCL_MSCCL_ENABLE", "0"), ("RCCL_X", "1")];
        assert_eq!(lint_environment(environment.into_iter(), &Options::default()), []);
    }

    #[test]
    fn the_other_library_does_not_read_it() {
        for name in ["RCCL_P2P_BATCH_ENABLE", "NCCL_NCHANNELS_PER_PEER", "RCCL_MSCCL_ENABLE"] {
            let found = found(&format!("nvidia-smi\nexport {name}=1\n./run\n"));
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!((found[0].0.as_str(), found[0].1), ("other-library", Severity::Warning));
        }
        let both = "command -v nvidia-smi || module load rocm\nexport RCCL_P2P_BATCH_ENABLE=1\n";
        assert_eq!(found(both), []);
    }

    #[test]
    fn what_is_gone_is_a_note() {
        let found = found("export RCCL_ENABLE_HIPGRAPH=1 RCCL_MSCCL_ENABLE=0\n");
        let said: Vec<_> = found.iter().map(|f| (f.0.as_str(), f.1)).collect();
        assert_eq!(said, [("removed-variable", Severity::Note); 2]);
    }
}
