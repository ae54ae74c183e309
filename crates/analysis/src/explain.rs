//! What a measurement says: how fast, how fast the hardware allows, what sets that, and what else
//! stands out. Findings are data; the sentences are made from them.
//! Not how logs are read (`import`), and not the limits themselves (`busbw_hardware::limits`).
//!
//! Nothing is claimed that the data does not carry: an algorithm is named only where NCCL's own lines
//! name it, otherwise only which ones a result excludes; what is missing is listed.

mod choice;
mod context;
mod finding;
mod gather;
mod hardware;
mod limit;
mod placement;
mod print;
mod rules;
mod sentence;

use busbw_hardware::limits::{Standing, Verdict};
use busbw_logs::measurement::{Measurement, Source};
use serde::Serialize;

pub use choice::{Basis, Choice};
pub use context::Measured;
pub use finding::{Confidence, Finding, Weight};
pub use hardware::Hardware;
pub use limit::{Ceiling, Part};
pub use print::{print, print_all};

use context::Context;

/// The explanation of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// Where it was read.
    pub source: Source,
    /// What was run, in a few words.
    pub subject: String,
    /// What was measured; none where there is no figure.
    pub measured: Option<Measured>,
    /// What the hardware allows; none where it cannot be told.
    pub limit: Option<Ceiling>,
    /// Measured over limit, percent.
    pub percent: Option<f64>,
    /// How far that is from the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
    /// What sets the pace.
    pub culprit: Verdict,
    /// The sentence a colleague would say.
    pub sentence: String,
    /// What was taken for granted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
    /// What is not known and would tell more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// What is not known and could only lower the limit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<String>,
    /// What stands out, the gravest first.
    pub findings: Vec<Finding>,
}

/// Explains runs that belong together. NCCL's lines in a source without a table belong to the table
/// where there is only one.
pub fn explain(runs: Vec<Measurement>, hardware: &Hardware) -> Vec<Explanation> {
    explained(runs, hardware).1
}

/// The same with the runs that are explained, in the same order: some were joined.
pub fn explained(
    mut runs: Vec<Measurement>,
    hardware: &Hardware,
) -> (Vec<Measurement>, Vec<Explanation>) {
    gather::gather(&mut runs);
    let contexts: Vec<Context<'_>> =
        runs.iter().map(|run| Context::new(run, hardware, &runs)).collect();
    let told = contexts.iter().map(explain_one).collect();
    drop(contexts);
    (runs, told)
}

fn explain_one(context: &Context<'_>) -> Explanation {
    let mut findings = rules::all(context);
    findings.sort_by_key(|finding| finding.weight);
    let mut missing = context.missing();
    missing.sort();
    missing.dedup();
    Explanation {
        source: context.run.source.clone(),
        subject: context.subject(),
        measured: context.measured.clone(),
        limit: context.ceiling.clone(),
        percent: context.judgement.percent,
        standing: context.judgement.standing,
        culprit: context.judgement.verdict.clone(),
        sentence: sentence::sentence(context, &findings),
        assumed: context.assumed(),
        missing,
        unchecked: context.ceiling.as_ref().map_or(Vec::new(), |one| one.unchecked.clone()),
        findings,
    }
}
