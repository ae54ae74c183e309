//! The verdict on a run in one word, for scripts.
//! Not the reasons: findings carry those.

use std::fmt;

use busbw_core::finding::{Finding, Severity};
use busbw_hardware::limits::Rating;
use busbw_library_logs::failure::{Causality, Ending, Kind};
use serde::Serialize;

use super::{context::Context, rules};

/// What became of a run, and how good its figures are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The run failed.
    Failed,
    /// A rank waited for others that did not come; the log may end there.
    Hanging,
    /// Data or figures are wrong, or are not what they seem.
    WrongFigures,
    /// Performance is lost.
    Slow,
    /// The largest size still gains, or has too few bytes to count beside the start of an operation: nothing limits it yet.
    NotThereYet,
    /// The figures are as good as those of a healthy machine.
    Healthy,
    /// Nothing failed, and there is no limit to hold figures against.
    Unknown,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Failed => "failed",
            Verdict::Hanging => "hanging",
            Verdict::WrongFigures => "wrong-figures",
            Verdict::Slow => "slow",
            Verdict::NotThereYet => "not-there-yet",
            Verdict::Healthy => "healthy",
            Verdict::Unknown => "unknown",
        })
    }
}

/// The verdict on a run with these findings.
pub(super) fn verdict(context: &Context<'_>, findings: &[Finding]) -> Verdict {
    let failure = &context.run.failure;
    if let Some(cause) = failure.cause() {
        // Where nobody answers there is no rank to wait for.
        let waited =
            cause.kind.causality() == Causality::Timeout && cause.kind != Kind::MasterSilent;
        return match waited || failure.ending() == Ending::Waiting {
            true => Verdict::Hanging,
            false => Verdict::Failed,
        };
    }
    let has_figures = context.measured.is_some() || !context.run.paths.is_empty();
    let worst = |severity| findings.iter().find(|finding| finding.severity == severity);
    match (worst(Severity::Error), context.judgement.rating) {
        (Some(error), _) if error.rule == "failure" => Verdict::Failed,
        (Some(_), _) => Verdict::WrongFigures,
        (None, _) if findings.iter().any(|finding| finding.rule == "not-there-yet") => {
            Verdict::NotThereYet
        }
        (None, Some(Rating::Below | Rating::FarBelow)) if context.by_assumed_links() => {
            Verdict::Unknown
        }
        (None, Some(Rating::Below | Rating::FarBelow)) => Verdict::Slow,
        (None, Some(Rating::Above | Rating::At | Rating::AsExpected | Rating::Healthy)) => {
            Verdict::Healthy
        }
        // A log without any figure says what may be slow, and not that it is. Nor do a dip or samples that vary: they are
        // beside many healthy results, and without a limit nobody knows whether this is one.
        (None, None) if has_figures && findings.iter().any(loses_speed) => Verdict::Slow,
        // NCCL's own diagnostics are measurements.
        (None, None) if !has_figures => match rules::healthy_by_diagnostics(context) {
            Some(true) => Verdict::Healthy,
            Some(false) => Verdict::Slow,
            None => Verdict::Unknown,
        },
        (None, None) => Verdict::Unknown,
    }
}

fn loses_speed(finding: &Finding) -> bool {
    finding.severity == Severity::Slow && !rules::OF_SOME_SIZES.contains(&&*finding.rule)
}
