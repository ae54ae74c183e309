//! Selects interfaces: NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY as NCCL reads them.
//! Not finding the interfaces.
//!
//! From ncclFindInterfaces and ncclOsFindInterfaces (src/misc/socket.cc, src/os/linux.cc of NCCL 2.30.7). Two
//! things differ: the subnet of NCCL_COMM_ID is no hint, and link-local addresses of IPv6 are not taken, since
//! the other end cannot know by which of its interfaces to reach one.

use std::net::IpAddr;

use nccl_plugin_abi::Status;

use super::{Interface, list};
use crate::failure::{Failure, Result};

/// Interfaces at most (MAX_IFS).
const AT_MOST: usize = 16;
/// The lists that NCCL tries in turn without NCCL_SOCKET_IFNAME.
const BY_DEFAULT: [&str; 5] = ["ib", "^docker,lo,virbr", "docker", "lo", "virbr"];

/// The interfaces of `up` that the variables' values select, one address each; at least one.
///
/// # Errors
/// When there is none.
pub(super) fn chosen(
    up: Vec<Interface>,
    names: Option<&str>,
    family: Option<&str>,
) -> Result<Vec<Interface>> {
    let all: Vec<String> =
        up.iter().map(|interface| format!("{}:{}", interface.name, interface.address)).collect();
    let mut usable: Vec<Interface> = Vec::new();
    for interface in up {
        if reachable(&interface.address)
            && of_family(&interface.address, family)
            && !usable.iter().any(|other| other.name == interface.name)
        {
            usable.push(interface);
        }
    }
    // As NCCL: one character is no list.
    let asked = names.filter(|names| names.len() > 1);
    let lists = asked.as_ref().map_or(&BY_DEFAULT[..], std::slice::from_ref);
    let taken = lists.iter().map(|list| matching(&usable, list)).find(|taken| !taken.is_empty());
    taken.ok_or_else(|| {
        let why = [("NCCL_SOCKET_IFNAME", asked), ("NCCL_SOCKET_FAMILY", family)];
        let why = why.iter().filter_map(|(name, value)| Some(format!("{name}={}", (*value)?)));
        let why = why.collect::<Vec<_>>().join(" and ");
        let why = if why.is_empty() { "this host's addresses".to_owned() } else { why };
        let all = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
        Failure::new(
            Status::INVALID_USAGE,
            format!("{why} leave no interface to use; up and with an address are: {all}"),
        )
    })
}

fn reachable(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local(),
    }
}

fn of_family(address: &IpAddr, family: Option<&str>) -> bool {
    match family {
        Some("AF_INET") => address.is_ipv4(),
        Some("AF_INET6") => address.is_ipv6(),
        _ => true,
    }
}

