//! A machine that is not the one of the run, and mistakes in its file.
//! Not figures that disagree with the number of ranks (`agreement`).

use busbw_core::finding::{Confidence, Finding, Severity};

use super::super::context::Context;

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = context.mistakes.iter().map(mistake).collect();
    let Some(known) = context.machine.as_ref().filter(|known| !known.contradictions.is_empty())
    else {
        return findings;
    };
    let limit = match context.ceiling {
        Some(_) => "; limit and percent belong to another machine",
        None => "",
    };
    findings.push(
        Finding::new(
            "machine-disagrees",
            Severity::Error,
            format!("{}{limit}", known.contradictions.join("; ")),
        )
        .confidence(Confidence::Certain)
        .evidence("the run's own list of devices, against --machine and --nodes")
        .remedy("give the machine that the run used, or leave --machine out")
        .confirm("nvidia-smi -L on one of its hosts"),
    );
    findings
}

/// A mistake is one of the file, not of the run.
fn mistake(found: &Finding) -> Finding {
    let cause = format!("{}: {}", found.subject, found.cause);
    let subject = String::new();
    Finding {
        cause,
        subject,
        severity: Severity::Note,
        confidence: Some(Confidence::Certain),
        ..found.clone()
    }
}
