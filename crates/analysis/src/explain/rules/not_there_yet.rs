//! A run whose largest size still gains, or only starts operations: which size to measure, before any limit is blamed.
//! Not whether it does (`growth`).

use busbw_core::{
    finding::{Confidence, Finding, Severity},
    quantity::{bytes, percent},
};

use busbw_hardware::limits::Bottleneck;

use super::super::context::Context;

/// The size at which machines with the fastest links level off, bytes: 8 GiB, nccl-tests' usual end.
const LARGE_BYTES: u64 = 8 << 30;

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let judged = &context.judgement;
    let small = judged.bottleneck == Bottleneck::Software && judged.rating.is_some();
    let (to, cause) = match (context.growth, context.run.rows.iter().map(|row| row.size).max()) {
        (Some(growth), _) => {
            let gain = percent(growth.gain * 100.0);
            let (from, to) = (bytes(growth.from), bytes(growth.to));
            (
                growth.to,
                format!(
                    "the largest size still gains {gain} % a doubling ({from} to {to}): it has not reached any limit yet"
                ),
            )
        }
        (None, Some(to)) if small => (
            to,
            format!(
                "the largest size, {}, has too few bytes to count beside the start of an operation: it has not reached any limit yet",
                bytes(to)
            ),
        ),
        _ => return Vec::new(),
    };
    let end = LARGE_BYTES.max(to.saturating_mul(8));
    let repeat = match context.run.collective() {
        Some(_) => context.repeat_command(&format!("-b {} -e {} -f 2", plain(to), plain(end))),
        None => format!("the same test with larger messages (OSU: -m {}:{})", to, end),
    };
    vec![
        Finding::new("not-there-yet", Severity::Note, cause)
            .confidence(Confidence::Certain)
            .remedy(format!("measure larger sizes, up to {}", bytes(end)))
            .confirm(repeat),
    ]
}

/// A size as options take it: 64M, 8G.
fn plain(size: u64) -> String {
    for (unit, letter) in [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")] {
        if size >= unit && size.is_multiple_of(unit) {
            return format!("{}{letter}", size / unit);
        }
    }
    size.to_string()
}
