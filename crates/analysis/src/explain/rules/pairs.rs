//! Who is slower than the others in a matrix of pairs, as its verdict says.
//! Not the verdict's making (`busbw_core::pairs`).

use super::super::{
    context::Context,
    finding::{Confidence, Finding, Severity},
};
use busbw_core::quantity::bytes;

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for matrix in &context.run.pairs {
        let Some(verdict) = &matrix.verdict else { continue };
        let what =
            format!("{} of {}", matrix.what.as_deref().unwrap_or("pairs"), bytes(matrix.size));
        for found in &verdict.findings {
            let chance = 100.0 * (1.0 - found.confidence);
            let by_chance = format!("found by chance in {chance:.2} of 100 healthy machines");
            findings.push(
                Finding::new(
                    "slow-pairs",
                    Severity::Slow,
                    Confidence::Likely,
                    verdict.sentence(found, &matrix.labels).to_string(),
                )
                .evidence(format!("{what}, slow in both passes; {by_chance}"))
                .remedy("check its links (busbw topo), its processes and its clocks; swap the hardware and see what stays slow")
                .confirm("run busbw pairs again: a fault stays with the same hardware in every launch"),
            );
        }
        if verdict.findings.is_empty() {
            let sentences = verdict.sentences(&matrix.labels);
            let mut finding = Finding::new(
                "even-pairs",
                Severity::Note,
                Confidence::Certain,
                format!("{what}: {}", sentences.join("; ")),
            );
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
