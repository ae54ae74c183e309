//! Variables that the release in use does not read any more, or not yet, and values that were its default once.
//! Not names that no release ever read (`names`).

use busbw_core::finding::{Finding, Severity};

use crate::assignment::Assignment;
use crate::known::tables;
use busbw_core::nccl_version::Version;
use busbw_nccl_releases::Parameter;

/// The oldest release with public source; a variable "removed" there was never seen in it.
const OLDEST_RELEASE: Version = Version::new(2, 3, 5);

pub(super) fn check(assignment: &Assignment, in_use: Option<Version>) -> Option<Finding> {
    let name = assignment.name.as_str();
    let finding = match tables().nccl.get(name) {
        Some(life) => removed(life, in_use)
            .or_else(|| newer(life, in_use))
            .or_else(|| old_default(life, assignment.literal()?, in_use?)),
        None => tables().ucx.get(name).copied().flatten().map(gone_from_ucx),
    };
    finding.map(|finding| finding.place(assignment.place()))
}

fn removed(life: &Parameter, in_use: Option<Version>) -> Option<Finding> {
    let removed = life.removed?;
    let when = if removed == OLDEST_RELEASE {
        format!("removed before {removed}")
    } else {
        format!("removed in {removed}")
    };
    let remedy = "remove it, it changes nothing from that release on";
    match in_use {
        None => Some(Finding::new("removed-variable", Severity::Note, when).remedy(remedy)),
        Some(in_use) if in_use >= removed => {
            let cause = format!("{when}, and NCCL {in_use} is in use");
            Some(Finding::new("removed-variable", Severity::Warning, cause).remedy("remove it"))
        }
        Some(_) => None,
    }
}

fn newer(life: &Parameter, in_use: Option<Version>) -> Option<Finding> {
    let (first, in_use) = (life.first?, in_use?);
    if in_use >= first {
        return None;
    }
    let cause = format!("read from NCCL {first} on, and {in_use} is in use, which ignores it");
    let remedy = format!("remove it, or use NCCL {first} or later");
    Some(Finding::new("newer-variable", Severity::Warning, cause).remedy(remedy))
}

/// A default that was copied from an older release's documents keeps what a newer release changed for a reason.
fn old_default(life: &Parameter, value: &str, in_use: Version) -> Option<Finding> {
    let changed = life.defaults.windows(2).rev().find_map(|pair| match pair {
        [(_, old), (since, new)] if *old == value && *since <= in_use => Some((*since, *new)),
        _ => None,
    });
    let (since, new) = changed.filter(|_| life.default_in(in_use) != Some(value))?;
    let new = if new == "unset" { "to be decided by NCCL" } else { new };
    let cause = format!("{value} was the default before NCCL {since}, which changed it to {new}");
    let remedy = "remove it for the newer default, unless the old value is what you want";
    Some(Finding::new("old-default", Severity::Note, cause).remedy(remedy))
}

fn gone_from_ucx(last: &'static str) -> Finding {
    let cause = format!("UCX {last} is the last release known here to read it");
    Finding::new("removed-variable", Severity::Note, cause)
        .remedy("remove it, unless your UCX is that old")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, lint_text};

    fn found(text: &str, version: Option<Version>) -> Vec<Finding> {
        lint_text(text, &Options { nccl_version: version })
    }

    #[test]
    fn without_a_version_it_is_a_note() {
        let found = found("export NCCL_TREE_THRESHOLD=0", None);
        assert_eq!(found[0].severity, Severity::Note);
        assert_eq!(found[0].cause, "removed in 2.5.6");
    }

    #[test]
    fn with_a_version_it_is_decided() {
        let text = "export NCCL_WORK_FIFO_DEPTH=1024";
        assert_eq!(found(text, Some(Version::new(2, 21, 5))), []);
        let found = found(text, Some(Version::new(2, 28, 9)));
        assert_eq!(found[0].severity, Severity::Warning);
        assert!(found[0].cause.contains("2.22.3") && found[0].cause.contains("2.28.9"));
    }

    #[test]
    fn names_gone_over_time_are_all_known() {
        for name in [
            "NCCL_RINGS",
            "NCCL_IB_GDR_LEVEL",
            "NCCL_THREAD_THRESHOLD",
            "NCCL_GRAPH",
            "NCCL_SHARED_BUFF_COUNT",
            "NCCL_AGG_CHANNEL_SIZE",
            "NCCL_MNNVL",
            "NCCL_CUDA_PATH",
            "NCCL_PROXY_PROFILE",
            "NCCL_SHM_USE_CUDA_MEMCPY",
            "NCCL_SHM_MEMCPY_MODE",
            "NCCL_CREATE_THREAD_CONTEXT",
            "NCCL_GIN_SIGNAL_POOL_SIZE",
            "NCCL_CHECKS_DISABLE",
            "NCCL_LL_THRESHOLD",
            "NCCL_SINGLE_RING_THRESHOLD",
            "NCCL_IB_CUDA_SUPPORT",
        ] {
            let found = found(&format!("export {name}=1"), Some(Version::new(2, 30, 7)));
            assert_eq!(found[0].rule, "removed-variable", "{name}");
        }
    }

    #[test]
    fn a_variable_from_the_future_is_ignored_by_the_library() {
        let found = found("export NCCL_NVLS_ENABLE=0", Some(Version::new(2, 16, 2)));
        assert_eq!(found[0].rule, "newer-variable");
        assert!(found[0].cause.contains("2.17.1"), "{}", found[0]);
    }

    #[test]
    fn a_default_of_an_older_release() {
        let text = "export NCCL_IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX=5";
        let found = |version| found(text, Some(version));
        assert_eq!(found(Version::new(2, 30, 7)), []);
        let after = found(Version::new(2, 32, 3));
        assert_eq!((after[0].severity, &*after[0].rule), (Severity::Note, "old-default"));
        assert!(
            after[0].cause.contains("before NCCL 2.31.2, which changed it to 20"),
            "{}",
            after[0]
        );
    }

    #[test]
    fn a_default_that_came_back_is_current() {
        let text = "export NCCL_WORK_FIFO_BYTES=1048576";
        assert_eq!(found(text, Some(Version::new(2, 32, 3))), []);
    }

    #[test]
    fn what_2_32_3_removed() {
        for name in
            ["NCCL_MLOPART_RDMA_ENABLE", "NCCL_NET_GDR_MLOPART", "NCCL_TOPO_SCATTER_START_NET"]
        {
            let found = found(&format!("export {name}=1"), Some(Version::new(2, 32, 3)));
            assert!(found[0].cause.contains("removed in 2.32.3"), "{name}: {}", found[0]);
        }
    }

    #[test]
    fn old_ucx_names_are_a_note() {
        let found = found("export UCX_IB_REG_METHODS=odp", None);
        assert_eq!((found[0].severity, &*found[0].rule), (Severity::Note, "removed-variable"));
    }
}
