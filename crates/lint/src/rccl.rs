//! The names that RCCL alone reads, from `data/rccl_env.tsv`, and which of the two libraries a text uses.
//! It does not judge a setting; the rules do.
//!
//! The table is complete for the source of ROCm 3.3.0 to 6.3.0 (github.com/ROCm/rccl). Of later releases it has what
//! RCCL's changelog and documents name: a name that it lacks may still be read.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The ROCm releases whose RCCL reads a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Releases {
    /// The first one known.
    pub(crate) first: Option<&'static str>,
    /// The last one, where a later one is known not to read it.
    pub(crate) last: Option<&'static str>,
}

/// The table, read once: it is part of the program, so a bad row is left out, not an error.
pub(crate) fn names() -> &'static HashMap<&'static str, Releases> {
    static NAMES: LazyLock<HashMap<&str, Releases>> = LazyLock::new(|| {
        include_str!("data/rccl_env.tsv").lines().skip(1).filter_map(row).collect()
    });
    &NAMES
}

fn row(line: &'static str) -> Option<(&'static str, Releases)> {
    let mut cells = line.split('\t');
    let (name, _default) = (cells.next()?, cells.next()?);
    let mut release = || cells.next().map(|cell| Some(cell).filter(|cell| *cell != "-"));
    Some((name, Releases { first: release()?, last: release()? }))
}

/// The library that a text works with, as far as its words show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Library {
    /// Words of both, or of neither.
    #[default]
    Unknown,
    /// NVIDIA's.
    Nccl,
    /// AMD's.
    Rccl,
}

/// What stands only where NVIDIA's GPUs are. CUDA_VISIBLE_DEVICES is not among them: HIP reads it, too.
const NVIDIA: [&str; 5] =
    ["libnccl.so", "nvidia-smi", "nvcr.io/", "/usr/local/cuda", "nvidia.com/gpu"];
/// What stands only where AMD's are.
const AMD: [&str; 7] =
    ["librccl", "rccl-tests", "rocm", "amd.com/gpu", "ROCR_VISIBLE_", "HIP_VISIBLE_", "HSA_"];

impl Library {
    /// Looks at all lines but comments.
    pub(crate) fn of(text: &str) -> Library {
        let (mut nvidia, mut amd) = (false, false);
        for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
            nvidia |= NVIDIA.iter().any(|word| line.contains(word));
            amd |= AMD.iter().any(|word| line.contains(word));
        }
        match (nvidia, amd) {
            (true, false) => Library::Nccl,
            (false, true) => Library::Rccl,
            _ => Library::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::tables;

    #[test]
    fn every_row_is_read_and_none_is_of_nccl() {
        let rows = include_str!("data/rccl_env.tsv").lines().count() - 1;
        assert_eq!(names().len(), rows);
        for line in include_str!("data/rccl_env.tsv").lines() {
            assert_eq!(line.split('\t').count(), 6, "{line}");
        }
        for name in names().keys() {
            assert!(!tables().nccl.contains_key(name), "{name} is read by NCCL as well");
        }
    }

    #[test]
    fn releases_come_from_the_source() {
        let of = |name: &str| (names()[name].first, names()[name].last);
        assert_eq!(of("RCCL_ENABLE_HIPGRAPH"), (Some("5.3.0"), Some("5.3.0")));
        assert_eq!(of("RCCL_IB_QPS_PER_P2P"), (Some("7.1.0"), None));
        assert_eq!(of("RCCL_ROCR_PATH"), (Some("5.4.0"), Some("7.13")));
        assert_eq!(of("NCCL_NCHANNELS_PER_PEER"), (Some("5.7.0"), None));
    }

    #[test]
    fn words_of_one_vendor_tell_the_library() {
        assert_eq!(Library::of("LD_PRELOAD=/x/libnccl.so.2 ./run\n"), Library::Nccl);
        assert_eq!(Library::of("module load rocm/6.4\n"), Library::Rccl);
        assert_eq!(Library::of("# needs nvidia-smi\n./run\n"), Library::Unknown);
        assert_eq!(Library::of("nvidia-smi || rocm-smi\n"), Library::Unknown);
    }
}
