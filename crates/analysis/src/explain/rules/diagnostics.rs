//! NCCL's own diagnostics reports in a log: what they found, and what they leave out: the limit, the pair, the remedy.
//! Not how the lines are read (`busbw_library_logs::nccl`), and not measurements of busbw.
//!
//! Source: NCCL user guide, "Diagnostics" and "RAS Diagnostics": a report never fails a job, and holds ranks against their
//! median only.

mod nics;
mod pairs;
mod states;

use busbw_core::{
    finding::{Finding, Severity},
    quantity::{count, list},
};
use busbw_library_logs::nccl::{DiagnosticResult, DiagnosticsKind, DiagnosticsReport};

use super::super::context::Context;

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let results = results(context);
    if results.is_empty() {
        return Vec::new();
    }
    let mut findings = pairs::check(&results);
    findings.extend(nics::check(context, &results));
    findings.extend(states::check(&results));
    findings
}

/// The results of all reports, each once, though several processes or communicators may print the same.
fn results<'a>(context: &Context<'a>) -> Vec<&'a DiagnosticResult> {
    let all = context.facts().filter_map(|facts| facts.diagnostics.as_ref());
    let mut found: Vec<&DiagnosticResult> = Vec::new();
    for one in all.flat_map(|report| &report.results).map(|counted| &counted.what) {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

fn reports<'a>(context: &Context<'a>) -> impl Iterator<Item = &'a DiagnosticsReport> {
    context.facts().filter_map(|facts| facts.diagnostics.as_ref()).flat_map(|all| &all.reports)
}

/// Whether the reports show a healthy machine: `Some(false)` where something costs speed or moves wrong data; none where they
/// measured nothing that has a known limit.
pub(super) fn healthy(context: &Context<'_>) -> Option<bool> {
    let results = results(context);
    let lost = check(context).iter().any(|finding| finding.severity >= Severity::Slow);
    if lost {
        return Some(false);
    }
    let reviewed = results.iter().all(|one| one.ok);
    nics::within_limit(context, &results).filter(|_| reviewed)
}

/// What the NICs attained, with its share of the limit.
pub(super) fn bandwidths(context: &Context<'_>) -> Vec<String> {
    let levels = nics::check(context, &results(context));
    let known = levels.into_iter().filter(|finding| finding.severity == Severity::Note);
    known.map(|finding| finding.cause).collect()
}

/// What a log says that has nothing but such reports; none without one.
pub(super) fn sentence(context: &Context<'_>) -> Option<String> {
    let results = results(context);
    let kinds: Vec<&str> = [(DiagnosticsKind::Active, "active"), (DiagnosticsKind::Ras, "RAS")]
        .into_iter()
        .filter(|(kind, _)| reports(context).any(|report| report.kind == *kind))
        .map(|(_, name)| name)
        .collect();
    if results.is_empty() && kinds.is_empty() {
        return None;
    }
    let mut checks: Vec<&str> = results.iter().map(|one| one.check.as_str()).collect();
    checks.sort_unstable();
    checks.dedup();
    let of = if kinds.is_empty() { String::new() } else { format!(" ({})", list(&kinds, "and")) };
    let ranks = reports(context).filter_map(|report| report.participants).max();
    let ranks = ranks.map_or(String::new(), |ranks| format!(" on {}", count(ranks, "rank")));
    let review = results.iter().filter(|one| !one.ok).count() as u64;
    let verdict = match review {
        0 => "NCCL calls all of them OK".to_owned(),
        lines => format!("{} may need review", count(lines, "line")),
    };
    let begun: u64 = reports(context).map(|report| report.begun).sum();
    let completed: u64 = reports(context).map(|report| report.completed).sum();
    let cut = if completed < begun { "; a report has no end" } else { "" };
    let number = count(checks.len() as u64, "check");
    Some(format!("NCCL's own diagnostics{of}: {number}{ranks}, {verdict}{cut}"))
}
