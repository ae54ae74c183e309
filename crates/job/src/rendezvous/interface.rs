//! The interface of this host that control connections use: what `--interface` selects.
//! Not connecting over it (`connect`).

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use busbw_host::machine;

/// An address of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Name and number of its interface.
    interface: String,
    index: u32,
    pub(super) ip: IpAddr,
    /// Length of its network's prefix, bits.
    prefix: u8,
}

/// The interface, or the addresses, that `--interface` selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenInterface {
    requested: String,
    addresses: Vec<Address>,
}

/// Every address of this host.
pub fn addresses() -> io::Result<Vec<Address>> {
    let address = |interface: if_addrs::Interface| Address {
        ip: interface.ip(),
        prefix: match &interface.addr {
            if_addrs::IfAddr::V4(v4) => v4.prefixlen,
            if_addrs::IfAddr::V6(v6) => v6.prefixlen,
        },
        index: interface.index.unwrap_or(0),
        interface: interface.name,
    };
    Ok(if_addrs::get_if_addrs()?.into_iter().map(address).collect())
}

/// The addresses of `all` that `word` selects: an interface's name, a CIDR such as 10.0.0.0/16, or an address.
///
/// # Errors
/// When it selects none.
pub fn choose(word: &str, all: &[Address]) -> Result<ChosenInterface, String> {
    let network = word
        .split_once('/')
        .and_then(|(ip, prefix)| Some((ip.parse().ok()?, prefix.parse().ok()?)));
    let ip = word.split('%').next().and_then(|ip| ip.parse::<IpAddr>().ok());
    let means = |address: &Address| match (network, ip) {
        (Some((ip, prefix)), _) => in_network(address.ip, ip, prefix),
        (None, Some(ip)) => address.ip == ip,
        (None, None) => address.interface == word,
    };
    let mut addresses: Vec<Address> =
        all.iter().filter(|address| means(address)).cloned().collect();
    // Link-local addresses last: they are valid on one link only.
    addresses.sort_by_key(|address| is_link_local(address.ip));
    if addresses.is_empty() {
        return Err(format!(
            "--interface {word} (or BUSBW_INTERFACE) matches no interface, network or address of {}, which has {}",
            machine::host_name(),
            describe(all.iter().map(|address| address.ip), all)
        ));
    }
    Ok(ChosenInterface { requested: word.to_owned(), addresses })
}

impl ChosenInterface {
    /// The value of `--interface`.
    pub fn requested(&self) -> &str {
        &self.requested
    }

    /// Whether this address is among the selected ones.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.addresses.iter().any(|address| address.ip == ip)
    }

    /// The selected addresses.
    pub fn ips(&self) -> Vec<IpAddr> {
        self.addresses.iter().map(|address| address.ip).collect()
    }

    /// The endpoints at which workers connect, at `port`: without link-local ones, if there are others.
    pub fn endpoints(&self, port: u16) -> Vec<SocketAddr> {
        let ips = self.ips();
        let wide = ips.iter().any(|ip| !is_link_local(*ip));
        ips.into_iter()
            .filter(|ip| !wide || !is_link_local(*ip))
            .map(|ip| SocketAddr::new(ip, port))
            .collect()
    }

    /// The source address for a connection to `to`, and `to` with the scope of the interface if it is
    /// link-local. None where `to` is in none of the selected networks, unless `any_network`.
    pub fn route(&self, mut to: SocketAddr, any_network: bool) -> Option<(SocketAddr, SocketAddr)> {
        let alike = |address: &&Address| address.ip.is_ipv4() == to.ip().is_ipv4();
        let near = |address: &&Address| in_network(to.ip(), address.ip, address.prefix);
        let from = self.addresses.iter().find(near);
        let from = from.or_else(|| self.addresses.iter().find(alike).filter(|_| any_network))?;
        let mut source = SocketAddr::new(from.ip, 0);
        for end in [&mut to, &mut source] {
            if let SocketAddr::V6(v6) = end
                && v6.ip().is_unicast_link_local()
            {
                v6.set_scope_id(from.index);
            }
        }
        Some((source, to))
    }
}

