//! The files that a check is asked to write: JUnit XML, OpenMetrics text, its result beside the records.
//! Not their forms (`busbw_analysis::check`), and nothing on the hosts that are checked.

use anyhow::{Context, Result};
use busbw_analysis::check::{CheckReport, junit, openmetrics};
use busbw_store as store;

use crate::{options::CheckingArguments, output_file::replace};

/// The result's file in the folder of `--record`.
const RESULT: &str = "check.json";

/// Writes all of them.
///
/// # Errors
/// One cannot be written; the others are.
pub(super) fn keep(arguments: &CheckingArguments, report: &CheckReport) -> Result<()> {
    let junit = arguments.junit.as_deref().map(|path| replace(path, &junit(report)));
    let metrics = arguments.openmetrics.as_deref().map(|path| replace(path, &openmetrics(report)));
    let result = arguments.record.as_deref().map(|folder| {
        let text = serde_json::to_string(report).context("cannot write the result as JSON")?;
        let path = folder.join(RESULT);
        store::write_private(&path, (text + "\n").as_bytes())
            .with_context(|| format!("cannot write the result to {}", path.display()))
    });
    [junit, metrics, result].into_iter().flatten().collect()
}
