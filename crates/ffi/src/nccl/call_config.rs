//! The configuration of one call (ncclCollConfig_t of NCCL 2.31 and later): algorithm, CTAs, policy.
//! Not which calls take it (`operation`), and not the communicator's configuration (`config`).

use std::{
    ffi::{CString, NulError, c_char, c_int, c_uint, c_void},
    path::PathBuf,
};

use thiserror::Error;

use super::{
    config::{CONFIG_MARK, UNDEFINED, has_field},
    library::{Nccl, Version},
};

/// The release whose header the structure below is transcribed from.
const HEADER_VERSION: u32 = 23203;

/// Why calls of a library take no configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoCallConfig {
    /// It is older.
    #[error("needs NCCL 2.31 or later; {loaded} is loaded from {path}", path = .path.display())]
    Older {
        /// Its version.
        loaded: Version,
        /// Its file.
        path: PathBuf,
    },
    /// It lacks a function that its version has.
    #[error("needs {function}, which NCCL {loaded} at {path} lacks", path = .path.display())]
    Lacking {
        /// The function.
        function: &'static str,
        /// Its version.
        loaded: Version,
        /// Its file.
        path: PathBuf,
    },
}

/// ncclCollConfig_t of 2.32. NCCL copies as much of it as `size` says and it knows itself (config/collconfig.cc,
/// ncclParseCollConfig).
#[repr(C)]
#[derive(Debug)]
pub(crate) struct RawCallConfig {
    size: usize,
    mark: c_uint,
    version: c_uint,
    extensions: *const c_void,
    min_ctas: c_int,
    max_ctas: c_int,
    nvls_ctas: c_int,
    cga_cluster_size: c_int,
    algorithm: *const c_char,
    force_algorithm: c_int,
    cta_policy: c_int,
    profiler_tag: u64,
    launch_event: *const c_void,
}

/// The configuration of calls, made once for many of them. Every rank must give the same.
#[derive(Debug)]
pub struct CallConfig {
    raw: RawCallConfig,
    /// The name that `raw` points to.
    _algorithm: Option<CString>,
}

impl CallConfig {
    /// For calls of `nccl`: with this algorithm or none other, at least and at most so many CTAs, under this CTA policy;
    /// `None` leaves each to NCCL.
    ///
    /// # Errors
    /// The algorithm's name has a zero byte.
    pub fn new(
        nccl: &Nccl,
        algorithm: Option<&str>,
        [min_ctas, max_ctas]: [Option<u32>; 2],
        cta_policy: Option<i32>,
    ) -> Result<CallConfig, NulError> {
        let algorithm = algorithm.map(CString::new).transpose()?;
        let name = algorithm.as_ref().map_or(std::ptr::null(), |name| name.as_ptr());
        let ctas = |count: Option<u32>| count.map_or(UNDEFINED, |count| count as c_int);
        let version = HEADER_VERSION.min(nccl.version().0);
        // The last member came with 2.32.
        let size = match has_field("ncclCollConfig_t", "launchCompletionEvent", version) {
            true => size_of::<RawCallConfig>(),
            false => std::mem::offset_of!(RawCallConfig, launch_event),
        };
        let raw = RawCallConfig {
            size,
            mark: CONFIG_MARK,
            version,
            extensions: std::ptr::null(),
            min_ctas: ctas(min_ctas),
            max_ctas: ctas(max_ctas),
            nvls_ctas: UNDEFINED,
            cga_cluster_size: UNDEFINED,
            algorithm: name,
            // An algorithm that cannot run is an error: NCCL would otherwise take another one.
            force_algorithm: 1,
            cta_policy: cta_policy.unwrap_or(UNDEFINED),
            profiler_tag: 0,
            launch_event: std::ptr::null(),
        };
        Ok(CallConfig { raw, _algorithm: algorithm })
    }

    /// The structure, valid as long as this lives.
    pub(super) fn as_ptr(&self) -> *const RawCallConfig {
        &raw const self.raw
    }
}

impl Nccl {
    /// Whether calls take a configuration.
    ///
    /// # Errors
    /// The library is older than 2.31, or lacks one of the eight functions.
    pub fn takes_call_configs(&self) -> Result<(), NoCallConfig> {
        let (loaded, path) = (self.version(), self.path().to_owned());
        let first = busbw_nccl_releases::first_release_of("ncclAllReduceConfig");
        if first.is_none_or(|first| loaded.0 < first.code()) {
            return Err(NoCallConfig::Older { loaded, path });
        }
        let table = &self.table;
        let functions = [
            ("ncclAllReduceConfig", table.all_reduce_config.is_some()),
            ("ncclReduceConfig", table.reduce_config.is_some()),
            ("ncclBroadcastConfig", table.broadcast_config.is_some()),
            ("ncclReduceScatterConfig", table.reduce_scatter_config.is_some()),
            ("ncclAllGatherConfig", table.all_gather_config.is_some()),
            ("ncclAlltoAllConfig", table.all_to_all_config.is_some()),
            ("ncclGatherConfig", table.gather_config.is_some()),
            ("ncclScatterConfig", table.scatter_config.is_some()),
        ];
        match functions.into_iter().find(|(_, is_there)| !is_there) {
            Some((function, _)) => Err(NoCallConfig::Lacking { function, loaded, path }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nccl::config::holds_layout;

    #[test]
    fn fields_are_those_of_the_release() {
        holds_layout!(HEADER_VERSION, RawCallConfig, "ncclCollConfig_t": "size" size, "magic" mark,
            "version" version, "ext" extensions, "minCTAs" min_ctas, "maxCTAs" max_ctas,
            "nvlsCTAs" nvls_ctas, "cgaClusterSize" cga_cluster_size, "algSelection" algorithm,
            "forceAlgSelection" force_algorithm, "CTAPolicy" cta_policy,
            "userProfilerTag" profiler_tag, "launchCompletionEvent" launch_event);
    }

    /// Before 2.32 the structure ends with the tag.
    #[test]
    fn the_first_release_has_one_field_less() {
        let (bytes, _) = crate::nccl::config::layout_in(23102, "ncclCollConfig_t");
        assert_eq!(bytes, std::mem::offset_of!(RawCallConfig, launch_event));
    }
}
