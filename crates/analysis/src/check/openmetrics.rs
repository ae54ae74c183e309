//! A check as OpenMetrics text, for the textfile collector of node_exporter and for any scraper.
//! Not a history: a file has the last check alone.

use std::collections::BTreeMap;

use busbw_core::openmetrics::{Family, OpenMetrics, labels};

use super::report::{Check, CheckReport, Decision, Verdict};

/// Every decision, so that each is a series of its own whose value is 1 or 0.
const DECISIONS: [Decision; 5] = [
    Decision::Pass,
    Decision::LetThrough,
    Decision::Blocked,
    Decision::BlockedUntold,
    Decision::Interrupted,
];

/// The metrics, in the order in which they are written.
pub const METRICS: [Family; 9] = [
    Family {
        name: "busbw_check_decision",
        unit: "",
        help: "The decision of the last check; 1 for the one that was made.",
    },
    Family {
        name: "busbw_check_passed",
        unit: "",
        help: "Whether a check found no fault; absent where it was waived or cannot tell.",
    },
    Family { name: "busbw_check_cannot_tell", unit: "", help: "Whether a check could not tell." },
    Family {
        name: "busbw_check_faults",
        unit: "",
        help: "Faults of a host, rank or link that were seen at least twice.",
    },
    Family {
        name: "busbw_check_bandwidth_bytes_per_second",
        unit: "bytes_per_second",
        help: "The bandwidth that a check measured.",
    },
    Family {
        name: "busbw_check_wanted_bytes_per_second",
        unit: "bytes_per_second",
        help: "The limit, the baseline or the normal level that it is held against.",
    },
    Family { name: "busbw_check_hosts", unit: "", help: "Hosts that answered." },
    Family {
        name: "busbw_check_duration_seconds",
        unit: "seconds",
        help: "Seconds that the check took.",
    },
    Family {
        name: "busbw_check_timestamp_seconds",
        unit: "seconds",
        help: "When the check began, seconds since 1970.",
    },
];

/// The text, which ends with `# EOF`. Series of a family stand together, as the format wants, and none occurs twice.
pub fn openmetrics(report: &CheckReport) -> String {
    let mut text = OpenMetrics::default();
    let decisions: Vec<(String, f64)> = DECISIONS
        .iter()
        .map(|one| {
            (labels(&[("decision", one.name())]), f64::from(u8::from(*one == report.decision)))
        })
        .collect();
    text.family(&METRICS[0], &decisions);
    let passed: Vec<(String, f64)> =
        by_check(report, |verdicts| !verdicts.contains(&Verdict::Fail));
    text.family(&METRICS[1], &passed);
    let told: Vec<(String, f64)> = Check::ALL
        .into_iter()
        .filter(|check| {
            report.lines.iter().any(|line| line.check == *check && line.verdict != Verdict::Waived)
        })
        .map(|check| {
            let untold =
                report.lines.iter().any(|l| l.check == check && l.verdict == Verdict::CannotTell);
            (labels(&[("check", check.name())]), f64::from(u8::from(untold)))
        })
        .collect();
    text.family(&METRICS[2], &told);
    let mut faults: BTreeMap<String, f64> = BTreeMap::new();
    for line in report.lines.iter().filter(|line| line.blocks()) {
        let subject = line.subject.as_ref().map_or(String::new(), ToString::to_string);
        let key = labels(&[("check", line.check.name()), ("subject", &subject)]);
        *faults.entry(key).or_default() += 1.0;
    }
    let faults: Vec<(String, f64)> = faults.into_iter().collect();
    text.family(&METRICS[3], &faults);
    let figure = |wanted: bool| -> Vec<(String, f64)> {
        let mut known: BTreeMap<String, f64> = BTreeMap::new();
        for line in &report.lines {
            let Some(figure) = line.figure.as_ref().filter(|figure| figure.unit == "GB/s") else {
                continue;
            };
            let value = if wanted { figure.wanted } else { Some(figure.value) };
            let Some(value) = value.filter(|value| value.is_finite()) else { continue };
            let subject = line.subject.as_ref().map_or(String::new(), ToString::to_string);
            let key = labels(&[("check", line.check.name()), ("subject", &subject)]);
            known.entry(key).or_insert(value * 1e9);
        }
        known.into_iter().collect()
    };
    text.family(&METRICS[4], &figure(false));
    text.family(&METRICS[5], &figure(true));
    let alone = |value: f64| vec![(String::new(), value)];
    text.family(&METRICS[6], &alone(report.hosts.len() as f64));
    text.family(&METRICS[7], &alone(report.took_s));
    text.family(&METRICS[8], &alone(report.started_unix as f64));
    text.end()
}

