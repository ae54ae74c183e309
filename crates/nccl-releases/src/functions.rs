//! The public functions. Not their arguments (`busbw-ffi`).

use std::{collections::HashMap, sync::LazyLock};

use busbw_core::nccl_version::Version;

use crate::table;

/// The first release that was read and has this public function; `None` where none has it.
pub fn first_release_of(function: &str) -> Option<Version> {
    static FUNCTIONS: LazyLock<HashMap<&str, Version>> = LazyLock::new(|| {
        let rows = table::rows(include_str!("generated/functions.tsv"));
        rows.filter_map(|row| Some((*row.first()?, table::release(row.get(1)?)?))).collect()
    });
    FUNCTIONS.get(function).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_call_configuration_is_new() {
        assert_eq!(first_release_of("ncclAllReduceConfig"), Some(Version::new(2, 31, 2)));
        assert_eq!(first_release_of("ncclGroupSimulateEnd"), Some(Version::new(2, 22, 3)));
        assert_eq!(first_release_of("ncclAllReduceFaster"), None);
    }
}
