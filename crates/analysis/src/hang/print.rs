//! A verdict as text for people, and as Markdown.
//! Not its JSON, which is [`HangReport`] as it is.

use std::io::{self, Write};

use busbw_render::wrapped;

use super::{HangReport, Verdict};

/// The most pieces of evidence, remarks and missing facts that are printed without `-v`.
const MAX_LINES: usize = 4;

/// Prints a verdict; `all` of it, or what matters.
///
/// # Errors
/// `out` cannot be written.
pub fn print(out: &mut impl Write, report: &HangReport, all: bool, colour: bool) -> io::Result<()> {
    let (on, off) = match (colour, report.verdict) {
        (false, _) => ("", ""),
        (true, Verdict::Progressing | Verdict::NothingWaits | Verdict::Inconclusive) => {
            ("\x1b[1m", "\x1b[0m")
        }
        (true, _) => ("\x1b[1;31m", "\x1b[0m"),
    };
    let sure = report.confidence.map_or(String::new(), |sure| format!(" ({sure})"));
    writeln!(out, "{on}{}{off}{sure}: {}", report.verdict.name(), report.sentence)?;
    let most = if all { usize::MAX } else { MAX_LINES };
    if let (Some(name), Some(first)) = (&report.communicator, report.communicators.first()) {
        line(out, "in", &format!("{name}, by {}", first.source))?;
    }
    lines(out, "seen", &report.evidence, most)?;
    if all {
        for one in report.communicators.iter().skip(1) {
            let absent: Vec<String> =
                one.absent.iter().chain(&one.unknown).map(u32::to_string).collect();
            let text = format!(
                "{} number {} of {}: {} wait, not there: {}",
                one.call.operation,
                one.call.number,
                one.communicator,
                one.waiting,
                if absent.is_empty() { "nobody".to_owned() } else { absent.join(", ") }
            );
            line(out, "waits", &text)?;
        }
    }
    lines(out, "missing", &report.missing, most)?;
    lines(out, "note", &report.remarks, most)?;
    if let Some(remedy) = &report.remedy {
        line(out, "do", remedy)?;
    }
    match &report.confirm {
        // Not broken into lines: it is there to be copied.
        Some(confirm) => writeln!(out, "  next: {confirm}"),
        None => Ok(()),
    }
}

fn lines(out: &mut impl Write, name: &str, all: &[String], most: usize) -> io::Result<()> {
    for one in all.iter().take(most) {
        line(out, name, one)?;
    }
    match all.len().checked_sub(most).filter(|left| *left > 0) {
        Some(left) => writeln!(out, "  -v says more: {left} more of \"{name}\""),
        None => Ok(()),
    }
}

fn line(out: &mut impl Write, name: &str, text: &str) -> io::Result<()> {
    write!(out, "  {name}: ")?;
    wrapped(out, name.len() + 4, 4, text)
}

/// Prints a verdict as GitHub-flavoured Markdown. Names come from files: none of them becomes markup.
///
/// # Errors
/// `out` cannot be written.
pub fn print_markdown(out: &mut impl Write, report: &HangReport) -> io::Result<()> {
    let sure = report.confidence.map_or(String::new(), |sure| format!(" ({sure})"));
    writeln!(out, "**{}**{sure}: {}\n", report.verdict.name(), code(&report.sentence))?;
    let parts =
        [("seen", &report.evidence), ("missing", &report.missing), ("note", &report.remarks)];
    for (name, all) in parts {
        for one in all.iter().take(MAX_LINES) {
            writeln!(out, "- {name}: {}", code(one))?;
        }
    }
    for (name, one) in [("do", &report.remedy), ("next", &report.confirm)] {
        if let Some(one) = one {
            writeln!(out, "- {name}: {}", code(one))?;
        }
    }
    Ok(())
}

/// As code: a text with a backtick of its own ends in none.
fn code(text: &str) -> String {
    format!("`{}`", text.replace(['`', '\n', '\r'], "'"))
}
