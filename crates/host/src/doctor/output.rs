//! All findings of a node, as text and as JSON. Not the checks, and not the text of one finding.

use std::io::{self, Write};

use busbw_core::{
    finding::{Finding, Severity},
    quantity::count,
};
use busbw_render::findings;
use serde::{Deserialize, Serialize};

/// Version of the JSON.
const SCHEMA: u32 = 2;

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
    pub severity: Severity,
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
            severity: findings.iter().map(|f| f.severity).max().unwrap_or(Severity::Fine),
            findings,
        }
    }

    /// Prints the findings as text, by topic; subjects with equal findings share an entry.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn print(&self, out: &mut impl Write, colour: bool) -> io::Result<()> {
        writeln!(out, "# busbw {} doctor on {}", self.busbw, self.host)?;
        for topic in self.findings.chunk_by(|a, b| a.rule == b.rule) {
            writeln!(out, "{}", topic.first().map_or("", |first| &first.rule))?;
            findings(out, topic, colour)?;
        }
        writeln!(out, "# {}", self.summary())
    }

    fn summary(&self) -> String {
        let number = |severity| self.findings.iter().filter(|f| f.severity == severity).count();
        let ranks = self.ranks.map_or_else(String::new, |n| format!("{n} ranks compared; "));
        let verdict = if self.severity.is_wrong() { "not fit" } else { "nothing wrong found" };
        let errors = count(number(Severity::Error) as u64, "error");
        let (slow, unknown) = (number(Severity::Slow), number(Severity::Unknown));
        format!("{ranks}{verdict}: {errors}, {slow} slow, {unknown} unknown")
    }
}
