//! Rows of the generated tables: tab separated, a header line first. Not their meaning.

use busbw_core::nccl_version::Version;

/// The rows without the header line.
pub(crate) fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().skip(1).map(|line| line.split('\t').collect())
}

/// A release, or none where the cell is "-".
pub(crate) fn release(cell: &str) -> Option<Version> {
    cell.parse().ok()
}
