//! What each release of NCCL has, from tables that `tools/nccl_release.sh` made of the releases' libraries (`data/`).
//! Not what a program should make of it, and nothing of a library that is loaded.

#![forbid(unsafe_code)]

mod functions;
mod parameters;
mod plugins;
mod structures;
mod table;

pub use functions::first_release_of;
pub use parameters::{Parameter, ReadBy, parameters};
pub use plugins::{PluginKind, symbols, versions_tried};
pub use structures::{Field, fields};

use std::sync::LazyLock;

use busbw_core::nccl_version::Version;

/// The releases whose libraries were read, oldest first. Others exist; see docs/nccl_releases.md.
pub fn releases() -> &'static [Version] {
    static RELEASES: LazyLock<Vec<Version>> = LazyLock::new(|| {
        let rows = table::rows(include_str!("generated/releases.tsv"));
        rows.filter_map(|row| row.first().and_then(|text| text.parse().ok())).collect()
    });
    &RELEASES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_in_order() {
        assert!(releases().is_sorted());
        assert!(releases().contains(&Version::new(2, 18, 1)));
        assert!(releases().contains(&Version::new(2, 32, 3)));
    }
}
