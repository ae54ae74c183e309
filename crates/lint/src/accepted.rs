//! Names that start like NCCL's or UCX's but belong to others: plugins, tests, build scripts.
//! It does not say what those others do with them.

use super::known::tables;

/// Last words of names that packages, images and module files set, and no library reads.
const PACKAGING: [&str; 32] = [
    "HOME",
    "ROOT",
    "ROOT_DIR",
    "DIR",
    "PATH",
    "PREFIX",
    "BASE",
    "VERSION",
    "VER",
    "VERSION_FULL",
    "INCLUDE",
    "INCLUDES",
    "INC",
    "INCLUDE_DIR",
    "INCLUDE_DIRS",
    "INCLUDE_PATH",
    "LIB",
    "LIBS",
    "LIB_DIR",
    "LIBDIR",
    "LIBRARY",
    "LIBRARIES",
    "LIBRARY_PATH",
    "LIB_PATH",
    "BIN",
    "SRC",
    "SRC_DIR",
    "BUILD_DIR",
    "INSTALL_DIR",
    "TAG",
    "BRANCH",
    "COMMIT",
];

/// Whether somebody other than NCCL and UCX owns the name.
pub(crate) fn belongs_to_others(name: &str) -> bool {
    let tables = tables();
    if tables.others.contains(name) {
        return true;
    }
    if tables.other_prefixes.iter().any(|prefix| name.starts_with(prefix)) {
        return true;
    }
    let tail = name.strip_prefix("NCCL_").or_else(|| name.strip_prefix("UCX_"));
    let tail = tail.map(|tail| tail.strip_prefix("TESTS_").unwrap_or(tail));
    tail.is_some_and(is_packaging)
}

/// Whether the last words of a name are those of packages.
pub(crate) fn is_packaging(tail: &str) -> bool {
    PACKAGING.contains(&tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_recognised() {
        for name in
            ["NCCL_TESTS_SPLIT", "NCCL_OFI_X", "NCCL_FASTRAK_IFNAME", "NCCL_GPUDIRECTTCPX_CTRL_DEV"]
        {
            assert!(belongs_to_others(name), "{name}");
        }
    }

    #[test]
    fn images_set_versions_and_folders() {
        for name in ["NCCL_VERSION", "NCCL_HOME", "UCX_DIR", "NCCL_TESTS_VERSION"] {
            assert!(belongs_to_others(name), "{name}");
        }
    }

    #[test]
    fn a_slip_in_a_test_variable_is_not_theirs() {
        assert!(!belongs_to_others("NCCL_TESTS_SPILT"));
        assert!(!belongs_to_others("NCCL_IMEX_ENABLE"));
        assert!(!belongs_to_others("NCCL_"));
    }
}
