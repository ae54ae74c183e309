//! Findings as text, the same for every command that prints some.
//! Not their JSON, which is `busbw_core::finding::Finding` as it is.

use std::io::{self, Write};

use busbw_core::{
    finding::{Finding, Severity},
    printable::Printable,
    quantity::ranged,
};

/// Lines are broken at this many characters.
const LINE_WIDTH: usize = 100;
/// The column of the cause, behind the severity.
const CAUSE: usize = 11;

/// Prints findings: severity, subject and cause, and below them evidence, cost, remedy and the command
/// that confirms it. Subjects that differ in nothing else share an entry, unless they are places of a
/// text.
///
/// # Errors
/// `out` cannot be written.
pub fn findings(out: &mut impl Write, findings: &[Finding], colour: bool) -> io::Result<()> {
    groups(findings).iter().try_for_each(|group| entry(out, group, colour))
}

/// Groups findings that differ only in their subject, in the order of the first of each group.
fn groups(findings: &[Finding]) -> Vec<Vec<&Finding>> {
    let mut groups: Vec<Vec<&Finding>> = Vec::new();
    for finding in findings {
        let key = |f: &Finding| (f.rule.clone(), f.severity, f.cause.clone(), f.cost.clone());
        let alike = |group: &&mut Vec<&Finding>| {
            group.first().is_some_and(|first| {
                finding.place.is_none()
                    && key(first) == key(finding)
                    && first.subject != finding.subject
            })
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(finding),
            None => groups.push(vec![finding]),
        }
    }
    groups
}

fn entry(out: &mut impl Write, group: &[&Finding], colour: bool) -> io::Result<()> {
    let Some(first) = group.first() else { return Ok(()) };
    let subjects: Vec<&str> = group.iter().map(|finding| finding.subject.as_str()).collect();
    let subjects = match subjects.as_slice() {
        [""] => String::new(),
        [only] => format!("{only}: "),
        several => format!("{}: ", ranged(several)),
    };
    let confidence = first.confidence.map_or(String::new(), |sure| format!(" ({sure})"));
    let (on, off) = if colour { (paint(first.severity), "\x1b[0m") } else { ("", "") };
    write!(out, "  {on}{:<8}{off} ", first.severity)?;
    // What follows quotes files: a colour in it is theirs, not ours.
    let out = &mut Printable::new(out, false);
    wrapped(out, CAUSE, CAUSE, &format!("{subjects}{}{confidence}", first.cause))?;
    let more = |same: bool| if same { "" } else { " (the others likewise)" };
    let same = |get: fn(&Finding) -> &Option<String>| group.iter().all(|f| get(f) == get(first));
    let alike = more(group.iter().all(|finding| finding.evidence == first.evidence));
    for evidence in &first.evidence {
        detail(out, "evidence", &format!("{evidence}{alike}"))?;
    }
    if let Some(cost) = &first.cost {
        let each = if group.len() > 1 { " (each)" } else { "" };
        detail(out, "cost", &format!("{cost}{each}"))?;
    }
    if let Some(remedy) = &first.remedy {
        detail(out, "remedy", &format!("{remedy}{}", more(same(|f| &f.remedy))))?;
    }
    if let Some(confirm) = &first.confirm {
        // Not broken into lines: it is there to be copied.
        let more = more(same(|f| &f.confirm));
        writeln!(out, "{:CAUSE$}{:<8} {confirm}{more}", "", "confirm")?;
    }
    Ok(())
}

fn detail(out: &mut impl Write, label: &str, text: &str) -> io::Result<()> {
    write!(out, "{:CAUSE$}{label:<8} ", "")?;
    wrapped(out, CAUSE + 9, CAUSE + 9, text)
}

/// Writes a text in lines. The first goes on in column `start`, the others begin in column `indent`.
///
/// # Errors
/// `out` cannot be written.
pub fn wrapped(out: &mut impl Write, start: usize, indent: usize, text: &str) -> io::Result<()> {
    let (mut column, mut begun) = (start, false);
    for word in text.split(' ') {
        let width = word.chars().count();
        if begun && column + 1 + width > LINE_WIDTH {
            write!(out, "\n{:indent$}{word}", "")?;
            column = indent + width;
            continue;
        }
        let blank = if begun { " " } else { "" };
        write!(out, "{blank}{word}")?;
        column += blank.len() + width;
        begun = true;
    }
    writeln!(out)
}

const fn paint(severity: Severity) -> &'static str {
    match severity {
        Severity::Fine => "\x1b[32m",
        Severity::Absent | Severity::Note => "\x1b[2m",
        Severity::Unknown => "\x1b[36m",
        Severity::Warning | Severity::Slow => "\x1b[33m",
        Severity::Error => "\x1b[1;31m",
    }
}

#[cfg(test)]
mod tests {
    use busbw_core::finding::{Confidence, Place};

    use super::*;

    fn printed(all: &[Finding], colour: bool) -> String {
        let mut text = Vec::new();
        findings(&mut text, all, colour).unwrap();
        String::from_utf8(text).unwrap()
    }

    fn nic(name: &str) -> Finding {
        Finding::new("slot", Severity::Slow, "the slot is narrow")
            .subject(name)
            .evidence("PCIe 3.0 x8")
            .cost("4.6 GB/s one way")
            .remedy("move the card")
            .confirm(format!("lspci -s {name}"))
    }

    #[test]
    fn an_entry_has_everything_in_order() {
        let text = concat!(
            "  slow     mlx5_0: the slot is narrow (likely)\n",
            "           evidence PCIe 3.0 x8\n",
            "           cost     4.6 GB/s one way\n",
            "           remedy   move the card\n",
            "           confirm  lspci -s mlx5_0\n",
        );
        assert_eq!(printed(&[nic("mlx5_0").confidence(Confidence::Likely)], false), text);
        let painted = printed(&[nic("mlx5_0").confidence(Confidence::Likely)], true);
        assert_eq!(painted.replace("\x1b[33m", "").replace("\x1b[0m", ""), text);
        assert_ne!(painted, text);
    }

    #[test]
    fn equal_findings_share_an_entry() {
        let text = printed(&[nic("mlx5_0"), nic("mlx5_1"), nic("mlx5_3")], false);
        assert!(text.starts_with("  slow     mlx5_0-1, mlx5_3: the slot is narrow\n"), "{text}");
        assert!(text.contains("cost     4.6 GB/s one way (each)\n"), "{text}");
        assert!(text.ends_with("confirm  lspci -s mlx5_0 (the others likewise)\n"), "{text}");
        let other = nic("mlx5_1").cost("1 GB/s one way");
        assert_eq!(printed(&[nic("mlx5_0"), other], false).matches("slow").count(), 2);
    }

    #[test]
    fn places_of_a_text_keep_their_order() {
        let finding =
            |line| Finding::new("a", Severity::Error, "no").place(Place::at(Some(line), "NCCL_X"));
        assert_eq!(
            printed(&[finding(1), finding(2)], false),
            "  error    line 1: NCCL_X: no\n  error    line 2: NCCL_X: no\n"
        );
    }

    #[test]
    fn long_lines_are_broken_and_commands_are_not() {
        let words = "word ".repeat(30);
        let long = Finding::new("a", Severity::Note, words.trim())
            .evidence(words.trim())
            .confirm(words.trim());
        let text = printed(&[long], false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[..4].iter().all(|line| line.len() <= LINE_WIDTH), "{text}");
        assert!(lines[1].starts_with("           word") && lines[3].starts_with(&" ".repeat(20)));
    }
}
