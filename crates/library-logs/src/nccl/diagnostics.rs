//! NCCL's own diagnostics reports (2.31 on): lines `NCCL DIAG …` of NCCL_RUN_DIAGNOSTICS and of RAS.
//! Not what they mean for a user, and not the limit that NCCL does not name (`busbw explain`).
//!
//! Formats: strings of libnccl 2.31.2 and 2.32.3; NCCL user guide, "Diagnostics" and "RAS Diagnostics".

mod fact;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use super::message::Origin;
use super::tally::{Counted, keep};
pub use fact::{DiagnosedGpu, DiagnosticFact};

/// The most distinct lines of reports that are kept.
const MAX_LINES: usize = 1024;

/// The diagnostics reports of a log.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Diagnostics {
    /// The reports by kind: each communicator's start prints one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<DiagnosticsReport>,
    /// Results, each once, in the order of their first mention.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<Counted<DiagnosticResult>>,
}

/// The reports of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiagnosticsReport {
    /// Who made them.
    pub kind: DiagnosticsKind,
    /// Headers.
    pub begun: u64,
    /// Lines of completion.
    pub completed: u64,
    /// The longest that one took, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_ms: Option<f64>,
    /// Ranks (of a report that was asked for, RAS peers: processes) of the largest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub participants: Option<u32>,
}

/// Who made a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiagnosticsKind {
    /// NCCL_RUN_DIAGNOSTICS=1: data was moved and compared.
    Active,
    /// NCCL_RUN_RAS_DIAGNOSTICS=1 or `ncclras -D`: states were compared.
    Ras,
}

/// A line with a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiagnosticResult {
    /// Whether NCCL calls it OK; without this it is `[INFO]`, which may need review.
    pub ok: bool,
    /// NCCL's name of the check, such as `p2p`, `net bw`, `ECC`.
    pub check: String,
    /// What follows the name of the check.
    pub text: String,
    /// The communicator's hash, hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm: Option<String>,
    /// The ranks that the line accuses, as NCCL lists them: `{2,3}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<String>,
    /// What it says in figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fact: Option<DiagnosticFact>,
    /// Host of the process that printed it; empty where the line has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
}

impl DiagnosticResult {
    /// The line as NCCL prints it, without its source.
    pub fn line(&self) -> String {
        let tag = if self.ok { "[OK]" } else { "[INFO]" };
        let check = if self.check.is_empty() { "" } else { ": " };
        format!("NCCL DIAG {tag} {}{check}{}", self.check, self.text)
    }
}

/// The reports read so far.
#[derive(Debug, Default)]
pub(super) struct DiagnosticsReader {
    reports: BTreeMap<DiagnosticsKind, DiagnosticsReport>,
    results: Vec<Counted<DiagnosticResult>>,
    /// Where a result is, by whether it is OK, its text with the check's name, and host.
    known: BTreeMap<(bool, String, String), usize>,
    left_out: u64,
}

impl DiagnosticsReader {
    /// Reads the text of a line; `None` where the report has no such line, or where its end may be missing.
    pub(super) fn read(&mut self, origin: Origin<'_>, text: &str, cut: bool) -> Option<()> {
        if let Some(kind) = header(text) {
            self.report(kind).begun += 1;
            return Some(());
        }
        if let Some((kind, ms, participants)) = completion(Cursor::new(text, cut)) {
            let report = self.report(kind);
            report.completed += 1;
            report.longest_ms = Some(report.longest_ms.map_or(ms, |longest| longest.max(ms)));
            report.participants = report.participants.max(Some(participants));
            return Some(());
        }
        // RAS is off: without brackets in 2.32.3.
        let (ok, text) = match text.strip_prefix("INFO RAS diagnostics skipped: ") {
            Some(_) => (false, text.strip_prefix("INFO ")?),
            None => match text.strip_prefix("[OK]") {
                Some(text) => (true, text),
                None => (false, text.strip_prefix("[INFO]")?),
            },
        };
        let text = text.trim();
        if cut || text.is_empty() {
            return None;
        }
        self.add(ok, text, origin.host);
        Some(())
    }

    fn report(&mut self, kind: DiagnosticsKind) -> &mut DiagnosticsReport {
        self.reports.entry(kind).or_insert(DiagnosticsReport {
            kind,
            begun: 0,
            completed: 0,
            longest_ms: None,
            participants: None,
        })
    }

    fn add(&mut self, ok: bool, text: &str, host: &str) {
        let key = (ok, keep(text), keep(host));
        if let Some(known) = self.known.get(&key).and_then(|at| self.results.get_mut(*at)) {
            known.said += 1;
            return;
        }
        if self.results.len() >= MAX_LINES {
            self.left_out += 1;
            return;
        }
        let (check, said) = check_of(text);
        let what = DiagnosticResult {
            ok,
            check: check.to_owned(),
            text: keep(said),
            comm: communicator(text),
            ranks: ranks(text),
            fact: fact::read(check, said),
            host: key.2.clone(),
        };
        self.known.insert(key, self.results.len());
        self.results.push(Counted { what, said: 1 });
    }

    /// The reports; `None` where the log has none.
    pub(super) fn finish(self, left_out: &mut u64) -> Option<Diagnostics> {
        *left_out += self.left_out;
        let found =
            Diagnostics { reports: self.reports.into_values().collect(), results: self.results };
        (found != Diagnostics::default()).then_some(found)
    }
}

fn header(text: &str) -> Option<DiagnosticsKind> {
    match text.trim_end() {
        "=== NCCL Diagnostics ===" => Some(DiagnosticsKind::Active),
        "=== RAS Diagnostics ===" => Some(DiagnosticsKind::Ras),
        _ => None,
    }
}

