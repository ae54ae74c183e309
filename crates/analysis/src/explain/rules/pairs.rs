//! Who is slower than the others in a matrix of pairs, as its verdict says.
//! Not the verdict's making (`busbw_core::pairs`).

use super::super::context::Context;
use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_core::quantity::bytes;

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for matrix in &context.run.pairs {
        let Some(verdict) = &matrix.verdict else { continue };
        let what =
            format!("{} of {}", matrix.what.as_deref().unwrap_or("pairs"), bytes(matrix.size));
        let in_both = |finding: Finding| finding.evidence(format!("{what}, slow in both passes"));
        findings.extend(verdict.findings(&matrix.labels).into_iter().map(in_both));
        if verdict.slow.is_empty() {
            let sentences = verdict.sentences(&matrix.labels);
            let mut finding = Finding::new(
                "even-pairs",
                Severity::Note,
                format!("{what}: {}", sentences.join("; ")),
            )
            .confidence(Confidence::Certain);
            if let Some(worst) = matrix.worst_first().first() {
                let (from, to) = (matrix.label(worst.from), matrix.label(worst.to));
                let unit = matrix.unit.name();
                finding = finding
                    .evidence(format!("the slowest, {from} to {to}: {:.2} {unit}", worst.value));
            }
            findings.push(finding);
        }
    }
    findings
}
