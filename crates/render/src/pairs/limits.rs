//! What each pair of RDMA ports can do, and which share of it the pairs of a matrix reach.
//! Not how the limit of a port is reckoned (the record's `verbs`), and no verdict: a matrix accuses by its own figures.

use std::collections::BTreeMap;

use busbw_core::{
    pairs::{Pairs, Unit},
    quantity::percent,
    record::VerbsFacts,
};

use super::figure;

/// A pair's share of its limit is said by itself below this.
const LOW_SHARE: f64 = 0.85;
/// So many of these pairs are named.
const MOST_NAMED: usize = 5;

/// One direction of a pair, and its limit.
struct Held {
    from: usize,
    to: usize,
    value: f64,
    limit: f64,
}

impl Held {
    fn share(&self) -> f64 {
        self.value / self.limit
    }
}

/// The lines below a matrix of bandwidths, of ranks on `hosts`; none where a port's limit is not known.
pub(super) fn lines(matrix: &Pairs, hosts: &[&str], ports: &[VerbsFacts]) -> String {
    if matrix.unit != Unit::GigabytesPerSecond {
        return String::new();
    }
    let mut held = held(matrix, hosts, ports);
    held.sort_by(|a, b| a.share().total_cmp(&b.share()));
    let (Some(worst), Some(best)) = (held.first(), held.last()) else { return String::new() };
    let least = held.iter().map(|pair| pair.limit).fold(f64::INFINITY, f64::min);
    let most = held.iter().map(|pair| pair.limit).fold(0.0, f64::max);
    let range = match figure(least) == figure(most) {
        true => format!("# limit of each pair: {} GB/s", figure(most)),
        false => format!("# limits of pairs: {} to {} GB/s", figure(least), figure(most)),
    };
    let mut text = format!(
        "{range} (rates of its ports and slots, less the headers of packets at MTU {}); pairs reach {} to {} % of it\n",
        ports.iter().map(|port| port.mtu).min().unwrap_or(0),
        percent(worst.share() * 100.0),
        percent(best.share() * 100.0),
    );
    if figure(least) != figure(most) {
        text += &slower_ports(ports, most);
    }
    let low: Vec<&Held> = held.iter().take_while(|pair| pair.share() < LOW_SHARE).collect();
    // Where all are low no pair is.
    if low.len() < held.len() {
        for pair in low.iter().take(MOST_NAMED) {
            text += &format!(
                "#   {} to {}: {} of {} GB/s, {} %\n",
                matrix.label(pair.from),
                matrix.label(pair.to),
                figure(pair.value),
                figure(pair.limit),
                percent(pair.share() * 100.0),
            );
        }
    }
    text
}

/// Every measured direction between ports that no other rank uses: pairs that are measured at once share a port.
fn held(matrix: &Pairs, hosts: &[&str], ports: &[VerbsFacts]) -> Vec<Held> {
    let place = |port: &VerbsFacts| (hosts.get(port.rank).copied(), port.device.clone(), port.port);
    let mut ranks_on = BTreeMap::new();
    ports.iter().for_each(|port| *ranks_on.entry(place(port)).or_insert(0) += 1);
    let own = ports.iter().filter(|port| ranks_on.get(&place(port)) == Some(&1));
    let limits: BTreeMap<usize, f64> =
        own.filter_map(|port| Some((port.rank, port.limit?))).collect();
    let mut held = Vec::new();
    for (from, row) in matrix.values.iter().enumerate() {
        for (to, value) in row.iter().enumerate() {
            if let (Some(value), Some(a), Some(b)) = (*value, limits.get(&from), limits.get(&to)) {
                held.push(Held { from, to, value, limit: a.min(*b) });
            }
        }
    }
    held
}

