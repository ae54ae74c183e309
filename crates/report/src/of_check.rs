//! Converts the result of a check into the data of the page.
//! Not what follows from its lines (`busbw_analysis::check`).

use busbw_analysis::check::{Check, CheckLine, CheckReport, Decision, Verdict, conclusion};
use busbw_core::{
    quantity::{bytes, rate},
    shell::line,
};

use crate::{
    data::{Answer, Checked, CheckedLine, Level, Remedy},
    summary,
};

/// The data of a check; with a number where there are several.
pub(super) fn checks(reports: &[CheckReport]) -> Vec<Checked> {
    let title = |number: usize| match reports.len() {
        1 => "Check".to_owned(),
        _ => format!("Check {}", number + 1),
    };
    reports.iter().enumerate().map(|(number, report)| check(&title(number), report)).collect()
}

fn check(title: &str, report: &CheckReport) -> Checked {
    let within = if report.took_s <= report.within_s { "within" } else { "of allowed" };
    Checked {
        title: title.to_owned(),
        subject: format!(
            "{}, begun {}; {:.0} s {within} {:.0} s",
            summary::of_check(report),
            report.started,
            report.took_s,
            report.within_s
        ),
        sentence: summary::sentence(&conclusion(report)),
        answer: answer(title, report),
        hosts: report.hosts.clone(),
        lines: report.lines.iter().map(checked).collect(),
        invocation: line(report.args.iter().map(String::as_str)),
    }
}

fn checked(line: &CheckLine) -> CheckedLine {
    CheckedLine {
        kind: line.check.name().to_owned(),
        level: match line.verdict {
            Verdict::Pass => Level::Good,
            Verdict::Fail => Level::Bad,
            Verdict::CannotTell => Level::Unknown,
            Verdict::Waived => Level::Note,
        },
        status: line.verdict.name().to_owned(),
        who: line.subject.as_ref().map(ToString::to_string),
        text: line.text.clone(),
        measured: line.measured,
        took_s: line.took_s,
        remedy: line.remedy.as_deref().map(summary::sentence),
        confirm: line.confirm.clone(),
    }
}

/// The first screen: the decision, the figure of the collective, and what to do about the first fault.
fn answer(title: &str, report: &CheckReport) -> Answer {
    let (level, word) = match report.decision {
        Decision::Pass => (Level::Good, "Fit"),
        Decision::LetThrough => (Level::Unknown, "Cannot tell; the job may start"),
        Decision::Blocked => (Level::Bad, "Not fit"),
        Decision::BlockedUntold => (Level::Bad, "Cannot tell; the job must not start"),
        Decision::Interrupted => (Level::Unknown, "Interrupted"),
    };
    // The share of the limit tells more than the figure alone.
    let of = |check: Check| {
        let line = report.lines.iter().find(|line| line.check == check && line.figure.is_some());
        line.and_then(|line| line.figure.as_ref())
    };
    let limit = of(Check::Limit).filter(|figure| figure.wanted.is_some_and(|all| all > 0.0));
    let figure = limit.or_else(|| of(Check::Collective)).filter(|figure| figure.unit == "GB/s");
    Answer {
        level,
        word: word.to_owned(),
        about: title.to_owned(),
        figure: figure.map(|figure| rate(figure.value)),
        unit: figure.map(|figure| figure.unit.clone()),
        at: figure.and_then(|figure| Some(format!("collective at {}", bytes(figure.size?)))),
        percent: limit.and_then(|figure| Some(figure.value / figure.wanted? * 100.0)),
        whole: limit
            .and_then(|figure| Some(format!("of the limit, {} GB/s", rate(figure.wanted?)))),
        sentence: summary::sentence(&conclusion(report)),
        last: None,
        remedy: Some(remedy(report)),
    }
}

