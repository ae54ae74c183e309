//! Several processes that each ran the whole test alone.
//! Not ranks of one communicator.

use busbw_core::finding::{Confidence, Finding, Severity};

use super::super::context::Context;

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let run = context.run;
    let mut findings = Vec::new();
    if run.copies > 1 && run.rank_count() == Some(1) {
        findings.push(
            Finding::new("separate-runs", Severity::Error, format!("{} processes each ran a test of one rank: they sent nothing to each other", run.copies)).confidence(Confidence::Certain)
            .evidence(format!("the parameters appear {} times, and every device is rank 0", run.copies))
            .remedy("nccl-tests was built without MPI, or with another MPI than the launcher's: build with MPI=1, or use busbw, which needs none")
            .confirm("ldd $(which all_reduce_perf) | grep -i mpi"),
        );
    } else if run.rank_count() == Some(1) {
        findings.push(
            Finding::new(
                "one-rank",
                Severity::Error,
                "the run has one rank: nothing crosses a link, and busbw is 0 by definition",
            )
            .confidence(Confidence::Certain)
            .remedy("use two GPUs or more")
            .confirm("busbw all_reduce -g 2"),
        );
    }
    findings
}
