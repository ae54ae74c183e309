//! The progress bar.
//! Not rows: the bar is hidden while one is written.

use busbw_core::{Benchmark, plan::Plan};
use indicatif::{ProgressBar, ProgressStyle};

/// Hidden unless stderr is a terminal.
pub(super) fn progress_bar(plan: &Plan) -> ProgressBar {
    let each = (plan.sweeps().len() * plan.messaging.windows().count()) as u64;
    let rows = plan.size_count().saturating_mul(each);
    let bar = match plan.cycles {
        0 => ProgressBar::new_spinner(),
        cycles => {
            let launches = u64::from(plan.sampling.launches);
            ProgressBar::new(rows.saturating_mul(cycles).saturating_mul(launches))
        }
    };
    let what = if plan.benchmark == Benchmark::Pairs { "pass" } else { "row" };
    let style = ProgressStyle::with_template(&format!(
        "{{spinner}} {{wide_bar}} {what} {{pos}} of {{len}}, {{msg}} ({{elapsed}}, left {{eta}})"
    ));
    style.map_or(bar.clone(), |style| bar.with_style(style))
}