/// Checks that passed or failed, each once.
fn by_check(report: &CheckReport, passed: impl Fn(&[Verdict]) -> bool) -> Vec<(String, f64)> {
    let verdicts = |check: Check| -> Vec<Verdict> {
        report.lines.iter().filter(|line| line.check == check).map(|line| line.verdict).collect()
    };
    let judged = |verdicts: &[Verdict]| {
        verdicts.contains(&Verdict::Fail)
            || (verdicts.contains(&Verdict::Pass) && !verdicts.contains(&Verdict::CannotTell))
    };
    Check::ALL
        .into_iter()
        .map(|check| (check, verdicts(check)))
        .filter(|(_, verdicts)| judged(verdicts))
        .map(|(check, verdicts)| {
            (labels(&[("check", check.name())]), f64::from(u8::from(passed(&verdicts))))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::check::{report::Subject, table::tests::example};

    #[test]
    fn series_have_a_family_each_and_the_file_an_end() {
        let text = openmetrics(&example());
        assert!(text.ends_with("\n# EOF\n"));
        for line in [
            "busbw_check_decision{decision=\"blocked\"} 1",
            "busbw_check_decision{decision=\"pass\"} 0",
            "busbw_check_passed{check=\"settings\"} 0",
            "busbw_check_passed{check=\"doctor\"} 1",
            "busbw_check_cannot_tell{check=\"pairs\"} 1",
            "busbw_check_faults{check=\"settings\",subject=\"c\"} 1",
            "busbw_check_bandwidth_bytes_per_second{check=\"pairs\",subject=\"a gpu 1 -> b gpu 2\"} 40000000000",
            "busbw_check_timestamp_seconds 1795572000",
            "busbw_check_duration_seconds 31.400000",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
    }

    /// What a reader of the format refuses: a sample without its family's head above it, a family or series twice.
    fn sound(text: &str) -> Result<(), String> {
        let (mut families, mut series, mut family) = (BTreeSet::new(), BTreeSet::new(), "");
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            if line == "# EOF" {
                return if lines.peek().is_none() {
                    Ok(())
                } else {
                    Err("lines behind the end".into())
                };
            }
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                family = rest.split(' ').next().unwrap_or_default();
                if !families.insert(family) {
                    return Err(format!("{family} twice"));
                }
            } else if !line.starts_with("# ") {
                let (name, value) = line.rsplit_once(' ').ok_or("no value")?;
                value.parse::<f64>().map_err(|e| format!("{line}: {e}"))?;
                if name.split('{').next() != Some(family) || !series.insert(name) {
                    return Err(format!("{line}: of another family, or twice"));
                }
            }
        }
        Err("no end".into())
    }

    proptest! {
        #[test]
        fn any_host_name_gives_a_sound_file(name in any::<String>(), again in any::<String>()) {
            let mut report = example();
            report.lines[1].subject = Some(Subject::host(name));
            report.lines[3].subject = Some(Subject::host(again));
            let doubled = report.lines[1].clone();
            report.lines.push(doubled);
            prop_assert_eq!(sound(&openmetrics(&report)), Ok(()));
        }
    }
}