/// `NCCL diagnostics completed in 245.3 ms across 8 ranks`, `… across 8 RAS peers`.
fn completion(mut at: Cursor<'_>) -> Option<(DiagnosticsKind, f64, u32)> {
    let kind = match at.one_of(&["NCCL", "RAS"])? {
        "NCCL" => DiagnosticsKind::Active,
        _ => DiagnosticsKind::Ras,
    };
    at.literal(" diagnostics completed in ")?;
    let ms = at.decimal()?;
    at.literal(" ms across ")?;
    let participants = at.number()?;
    at.one_of(&[" ranks", " rank", " RAS peers", " RAS peer"])?;
    at.end()?;
    Some((kind, ms, participants))
}

/// The name of a line's check, and what follows it.
fn check_of(text: &str) -> (&str, &str) {
    // `Xid 79 detected 2 times on host …`.
    if text.starts_with("Xid ") || text.starts_with("SXid ") {
        return ("Xid/SXid", text);
    }
    if text.starts_with("rdma_topo check not usable") {
        return ("rdma_topo check", text);
    }
    match text.split_once(": ") {
        Some((check, said)) if !check.contains(['=', '(']) => (check, said),
        _ => ("", text),
    }
}

/// What follows `in comm 0x`.
fn communicator(text: &str) -> Option<String> {
    let (_, hash) = text.split_once(" in comm 0x")?;
    let digits = hash.bytes().take_while(u8::is_ascii_hexdigit).count();
    let hash = hash.get(..digits).filter(|hash| !hash.is_empty())?;
    Some(keep(&format!("0x{hash}")))
}

/// `{0,1,2,3}`, or `{0,1,...} (N=8)` where there are too many.
fn ranks(text: &str) -> Option<String> {
    let (_, listed) = text.split_once(" rank(s) {")?;
    let (inner, rest) = listed.split_once('}')?;
    let more = rest.strip_prefix(" (N=").and_then(|rest| rest.split_once(')'));
    let more = more.map_or(String::new(), |(number, _)| format!(" (N={number})"));
    Some(keep(&format!("{{{inner}}}{more}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> Diagnostics {
        let origin = Origin { host: "node042", pid: 12_345, device: None };
        let mut reader = DiagnosticsReader::default();
        for text in texts {
            assert!(reader.read(origin, text, false).is_some(), "{text}");
        }
        reader.finish(&mut 0).expect("there is a report")
    }

    #[test]
    fn a_report_of_ras() {
        let found = read(&[
            "=== RAS Diagnostics ===",
            "[OK]   GPU inventory: 8x NVIDIA H100 per node consistent across 8 ranks in comm 0x1234",
            "[INFO] GPU inventory: count mismatch across 4 ranks in comm 0x1234, rank(s) {2,3} differ from rank 0 (8)",
            "[INFO] ECC: uncorrected volatile errors on rank(s) {0,1,...} (N=9) (worst=2) across 16 ranks in comm 0x1234",
            "RAS diagnostics completed in 12.3 ms across 8 RAS peers",
            "RAS diagnostics completed in 2.3 ms across 4 ranks",
        ]);
        let [report] = &found.reports[..] else { panic!("{:?}", found.reports) };
        assert_eq!((report.kind, report.begun, report.completed), (DiagnosticsKind::Ras, 1, 2));
        assert_eq!((report.longest_ms, report.participants), (Some(12.3), Some(8)));
        let told: Vec<_> = found
            .results
            .iter()
            .map(|one| (one.what.ok, one.what.check.as_str(), one.what.ranks.as_deref()))
            .collect();
        let expected = [
            (true, "GPU inventory", None),
            (false, "GPU inventory", Some("{2,3}")),
            (false, "ECC", Some("{0,1,...} (N=9)")),
        ];
        assert_eq!(told, expected);
        assert_eq!(found.results[0].what.comm.as_deref(), Some("0x1234"));
        let line = "NCCL DIAG [OK] GPU inventory: 8x NVIDIA H100 per node consistent across 8 ranks in comm 0x1234";
        assert_eq!(found.results[0].what.line(), line);
        let json = serde_json::to_string(&found).expect("a report is JSON");
        assert_eq!(serde_json::from_str::<Diagnostics>(&json).expect("and back"), found);
    }

    #[test]
    fn lines_without_a_check_and_lines_that_come_again() {
        let found = read(&[
            "INFO RAS diagnostics skipped: NCCL_RAS_ENABLE=0",
            "[INFO] transport detect returned 3",
            "[INFO] transport detect returned 3",
            "[INFO] rdma_topo check not usable (needs root): E: Need access to the PCI VPD",
            "[INFO] Xid 79 detected 2 times on host gpu7. For the recommended response, see the NVIDIA Xid documentation: https://x",
        ]);
        let checks: Vec<_> =
            found.results.iter().map(|one| (one.what.check.as_str(), one.said)).collect();
        let expected =
            [("RAS diagnostics skipped", 1), ("", 2), ("rdma_topo check", 1), ("Xid/SXid", 1)];
        assert_eq!(checks, expected);
        assert!(found.reports.is_empty());
    }

    #[test]
    fn other_words_and_cut_lines_are_not_read() {
        let origin = Origin { host: "n", pid: 1, device: None };
        let mut reader = DiagnosticsReader::default();
        for (text, cut) in [
            ("[OK]", false),
            ("=== Other ===", false),
            ("RAS diagnostics completed in 2.3 ms", false),
            ("RAS diagnostics completed in 2.3 ms across 8n", true),
            ("[OK]   p2p: verified P2P acc", true),
        ] {
            assert_eq!(reader.read(origin, text, cut), None, "{text}");
        }
        assert_eq!(reader.finish(&mut 0), None);
    }
}
