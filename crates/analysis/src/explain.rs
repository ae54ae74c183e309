//! What a measurement says: how fast, how fast the hardware allows, what sets that, and what else
//! stands out. Findings are data; the sentences are made from them.
//! Not how logs are read (`busbw_logs::import`), and not the limits themselves (`busbw_hardware::limits`).
//!
//! Every claim has evidence: an algorithm is named only where NCCL's log names it, otherwise only the
//! algorithms that the result excludes. Missing facts are listed.

mod attained;
mod brief;
mod choice;
mod context;
mod gather;
mod growth;
mod hardware;
mod hypotheses;
mod limit;
mod markdown;
mod page;
mod placement;
mod print;
mod rules;
mod sentence;
mod summary;
mod verdict;

use std::cmp::Reverse;

use busbw_core::finding::Finding;
use busbw_hardware::limits::{Bottleneck, Rating};
use busbw_logs::measurement::{Measurement, Source};
use serde::Serialize;

pub use attained::Attained;
pub use brief::{main_findings, print_briefly};
pub use choice::{Basis, Choice};
pub use context::Measured;
pub use hardware::Hardware;
pub use hypotheses::{Elsewhere, Hypotheses, Hypothesis};
pub use limit::{Ceiling, CrossedResource, RateKind};
pub use markdown::print_markdown;
pub use print::{print, print_all};
pub use summary::summary;
pub use verdict::Verdict;

use context::Context;

/// The version of the JSON that `busbw explain --json` prints, one object a line.
pub const SCHEMA: u32 = 2;

/// The explanation of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// [`SCHEMA`].
    pub explain_schema: u32,
    /// Where it was read.
    pub source: Source,
    /// The verdict in one word.
    pub verdict: Verdict,
    /// The test, its ranks, hosts and devices, in a few words.
    pub subject: String,
    /// The measured figure; none where the source has none.
    pub measured: Option<Measured>,
    /// The hardware's limit; none where it is not known.
    pub limit: Option<Ceiling>,
    /// Measured over limit, percent.
    pub percent: Option<f64>,
    /// How close the result comes to the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rating: Option<Rating>,
    /// What limits the result.
    pub bottleneck: Bottleneck,
    /// The explanation in one sentence or a few.
    pub sentence: String,
    /// Facts that were assumed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
    /// Facts that are missing and would allow a better explanation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Facts that are not known and could only lower the limit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<String>,
    /// Where no limit is known: on which machines the run may have been. They are no facts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hypotheses: Option<Hypotheses>,
    /// The findings, the most severe first.
    pub findings: Vec<Finding>,
}

/// Explains runs that belong together. Lines of NCCL's log in a source without a table are assigned to
/// the table, where there is only one.
pub fn explain(runs: Vec<Measurement>, hardware: &Hardware) -> Vec<Explanation> {
    explained(runs, hardware).1
}

/// Like [`explain`], with the runs that the explanations are of, in the same order: some were joined.
pub fn explained(
    mut runs: Vec<Measurement>,
    hardware: &Hardware,
) -> (Vec<Measurement>, Vec<Explanation>) {
    gather::gather(&mut runs);
    let contexts: Vec<Context<'_>> =
        runs.iter().map(|run| Context::new(run, hardware, &runs)).collect();
    let explanations = contexts.iter().map(|context| explain_one(context, hardware)).collect();
    drop(contexts);
    (runs, explanations)
}

fn explain_one(context: &Context<'_>, hardware: &Hardware) -> Explanation {
    let mut findings = rules::all(context);
    findings.sort_by_key(|finding| Reverse(finding.severity));
    let mut missing = context.missing();
    missing.sort();
    missing.dedup();
    Explanation {
        explain_schema: SCHEMA,
        source: context.run.source.clone(),
        verdict: verdict::verdict(context, &findings),
        subject: context.subject(),
        measured: context.measured.clone(),
        limit: context.ceiling.clone(),
        percent: context.judgement.percent,
        rating: context.judgement.rating,
        bottleneck: context.judgement.bottleneck.clone(),
        sentence: sentence::sentence(context, &findings),
        assumed: context.assumed(),
        missing,
        unchecked: context.ceiling.as_ref().map_or(Vec::new(), |one| one.unchecked.clone()),
        hypotheses: hypotheses::of(context, hardware),
        findings,
    }
}