fn remedy(report: &CheckReport) -> Remedy {
    let told = |text: &str, command: Option<&String>| Remedy {
        text: text.to_owned(),
        command: command.cloned(),
    };
    let faults = || report.lines.iter().filter(|line| line.blocks());
    if let Some(line) = faults().find(|line| line.remedy.is_some()) {
        let text = line.remedy.as_deref().map(summary::sentence).unwrap_or_default();
        return told(&text, line.confirm.as_ref());
    }
    match report.decision {
        Decision::Pass => told("Nothing: start the job.", None),
        Decision::Blocked => {
            let line = faults().next();
            told(
                "Keep the job away from who is named.",
                line.and_then(|line| line.confirm.as_ref()),
            )
        }
        Decision::Interrupted => told("Run it again, and let it end.", None),
        Decision::LetThrough | Decision::BlockedUntold => told(
            "See the lines that cannot tell: each says why. Give it more time: --within.",
            None,
        ),
    }
}

#[cfg(test)]
mod tests {
    use busbw_analysis::check::{Figure, SCHEMA, Subject};

    use super::*;

    fn report(decision: Decision, lines: Vec<CheckLine>) -> CheckReport {
        CheckReport {
            check_schema: SCHEMA,
            busbw: "0.1.0".to_owned(),
            started: "2026-11-25 02:00:00".to_owned(),
            started_unix: 1_795_572_000,
            args: ["busbw", "check", "-H", "a:1,b:1"].map(str::to_owned).to_vec(),
            hosts: ["a", "b"].map(str::to_owned).to_vec(),
            ranks: Some(2),
            within_s: 60.0,
            took_s: 31.4,
            lines,
            decision,
            reason: "settings: b: MTU 1500 where a has 9000".to_owned(),
        }
    }

    #[test]
    fn a_fault_is_on_the_first_screen_with_its_remedy() {
        let figure = Figure {
            value: 40.0,
            unit: "GB/s".to_owned(),
            size: Some(8 << 20),
            wanted: Some(50.0),
        };
        let lines = vec![
            CheckLine::new(Check::Doctor, Verdict::Pass, "2 hosts: no fault"),
            CheckLine::new(Check::Limit, Verdict::Pass, "80 %").figure(Some(figure)),
            CheckLine::fault(Check::Settings, 2, "MTU 1500 where a has 9000")
                .of(Some(Subject::host("b")))
                .advice(Some("make it the same".to_owned()), Some("ip link".to_owned())),
            CheckLine::fault(Check::Pairs, 1, "seen once"),
            CheckLine::new(Check::Transports, Verdict::Waived, "left out"),
        ];
        let [one]: [Checked; 1] = checks(&[report(Decision::Blocked, lines)]).try_into().unwrap();
        let Checked { answer, lines, .. } = one;
        assert_eq!((answer.level, answer.word.as_str()), (Level::Bad, "Not fit"));
        assert_eq!((answer.figure.as_deref(), answer.percent), (Some("40.00"), Some(80.0)));
        assert_eq!(answer.sentence, "Not fit: settings: b: MTU 1500 where a has 9000.");
        let remedy = answer.remedy.unwrap();
        assert_eq!(
            (remedy.text.as_str(), remedy.command.as_deref()),
            ("Make it the same.", Some("ip link"))
        );
        let told: Vec<(&str, &str, Option<&str>)> = lines
            .iter()
            .map(|line| (line.kind.as_str(), line.status.as_str(), line.who.as_deref()))
            .collect();
        assert_eq!(
            told,
            [
                ("doctor", "pass", None),
                ("limit", "pass", None),
                ("settings", "fail", Some("b")),
                ("pairs", "cannot tell", None),
                ("transports", "waived", None),
            ]
        );
        assert_eq!(one.subject, "2 hosts, 2 ranks, begun 2026-11-25 02:00:00; 31 s within 60 s");
    }

    /// Only what must not start is red.
    #[test]
    fn the_colour_is_that_of_the_exit_code() {
        for decision in [
            Decision::Pass,
            Decision::LetThrough,
            Decision::Blocked,
            Decision::BlockedUntold,
            Decision::Interrupted,
        ] {
            let level = answer("Check", &report(decision, Vec::new())).level;
            let is_red = !decision.lets_start() && decision != Decision::Interrupted;
            assert_eq!(level == Level::Bad, is_red, "{decision:?}");
            assert_eq!(level == Level::Good, decision == Decision::Pass, "{decision:?}");
        }
    }
}
