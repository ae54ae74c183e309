//! NCCL_IB_HCA and UCX_NET_DEVICES that name different sets of devices.
//! It compares names; whether a device exists is for the machine to say.

use std::collections::BTreeSet;

use busbw_core::finding::{Finding, Severity};

use crate::settings::View;

/// NCCL takes 32 devices at most; a list far longer is not a list of devices.
const MAX_DEVICES: usize = 256;

pub(super) fn check(view: &View<'_>) -> Option<Finding> {
    let (nccl, ucx) = (view.get("NCCL_IB_HCA")?, view.get("UCX_NET_DEVICES")?);
    let nccl_list = list(nccl.literal()?)?;
    let stems: BTreeSet<&str> = nccl_list.iter().map(|device| stem(device)).collect();
    let ucx_list: BTreeSet<&str> =
        list(ucx.literal()?)?.into_iter().filter(|device| stems.contains(stem(device))).collect();
    // MPI starts the ranks over whatever it was given: Ethernet, or one device of many.
    if ucx_list.is_empty()
        || (ucx_list.len() == 1 && nccl_list.len() > 1 && ucx_list.is_subset(&nccl_list))
    {
        return None;
    }
    let same = |a: &str, b: &str| a == b || is_open(a) && b.starts_with(a);
    let only_nccl: Vec<&str> =
        nccl_list.iter().copied().filter(|n| !ucx_list.iter().any(|u| same(n, u))).collect();
    let only_ucx: Vec<&str> =
        ucx_list.iter().copied().filter(|u| !nccl_list.iter().any(|n| same(n, u))).collect();
    let cause = match (only_nccl.as_slice(), only_ucx.as_slice()) {
        ([], []) => return None,
        (missing, []) => format!("it lacks {}, which NCCL_IB_HCA names", missing.join(", ")),
        ([], missing) => format!("it names {}, which NCCL_IB_HCA lacks", missing.join(", ")),
        (left, right) => format!(
            "it lacks {}, which NCCL_IB_HCA names, and names {}, which NCCL_IB_HCA lacks",
            left.join(", "),
            right.join(", ")
        ),
    };
    let remedy = "name the same devices in both, or NCCL and UCX use different ones";
    Some(Finding::new("device-sets", Severity::Warning, cause).remedy(remedy).place(ucx.place()))
}

/// The devices of a list without their ports; none if the list excludes, or is a pattern.
fn list(value: &str) -> Option<BTreeSet<&str>> {
    let value = value.strip_prefix('=').unwrap_or(value);
    let is_long = value.split(',').nth(MAX_DEVICES).is_some();
    if value.starts_with('^') || value.contains(['[', '*', '?']) || value == "all" || is_long {
        return None;
    }
    let names = value.split(',').map(|entry| entry.split(':').next().unwrap_or(entry).trim());
    Some(names.filter(|name| !name.is_empty()).collect())
}

/// `mlx5_` of `mlx5_0`: UCX lists Ethernet devices too, and those are not to be compared.
fn stem(device: &str) -> &str {
    match device.rfind('_') {
        Some(at) => &device[..=at],
        None => device.trim_end_matches(|c: char| c.is_ascii_digit()),
    }
}

/// A name without a number stands for all devices that start so.
fn is_open(device: &str) -> bool {
    device.ends_with('_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, lint_text};

    fn found(hca: &str, devices: &str) -> Vec<Finding> {
        let text = format!("mpirun -x NCCL_IB_HCA={hca} -x UCX_NET_DEVICES={devices} ./run\n");
        let mut found = lint_text(&text, &Options::default());
        found.retain(|f| f.rule == "device-sets");
        found
    }

    #[test]
    fn a_missing_device_is_named_with_its_side() {
        let found = found("=mlx5_0,mlx5_1,mlx5_3", "mlx5_0:1,mlx5_1:1");
        assert_eq!(found[0].cause, "it lacks mlx5_3, which NCCL_IB_HCA names");
        assert_eq!(found[0].variable(), Some("UCX_NET_DEVICES"));
    }

    #[test]
    fn both_sides_may_lack_one() {
        let found = found("=mlx5_0,mlx5_1", "mlx5_0:1,mlx5_2:1");
        assert!(found[0].cause.contains("lacks mlx5_1") && found[0].cause.contains("names mlx5_2"));
    }

    #[test]
    fn ports_ethernet_and_a_single_device_are_no_difference() {
        assert_eq!(found("=mlx5_0,mlx5_1", "mlx5_1:1,mlx5_0:1"), []);
        assert_eq!(found("=mlx5_0,mlx5_1", "eth0"), []);
        assert_eq!(found("=mlx5_0,mlx5_1", "mlx5_0:1"), []);
        assert_eq!(found("mlx5_", "mlx5_0:1,mlx5_1:1"), []);
        assert_eq!(found("^mlx5_2", "mlx5_0:1,mlx5_1:1"), []);
    }
}
