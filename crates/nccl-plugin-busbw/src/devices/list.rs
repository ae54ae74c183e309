//! NCCL's lists of interfaces and of RDMA ports: which names one selects.
//! Not the names, nor the variables that hold such lists.
//!
//! From parseStringList and matchIfList (src/misc/utils.cc of NCCL 2.30.7): names, each with `:PORT` or without, separated by
//! commas, are prefixes; `=` before the list makes them exact, `^` excludes what it matches, `^=` both. A list without
//! names matches everything.

/// Whether a list, of which so many entries are read, selects a name; an interface has no port.
pub(crate) fn selects(list: &str, at_most: usize, name: &str, port: Option<u8>) -> bool {
    let (not, list) = list.strip_prefix('^').map_or((false, list), |rest| (true, rest));
    let (exact, list) = list.strip_prefix('=').map_or((false, list), |rest| (true, rest));
    let entries = list.split(',').map(|entry| match entry.split_once(':') {
        Some((name, port)) => (name, port.parse::<u8>().ok()),
        None => (entry, None),
    });
    let mut entries = entries.filter(|(name, _)| !name.is_empty()).take(at_most).peekable();
    let matches = |(listed, number): (&str, Option<u8>)| {
        let is_name = if exact { name == listed } else { name.starts_with(listed) };
        is_name && number.zip(port).is_none_or(|(number, port)| number == port)
    };
    (entries.peek().is_none() || entries.any(matches)) != not
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_port(list: &str, name: &str, port: u8) -> bool {
        selects(list, 32, name, Some(port))
    }

    #[test]
    fn lists_are_prefixes_unless_they_say_otherwise() {
        assert!(of_port("", "mlx5_0", 1) && !of_port("^", "mlx5_0", 1));
        // What people stumble over: mlx5_1 is also mlx5_10.
        assert!(of_port("mlx5_1", "mlx5_10", 1) && !of_port("=mlx5_1", "mlx5_10", 1));
        assert!(of_port("=mlx5_0,mlx5_1", "mlx5_1", 1));
        assert!(of_port("mlx5_0:1", "mlx5_0", 1) && !of_port("mlx5_0:1", "mlx5_0", 2));
        assert!(!of_port("^mlx5_3", "mlx5_3", 1) && of_port("^mlx5_3", "mlx5_4", 1));
        assert!(of_port("^=mlx5_1", "mlx5_10", 1) && !of_port("^=mlx5_1", "mlx5_1", 1));
    }

    #[test]
    fn an_interface_has_no_port_and_lists_have_an_end() {
        assert!(selects("eth0:1", 16, "eth0", None));
        assert!(selects("eth0,eth1", 16, "eth1", None) && !selects("eth0,eth1", 1, "eth1", None));
    }
}
