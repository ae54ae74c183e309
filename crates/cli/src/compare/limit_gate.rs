//! `--fail-below-limit`: whether runs reach a share of what their hardware allows. A run without a known limit never passes.
//! Not the gate on a baseline, and not the limit (`busbw_analysis::explain`).

use std::io::{self, Write};

use anyhow::Result;
use busbw_analysis::explain::{Explanation, Hardware, Verdict, explain};
use busbw_core::{
    exit::{Exit, ExitError},
    quantity::{bytes, percent, rate},
};
use serde::Serialize;

use super::{print_remark, sides::Source};
use crate::options::CompareArguments;

/// The gate, and each run that it judged.
#[derive(Debug, Serialize)]
pub(super) struct LimitGate {
    /// Percent of the limit below which a run fails.
    fail_below_limit: f64,
    held: bool,
    runs: Vec<Judged>,
}

/// A run against its limit.
#[derive(Debug, Serialize)]
struct Judged {
    /// Where it was read.
    name: String,
    /// What ran.
    subject: String,
    state: State,
    /// Size of the figure, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// Measured bus bandwidth, GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    busbw: Option<f64>,
    /// The limit, GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<f64>,
    /// Measured over limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    percent: Option<f64>,
    /// Why it did not pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// What became of a run at the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    Passed,
    Below,
    /// It failed, or its data or figures are wrong.
    Wrong,
    Unknown,
}

/// Judges the sides that are no baseline. A lone side is one.
///
/// # Errors
/// `--machine` describes no machine.
pub(super) fn judge(
    least: f64,
    arguments: &CompareArguments,
    candidates: &[Source],
) -> Result<LimitGate> {
    let hardware = Hardware::read(arguments.machine.as_deref(), arguments.nodes)
        .map_err(|e| ExitError::new(Exit::Usage, e.to_string()))?;
    let mut runs = Vec::new();
    for side in candidates {
        if let Some(why) = side.runs.iter().find_map(|run| hardware.refuses(run)) {
            return Err(ExitError::new(Exit::Usage, format!("{}: {why}", side.side.name)).into());
        }
        let incomplete = side.incomplete().into_iter().next();
        let explanations = explain(side.runs.clone(), &hardware);
        let judged = explanations.iter().map(|one| Judged::of(one, least, incomplete.clone()));
        runs.extend(judged);
    }
    let held = !runs.is_empty() && runs.iter().all(|run| run.state == State::Passed);
    Ok(LimitGate { fail_below_limit: least, held, runs })
}

impl Judged {
    fn of(explanation: &Explanation, least: f64, incomplete: Option<String>) -> Judged {
        let missing = || match explanation.missing.is_empty() {
            true => "nothing tells what limits this test".to_owned(),
            false => format!("missing: {}", explanation.missing.join("; ")),
        };
        let (state, why) = match (explanation.verdict, explanation.percent, incomplete) {
            (Verdict::Failed | Verdict::Hanging | Verdict::WrongFigures, ..) => {
                (State::Wrong, Some(explanation.sentence.clone()))
            }
            (_, _, Some(incomplete)) => (State::Wrong, Some(incomplete)),
            // Links that only a name suggests are no limit to pass by.
            (Verdict::Unknown, Some(_), _) => {
                (State::Unknown, Some(format!("assumed: {}", explanation.assumed.join("; "))))
            }
            (_, Some(share), _) if share >= least => (State::Passed, None),
            (_, Some(_), _) => (State::Below, None),
            (_, None, _) => (State::Unknown, Some(missing())),
        };
        let measured = explanation.measured.as_ref();
        Judged {
            name: explanation.source.name.clone(),
            subject: explanation.subject.clone(),
            state,
            size: measured.map(|one| one.size),
            busbw: measured.and_then(|one| one.busbw),
            limit: explanation.limit.as_ref().map(|limit| limit.busbw),
            percent: explanation.percent,
            why,
        }
    }

    fn figures(&self) -> String {
        let measured = self.busbw.map(|busbw| format!("{} GB/s", rate(busbw)));
        let at = self.size.map(|size| format!(" at {}", bytes(size)));
        let share = self.percent.zip(self.limit).map(|(share, limit)| {
            format!(", {} % of the limit {} GB/s", percent(share), rate(limit))
        });
        [measured, at, share].into_iter().flatten().collect()
    }
}

impl LimitGate {
    /// A line for each run.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub(super) fn print(&self, out: &mut impl Write, prefix: &str) -> io::Result<()> {
        for run in &self.runs {
            let word = match run.state {
                State::Passed => "passed",
                State::Below => "BELOW",
                State::Wrong => "WRONG",
                State::Unknown => "UNKNOWN",
            };
            let why = run.why.as_ref().map_or(String::new(), |why| format!("; {why}"));
            let least = percent(self.fail_below_limit);
            writeln!(
                out,
                "{prefix}limit, {least} % wanted: {word}: {}: {}{why}",
                run.subject,
                run.figures()
            )?;
        }
        Ok(())
    }

    /// 0 passed, 1 below or wrong, 2 where a limit is not known; what did not pass is named on stderr.
    pub(super) fn exit(&self) -> Exit {
        for run in self.runs.iter().filter(|run| run.state != State::Passed) {
            let why = run.why.clone().unwrap_or_default();
            let (name, least) = (&run.name, percent(self.fail_below_limit));
            print_remark(&match run.state {
                State::Unknown => format!(
                    "{name}: no limit is known, so it cannot pass --fail-below-limit {least}%: {why}; name the machine with --machine"
                ),
                State::Wrong => format!("{name}: {why}"),
                _ => format!("below {least} % of the limit: {name}: {}", run.figures()),
            });
        }
        let any = |state| self.runs.iter().any(|run| run.state == state);
        match self.held {
            true => Exit::Ok,
            false if any(State::Below) || any(State::Wrong) => Exit::Internal,
            false => Exit::Usage,
        }
    }
}
