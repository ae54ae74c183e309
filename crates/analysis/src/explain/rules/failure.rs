//! A run that failed, or has no row.
//! Not wrong results (`wrong`).

use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_logs::measurement::Measurement;

use super::super::context::Context;

/// Whether a test prints rows at all: OSU's start-up tests print none, and plugin statistics are no test.
fn has_rows(run: &Measurement) -> bool {
    let name = run.test.name.as_deref().unwrap_or_default();
    let none = ["Hello World", "MPI_Init", "MPI Init"].iter().any(|one| name.contains(one));
    !none && run.source.form.facts().benchmark
}

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let run = context.run;
    let mut findings = Vec::new();
    if let [first, ..] = run.errors.as_slice() {
        let cause = if run.rows.is_empty() {
            "the run failed before its first row"
        } else {
            "the run failed; the rows are those measured before the failure"
        };
        let mut finding = Finding::new("failure", Severity::Error, cause)
            .confidence(Confidence::Certain)
            .remedy("read the first message: the others follow from it")
            .confirm(if context.by_nccl() {
                "the same command with NCCL_DEBUG=INFO"
            } else {
                "the same command, and its stderr"
            });
        for error in run.errors.iter().take(3) {
            finding = finding.evidence(error.clone());
        }
        if first.contains("busy or unavailable") {
            finding = finding.remedy("another process holds the GPU, or it is in exclusive mode");
        }
        findings.push(finding);
    } else if run.rows.is_empty() && run.library.is_empty() && has_rows(run) {
        findings.push(
            Finding::new(
                "failure",
                Severity::Error,
                "the run has a header and no row: it was cut off, or it hung",
            )
            .confidence(Confidence::Certain)
            .confirm(if context.by_nccl() {
                "the same command with NCCL_DEBUG=INFO, and its stderr"
            } else {
                "the same command, and its stderr"
            }),
        );
    }
    for facts in context.facts() {
        for warning in facts.warnings.iter().take(2) {
            findings.push(
                Finding::new("nccl-warning", Severity::Slow, "NCCL printed a warning")
                    .confidence(Confidence::Certain)
                    .evidence(warning.what.text.clone()),
            );
        }
    }
    findings.truncate(4);
    findings
}
