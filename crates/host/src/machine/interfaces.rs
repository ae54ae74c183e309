//! Network interfaces as /sys/class/net and /proc/net show them: state, subnets, MTU, rate, shaper.
//! Not their counters, and not which of them a library takes.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::Root;

/// One network interface.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Why a job would not use it; none where it is up and has an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unusable: Option<String>,
    /// IPv4 networks that it reaches without a gateway, such as 10.0.0.0/24.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<String>,
    /// MTU, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Line rate of one direction, Gb/s; none where it has no hardware: a veth's `speed` is a constant of its driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gbps: Option<f64>,
    /// The rate that a token bucket (tbf) allows for what leaves by it, Gb/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shaped_gbps: Option<f64>,
}

/// Every interface, in the order in which NCCL takes them (src/misc/socket.cc, ncclFindInterfaces): ib*, others,
/// docker*, lo, virbr*. `shaper` returns the rate of an interface's token bucket, bytes/s.
pub fn interfaces(root: &Root, shaper: impl Fn(&str) -> Option<u64>) -> Vec<Interface> {
    let route = root.text("proc/net/route").unwrap_or_default();
    let six = root.text("proc/net/if_inet6").unwrap_or_default();
    let first = route.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let last = six.lines().filter_map(|line| line.split_whitespace().last());
    let addressed: Vec<&str> = first.chain(last).chain(["lo"]).collect();
    let mut all: Vec<Interface> = root
        .names("sys/class/net")
        .into_iter()
        .filter(|name| name != "bonding_masters")
        .map(|name| {
            let at = format!("sys/class/net/{name}");
            // The kernel updates the state up to a second after the carrier (net/core/link_watch.c).
            let carrier = root.text(format!("{at}/carrier")).is_some_and(|text| text == "1");
            let state = match carrier {
                true => "up".to_owned(),
                false => root.text(format!("{at}/operstate")).unwrap_or_default(),
            };
            let unusable = match state.trim() {
                "up" | "unknown" if addressed.contains(&name.as_str()) => None,
                "up" | "unknown" => Some(format!("{name} has no address")),
                "" => Some(format!("{name} does not say whether it is up")),
                other => Some(format!("{name} is {other}")),
            };
            Interface {
                unusable,
                subnets: subnets(&route, &name),
                mtu: root.number(format!("{at}/mtu")),
                gbps: speed_mbps(root, &name).map(|mbps| f64::from(mbps) / 1e3),
                shaped_gbps: shaper(&name).map(|bytes| bytes as f64 * 8.0 / 1e9),
                name,
            }
        })
        .collect();
    let place = |name: &str| match name {
        ib if ib.starts_with("ib") => 0,
        docker if docker.starts_with("docker") => 2,
        "lo" => 3,
        bridge if bridge.starts_with("virbr") => 4,
        _ => 1,
    };
    all.sort_by_key(|one| (place(&one.name), one.name.clone()));
    all
}

/// The line rate of an interface, Mb/s, where hardware is behind it: a device of its own, or those of a bond or a VLAN.
/// The drivers of veth and tun give a constant (drivers/net/veth.c, veth_get_link_ksettings: 10000).
pub(crate) fn speed_mbps(root: &Root, name: &str) -> Option<u32> {
    let at = format!("sys/class/net/{name}");
    let is_below = |entry: &String| entry.starts_with("lower_");
    if !root.exists(format!("{at}/device")) && !root.names(&at).iter().any(is_below) {
        return None;
    }
    let mbps: i64 = root.number(format!("{at}/speed"))?;
    u32::try_from(mbps).ok().filter(|mbps| *mbps > 0)
}

/// The networks of /proc/net/route that an interface reaches without a gateway. Numbers are hexadecimal, in the order in
/// which they lie in memory of a little-endian machine.
fn subnets(route: &str, interface: &str) -> Vec<String> {
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |field: usize| u32::from_str_radix(fields.get(field)?, 16).ok();
        let (destination, gateway, mask) = (number(1)?, number(2)?, number(7)?);
        if fields.first() != Some(&interface) || gateway != 0 || mask == 0 {
            return None;
        }
        Some(format!("{}/{}", Ipv4Addr::from(destination.swap_bytes()), mask.count_ones()))
    };
    route.lines().skip(1).filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_of_a_recorded_tree() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for (name, state) in
            [("lo", "unknown"), ("docker0", "up"), ("eno2", "up"), ("eno1", "down"), ("ib0", "up")]
        {
            write(&format!("sys/class/net/{name}/operstate"), state);
            write(&format!("sys/class/net/{name}/speed"), "10000");
        }
        write("sys/class/net/eno2/device/vendor", "0x15b3");
        write("sys/class/net/eno2/mtu", "9000");
        write(
            "proc/net/route",
            "Iface Destination Gateway Flags RefCnt Use Metric Mask\n\
             eno2 00000000 0100000A 0003 0 0 0 00000000\n\
             eno2 0000000A 00000000 0001 0 0 0 0000FFFF\neno1 0000\nib0 0000\n",
        );
        let shaper = |name: &str| (name == "eno2").then_some(125_000_000);
        let found = interfaces(&Root::new(folder.path()), shaper);
        let shown: Vec<(&str, Option<&str>)> =
            found.iter().map(|one| (one.name.as_str(), one.unusable.as_deref())).collect();
        let expected = [
            ("ib0", None),
            ("eno1", Some("eno1 is down")),
            ("eno2", None),
            ("docker0", Some("docker0 has no address")),
            ("lo", None),
        ];
        assert_eq!(shown, expected);
        let eno2 = found.iter().find(|one| one.name == "eno2").unwrap();
        assert_eq!((eno2.mtu, eno2.gbps, eno2.shaped_gbps), (Some(9000), Some(10.0), Some(1.0)));
        assert_eq!(eno2.subnets, ["10.0.0.0/16"]);
        // Nothing is behind docker0: its speed is no fact.
        let docker0 = found.iter().find(|one| one.name == "docker0").unwrap();
        assert_eq!((docker0.gbps, docker0.shaped_gbps), (None, None));
    }
}