/// The interfaces that match a list like "eth0,eth1", "=eth0", "^docker" or "^=eth0".
fn matching(usable: &[Interface], list: &str) -> Vec<Interface> {
    let selected = |interface: &&Interface| list::selects(list, AT_MOST, &interface.name, None);
    usable.iter().filter(selected).take(AT_MOST).cloned().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn host(interfaces: &[(&str, &str)]) -> Vec<Interface> {
        let interface = |&(name, address): &(&str, &str)| Interface {
            name: name.to_owned(),
            address: address.parse().unwrap(),
            prefix: 24,
            speed: None,
            path: None,
        };
        interfaces.iter().map(interface).collect()
    }

    fn taken(up: &[(&str, &str)], names: Option<&str>, family: Option<&str>) -> Vec<String> {
        let taken = chosen(host(up), names, family).unwrap_or_default();
        taken.iter().map(|interface| format!("{} {}", interface.name, interface.address)).collect()
    }

    const HOST: [(&str, &str); 8] = [
        ("lo", "127.0.0.1"),
        ("eth0", "10.0.0.1"),
        ("eth1", "10.0.1.1"),
        ("docker0", "172.17.0.1"),
        ("virbr0", "192.168.122.1"),
        ("lo", "::1"),
        ("eth0", "fd00::1"),
        ("eth10", "fe80::1"),
    ];

    #[test]
    fn by_default_what_leads_out_of_the_host() {
        assert_eq!(taken(&HOST, None, None), ["eth0 10.0.0.1", "eth1 10.0.1.1"]);
        assert_eq!(taken(&HOST, Some("x"), None), ["eth0 10.0.0.1", "eth1 10.0.1.1"]);
        let with_ib = [&HOST[..], &[("ib0", "10.9.0.1")]].concat();
        assert_eq!(taken(&with_ib, None, None), ["ib0 10.9.0.1"]);
        let inside = [HOST[0], HOST[3], HOST[4]];
        assert_eq!(taken(&inside, None, None), ["docker0 172.17.0.1"]);
        assert_eq!(taken(&[HOST[0], HOST[4]], None, None), ["lo 127.0.0.1"]);
        assert_eq!(taken(&[HOST[4]], None, None), ["virbr0 192.168.122.1"]);
    }

    #[test]
    fn names_are_prefixes_unless_exact_and_may_be_excluded() {
        let host = [HOST[1], HOST[2], ("eth10", "10.0.2.1")];
        assert_eq!(taken(&host, Some("eth1"), None), ["eth1 10.0.1.1", "eth10 10.0.2.1"]);
        assert_eq!(taken(&host, Some("=eth1"), None), ["eth1 10.0.1.1"]);
        assert_eq!(taken(&host, Some("^eth1"), None), ["eth0 10.0.0.1"]);
        assert_eq!(taken(&host, Some("^=eth1"), None), ["eth0 10.0.0.1", "eth10 10.0.2.1"]);
        assert_eq!(taken(&host, Some("=eth10,eth0:1"), None), ["eth0 10.0.0.1", "eth10 10.0.2.1"]);
        assert_eq!(taken(&HOST, Some("lo"), None), ["lo 127.0.0.1"]);
    }

    #[test]
    fn the_family_may_be_forced() {
        assert_eq!(taken(&HOST, None, Some("AF_INET6")), ["eth0 fd00::1"]);
        assert_eq!(taken(&HOST, Some("eth1"), Some("AF_INET")), ["eth1 10.0.1.1"]);
    }

    #[test]
    fn a_list_that_takes_nothing_is_an_error_that_says_what_there_is() {
        let error = chosen(host(&HOST), Some("bond"), None).unwrap_err();
        assert_eq!(error.status, Status::INVALID_USAGE);
        assert!(error.text.starts_with("NCCL_SOCKET_IFNAME=bond leave no interface"), "{error}");
        assert!(error.text.contains("eth1:10.0.1.1"), "{error}");
        assert!(chosen(Vec::new(), None, None).is_err());
    }

    proptest! {
        /// A list and its exclusion part the interfaces.
        #[test]
        fn a_list_and_its_opposite_take_each_interface_once(
            names in prop::collection::btree_set("[a-c]{1,3}", 1..12),
            list in "=?[a-c]{1,2}(,[a-c]{1,3}){0,3}",
        ) {
            let up: Vec<_> = names.iter().map(|name| (name.as_str(), "10.0.0.1")).collect();
            let usable = host(&up);
            let yes = matching(&usable, &list);
            let no = matching(&usable, &format!("^{list}"));
            prop_assert_eq!(yes.len() + no.len(), usable.len());
            prop_assert!(yes.iter().all(|interface| !no.contains(interface)));
        }

        /// Whatever the variable holds, nothing panics, and no interface comes twice or is none of the host's.
        #[test]
        fn any_text_takes_interfaces_of_the_host_once(list in ".{0,20}", family in prop::option::of(".{0,9}")) {
            if let Ok(taken) = chosen(host(&HOST), Some(&list), family.as_deref()) {
                prop_assert!(!taken.is_empty());
                for (place, interface) in taken.iter().enumerate() {
                    prop_assert!(host(&HOST).contains(interface));
                    prop_assert!(taken[..place].iter().all(|other| other.name != interface.name));
                }
            }
        }
    }
}
