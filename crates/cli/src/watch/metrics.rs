//! A job as metrics: the list, and its text.
//! Not serving it (`serve`). docs/metrics.md is made from the list.

use std::collections::BTreeMap;

use busbw_core::openmetrics::{Family, OpenMetrics, labels};
use busbw_watch::{Job, State, View};

/// The most series of one text: a host's share of a scraper's memory.
pub(super) const MOST_SERIES: usize = 2_000;

/// The places of metrics in [`METRICS`].
#[derive(Debug, Clone, Copy)]
enum Metric {
    State,
    BusBandwidth,
    Limit,
    Duration,
    Calls,
    Waiting,
    CausedWait,
    Straggler,
    Dropped,
}

/// All metrics, in the order in which they are written.
pub(super) const METRICS: [Family; 9] = [
    Family {
        name: "busbw_watch_state",
        unit: "",
        help: "How the job is: 1 for the state that it is in (fine, late, hangs, cannot_tell).",
    },
    Family {
        name: "busbw_bus_bandwidth_bytes_per_second",
        unit: "bytes_per_second",
        help: "Median bus bandwidth of the calls of an operation and size class, from when the last rank entered.",
    },
    Family {
        name: "busbw_bus_bandwidth_limit_bytes_per_second",
        unit: "bytes_per_second",
        help: "The bus bandwidth that the hardware allows, where --machine says it.",
    },
    Family {
        name: "busbw_collective_duration_seconds",
        unit: "seconds",
        help: "Median time of a call from when the last rank entered.",
    },
    Family {
        name: "busbw_collective_calls",
        unit: "",
        help: "Calls of an operation and size class in the time that is looked at.",
    },
    Family {
        name: "busbw_collective_waiting_ratio",
        unit: "ratio",
        help: "What a rank waited for the last one on average, of all the time in the calls.",
    },
    Family {
        name: "busbw_rank_caused_wait_seconds",
        unit: "seconds",
        help: "What the others waited for a rank alone, in the time that is looked at.",
    },
    Family {
        name: "busbw_rank_straggler",
        unit: "",
        help: "1 for each rank that is late by itself.",
    },
    Family {
        name: "busbw_calls_dropped",
        unit: "",
        help: "Calls for which the profiler had no room, since the job began.",
    },
];

/// The text. Of too many series those of the smallest communicators are left out.
pub(super) fn text(job: &Job, view: &View) -> String {
    let mut series: Vec<BTreeMap<String, f64>> = vec![BTreeMap::new(); METRICS.len()];
    let mut room = MOST_SERIES;
    let mut add = |metric: Metric, all: &[(&str, &str)], value: Option<f64>| {
        let Some(value) = value.filter(|value| value.is_finite()) else { return };
        let key = labels(all);
        if !series[metric as usize].contains_key(&key) {
            if room == 0 {
                return;
            }
            room -= 1;
        }
        series[metric as usize].insert(key, value);
    };
    let job_name = view.job.as_deref().unwrap_or_default();
    for (state, name) in [
        (State::Fine, "fine"),
        (State::Late, "late"),
        (State::Hangs, "hangs"),
        (State::CannotTell, "cannot_tell"),
    ] {
        add(
            Metric::State,
            &[("job", job_name), ("state", name)],
            Some(f64::from(u8::from(view.state == state))),
        );
    }
    add(Metric::Dropped, &[("job", job_name)], Some(view.dropped as f64));
    for one in &view.stragglers {
        let (peer, group) = (&job.peers[one.peer], &job.groups[one.group]);
        let rank = one.rank.to_string();
        let all = [
            ("job", job_name),
            ("communicator", &group.id),
            ("rank", &rank),
            ("host", &peer.process.host),
        ];
        add(Metric::Straggler, &all, Some(1.0));
    }
    for group in &view.groups {
        for speed in &group.speeds {
            // Classes reach from one power of two to the next: by the lower end no two have the same label.
            let class = (1_u64 << speed.least.checked_ilog2().unwrap_or(0)).to_string();
            let all = [
                ("job", job_name),
                ("communicator", group.id.as_str()),
                ("operation", speed.operation.as_str()),
                ("size_from_bytes", class.as_str()),
                ("algorithm", speed.choice.as_str()),
            ];
            add(Metric::BusBandwidth, &all, speed.busbw.map(|rate| rate * 1e9));
            add(Metric::Limit, &all, speed.limit.map(|rate| rate * 1e9));
            add(Metric::Duration, &all, speed.time_us.map(|us| us / 1e6));
            add(Metric::Calls, &all, Some(speed.calls as f64));
            add(Metric::Waiting, &all, speed.waited);
        }
        for rank in group.by_lateness.iter().filter(|rank| rank.last > 0) {
            let number = rank.rank.to_string();
            let all = [
                ("job", job_name),
                ("communicator", group.id.as_str()),
                ("rank", number.as_str()),
                ("host", rank.host.as_str()),
            ];
            add(Metric::CausedWait, &all, Some(rank.caused_ms / 1e3));
        }
    }
    let mut text = OpenMetrics::default();
    for (family, series) in METRICS.iter().zip(series) {
        text.family(family, &series.into_iter().collect::<Vec<_>>());
    }
    text.end()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use busbw_analysis::check;

    use super::*;

    /// docs/metrics.md, as it follows from the lists.
    fn page() -> String {
        let mut page = include_str!("../../../../docs/metrics.md")
            .split_once("| metric |")
            .map_or(String::new(), |(head, _)| head.to_owned());
        page += "| metric | what it is | of |\n|---|---|---|\n";
        for (of, list) in [("`watch`", &METRICS[..]), ("`check`", &check::METRICS[..])] {
            for Family { name, help, .. } in list {
                page += &format!("| `{name}` | {help} | {of} |\n");
            }
        }
        page
    }

    #[test]
    fn the_page_has_every_metric() {
        let committed = include_str!("../../../../docs/metrics.md");
        assert!(committed == page(), "docs/metrics.md is to be:\n{}", page());
    }

    #[test]
    fn a_unit_ends_its_name() {
        for Family { name, unit, .. } in METRICS.iter().chain(&check::METRICS) {
            assert!(name.ends_with(unit), "{name}");
        }
    }
}
