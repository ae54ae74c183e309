//! What adapters' drivers say by devlink: firmware that is stored and does not run, RoCE that is switched off.
//! Not known issues of firmware (`firmware`).

use busbw_core::finding::Finding;

use super::{Node, advice::About};
use crate::machine::Devlink;

const ABOUT: About = About("network");

/// Looks at every adapter that devlink knows.
pub fn check(node: &Node) -> Vec<Finding> {
    let judge_one = |(address, said): &(String, Devlink)| {
        let rdma = node.rdma.iter().find(|device| device.address.as_ref() == Some(address));
        let is_infiniband = rdma.is_some_and(|one| one.ports.iter().any(|port| !port.ethernet));
        let name = rdma.map_or_else(|| format!("adapter at {address}"), |one| one.name.clone());
        let mut findings = Vec::new();
        findings.extend(not_running(address, said, &name));
        // The parameter is what holds from the driver's next start on.
        let works = rdma.is_some_and(|one| one.ports.iter().any(|port| !port.gids.is_empty()));
        if !is_infiniband && said.roce == Some(false) {
            findings.push(without_roce(address, &name, works));
        }
        findings
    };
    node.devlink.iter().flat_map(judge_one).collect()
}

fn not_running(address: &str, said: &Devlink, name: &str) -> Option<Finding> {
    let differs = |(what, stored): &&(String, String)| {
        let running = said.running.iter().find(|(running, _)| running == what);
        running.is_some_and(|(_, running)| running != stored)
    };
    let (what, stored) = said.stored.iter().find(differs)?;
    let (_, running) = said.running.iter().find(|(running, _)| running == what)?;
    let seen =
        format!("firmware {stored} is stored, and {running} runs until the adapter is reset");
    let note = ABOUT.note(name, seen, &format!("devlink dev info pci/{address}"));
    Some(note.remedy(format!("mlxfwreset -d {address} reset while no job runs, or a cold boot")))
}

fn without_roce(address: &str, name: &str, works: bool) -> Finding {
    let seen = match works {
        true => "RoCE is switched off from the driver's next start on (enable_roce)",
        false => "RoCE is switched off (enable_roce): its ports carry no RDMA",
    };
    let confirm = format!("devlink dev param show pci/{address} name enable_roce");
    ABOUT
        .note(name, seen, &confirm)
        .cost("NCCL leaves its ports out; with none left it uses sockets")
        .remedy(format!(
            "sudo devlink dev param set pci/{address} name enable_roce value true cmode driverinit; sudo devlink dev reload pci/{address}"
        ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: &str = "0000:17:00.0";

    #[test]
    fn firmware_that_waits_for_a_reset() {
        let of = |value: &str| vec![("fw.version".to_owned(), value.to_owned())];
        let said = Devlink { running: of("28.39.1002"), stored: of("28.43.2026"), roce: None };
        let found = not_running(ADDRESS, &said, "mlx5_0").unwrap();
        assert!(found.cause.contains("28.43.2026 is stored, and 28.39.1002 runs"), "{found:?}");
        assert!(found.remedy.unwrap().contains("mlxfwreset -d 0000:17:00.0"));
        let same = Devlink { stored: said.running.clone(), ..said };
        assert_eq!(not_running(ADDRESS, &same, "mlx5_0"), None);
        assert_eq!(not_running(ADDRESS, &Devlink::default(), "mlx5_0"), None);
    }

    #[test]
    fn roce_that_is_off() {
        let found = without_roce(ADDRESS, "mlx5_0", false);
        assert!(found.cause.contains("carry no RDMA"), "{found:?}");
        assert!(found.remedy.unwrap().contains("enable_roce value true"));
        assert!(without_roce(ADDRESS, "mlx5_0", true).cause.contains("next start"));
    }
}
