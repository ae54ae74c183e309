//! Wrong data: elements with unexpected values.
//! Not figures that contradict each other (`agreement`).

use super::super::context::Context;
use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_core::quantity::{bytes, count, sizes};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let run = context.run;
    let wrong = |row: &&busbw_logs::measurement::Row| {
        row.out_of_place
            .iter()
            .chain(&row.in_place)
            .any(|half| half.wrong.is_some_and(|wrong| wrong > 0))
    };
    let rows: Vec<_> = run.rows.iter().filter(wrong).collect();
    let stated = run.out_of_bounds.unwrap_or(0);
    if rows.is_empty() && stated == 0 {
        return Vec::new();
    }
    let elements = |row: &busbw_logs::measurement::Row| {
        let halves = row.out_of_place.iter().chain(&row.in_place);
        halves.filter_map(|half| half.wrong).fold(0, u64::saturating_add)
    };
    let at: Vec<u64> = rows.iter().map(|row| row.size).collect();
    let place = if at.is_empty() { String::new() } else { format!(" at {}", sizes(&at)) };
    let mut finding = Finding::new(super::WRONG_DATA, Severity::Error, format!("wrong data: elements have unexpected values{place}")).confidence(Confidence::Certain)
        .remedy("do not trust any figure of this run until the reason is found: test each pair of nodes alone with -c 1")
        .confirm("busbw sendrecv -c 10 -b 1M -e 1G -f 4 on each pair; then dmesg and `nvidia-smi -q` for XIDs and ECC errors");
    if let Some(worst) = rows.iter().max_by_key(|row| elements(row)) {
        finding = finding.evidence(format!(
            "{}{} at {}",
            if rows.len() > 1 { "most: " } else { "" },
            count(elements(worst), "wrong element"),
            bytes(worst.size)
        ));
    }
    if stated > 0 {
        finding = finding.evidence(format!("out of bounds values: {stated}"));
    }
    vec![finding]
}
