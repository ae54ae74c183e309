//! An explanation as text for people.
//! Not the JSON, which is the data as it is.

use std::io::{self, Write};

use super::{
    Culprit, Explanation,
    finding::{Weight, bytes, percent, rate, time},
    limit::Basis,
    rules::names,
};

/// Width at which lines are broken.
const WIDTH: usize = 100;

/// Prints an explanation.
///
/// # Errors
/// When `out` cannot be written.
pub fn print(out: &mut impl Write, told: &Explanation, colour: bool) -> io::Result<()> {
    let bold = |text: &str| if colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() };
    let line =
        if told.source.line > 1 { format!(", line {}", told.source.line) } else { String::new() };
    writeln!(out, "{}", bold(&format!("{}{line}: {}", told.source.name, told.subject)))?;
    if let Some(measured) = &told.measured {
        let figure = match (measured.busbw, measured.time_us) {
            (Some(busbw), _) => both(busbw),
            (None, Some(us)) => time(us),
            (None, None) => "-".to_owned(),
        };
        let peak = measured.peak.map_or(String::new(), |(size, speed)| {
            format!("; best {} at {}", rate(speed), bytes(size))
        });
        field(out, "measured", &format!("{figure} at {}{peak}", bytes(measured.size)))?;
    }
    let unknown = "unknown";
    match &told.limit {
        Some(limit) => {
            let by = match limit.basis {
                Basis::Said => format!("{}, as NCCL says", limit.algorithm.name()),
                Basis::OnlyExplanation if limit.explained_by.is_empty() => {
                    limit.algorithm.name().to_owned()
                }
                Basis::OnlyExplanation => names(&limit.explained_by),
                Basis::LowestBound => format!("if {} ran", limit.algorithm.name()),
            };
            let line = if limit.figure == "payload" {
                format!(", line {}", rate(limit.line))
            } else {
                String::new()
            };
            let expects = limit
                .nccl_expects
                .map_or(String::new(), |expects| format!("; NCCL expects {}", rate(expects)));
            field(
                out,
                "limit",
                &format!("{} {}{line} ({by}){expects}", both(limit.busbw), limit.figure),
            )?;
        }
        None => field(out, "limit", unknown)?,
    }
    field(
        out,
        "percent",
        &told.percent.map_or(unknown.to_owned(), |value| format!("{} %", percent(value))),
    )?;
    field(out, "culprit", &culprit(&told.culprit))?;
    writeln!(out)?;
    wrapped(out, "  ", &told.sentence)?;
    for finding in &told.findings {
        writeln!(out)?;
        let mark = match finding.weight {
            Weight::Wrong => {
                if colour {
                    "\x1b[31mwrong\x1b[0m"
                } else {
                    "wrong"
                }
            }
            Weight::Slow => {
                if colour {
                    "\x1b[33mslow\x1b[0m"
                } else {
                    "slow"
                }
            }
            Weight::Note => "note",
        };
        wrapped(out, "  ", &format!("{mark}: {} ({})", finding.cause, finding.confidence.name()))?;
        for evidence in &finding.evidence {
            wrapped(out, "        ", &format!("seen: {evidence}"))?;
        }
        if let Some(remedy) = &finding.remedy {
            wrapped(out, "        ", &format!("do: {remedy}"))?;
        }
        if let Some(confirm) = &finding.confirm {
            wrapped(out, "        ", &format!("confirm: {confirm}"))?;
        }
    }
    for (name, facts) in [
        ("assumed", &told.assumed),
        ("not known, and could only lower the limit", &told.unchecked),
        ("missing", &told.missing),
    ] {
        if !facts.is_empty() {
            writeln!(out)?;
            wrapped(out, "  ", &format!("{name}: {}", facts.join("; ")))?;
        }
    }
    Ok(())
}

fn field(out: &mut impl Write, name: &str, text: &str) -> io::Result<()> {
    writeln!(out, "  {name:<9} {text}")
}

fn both(speed: f64) -> String {
    format!("{} GB/s ({:.0} Gb/s)", rate(speed), speed * 8.0)
}

fn culprit(culprit: &Culprit) -> String {
    match culprit {
        Culprit::Resource { resource } => resource.name().to_owned(),
        Culprit::NotTheHardware { considered } => {
            let names: Vec<&str> = considered.iter().map(|resource| resource.name()).collect();
            match names.as_slice() {
                [only] => format!("not {only}"),
                all => format!("neither {}", all.join(" nor ")),
            }
        }
        Culprit::Software => "software".to_owned(),
        Culprit::AboveLimit => "none: it is above the limit".to_owned(),
        Culprit::Unknown { .. } => "unknown".to_owned(),
    }
}

/// Breaks a text into lines; those after the first are indented by two more.
fn wrapped(out: &mut impl Write, indent: &str, text: &str) -> io::Result<()> {
    let mut line = indent.to_owned();
    let mut empty = true;
    for word in text.split(' ') {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(out, "{line}")?;
            line = format!("{indent}  ");
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    writeln!(out, "{line}")
}
