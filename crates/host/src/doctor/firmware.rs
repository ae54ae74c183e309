//! Firmware of adapters against the known issues of NVIDIA's release notes, which are data (firmware.tsv).
//! Not whether firmware is new, and not its differences between devices (`network`).

use busbw_core::finding::Finding;

use super::{Node, advice::About};
use crate::machine::{Port, RdmaDevice};

const ABOUT: About = About("network");
/// NVIDIA (Mellanox). The first number of its firmware's version stands for the chip: 28 is ConnectX-7.
const NVIDIA: u16 = 0x15b3;

/// A known issue.
struct Issue {
    /// The first and the last version of which the notes list it.
    versions: [Version; 2],
    /// The links that it concerns; `None` for all.
    ethernet: Option<bool>,
    what: &'static str,
    remedy: Option<&'static str>,
    source: &'static str,
}

/// Chip, release, build: 28.47.1026.
type Version = [u32; 3];

/// Looks at every device that has an active port.
pub fn check(node: &Node) -> Vec<Finding> {
    let nvidia = node.adapters().filter(|(_, pci)| pci.vendor == NVIDIA).map(|(rdma, _)| rdma);
    nvidia.flat_map(judge).collect()
}

fn judge(device: &RdmaDevice) -> Vec<Finding> {
    let Some(text) = &device.firmware else { return Vec::new() };
    let Some(version) = version(text) else { return Vec::new() };
    let is_active = |port: &&Port| port.state == "ACTIVE";
    let concerns = |issue: &Issue| {
        let [first, last] = issue.versions;
        let mut ports = device.ports.iter().filter(is_active);
        (first..=last).contains(&version)
            && ports.any(|port| issue.ethernet.is_none_or(|ethernet| ethernet == port.ethernet))
    };
    let finding = |issue: Issue| {
        let seen = format!("firmware {text}: {}", issue.what);
        let note = ABOUT.note(&device.name, seen, "cat /sys/class/infiniband/*/fw_ver");
        let note = note.evidence(format!("NVIDIA's release notes, {}", issue.source));
        match issue.remedy {
            Some(remedy) => note.remedy(format!("{remedy}; or other firmware")),
            None => note.remedy("other firmware"),
        }
    };
    issues().filter(concerns).map(finding).collect()
}

fn issues() -> impl Iterator<Item = Issue> {
    let lines = include_str!("firmware.tsv").lines();
    lines.filter(|line| !line.starts_with('#')).skip(1).filter_map(issue)
}

fn issue(line: &'static str) -> Option<Issue> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [first, last, link, what, remedy, source] = fields[..] else { return None };
    Some(Issue {
        versions: [version(first)?, version(last)?],
        ethernet: match link {
            "any" => None,
            "ethernet" => Some(true),
            "infiniband" => Some(false),
            _ => return None,
        },
        what,
        remedy: (remedy != "-").then_some(remedy),
        source,
    })
}

fn version(text: &str) -> Option<Version> {
    let numbers: Option<Vec<u32>> = text.split('.').map(|number| number.parse().ok()).collect();
    numbers?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded::Recorded;

    fn server(firmware: &str, change: fn(&Recorded)) -> Vec<Finding> {
        let server = Recorded::server();
        server.write("sys/class/infiniband/mlx5_0/fw_ver", firmware);
        change(&server);
        let (_keep, node) = server.node();
        check(&node)
    }

    #[test]
    fn every_line_is_an_issue_with_a_source() {
        let lines = include_str!("firmware.tsv").lines().filter(|line| !line.starts_with('#'));
        assert_eq!(issues().count(), lines.count() - 1);
        for issue in issues() {
            let [first, last] = issue.versions;
            assert!(first[0] == last[0] && first <= last, "{}", issue.what);
            assert!(issue.source.starts_with("https://docs.nvidia.com/"), "{}", issue.source);
        }
    }

    #[test]
    fn versions_and_links_that_are_concerned() {
        assert_eq!(server("28.43.1014\n", |_| ()), []);
        let [found] = &server("28.47.1026\n", |_| ())[..] else { panic!("one issue") };
        assert_eq!(
            found.cause,
            "firmware 28.47.1026: below a Quantum-2 leaf switch of an XDR network the bandwidth is 3 to 7 Gb/s lower (4705241)"
        );
        assert_eq!(server("28.47.1026\n", Recorded::roce), []);
        assert_eq!(server("28.46.1006\n", Recorded::roce)[0].subject, "mlx5_0");
        assert_eq!(server("28.46.1006\n", |n| n.port(0, "state", "1: DOWN")), []);
        assert_eq!(server("a text\n", |_| ()), []);
    }
}
