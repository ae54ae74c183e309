//! The findings as text and as JSON. Not the checks.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::finding::{Finding, Verdict, ranged};

/// Version of the JSON.
const SCHEMA: u32 = 1;

/// All findings of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Version of the JSON.
    pub schema: u32,
    /// busbw's version.
    pub busbw: String,
    /// The node.
    pub host: String,
    /// Ranks that were compared; none without `-g`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<usize>,
    /// The worst of all findings.
    pub verdict: Verdict,
    /// The findings, by topic.
    pub findings: Vec<Finding>,
}

impl Report {
    /// A report on `host`.
    pub fn new(host: &str, ranks: Option<usize>, findings: Vec<Finding>) -> Report {
        Report {
            schema: SCHEMA,
            busbw: env!("CARGO_PKG_VERSION").to_owned(),
            host: host.to_owned(),
            ranks,
            verdict: findings.iter().map(|f| f.verdict).max().unwrap_or(Verdict::Fine),
            findings,
        }
    }

    /// Prints the findings as text; subjects with equal findings share a line.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn print(&self, out: &mut impl Write, colour: bool) -> io::Result<()> {
        writeln!(out, "# busbw {} doctor on {}", self.busbw, self.host)?;
        let mut topic = None;
        for group in self.groups() {
            let Some(first) = group.first() else { continue };
            if topic.replace(first.topic) != Some(first.topic) {
                writeln!(out, "{}", first.topic.name())?;
            }
            print_group(out, &group, first, colour)?;
        }
        writeln!(out, "# {}", self.summary())
    }

    /// Groups findings that differ only in their subject, in the order of the first of each group.
    fn groups(&self) -> Vec<Vec<&Finding>> {
        let mut groups: Vec<Vec<&Finding>> = Vec::new();
        for finding in &self.findings {
            let key = |f: &Finding| (f.topic, f.verdict, f.seen.clone(), f.cost.clone());
            let alike = |group: &&mut Vec<&Finding>| {
                group.first().is_some_and(|first| {
                    key(first) == key(finding) && first.subject != finding.subject
                })
            };
            match groups.iter_mut().find(alike) {
                Some(group) => group.push(finding),
                None => groups.push(vec![finding]),
            }
        }
        groups
    }

    fn summary(&self) -> String {
        let count = |verdict| self.findings.iter().filter(|f| f.verdict == verdict).count();
        let ranks = self.ranks.map_or_else(String::new, |n| format!("{n} ranks compared; "));
        let verdict = if self.verdict.is_wrong() { "not fit" } else { "nothing wrong found" };
        let (broken, slow, unknown) =
            (count(Verdict::Broken), count(Verdict::Slow), count(Verdict::Unknown));
        format!("{ranks}{verdict}: {broken} broken, {slow} slow, {unknown} unknown")
    }
}

fn print_group(
    out: &mut impl Write,
    group: &[&Finding],
    first: &Finding,
    colour: bool,
) -> io::Result<()> {
    let subjects: Vec<&str> = group.iter().map(|finding| finding.subject.as_str()).collect();
    let (name, subjects) = (first.verdict.name(), ranged(&subjects));
    let (on, off) = if colour { (paint(first.verdict), "\x1b[0m") } else { ("", "") };
    writeln!(out, "  {on}{name:<8}{off} {subjects}: {}", first.seen)?;
    let more = |same: bool| if same { "" } else { " (the others likewise)" };
    let same = |get: fn(&Finding) -> &Option<String>| group.iter().all(|f| get(f) == get(first));
    for (label, text, same) in [
        ("cost", &first.cost, true),
        ("remedy", &first.remedy, same(|f| &f.remedy)),
        ("confirm", &first.confirm, same(|f| &f.confirm)),
    ] {
        if let Some(text) = text {
            writeln!(out, "           {label:<8} {text}{}", more(same))?;
        }
    }
    Ok(())
}

const fn paint(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fine => "\x1b[32m",
        Verdict::Absent | Verdict::Note => "\x1b[2m",
        Verdict::Unknown => "\x1b[36m",
        Verdict::Slow => "\x1b[33m",
        Verdict::Broken => "\x1b[1;31m",
    }
}
