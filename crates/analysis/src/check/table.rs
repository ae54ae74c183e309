//! A check as text for people: one line a check or fault.
//! Not the decision, which is data by then.

use busbw_core::{columns::aligned, printable::printable};

use super::report::{CheckReport, Decision, Verdict};

/// The table, with a head and the decision at its end.
pub fn table(report: &CheckReport, colour: bool) -> String {
    let ranks = report.ranks.map_or(String::new(), |ranks| format!(", {ranks} ranks"));
    let hosts = match report.hosts.len() {
        0 => "no host answered".to_owned(),
        1..=8 => format!("on {}", report.hosts.join(", ")),
        all => format!("on {all} hosts, {} to {}", report.hosts[0], report.hosts[all - 1]),
    };
    let mut text =
        printable(&format!("# busbw {} check {hosts}{ranks}", report.busbw)).into_owned();
    text.push('\n');
    let mut cells = vec![["check", "verdict", "who", "took"].map(str::to_owned).to_vec()];
    for line in &report.lines {
        let who = line.subject.as_ref().map_or("-".to_owned(), ToString::to_string);
        let took = if line.took_s > 0.0 { format!("{:.1} s", line.took_s) } else { "-".to_owned() };
        cells.push(vec![
            line.check.name().to_owned(),
            line.verdict.name().to_owned(),
            printable(&who).into_owned(),
            took,
        ]);
    }
    let table = aligned(&cells);
    let mut rows = table.lines();
    let head = rows.next().unwrap_or_default();
    text.push_str(&format!("{head}  what\n"));
    for (row, line) in rows.zip(&report.lines) {
        let row = match (colour, line.verdict) {
            (true, Verdict::Fail) => format!("\x1b[31m{row}\x1b[0m"),
            (true, Verdict::Pass) => format!("\x1b[32m{row}\x1b[0m"),
            (true, Verdict::CannotTell) => format!("\x1b[33m{row}\x1b[0m"),
            _ => row.to_owned(),
        };
        text.push_str(&format!("{row}  {}\n", printable(&line.text)));
        if line.blocks() {
            for (name, advice) in [("remedy", &line.remedy), ("confirm", &line.confirm)] {
                if let Some(advice) = advice {
                    text.push_str(&format!("#   {name}: {}\n", printable(advice)));
                }
            }
        }
    }
    let within = match report.took_s <= report.within_s {
        true => "within",
        false => "of allowed",
    };
    let conclusion = conclusion(report);
    text.push_str(&format!(
        "# {}; {:.0} s {within} {:.0} s\n",
        printable(&conclusion),
        report.took_s,
        report.within_s
    ));
    text
}

/// The decision in one sentence.
pub fn conclusion(report: &CheckReport) -> String {
    let reason = &report.reason;
    match report.decision {
        Decision::Pass => format!("fit: {reason}"),
        Decision::LetThrough => {
            format!("cannot tell, and the job may start: {reason}")
        }
        Decision::Blocked => format!("not fit: {reason}"),
        Decision::BlockedUntold => {
            format!("cannot tell, and the job must not start (--fail-closed): {reason}")
        }
        Decision::Interrupted => format!("interrupted: {reason}"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::check::report::{Check, CheckLine, Figure, SCHEMA, Subject};

    /// A check with a line of each verdict, and text that each form must escape.
    pub(in crate::check) fn example() -> CheckReport {
        let figure = Figure {
            value: 40.0,
            unit: "GB/s".to_owned(),
            size: Some(8 << 20),
            wanted: Some(50.0),
        };
        let lines = vec![
            CheckLine {
                took_s: 2.5,
                ..CheckLine::new(Check::Doctor, Verdict::Pass, "4 hosts: no fault")
            },
            CheckLine::fault(Check::Settings, 2, "MTU 1500 where 3 others have 9000")
                .of(Some(Subject::host("c")))
                .advice(Some("make it the same".to_owned()), Some("ip link".to_owned())),
            CheckLine::new(Check::Collective, Verdict::Waived, "left out by --only"),
            CheckLine::fault(Check::Pairs, 1, "a <b> & \"c\"\\\u{1b}[31m\nnew line")
                .of(Some(Subject::Link {
                    from: "a gpu 1".into(),
                    to: "b gpu 2".into(),
                    both: false,
                }))
                .figure(Some(figure)),
        ];
        CheckReport {
            check_schema: SCHEMA,
            busbw: "0.1.0".to_owned(),
            started: "2026-11-25 02:00:00".to_owned(),
            started_unix: 1_795_572_000,
            args: ["busbw", "check"].map(str::to_owned).to_vec(),
            hosts: ["a", "b", "c", "d"].map(str::to_owned).to_vec(),
            ranks: Some(4),
            within_s: 60.0,
            took_s: 31.4,
            lines,
            decision: Decision::Blocked,
            reason: "settings: c: MTU 1500 where 3 others have 9000".to_owned(),
        }
    }

    #[test]
    fn reads_line_by_line() {
        let text = table(&example(), false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "# busbw 0.1.0 check on a, b, c, d, 4 ranks");
        assert!(lines[1].ends_with("took  what"), "{text}");
        assert!(lines[3].contains("settings") && lines[3].contains("MTU 1500"), "{text}");
        assert_eq!(lines[4], "#   remedy: make it the same");
        assert!(lines.iter().any(|line| line.contains("a gpu 1 -> b gpu 2")), "{text}");
        assert_eq!(
            *lines.last().unwrap(),
            "# not fit: settings: c: MTU 1500 where 3 others have 9000; 31 s within 60 s"
        );
        assert!(!text.contains('\x1b') && lines.len() == 9, "{text}");
        assert!(table(&example(), true).contains("\x1b[31m"));
    }

    #[test]
    fn json_comes_back_as_it_was() {
        let json = serde_json::to_string(&example()).unwrap();
        assert_eq!(serde_json::from_str::<CheckReport>(&json).unwrap(), example(), "{json}");
    }
}
