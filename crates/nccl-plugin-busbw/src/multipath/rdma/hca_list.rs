//! NCCL_IB_HCA, as NCCL reads it: which RDMA ports a list selects.
//! Not the ports.
//!
//! From ncclIbInitDevices and matchIfList (src/transport/net_ib/init.cc, src/misc/utils.cc of NCCL 2.30.7): names, each with
//! `:PORT` or without, separated by commas, are prefixes; `=` before the list makes them exact, `^` excludes what it matches,
//! `^=` both.

/// Whether a list selects a port. An empty one selects all.
pub(super) fn selects(list: &str, device: &str, port: u8) -> bool {
    let (is_excluding, list) = match list.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, list),
    };
    let (is_exact, list) = match list.strip_prefix('=') {
        Some(rest) => (true, rest),
        None => (false, list),
    };
    let mut entries = list.split(',').filter(|entry| !entry.is_empty()).peekable();
    if entries.peek().is_none() {
        return true;
    }
    let matches = |entry: &str| {
        let (name, number) = match entry.split_once(':') {
            Some((name, number)) => (name, number.parse::<u8>().ok()),
            None => (entry, None),
        };
        let is_name = if is_exact { device == name } else { device.starts_with(name) };
        is_name && number.is_none_or(|number| number == port)
    };
    entries.any(matches) != is_excluding
}

#[cfg(test)]
mod tests {
    use super::selects;

    #[test]
    fn lists_are_prefixes_unless_they_say_otherwise() {
        assert!(selects("", "mlx5_0", 1) && selects("^", "mlx5_0", 1));
        // What people stumble over: mlx5_1 is also mlx5_10.
        assert!(selects("mlx5_1", "mlx5_10", 1) && !selects("=mlx5_1", "mlx5_10", 1));
        assert!(selects("=mlx5_0,mlx5_1", "mlx5_1", 1));
        assert!(selects("mlx5_0:1", "mlx5_0", 1) && !selects("mlx5_0:1", "mlx5_0", 2));
        assert!(!selects("^mlx5_3", "mlx5_3", 1) && selects("^mlx5_3", "mlx5_4", 1));
        assert!(selects("^=mlx5_1", "mlx5_10", 1) && !selects("^=mlx5_1", "mlx5_1", 1));
    }
}
