//! The devices and ports that the user's words mean: mlx5_0, mlx5_0:1, ^mlx5_3, lists of them.
//! Not whether those can be used.

use busbw_core::quantity::ranged;

use super::super::{Port, RdmaDevice};

/// What the user asks for; the default asks for nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Devices by name, with a port or without: `mlx5_0`, `mlx5_0:1,mlx5_1`; all but these: `^mlx5_3`.
    /// Names are whole ones, unlike those of NCCL_IB_HCA, which are beginnings.
    pub devices: Option<String>,
    /// Port number, from 1, of devices that were named without one.
    pub port: Option<u32>,
    /// Index of the port's address table, from 0.
    pub gid_index: Option<u32>,
}

/// Ports with their devices.
pub(super) type Pairs<'a> = Vec<(&'a RdmaDevice, &'a Port)>;

/// The devices and ports that the user's words mean, and whether they were named one by one.
pub(super) fn asked<'a>(
    devices: &'a [RdmaDevice],
    wanted: &Wanted,
) -> Result<(Pairs<'a>, bool), String> {
    let mut sorted: Vec<&RdmaDevice> = devices.iter().collect();
    // Software devices, which have no address, come last. Domains may have five digits.
    sorted.sort_by_key(|device| {
        let address = device.address.as_deref();
        (address.is_none(), address.map(|a| (a.len(), a)), device.name.len(), &device.name)
    });
    let of = |device: &'a RdmaDevice, number: Option<u32>| -> Result<Pairs<'a>, String> {
        let ports = device.ports.iter().filter(|port| number.is_none_or(|n| n == port.number));
        let found: Pairs = ports.map(|port| (device, port)).collect();
        match (found.is_empty(), number) {
            (true, Some(number)) => {
                let there: Vec<String> =
                    device.ports.iter().map(|p| p.number.to_string()).collect();
                Err(format!(
                    "{} has no port {number}; its ports: {}",
                    device.name,
                    there.join(", ")
                ))
            }
            (true, None) => Err(format!("{} has no port", device.name)),
            _ => Ok(found),
        }
    };
    let text = wanted.devices.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let (names, without) = match text.map(|text| (text, text.strip_prefix('^'))) {
        None => (Vec::new(), true),
        Some((_, Some(names))) => (parse(names)?, true),
        Some((names, None)) => (parse(names)?, false),
    };
    let mut named: Pairs = Vec::new();
    for (name, number) in names {
        let Some(device) = sorted.iter().find(|device| device.name == name) else {
            let there: Vec<&str> = sorted.iter().map(|device| device.name.as_str()).collect();
            return Err(format!(
                "no RDMA device is called {name} here; there are: {}",
                ranged(&there)
            ));
        };
        // What is left out is a whole device, unless a port of it is named.
        for pair in of(device, number.or(wanted.port.filter(|_| !without)))? {
            if !named.iter().any(|known| std::ptr::eq(known.1, pair.1)) {
                named.push(pair);
            }
        }
    }
    if !without {
        return Ok((named, true));
    }
    let rest =
        sorted.into_iter().flat_map(|device| device.ports.iter().map(move |port| (device, port)));
    let rest: Pairs = rest
        .filter(|(_, port)| wanted.port.is_none_or(|number| number == port.number))
        .filter(|(_, port)| !named.iter().any(|(_, not)| std::ptr::eq(*not, *port)))
        .collect();
    match (rest.is_empty(), text, wanted.port) {
        (false, ..) => Ok((rest, false)),
        (true, Some(text), _) => Err(format!("{text} leaves no RDMA port of this host")),
        (true, None, Some(number)) => {
            Err(format!("no RDMA device of this host has a port {number}"))
        }
        (true, None, None) => Err("the RDMA devices of this host have no ports".to_owned()),
    }
}

/// `mlx5_0:1,mlx5_1`: names, with ports or without.
fn parse(text: &str) -> Result<Vec<(&str, Option<u32>)>, String> {
    let one = |item: &'_ str| -> Result<(usize, Option<u32>), String> {
        match item.split_once(':') {
            None => Ok((item.len(), None)),
            Some((name, port)) => match port.parse::<u32>() {
                Ok(number) if number > 0 => Ok((name.len(), Some(number))),
                _ => Err(format!("{item}: {port:?} is no port number; write mlx5_0 or mlx5_0:1")),
            },
        }
    };
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| one(item).map(|(length, port)| (&item[..length], port))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_with_ports_and_without() {
        assert_eq!(parse("mlx5_0:1, mlx5_1,"), Ok(vec![("mlx5_0", Some(1)), ("mlx5_1", None)]));
        assert_eq!(parse(""), Ok(Vec::new()));
        for wrong in ["mlx5_0:0", "mlx5_0:", "mlx5_0:one", "mlx5_0:1:2"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_names(text in ".{0,40}") {
            let _ = parse(&text);
        }
    }
}
