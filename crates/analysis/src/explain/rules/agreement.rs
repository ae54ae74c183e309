//! Figures of a table that contradict each other, its average, or the machine.
//! Not wrong data (`wrong`).

use busbw_logs::measurement::{
    Measurement, Origin, disagreements, ranks_of_another_run, stated_average_differs,
};

use super::super::context::Context;
use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_core::quantity::{bytes, count, rate};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let run = context.run;
    let mut findings = Vec::new();
    let odd = disagreements(run);
    if let (Some(rows), Some(stated)) = (ranks_of_another_run(run), run.rank_count()) {
        findings.push(head_and_rows(run, stated, rows));
    } else if let Some(first) = odd.first() {
        findings.push(
            Finding::new("figures-disagree", Severity::Error, format!("{} of the bandwidths do not match their row's size, time and bus factor", odd.len())).confidence(Confidence::Certain)
            .evidence(format!(
                "{} at {}: written {}, computed {}",
                first.column, bytes(first.size), rate(first.written), rate(first.computed)
            ))
            .remedy("check these rows before you use them: the run may have had other ranks, another collective or another way of counting than the table states"),
        );
    }
    findings.extend(old_counting(context));
    if let Some(mean) = stated_average_differs(run) {
        findings.push(
            Finding::new(
                "average-disagrees",
                Severity::Note,
                "the stated average is not the mean of the rows shown: some rows may be left out",
            )
            .confidence(Confidence::Certain)
            .evidence(format!(
                "stated {}, mean of the rows {}",
                rate(run.stated_average.unwrap_or(0.0)),
                rate(mean)
            ))
            .remedy("judge by the rows, not by the average, or take the missing rows from the run's whole output"),
        );
    }
    // The bus factor gives the number of ranks, whatever the file is called.
    if let (Some(figures), Some(known)) = (run.ranks_by_figures(), run.ranks)
        && known.origin == Origin::Stated
        && figures != known.value
        && odd.is_empty()
    {
        findings.push(ranks(figures, format!("{} devices are listed", known.value)));
    }
    if let (Some(figures), Some(machine)) = (run.ranks_by_figures(), &context.machine)
        && run.ranks.is_some_and(|known| known.origin == Origin::Deduced)
        && figures != machine.machine.gpus()
        && machine.machine.nodes > 1
    {
        findings.push(ranks(figures, format!("the machine has {} GPUs", machine.machine.gpus())));
    }
    findings
}

/// A table of nccl-tests before mid-2020, whose algbw says something else.
fn old_counting(context: &Context<'_>) -> Option<Finding> {
    let ranks = context.run.counted_without_own_share()?;
    let since = context.measured.as_ref()?.algbw?;
    let others = ranks - 1;
    let written = since * others as f64 / ranks as f64;
    let cause = format!(
        "nccl-tests before mid-2020 wrote this table: its algbw leaves out a rank's own share (1/{ranks}) and is busbw; counted as since, algbw is {} instead of {} GB/s",
        rate(since),
        rate(written)
    );
    Some(
        Finding::new("old-counting", Severity::Note, cause)
            .confidence(Confidence::Certain)
            .evidence("size over time, and busbw equal to algbw, in every row (nccl-tests ec1b5e2, 2020-06-19)")
            .remedy(format!("multiply its algbw by {ranks}/{others} before you compare it with later tables; busbw needs nothing")),
    )
}

/// The head is of a run of `stated` ranks, the rows are of one of `rows` ranks.
fn head_and_rows(run: &Measurement, stated: usize, rows: usize) -> Finding {
    let halves = || run.rows.iter().filter_map(|row| row.out_of_place.as_ref());
    let factor = halves()
        .filter_map(|half| Some(half.busbw? / half.algbw.filter(|algbw| *algbw > 1.0)?))
        .next_back();
    let factor =
        factor.map_or(String::new(), |factor| format!(", as 2({rows}-1)/{rows} says: {factor:.2}"));
    let cause = format!(
        "the head lists {stated} ranks, and the rows are of {rows} ranks by their figures: head and rows are of different runs"
    );
    Finding::new("head-and-rows-disagree", Severity::Error, cause)
        .confidence(Confidence::Certain)
        .evidence(format!("busbw/algbw is that of {rows} ranks in every row{factor}"))
        .evidence(format!(
            "device list: {} of {stated} ranks",
            count(run.devices.len() as u64, "device")
        ))
        .remedy("find the head that belongs to these rows; until then no limit holds")
}

fn ranks(figures: usize, otherwise: String) -> Finding {
    Finding::new("ranks-disagree", Severity::Note, format!("the figures match {figures} ranks"))
        .confidence(Confidence::Likely)
        .evidence(format!(
            "busbw over algbw, or count over size, gives {figures} ranks; {otherwise}"
        ))
        .remedy("check how many ranks ran before you compare this run with others")
}
