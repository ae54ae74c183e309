//! Traffic classes followed through a RoCE port: traffic class, DSCP, priority, whether congestion control (ECN) and pauses (PFC)
//! are on there.
//! Not switches.

use busbw_core::finding::Finding;

use super::{
    Node,
    advice::{About, Advice},
    network::port_name,
};
use crate::machine::{Bridging, Port, RdmaDevice};

const ABOUT: About = About("network");
/// Variables that set the traffic class of a library's queue pairs, and its service level.
pub(super) const VARIABLES: [(&str, &str); 3] = [
    ("NCCL_IB_TC", "NCCL_IB_SL"),
    ("UCX_IB_TRAFFIC_CLASS", "UCX_IB_SL"),
    ("NVSHMEM_IB_TRAFFIC_CLASS", "NVSHMEM_IB_SL"),
];

/// Looks at every active port of an adapter.
pub fn check(node: &Node) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (device, _) in node.adapters() {
        for port in device.ports.iter().filter(|port| port.state == "ACTIVE") {
            let name = port_name(device, port);
            match port.ethernet {
                true => findings.extend(roce(&Settings::read(node, device, port), &name)),
                false => findings.extend(service_level(node, device, port, &name)),
            }
        }
    }
    findings
}

/// On InfiniBand the subnet manager maps service levels to virtual lanes.
fn service_level(node: &Node, device: &RdmaDevice, port: &Port, name: &str) -> Option<Finding> {
    let (variable, level) = VARIABLES
        .iter()
        .filter_map(|(_, variable)| Some((*variable, number(node, variable)?)))
        .find(|(_, level)| *level > 0)?;
    let seen = format!(
        "{variable}={level}: its virtual lane is the subnet manager's choice, which sysfs does not show"
    );
    let confirm = format!("sudo smpquery -C {} -P {} sl2vl", device.name, port.number);
    Some(ABOUT.unknown(name, seen, &confirm))
}

/// What sysfs and the environment say of one RoCE port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Settings {
    interface: String,
    /// The class that the driver gives every queue pair, whatever its program asks for: /sys/class/infiniband/X/tc/N, only with
    /// DOCA-OFED's driver, where it reads `Global tclass=106`.
    forced: Option<u8>,
    /// Variables, and the class that each sets.
    asked: Vec<(&'static str, u8)>,
    /// Service levels that are asked for, by the same libraries.
    level: u8,
    /// What the port derives priorities from: dscp or pcp; `None` where neither sysfs nor the driver shows it.
    trust: Option<String>,
    /// By priority: whether a receiver answers marked packets (notification point), and whether a sender slows down
    /// (reaction point); `None` where sysfs does not show it.
    ecn: Option<[(bool, bool); 8]>,
    /// By priority, whether it is paused; `None` where the driver does not say.
    pfc: Option<[bool; 8]>,
    /// DSCPs with a priority of their own.
    dscp: Vec<(u8, u8)>,
}

impl Settings {
    fn read(node: &Node, device: &RdmaDevice, port: &Port) -> Settings {
        let root = &node.root;
        let interface = device.interfaces_of(port).first().map_or("", |name| name).to_owned();
        let forced = root
            .text(format!("sys/class/infiniband/{}/tc/{}/traffic_class", device.name, port.number));
        let on = |part: &str, priority: usize| {
            let file = format!("sys/class/net/{interface}/ecn/{part}/enable/{priority}");
            root.text(file).map(|text| text.trim() == "1")
        };
        let both = |priority| Some((on("roce_np", priority)?, on("roce_rp", priority)?));
        let ecn: Option<Vec<(bool, bool)>> = (0..8).map(both).collect();
        let asked = VARIABLES.iter().filter_map(|(name, _)| Some((*name, number(node, name)?)));
        let Bridging { pfc, dscp } = node.bridging(&interface).cloned().unwrap_or_default();
        let trust = root.text(format!("sys/class/net/{interface}/qos/trust"));
        Settings {
            forced: forced.and_then(|text| global_class(&text)),
            asked: asked.collect(),
            level: VARIABLES.iter().find_map(|(_, level)| number(node, level)).unwrap_or(0),
            // A table of DSCPs is what makes a port trust them (mlx5: mlx5/core/en_dcbnl.c, mlx5e_dcbnl_ieee_setapp; mlxsw, too).
            trust: trust.or_else(|| (!dscp.is_empty()).then(|| "dscp".to_owned())),
            ecn: ecn.and_then(|all| all.try_into().ok()),
            pfc,
            dscp,
            interface,
        }
    }

