//! What messages over RDMA are held against: the line rate of the ports that they went through and their slots, less the headers of packets.
//! Not what lies between slot and processor.

use busbw_core::record::VerbsFacts;
use busbw_hardware::machine::{Machine, NicKind, Nics, PcieLink};

/// Two hosts with the slower of the ports, if the ranks' devices are known and messages left them.
///
/// # Errors
/// What is missing for a limit.
pub(super) fn two_hosts(facts: &[VerbsFacts], hosts: Option<usize>) -> Result<Machine, String> {
    if facts.len() != 2 {
        return Err("a bound for several pairs".to_owned());
    }
    let one_device = facts.windows(2).all(|pair| pair[0].device == pair[1].device);
    if hosts == Some(1) && one_device {
        return Err("a second device: the messages did not leave this one".to_owned());
    }
    let rate = facts.iter().map(|facts| facts.gbps).collect::<Option<Vec<f64>>>();
    let rate = rate.and_then(|rates| rates.into_iter().reduce(f64::min));
    let Some((rate, first)) = rate.zip(facts.first()) else {
        return Err("the line rate of the port, which the kernel does not say".to_owned());
    };
    let kind = if first.protocol == "InfiniBand" { NicKind::InfiniBand } else { NicKind::Roce };
    let mtu = facts.iter().map(|facts| facts.mtu).min();
    let slots = facts.iter().filter_map(|facts| facts.slot);
    let slots = slots.filter_map(|slot| PcieLink::new(slot.generation, slot.width));
    let slot = slots.min_by(|a, b| a.line().total_cmp(&b.line()));
    let nics = Nics { count: 1, rate: Some(rate), kind, mtu, slot, sharing: 1 };
    Ok(Machine::of_ports("the ports of this run", nics))
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbw_core::{
        plan::{Connection, Verb},
        record::Slot,
    };
    use busbw_hardware::limits::{Algorithm, RankPlacement, limit};

    fn port(rank: usize, gbps: Option<f64>) -> VerbsFacts {
        VerbsFacts {
            rank,
            verb: Verb::Write,
            connection: Connection::Rc,
            device: "mlx5_0".to_owned(),
            port: 1,
            gid_index: 3,
            gid: None,
            lid: 0,
            protocol: "RoCE v2".to_owned(),
            gbps,
            slot: None,
            limit: None,
            mtu: 4096,
            numa: None,
            interface: None,
            inline_bytes: 0,
            relaxed_ordering: true,
            gpu: None,
            why: String::new(),
        }
    }

    #[test]
    fn the_slower_port_limits() {
        let ports = [port(0, Some(400.0)), port(1, Some(200.0))];
        let machine = two_hosts(&ports, Some(2)).unwrap();
        let direct = limit(
            &machine,
            busbw_core::Collective::SendRecv,
            Algorithm::Direct,
            &RankPlacement::new(2, 1),
        );
        // 25 GB/s of line, of which 4096 of 4178 bytes are data.
        let bound = direct.payload.unwrap().busbw;
        assert!((bound - 25.0 * 4096.0 / 4178.0).abs() < 1e-9, "{bound}");
    }

    /// 400 Gb/s in a slot of 16 GT/s and eight lanes: its line rate, as the size of its packets is not read.
    #[test]
    fn a_narrow_slot_limits() {
        let narrow =
            VerbsFacts { slot: Some(Slot { generation: 4, width: 8 }), ..port(1, Some(400.0)) };
        let machine = two_hosts(&[port(0, Some(400.0)), narrow], Some(2)).unwrap();
        let pair = RankPlacement::new(2, 1);
        let direct = limit(&machine, busbw_core::Collective::SendRecv, Algorithm::Direct, &pair);
        let bound = direct.payload.unwrap().busbw;
        assert!((bound - 16.0 * 128.0 / 130.0).abs() < 1e-9, "{bound}");
    }

    #[test]
    fn what_has_no_limit() {
        let same = [port(0, Some(400.0)), port(1, Some(400.0))];
        assert!(two_hosts(&same, Some(1)).unwrap_err().contains("did not leave"));
        let four = [0, 1, 2, 3].map(|rank| port(rank, Some(400.0)));
        assert!(two_hosts(&four, Some(2)).unwrap_err().contains("several pairs"));
        let silent = [port(0, None), port(1, Some(400.0))];
        assert!(two_hosts(&silent, Some(2)).unwrap_err().contains("line rate"));
    }
}
