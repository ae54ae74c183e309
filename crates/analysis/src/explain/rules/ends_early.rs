//! A table whose head announces more sizes than it has, without a foot: the text ends early.
//! Not a run that failed (`failure`), and not one that a larger size would help (`not_there_yet`).

use busbw_core::{
    finding::{Confidence, Finding, Severity},
    quantity::bytes,
};

use super::super::context::Context;

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let run = context.run;
    let largest = run.rows.iter().map(|row| row.size).max();
    let (Some(announced), Some(largest)) = (run.announced, largest) else { return Vec::new() };
    if run.failure.cause().is_some() || run.copies > 1 || !announced.goes_on_behind(largest) {
        return Vec::new();
    }
    let (last, largest) = (bytes(announced.last), bytes(largest));
    let cause = format!(
        "the log ends early: its head announces sizes up to {last}, its rows stop at {largest}, and no foot follows"
    );
    vec![
        Finding::new("ends-early", Severity::Note, cause)
            .confidence(Confidence::Certain)
            .evidence(format!("maxBytes {}; the largest row has {largest}", announced.last))
            .remedy("see whether the run still goes on, was stopped, or was copied in part"),
    ]
}

#[cfg(test)]
mod tests {
    use busbw_logs::import;

    use crate::explain::{Hardware, explain};

    const ROW: &str = "8388608 2097152 float sum -1 314.7 26.66 46.65 0 310.8 26.99 47.23 0\n";

    fn finds(head: &str, foot: &str) -> bool {
        let text = format!("# nThread 1 nGpus 8 minBytes 8388608 {head}\n{ROW}{foot}");
        let read = import::read(text.as_bytes(), "log").unwrap();
        let all = explain(read.measurements, &Hardware::default());
        all.iter().flat_map(|one| &one.findings).any(|finding| finding.rule == "ends-early")
    }

    #[test]
    fn a_table_that_lacks_sizes_and_a_foot() {
        assert!(finds("maxBytes 16777216 step: 2(factor)", ""));
        assert!(finds("maxBytes 9437184 step: 1048576(bytes)", ""));
        for (head, foot) in [
            ("maxBytes 16777216 step: 2(factor)", "# Out of bounds values : 0 OK\n"),
            ("maxBytes 16777216 step: 4(factor)", ""),
            ("maxBytes 8388608 step: 1048576(bytes)", ""),
            ("maxBytes 16777216", ""),
            (
                "maxBytes 16777216 step: 2(factor)\n# Reducing maxBytes to 8388608 due to memory limitation",
                "",
            ),
        ] {
            assert!(!finds(head, foot), "{head} {foot}");
        }
    }
}