/// Addresses grouped by interface, each once: "eth0 (10.0.0.1), eth1 (10.1.0.1, fd01::1)".
pub fn describe(ips: impl IntoIterator<Item = IpAddr>, all: &[Address]) -> String {
    let mut named: Vec<(&str, Vec<IpAddr>)> = Vec::new();
    for ip in ips {
        let interface = all.iter().find(|address| address.ip == ip);
        let name = interface.map_or("an unknown interface", |address| &address.interface);
        match named.iter_mut().find(|(known, _)| *known == name) {
            Some((_, ips)) if ips.contains(&ip) => {}
            Some((_, ips)) => ips.push(ip),
            None => named.push((name, vec![ip])),
        }
    }
    let word = |(name, ips): &(&str, Vec<IpAddr>)| {
        let ips: Vec<String> = ips.iter().map(IpAddr::to_string).collect();
        format!("{name} ({})", ips.join(", "))
    };
    named.iter().map(word).collect::<Vec<_>>().join(", ")
}

fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// Whether the first `prefix` bits are the same.
fn in_network(ip: IpAddr, network: IpAddr, prefix: u8) -> bool {
    let (difference, bits) = match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => (u128::from(ip.to_bits() ^ network.to_bits()), 32),
        (IpAddr::V6(ip), IpAddr::V6(network)) => (ip.to_bits() ^ network.to_bits(), 128),
        _ => return false,
    };
    prefix <= bits && difference.checked_shr(u32::from(bits - prefix)).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all() -> Vec<Address> {
        [
            ("lo", 1, "127.0.0.1", 8),
            ("eth0", 2, "10.77.0.1", 24),
            ("eth1", 3, "fe80::1", 64),
            ("eth1", 3, "10.78.0.1", 24),
            ("eth1", 3, "fd78::1", 64),
        ]
        .map(|(interface, index, ip, prefix)| Address {
            interface: interface.to_owned(),
            index,
            ip: ip.parse().unwrap(),
            prefix,
        })
        .to_vec()
    }

    #[test]
    fn by_name_network_and_address() {
        let ips = |word: &str| -> Vec<String> {
            choose(word, &all()).unwrap().ips().iter().map(IpAddr::to_string).collect()
        };
        assert_eq!(ips("eth0"), ["10.77.0.1"]);
        assert_eq!(ips("eth1"), ["10.78.0.1", "fd78::1", "fe80::1"]);
        assert_eq!(ips("10.0.0.0/8"), ["10.77.0.1", "10.78.0.1"]);
        assert_eq!(ips("fd78::/16"), ["fd78::1"]);
        assert_eq!(ips("0.0.0.0/0").len(), 3);
        assert_eq!(
            (ips("10.78.0.1"), ips("fe80::1%eth1")),
            (vec!["10.78.0.1".to_owned()], vec!["fe80::1".to_owned()])
        );
        for none in ["eth", "eth2", "10.79.0.0/16", "10.0.0.0/33", "10.77.0.2", "", "/"] {
            let why = choose(none, &all()).unwrap_err();
            assert!(why.contains("eth1 (fe80::1, 10.78.0.1, fd78::1)"), "{why}");
        }
    }

    #[test]
    fn routes_and_endpoints() {
        let chosen = choose("eth1", &all()).unwrap();
        let endpoints = ["10.78.0.1:9", "[fd78::1]:9"].map(|endpoint| endpoint.parse().unwrap());
        assert_eq!(chosen.endpoints(9), endpoints);
        let route = |to: &str, any| chosen.route(to.parse().unwrap(), any);
        let ends = |from: &str, to: &str| Some((from.parse().unwrap(), to.parse().unwrap()));
        assert_eq!(route("10.78.0.7:9", false), ends("10.78.0.1:0", "10.78.0.7:9"));
        assert_eq!(route("10.99.0.7:9", false), None);
        assert_eq!(route("10.99.0.7:9", true), ends("10.78.0.1:0", "10.99.0.7:9"));
        assert_eq!(route("[fe80::7]:9", false), ends("[fe80::1%3]:0", "[fe80::7%3]:9"));
        assert_eq!(
            choose("eth0", &all()).unwrap().route("[fd78::7]:9".parse().unwrap(), true),
            None
        );
    }

    #[test]
    fn this_host_has_loopback() {
        let all = addresses().unwrap();
        let loopback: IpAddr = "127.0.0.1".parse().unwrap();
        assert_eq!(describe([loopback, loopback], &all), "lo (127.0.0.1)");
    }

    proptest! {
        /// As the numbers written in binary.
        #[test]
        fn networks_by_their_first_bits(a: u32, b: u32, prefix in 0u8..=32) {
            let bits = |n: u32| format!("{n:032b}")[..usize::from(prefix)].to_owned();
            let ip = |n: u32| IpAddr::V4(n.into());
            prop_assert_eq!(in_network(ip(a), ip(b), prefix), bits(a) == bits(b));
        }
    }
}
