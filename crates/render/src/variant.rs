//! The variant of a row in a table: its label, and what NCCL's log says against it.
//! Not the choice of variants, and not the record's form.

use busbw_core::{plan::AlgorithmEvidence, record::Row};

/// The last column: `RING_SIMPLE`, `auto (TREE LL)`, `RING_LL CONFLICTING (TREE LL ran)`, `RING_LL unproven`.
pub(super) fn column(row: &Row) -> Option<String> {
    let variant = row.variant.as_ref()?;
    let ran = ran(row);
    Some(match (variant.evidence, ran) {
        (Some(AlgorithmEvidence::Conflicting), Some(ran)) => {
            format!("{} CONFLICTING ({ran} ran)", variant.given)
        }
        (Some(AlgorithmEvidence::Unproven), _) => format!("{} unproven", variant.given),
        (None, Some(ran)) => format!("{} ({ran})", variant.given),
        _ => variant.given.to_string(),
    })
}

/// What NCCL's log says against a variant, as a sentence.
pub(super) fn conflict(row: &Row) -> Option<String> {
    let variant = row.variant.as_ref()?;
    let ran = ran(row).filter(|_| variant.evidence == Some(AlgorithmEvidence::Conflicting))?;
    Some(format!(
        "CONFLICTING: {} size {} was to run as {}, and NCCL's log says that {ran} ran",
        row.benchmark.name(),
        row.size,
        variant.given
    ))
}

/// A blank and the label, behind what names a row; nothing without variants.
pub(super) fn named(row: &Row) -> String {
    row.variant.as_ref().map_or(String::new(), |variant| format!(" {}", variant.given))
}

/// The algorithm and protocol of a row, without its channels.
fn ran(row: &Row) -> Option<&str> {
    let mut halves = row.out_of_place.iter().chain(&row.in_place);
    let ran = halves.find_map(|half| half.figures.algorithm.as_deref())?;
    Some(ran.split_once(", ").map_or(ran, |(name, _)| name))
}
