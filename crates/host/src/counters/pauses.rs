//! Pauses that an adapter sent or obeyed, by its driver's statistics: RoCE's congestion shows there first.
//! Not the statistics themselves (`busbw_ffi::ethtool`).

use busbw_ffi::ethtool::Statistics;

use super::Count;
use crate::machine::Root;

/// A counter in the record, and the driver's names that add up to it. `*` stands for a priority, 0 to 7.
/// mlx5: Linux, Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst (its `_ctrl_phy`
/// counts pauses of a link and of priorities); bnxt_en: drivers/net/ethernet/broadcom/bnxt/bnxt_ethtool.c.
const COUNTERS: [(&str, &[&str]); 6] = [
    ("rx_pause_frames", &["rx_pause_ctrl_phy", "rx_pause_frames"]),
    ("tx_pause_frames", &["tx_pause_ctrl_phy", "tx_pause_frames"]),
    ("rx_priority_pause_frames", &["rx_prio*_pause", "rx_pfc_ena_frames_pri*"]),
    ("tx_priority_pause_frames", &["tx_prio*_pause", "tx_pfc_ena_frames_pri*"]),
    // For how long the adapter was paused, and for how long it paused others.
    ("rx_paused_us", &["rx_prio*_pause_duration", "rx_global_pause_duration"]),
    ("tx_paused_us", &["tx_prio*_pause_duration", "tx_global_pause_duration"]),
];

/// The pause counters of one adapter.
pub(super) struct Pauses {
    statistics: Statistics,
    /// Counters, and the indices of the driver's statistics that add up to each.
    places: Vec<(&'static str, Vec<usize>)>,
}

impl Pauses {
    /// The counters of an interface of this machine; `None` where its driver has none.
    pub(super) fn of(root: &Root, interface: &str) -> Option<Pauses> {
        if *root != Root::system() {
            return None;
        }
        let statistics = Statistics::open(interface).ok()?;
        let places = places(&statistics.names().ok()?);
        (!places.is_empty()).then_some(Pauses { statistics, places })
    }

    /// The current values; `None` if the interface is gone.
    pub(super) fn read(&self) -> Vec<Count> {
        let values = self.statistics.values().unwrap_or_default();
        let sum = |(name, places): &(&'static str, Vec<usize>)| {
            let value = places.iter().map(|at| values.get(*at)).sum::<Option<u64>>()?;
            Some(Count { name, value, step: 1, narrow: false })
        };
        self.places.iter().filter_map(sum).collect()
    }
}

/// The indices of the driver's statistics that add up to each counter.
fn places(names: &[String]) -> Vec<(&'static str, Vec<usize>)> {
    let matches = |pattern: &str, name: &str| match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name
            .strip_prefix(before)
            .and_then(|rest| rest.strip_suffix(after))
            .is_some_and(|priority| matches!(priority.as_bytes(), [b'0'..=b'7'])),
    };
    let of = |(counter, patterns): (&'static str, &[&str])| {
        let wanted = |name: &String| patterns.iter().any(|pattern| matches(pattern, name));
        let places: Vec<usize> =
            names.iter().enumerate().filter(|(_, name)| wanted(name)).map(|(at, _)| at).collect();
        (!places.is_empty()).then_some((counter, places))
    };
    COUNTERS.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use busbw_core::record::Meaning;

    use super::*;

    #[test]
    fn every_counter_means_something() {
        for (name, _) in COUNTERS {
            assert_eq!(Meaning::of(name), Some(Meaning::Congestion), "{name}");
        }
    }

    #[test]
    fn names_of_drivers() {
        let names = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let mlx5 = names(
            "rx_packets rx_pause_ctrl_phy tx_pause_ctrl_phy rx_prio0_pause rx_prio0_pause_duration \
             rx_prio3_pause rx_prio3_pause_transition rx_prio3_pause_duration tx_prio8_pause \
             tx_pause_storm_error_events",
        );
        assert_eq!(
            places(&mlx5),
            [
                ("rx_pause_frames", vec![1]),
                ("tx_pause_frames", vec![2]),
                ("rx_priority_pause_frames", vec![3, 5]),
                ("rx_paused_us", vec![4, 7]),
            ]
        );
        let bnxt = names("rx_pause_frames rx_pfc_ena_frames_pri0 rx_pfc_ena_frames_pri7");
        assert_eq!(
            places(&bnxt),
            [("rx_pause_frames", vec![0]), ("rx_priority_pause_frames", vec![1, 2])]
        );
        assert_eq!(places(&names("rx0_packets tx0_bytes")), []);
    }
}
