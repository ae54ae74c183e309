//! List entries that take more devices than they name, because NCCL matches by prefix.
//! It does not know which devices exist.

use busbw_core::finding::{Finding, Severity};

use crate::PREFIX_MATCH;
use crate::assignment::Assignment;

pub(super) fn check(assignment: &Assignment) -> Option<Finding> {
    if !matches!(assignment.name.as_str(), "NCCL_IB_HCA" | "NCCL_SOCKET_IFNAME") {
        return None;
    }
    let value = assignment.literal()?;
    let (sign, list) = match value.strip_prefix('^') {
        Some(list) => ("^", list),
        None => ("", value),
    };
    if list.starts_with('=') {
        return None;
    }
    let names = list.split(',').map(|entry| entry.split(':').next().unwrap_or(entry));
    let open: Vec<&str> = names.filter(|name| takes_longer_names(name)).collect();
    let first = open.first()?;
    let others = match open.len() {
        1 => String::new(),
        count => format!(" (and {} more entries likewise)", count - 1),
    };
    let cause = format!("{first} is a prefix here and also takes {first}0 to {first}9{others}");
    let remedy = format!("put = before the list: {}={sign}={list}", assignment.name);
    Some(
        Finding::new(PREFIX_MATCH, Severity::Warning, cause)
            .remedy(remedy)
            .place(assignment.place()),
    )
}

/// Whether a longer device name could start with this one. Devices are counted from 0 without
/// leading zeros, so nothing follows a 0, and hosts do not have a hundred of them.
fn takes_longer_names(name: &str) -> bool {
    // The name of a driver stands for all its devices, and is meant to.
    if matches!(name, "mlx4" | "mlx5") {
        return false;
    }
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &name[stem.len()..];
    let one_digit = digits.len() == 1 && digits != "0";
    // The function of a PCI device (ens1f1) ends at 7: one digit says it all.
    let is_function =
        stem.strip_suffix('f').is_some_and(|s| s.ends_with(|c: char| c.is_ascii_digit()));
    one_digit && !stem.is_empty() && !is_function
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, lint_text};

    fn found(text: &str) -> Vec<Finding> {
        let mut found = lint_text(text, &Options::default());
        found.retain(|f| f.rule == PREFIX_MATCH);
        found
    }

    #[test]
    fn mlx5_1_also_takes_mlx5_10() {
        let found = found("export NCCL_IB_HCA=mlx5_1");
        assert!(found[0].cause.contains("mlx5_10"), "{}", found[0]);
        assert_eq!(found[0].remedy.as_deref(), Some("put = before the list: NCCL_IB_HCA==mlx5_1"));
    }

    #[test]
    fn excluded_lists_and_ports_too() {
        let found = found("export NCCL_IB_HCA=^mlx5_1:1,mlx5_2");
        assert!(
            found[0].remedy.as_deref().unwrap().ends_with("NCCL_IB_HCA=^=mlx5_1:1,mlx5_2"),
            "{}",
            found[0]
        );
        assert!(found[0].cause.contains("1 more"), "{}", found[0]);
    }

    #[test]
    fn interfaces_likewise() {
        assert!(found("export NCCL_SOCKET_IFNAME=eth1")[0].cause.contains("eth10"));
    }

    #[test]
    fn names_that_nothing_follows_are_silent() {
        for value in ["=mlx5_1", "^=mlx5_1", "mlx5", "mlx5_0", "mlx5_10", "mlx5_0,mlx5_10:1"] {
            assert_eq!(found(&format!("export NCCL_IB_HCA={value}")), [], "{value}");
        }
        for value in ["eth0", "^lo,docker0", "ens1f1", "eth", "=eth1", "$IF"] {
            assert_eq!(found(&format!("export NCCL_SOCKET_IFNAME={value}")), [], "{value}");
        }
    }
}