    /// As sysfs alone has it.
    fn without_bridging(self, node: &Node) -> Settings {
        let trust = node.root.text(format!("sys/class/net/{}/qos/trust", self.interface));
        Settings { trust, pfc: None, dscp: Vec::new(), ..self }
    }

    /// The class that packets have, and who says so.
    fn classes(&self) -> Vec<(String, u8)> {
        match (self.forced, self.asked.as_slice()) {
            (Some(class), _) => vec![("the driver's traffic class".to_owned(), class)],
            (None, []) => vec![("no traffic class is set".to_owned(), 0)],
            (None, asked) => {
                asked.iter().map(|(name, class)| ((*name).to_owned(), *class)).collect()
            }
        }
    }

    /// The priority of packets of a class. By DSCP it is what the driver lists, else the upper three bits of six
    /// (mlnx_qos prints it: by default priority 3 has the DSCPs 24 to 31). By PCP it is the service level's lower three bits
    /// (Linux, drivers/infiniband/hw/mlx5/qp.c, mlx5_set_path).
    fn priority(&self, class: u8) -> u8 {
        match self.trusts_pcp() {
            true => self.level & 7,
            false => self.listed(class).unwrap_or(class >> 5),
        }
    }

    fn listed(&self, class: u8) -> Option<u8> {
        let listed = self.dscp.iter().find(|(dscp, _)| *dscp == class >> 2);
        listed.map(|(_, priority)| *priority)
    }

    fn trusts_pcp(&self) -> bool {
        self.trust.as_deref() == Some("pcp")
    }

    /// One of the classes, in words: DSCP 26, priority 3, ECN on, PFC on.
    fn words(&self, class: u8) -> String {
        let priority = self.priority(class);
        let by = match self.trust.as_deref() {
            Some("pcp") => " by the service level: the port trusts PCP",
            Some(_) if !self.dscp.is_empty() && self.listed(class).is_none() => {
                " if DSCPs that the driver does not list keep the default"
            }
            Some(_) => "",
            None => " if the port trusts DSCP",
        };
        let ecn = match self.ecn.map(|ecn| ecn[usize::from(priority)]) {
            Some((true, true)) => ", ECN on",
            Some((true, false)) => ", ECN on for received packets only (roce_np)",
            Some((false, true)) => ", ECN on for sent packets only (roce_rp)",
            Some((false, false)) => ", ECN off",
            None => "",
        };
        let pfc = match self.pfc.map(|pfc| pfc[usize::from(priority)]) {
            Some(true) => ", PFC on",
            Some(false) => ", PFC off",
            None => "",
        };
        format!("DSCP {}, priority {priority}{by}{ecn}{pfc}", class >> 2)
    }

    /// Priorities that have ECN in both directions; `None` where it is not shown.
    fn with_ecn(&self) -> Option<Vec<u8>> {
        let ecn = self.ecn?;
        Some((0..8).filter(|at| ecn[usize::from(*at)] == (true, true)).collect())
    }

    /// Priorities that pause, likewise.
    fn with_pfc(&self) -> Option<Vec<u8>> {
        let pfc = self.pfc?;
        Some((0..8).filter(|at| pfc[usize::from(*at)]).collect())
    }
}