/// The ports whose limit is below that of the fastest pair.
fn slower_ports(ports: &[VerbsFacts], most: f64) -> String {
    let slower = ports.iter().filter(|port| {
        port.limit.is_some_and(|limit| figure(limit) != figure(most) && limit < most)
    });
    let named: Vec<String> =
        slower.map(|port| format!("rank {} on {}", port.rank, port.port_and_slot())).collect();
    let rest = match named.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!(
        "#   lower: {}{rest}\n",
        named.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use busbw_core::{
        plan::{Connection, Verb},
        record::Slot,
    };

    use super::*;

    fn port(rank: usize, device: &str, limit: f64) -> VerbsFacts {
        VerbsFacts {
            rank,
            verb: Verb::Write,
            connection: Connection::Rc,
            device: device.to_owned(),
            port: 1,
            gid_index: 3,
            gid: None,
            lid: 0,
            protocol: "RoCE v2".to_owned(),
            gbps: Some(if limit > 40.0 { 400.0 } else { 200.0 }),
            slot: Some(Slot { generation: 5, width: 16 }),
            limit: Some(limit),
            mtu: 4096,
            numa: None,
            interface: None,
            inline_bytes: 0,
            relaxed_ordering: true,
            gpu: None,
            why: String::new(),
        }
    }

    /// Ranks 0 and 1 on a, 2 and 3 on b.
    fn said(values: [[f64; 4]; 4], devices: [(&str, f64); 4]) -> String {
        let row = |from: usize| (0..4).map(|to| (from != to).then(|| values[from][to])).collect();
        let matrix = Pairs {
            pairs_schema: 1,
            what: None,
            started: None,
            command: None,
            labels: ["a 0", "a 1", "b 0", "b 1"].map(str::to_owned).to_vec(),
            size: 1 << 26,
            unit: Unit::GigabytesPerSecond,
            values: (0..4).map(row).collect(),
            verdict: None,
        };
        let ports: Vec<VerbsFacts> = devices
            .iter()
            .enumerate()
            .map(|(rank, (name, limit))| port(rank, name, *limit))
            .collect();
        lines(&matrix, &["a", "a", "b", "b"], &ports)
    }

    #[test]
    fn the_limit_and_its_share_stand_below_the_matrix() {
        let rails = [("mlx5_0", 49.0), ("mlx5_1", 49.0), ("mlx5_0", 49.0), ("mlx5_1", 49.0)];
        let head =
            "(rates of its ports and slots, less the headers of packets at MTU 4096); pairs reach";
        let mut values = [[47.0; 4]; 4];
        let even = said(values, rails);
        assert_eq!(even, format!("# limit of each pair: 49.0 GB/s {head} 95.9 to 95.9 % of it\n"));
        values[0][3] = 24.5;
        let low = said(values, rails);
        assert!(low.contains("50.0 to 95.9 %"), "{low}");
        assert!(low.ends_with("#   a 0 to b 1: 24.5 of 49.0 GB/s, 50.0 %\n"), "{low}");
        // All alike are no pair's own.
        let all = said([[24.5; 4]; 4], rails);
        assert_eq!(all.lines().count(), 1, "{all}");
    }

    #[test]
    fn a_slower_port_has_its_own_limit() {
        let ports = [("mlx5_0", 49.0), ("mlx5_1", 49.0), ("mlx5_0", 49.0), ("mlx5_1", 24.5)];
        let mut values = [[47.0; 4]; 4];
        values.iter_mut().for_each(|row| row[3] = 24.0);
        values[3] = [24.0; 4];
        let text = said(values, ports);
        assert!(text.starts_with("# limits of pairs: 24.5 to 49.0 GB/s"), "{text}");
        assert!(text.contains("lower: rank 3 on mlx5_1/1 at 200 Gb/s in PCIe 5.0 x16\n"), "{text}");
        assert!(text.contains("pairs reach 95.9 to 98.0 %"), "{text}");
    }

    #[test]
    fn a_port_of_several_ranks_has_no_limit_of_a_pair() {
        let shared = [("mlx5_0", 49.0), ("mlx5_0", 49.0), ("mlx5_0", 49.0), ("mlx5_0", 49.0)];
        assert_eq!(said([[24.0; 4]; 4], shared), "");
    }
}
