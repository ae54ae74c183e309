//! A check as OpenMetrics text, for the textfile collector of node_exporter and for any scraper.
//! Not a history: a file has the last check alone.

use std::collections::BTreeMap;

use super::report::{Check, CheckReport, Decision, Verdict};

/// Every decision, so that each is a series of its own whose value is 1 or 0.
const DECISIONS: [Decision; 5] = [
    Decision::Pass,
    Decision::LetThrough,
    Decision::Blocked,
    Decision::BlockedUntold,
    Decision::Interrupted,
];

/// The text, which ends with `# EOF`. Series of a family stand together, as the format wants, and none occurs twice.
pub fn openmetrics(report: &CheckReport) -> String {
    let mut text = String::new();
    let mut family = |name: &str, unit: &str, help: &str, series: &[(String, f64)]| {
        if series.is_empty() {
            return;
        }
        text.push_str(&format!("# TYPE {name} gauge\n"));
        if !unit.is_empty() {
            text.push_str(&format!("# UNIT {name} {unit}\n"));
        }
        text.push_str(&format!("# HELP {name} {help}\n"));
        for (labels, value) in series {
            text.push_str(&format!("{name}{labels} {}\n", number(*value)));
        }
    };
    let decisions: Vec<(String, f64)> = DECISIONS
        .iter()
        .map(|one| {
            (labels(&[("decision", one.name())]), f64::from(u8::from(*one == report.decision)))
        })
        .collect();
    family(
        "busbw_check_decision",
        "",
        "The decision of the last check; 1 for the one that was made.",
        &decisions,
    );
    let passed: Vec<(String, f64)> =
        by_check(report, |verdicts| !verdicts.contains(&Verdict::Fail));
    family(
        "busbw_check_passed",
        "",
        "Whether a check found no fault; absent where it was waived or cannot tell.",
        &passed,
    );
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
    family("busbw_check_cannot_tell", "", "Whether a check could not tell.", &told);
    let mut faults: BTreeMap<String, f64> = BTreeMap::new();
    for line in report.lines.iter().filter(|line| line.blocks()) {
        let subject = line.subject.as_ref().map_or(String::new(), ToString::to_string);
        let key = labels(&[("check", line.check.name()), ("subject", &subject)]);
        *faults.entry(key).or_default() += 1.0;
    }
    let faults: Vec<(String, f64)> = faults.into_iter().collect();
    family(
        "busbw_check_faults",
        "",
        "Faults of a host, rank or link that were seen at least twice.",
        &faults,
    );
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
    family(
        "busbw_check_bandwidth_bytes_per_second",
        "bytes_per_second",
        "The bandwidth that a check measured.",
        &figure(false),
    );
    family(
        "busbw_check_wanted_bytes_per_second",
        "bytes_per_second",
        "The limit, the baseline or the normal level that it is held against.",
        &figure(true),
    );
    let alone = |value: f64| vec![(String::new(), value)];
    family("busbw_check_hosts", "", "Hosts that answered.", &alone(report.hosts.len() as f64));
    family(
        "busbw_check_duration_seconds",
        "seconds",
        "Seconds that the check took.",
        &alone(report.took_s),
    );
    family(
        "busbw_check_timestamp_seconds",
        "seconds",
        "When the check began, seconds since 1970.",
        &alone(report.started_unix as f64),
    );
    text.push_str("# EOF\n");
    text
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

fn number(value: f64) -> String {
    // A whole number needs no exponent, which some readers do not take.
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value:.0}")
    } else {
        format!("{value:.6}")
    }
}

/// `{check="pairs",subject="a"}`. Labels without a value are left out, as an empty label is no label.
fn labels(all: &[(&str, &str)]) -> String {
    let all: Vec<String> = all
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for letter in value.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other if other.is_control() => out.push('?'),
            other => out.push(other),
        }
    }
    out
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