/// Judges what was read of one port.
fn roce(settings: &Settings, name: &str) -> Vec<Finding> {
    let interface = &settings.interface;
    let confirm = format!(
        "mlnx_qos -i {interface}; cat /sys/class/net/{interface}/ecn/roce_*/enable/*; dcb pfc show dev {interface}"
    );
    let mut findings: Vec<Finding> = Vec::new();
    for (who, class) in settings.classes() {
        findings.push(judge(settings, name, &who, class, &confirm));
    }
    let idle =
        settings.asked.iter().filter(|(_, class)| settings.forced.is_some_and(|f| f != *class));
    for (variable, class) in idle {
        let forced = settings.forced.unwrap_or_default();
        let seen =
            format!("{variable}={class} has no effect: the driver gives every queue pair {forced}");
        findings.push(ABOUT.note(name, seen, "cat /sys/class/infiniband/*/tc/*/traffic_class"));
    }
    let hidden: Vec<&str> = [
        settings.pfc.is_none().then_some("PFC"),
        settings.trust.is_none().then_some("what the port trusts (DSCP or PCP)"),
        settings.ecn.is_none().then_some("ECN"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let ask = format!(
        "mlnx_qos -i {interface}; dcb pfc show dev {interface}; dcb app show dev {interface}"
    );
    if !hidden.is_empty() {
        let hidden = hidden.join(", ");
        let why = format!("neither sysfs nor the driver (DCB) shows {hidden}");
        findings.push(ABOUT.unknown(name, why, &ask));
    }
    findings
}

fn judge(settings: &Settings, name: &str, who: &str, class: u8, confirm: &str) -> Finding {
    let is_set = settings.forced.is_some() || !settings.asked.is_empty();
    let value = if is_set { format!("{who}={class}") } else { who.to_owned() };
    let seen = format!("{value}: {}", settings.words(class));
    let interface = &settings.interface;
    if is_set && class > 3 && settings.trusts_pcp() {
        return ABOUT.slow(
            name,
            seen,
            &Advice {
                cost: "the adapter treats these packets as others: neither its PFC nor its ECN by DSCP holds for them",
                remedy: &format!("sudo mlnx_qos -i {interface} --trust dscp, on all nodes"),
                confirm,
            },
        );
    }
    let priority = settings.priority(class);
    let (ecn, pfc) = (settings.with_ecn(), settings.with_pfc());
    // Whether it is on there, and the priorities for which it is on otherwise.
    let of = |on: &Option<Vec<u8>>| match on {
        Some(on) if on.contains(&priority) => (Some(true), Vec::new()),
        Some(on) => (Some(false), on.clone()),
        None => (None, Vec::new()),
    };
    let ((has_ecn, other_ecn), (has_pfc, other_pfc)) = (of(&ecn), of(&pfc));
    if has_ecn == Some(true) && other_pfc.is_empty() {
        return ABOUT.fine(name, seen);
    }
    let lacks_ecn = has_ecn == Some(false) && !other_ecn.is_empty();
    // Where ECN is not shown, it may be lossy by intention.
    let lacks_pfc = has_ecn == Some(false) && has_pfc == Some(false) && !other_pfc.is_empty();
    if !is_set || !(lacks_ecn || lacks_pfc) {
        // Without ECN a network can be lossless by PFC, without PFC lossy and fast, or not congested.
        let elsewhere = match other_pfc.is_empty() {
            true => String::new(),
            false => format!("; PFC is on for priority {}", list(&other_pfc)),
        };
        return ABOUT.note(name, format!("{seen}{elsewhere}"), confirm);
    }
    let ecn_there = format!(
        "echo 1 | sudo tee /sys/class/net/{interface}/ecn/roce_{{np,rp}}/enable/{priority}"
    );
    let pfc_there = format!(
        "sudo dcb pfc set dev {interface} prio-pfc {priority}:on, on all nodes and switches"
    );
    let there = match (lacks_ecn, lacks_pfc) {
        (true, true) => format!("{ecn_there}; {pfc_there}"),
        (true, false) => ecn_there,
        _ => pfc_there,
    };
    let mut remedy = format!("a traffic class of such a priority, or: {there}");
    // A DSCP where the traffic class belongs: it lacks the two bits of ECN.
    let meant = settings.priority(class << 2 | 2);
    if class < 64 && (other_ecn.contains(&meant) || other_pfc.contains(&meant)) {
        remedy = format!(
            "if {class} is meant as DSCP, the traffic class is {}; else {remedy}",
            class << 2 | 2
        );
    }
    let on = match (lacks_ecn, lacks_pfc) {
        (true, true) if other_ecn == other_pfc => {
            format!("both are on for priority {}", list(&other_ecn))
        }
        (true, true) => {
            let (ecn, pfc) = (list(&other_ecn), list(&other_pfc));
            format!("ECN is on for priority {ecn}, PFC for {pfc}")
        }
        (true, false) if has_pfc.is_some() => {
            format!("ECN is on for priority {}", list(&other_ecn))
        }
        (true, false) => format!("it is on for priority {}", list(&other_ecn)),
        _ => format!("PFC is on for priority {}", list(&other_pfc)),
    };
    let cost = match lacks_ecn {
        true => {
            "senders do not slow down when switches mark packets: pauses, or losses and retransmissions"
        }
        false => {
            "nothing pauses these packets where a buffer is full: they are lost, and sent again"
        }
    };
    ABOUT.slow(name, format!("{seen}; {on}"), &Advice { cost, remedy: &remedy, confirm })
}

fn roce_ports(node: &Node) -> impl Iterator<Item = (&RdmaDevice, &Port)> {
    node.adapters().flat_map(|(device, _)| {
        device
            .ports
            .iter()
            .filter(|port| port.ethernet && port.state == "ACTIVE")
            .map(move |port| (device, port))
    })
}

/// What all RoCE ports of a node do with their traffic, to compare nodes; one text a port, by sysfs and the environment.
pub(super) fn of_ports(node: &Node) -> Vec<String> {
    let words = |(device, port)| {
        // What a driver does not say of one node is no difference.
        let settings = Settings::read(node, device, port).without_bridging(node);
        let words = settings.classes().into_iter().map(|(_, class)| settings.words(class));
        words.collect::<Vec<_>>().join(" and ")
    };
    roce_ports(node).map(words).collect()
}

/// The priorities that all RoCE ports of a node pause, likewise; nothing where a driver does not say it.
pub(super) fn pauses_of_ports(node: &Node) -> Vec<String> {
    let words = |(device, port)| {
        let on = Settings::read(node, device, port).with_pfc()?;
        Some(match on.as_slice() {
            [] => "no priority".to_owned(),
            on => format!("priority {}", list(on)),
        })
    };
    let all: Option<Vec<String>> = roce_ports(node).map(words).collect();
    all.unwrap_or_default()
}

fn list(priorities: &[u8]) -> String {
    priorities.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")
}

/// `Global tclass=106`: the first line of the driver's file.
fn global_class(text: &str) -> Option<u8> {
    text.lines().find_map(|line| line.strip_prefix("Global tclass=")?.trim().parse().ok())
}

/// A variable with a number from 0 to 255; -1, auto and mistakes are none (`busbw lint` judges those).
fn number(node: &Node, variable: &str) -> Option<u8> {
    node.variable(variable)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbw_core::finding::Severity;
    use proptest::prelude::*;

    fn with_ecn(on: &[usize]) -> Settings {
        let mut ecn = [(false, false); 8];
        on.iter().for_each(|at| ecn[*at] = (true, true));
        Settings {
            interface: "eth0".to_owned(),
            trust: Some("dscp".to_owned()),
            ecn: Some(ecn),
            ..Settings::default()
        }
    }

    fn asking(class: u8, settings: Settings) -> Finding {
        let settings = Settings { asked: vec![("NCCL_IB_TC", class)], ..settings };
        roce(&settings, "mlx5_0").remove(0)
    }

    #[test]
    fn a_class_is_followed_to_its_priority() {
        let good = asking(106, with_ecn(&[3]));
        assert_eq!(good.severity, Severity::Fine);
        assert_eq!(good.cause, "NCCL_IB_TC=106: DSCP 26, priority 3, ECN on");
        let bad = asking(160, with_ecn(&[3]));
        assert_eq!(bad.severity, Severity::Slow);
        assert_eq!(
            bad.cause,
            "NCCL_IB_TC=160: DSCP 40, priority 5, ECN off; it is on for priority 3"
        );
        // Nobody has turned it on anywhere: a choice.
        assert_eq!(asking(160, with_ecn(&[])).severity, Severity::Note);
        let unset = roce(&with_ecn(&[3]), "mlx5_0").remove(0);
        assert_eq!(unset.severity, Severity::Note);
        assert_eq!(unset.cause, "no traffic class is set: DSCP 0, priority 0, ECN off");
    }

    fn with_pfc(on: &[u8], settings: Settings) -> Settings {
        Settings { pfc: Some(std::array::from_fn(|at| on.contains(&(at as u8)))), ..settings }
    }

    #[test]
    fn pauses_are_followed_too() {
        let said = |class, settings| {
            let found = asking(class, settings);
            (found.severity, found.cause)
        };
        let is = |severity, cause: &str| (severity, cause.to_owned());
        let good = with_pfc(&[3], with_ecn(&[3]));
        assert_eq!(
            said(106, good.clone()),
            is(Severity::Fine, "NCCL_IB_TC=106: DSCP 26, priority 3, ECN on, PFC on")
        );
        assert_eq!(
            said(160, good.clone()),
            is(
                Severity::Slow,
                "NCCL_IB_TC=160: DSCP 40, priority 5, ECN off, PFC off; both are on for priority 3"
            )
        );
        // Lossy by intention: its senders slow down.
        assert_eq!(
            said(160, with_pfc(&[3], with_ecn(&[5]))),
            is(
                Severity::Note,
                "NCCL_IB_TC=160: DSCP 40, priority 5, ECN on, PFC off; PFC is on for priority 3"
            )
        );
        // A driver that shows PFC alone.
        let only_pfc = Settings { ecn: None, ..good.clone() };
        let (severity, cause) = said(160, only_pfc.clone());
        assert_eq!(severity, Severity::Note);
        assert!(cause.ends_with("PFC off; PFC is on for priority 3"), "{cause}");
        assert_eq!(asking(106, only_pfc).severity, Severity::Note);
        // ECN is on nowhere.
        let found = asking(160, with_pfc(&[3], with_ecn(&[])));
        assert_eq!(found.severity, Severity::Slow);
        assert!(found.remedy.unwrap().contains("dcb pfc set dev eth0 prio-pfc 5:on"));
        // Nothing is hidden, and nothing is unknown.
        assert_eq!(roce(&good, "mlx5_0").len(), 1);
    }

    #[test]
    fn a_map_that_was_changed() {
        let settings = Settings { dscp: vec![(26, 4)], ..with_pfc(&[4], with_ecn(&[4])) };
        let found = asking(106, settings);
        assert_eq!(
            (found.severity, found.cause.as_str()),
            (Severity::Fine, "NCCL_IB_TC=106: DSCP 26, priority 4, ECN on, PFC on")
        );
        let unlisted = Settings { dscp: vec![(27, 4)], ..with_pfc(&[3], with_ecn(&[3])) };
        assert_eq!(
            asking(106, unlisted).cause,
            "NCCL_IB_TC=106: DSCP 26, priority 3 if DSCPs that the driver does not list keep the default, ECN on, PFC on"
        );
    }

    #[test]
    fn a_dscp_in_place_of_a_class() {
        let remedy = asking(26, with_ecn(&[3])).remedy.unwrap();
        assert!(
            remedy.starts_with("if 26 is meant as DSCP, the traffic class is 106; else"),
            "{remedy}"
        );
    }

    #[test]
    fn a_port_that_trusts_pcp() {
        let settings = Settings { trust: Some("pcp".to_owned()), level: 3, ..with_ecn(&[3]) };
        let found = asking(106, settings);
        assert_eq!(found.severity, Severity::Slow);
        assert_eq!(
            found.cause,
            "NCCL_IB_TC=106: DSCP 26, priority 3 by the service level: the port trusts PCP, ECN on"
        );
    }

    #[test]
    fn what_sysfs_does_not_show() {
        let blind = Settings { interface: "eth0".to_owned(), ..Settings::default() };
        let found = roce(&blind, "mlx5_0");
        assert_eq!(
            found[0].cause,
            "no traffic class is set: DSCP 0, priority 0 if the port trusts DSCP"
        );
        assert_eq!(found[1].severity, Severity::Unknown);
        assert_eq!(
            found[1].cause,
            "neither sysfs nor the driver (DCB) shows PFC, what the port trusts (DSCP or PCP), ECN"
        );
        assert!(found[1].confirm.as_ref().unwrap().starts_with("mlnx_qos -i eth0"));
    }

    #[test]
    fn a_class_that_the_driver_forces() {
        let settings = Settings {
            forced: Some(106),
            asked: vec![("NCCL_IB_TC", 104), ("UCX_IB_TRAFFIC_CLASS", 106)],
            ..with_ecn(&[3])
        };
        let found = roce(&settings, "mlx5_0");
        assert_eq!(found[0].cause, "the driver's traffic class=106: DSCP 26, priority 3, ECN on");
        assert_eq!(
            found[1].cause,
            "NCCL_IB_TC=104 has no effect: the driver gives every queue pair 106"
        );
        assert_eq!(found.len(), 3);
        assert_eq!(global_class("Global tclass=106\n"), Some(106));
        assert_eq!(global_class("tclass=96 src_ip=10.0.0.1"), None);
    }

    proptest! {
        /// The default map: eight DSCPs a priority, in order.
        #[test]
        fn every_class_has_a_priority(class: u8, on in 0..8_usize) {
            let settings = with_ecn(&[on]);
            prop_assert_eq!(settings.priority(class), (class >> 2) >> 3);
            let fine = asking(class, settings).severity == Severity::Fine;
            prop_assert_eq!(fine, usize::from(class >> 5) == on);
        }

        #[test]
        fn any_file(text in ".{0,60}") {
            let _ = global_class(&text);
        }
    }
}
