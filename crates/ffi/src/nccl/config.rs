//! A communicator's configuration, and the C structures for it and for predictions.
//! Not environment variables: those are NCCL's own.

use std::ffi::{c_char, c_int, c_uint};

/// The version whose header the structures below are transcribed from: 2.30.
pub const HEADER_VERSION: u32 = 23007;

/// NCCL_CONFIG_UNDEF_INT.
pub(super) const UNDEFINED: c_int = c_int::MIN;
/// The magic number of an initialised ncclConfig_t or ncclCollConfig_t (NCCL_API_MAGIC).
pub(super) const CONFIG_MARK: c_uint = 0xcafe_beef;
/// The magic number of an initialised ncclSimInfo_t.
const PREDICTION_MARK: c_uint = 0x7468_5283;

/// The configuration of a communicator; `None` is NCCL's own default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Config {
    /// 0 default, 1 efficiency, 2 zero CTA (`-x`; 2.27 and later).
    pub cta_policy: Option<i32>,
    /// Prefer NVLink (2.28 and later); nccl-tests always sets it (src/common.cu:205).
    pub nvlink_centric: bool,
    /// The number of peers that point-to-point operations handle at a time (2.30 and later).
    pub max_p2p_peers: Option<i32>,
}

/// ncclConfig_t of 2.30. NCCL copies as much of it as it knows and ignores fields newer than
/// `version` says (src/init.cc, parseCommConfig).
#[repr(C)]
#[derive(Debug, Clone)]
pub(crate) struct RawConfig {
    size: usize,
    mark: c_uint,
    version: c_uint,
    blocking: c_int,
    cga_cluster_size: c_int,
    min_ctas: c_int,
    max_ctas: c_int,
    net_name: *const c_char,
    split_share: c_int,
    traffic_class: c_int,
    comm_name: *const c_char,
    collnet_enable: c_int,
    cta_policy: c_int,
    shrink_share: c_int,
    nvls_ctas: c_int,
    channels_per_net_peer: c_int,
    nvlink_centric: c_int,
    graph_usage_mode: c_int,
    num_rma_contexts: c_int,
    max_p2p_peers: c_int,
    /// It lies where earlier releases pad: unset, or NCCL reads what happens to be there.
    graph_stream_ordering: c_int,
}

impl RawConfig {
    /// For a library of version code `library`: fields that it does not know stay unset, and the
    /// structure has the library's version.
    pub(crate) fn new(config: &Config, library: u32) -> RawConfig {
        let where_known = |field: &str, value: Option<c_int>| {
            value.filter(|_| has_field("ncclConfig_t", field, library)).unwrap_or(UNDEFINED)
        };
        RawConfig {
            size: size_of::<RawConfig>(),
            mark: CONFIG_MARK,
            version: HEADER_VERSION.min(library),
            // Operations are enqueued by the caller itself, as nccl-tests does.
            blocking: 1,
            cga_cluster_size: UNDEFINED,
            min_ctas: UNDEFINED,
            max_ctas: UNDEFINED,
            net_name: std::ptr::null(),
            split_share: UNDEFINED,
            traffic_class: UNDEFINED,
            comm_name: std::ptr::null(),
            collnet_enable: UNDEFINED,
            cta_policy: where_known("CTAPolicy", config.cta_policy),
            shrink_share: UNDEFINED,
            nvls_ctas: UNDEFINED,
            channels_per_net_peer: UNDEFINED,
            nvlink_centric: where_known("nvlinkCentricSched", config.nvlink_centric.then_some(1)),
            graph_usage_mode: UNDEFINED,
            num_rma_contexts: UNDEFINED,
            max_p2p_peers: where_known("maxP2pPeers", config.max_p2p_peers),
            graph_stream_ordering: UNDEFINED,
        }
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut RawConfig {
        std::ptr::from_mut(self)
    }
}

/// Whether a structure has a field in a library of this version code.
pub(super) fn has_field(structure: &str, name: &str, library: u32) -> bool {
    busbw_nccl_releases::fields(structure)
        .any(|field| field.name == name && field.first.code() <= library)
}

/// ncclSimInfo_t of 2.22 and later.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawPrediction {
    size: usize,
    mark: c_uint,
    version: c_uint,
    /// Microseconds.
    pub(crate) time: f32,
}

impl RawPrediction {
    pub(crate) fn new(library: u32) -> RawPrediction {
        RawPrediction {
            size: size_of::<RawPrediction>(),
            mark: PREDICTION_MARK,
            version: HEADER_VERSION.min(library),
            time: -1.0,
        }
    }
}

/// Bytes and fields of a structure in a release, as its library has them: (name, offset), ascending.
#[cfg(test)]
pub(super) fn layout_in(release: u32, structure: &str) -> (usize, Vec<(&'static str, usize)>) {
    let there = busbw_nccl_releases::fields(structure).filter(|field| {
        let gone = field.removed.is_some_and(|removed| removed.code() <= release);
        field.first.code() <= release && !gone
    });
    let (whole, mut fields): (Vec<_>, Vec<_>) = there.partition(|field| field.name == "-");
    fields.sort_by_key(|field| field.offset);
    let bytes = whole.iter().map(|field| field.bytes).sum();
    (bytes, fields.iter().map(|field| (field.name, field.offset)).collect())
}

/// Asserts that a structure has the bytes and the fields of a release, each at its place.
#[cfg(test)]
macro_rules! holds_layout {
    ($release:expr, $type:ty, $structure:literal: $($name:literal $field:ident),+) => {
        let fields = vec![$(($name, std::mem::offset_of!($type, $field))),+];
        assert_eq!($crate::nccl::config::layout_in($release, $structure), (size_of::<$type>(), fields));
    };
}
#[cfg(test)]
pub(super) use holds_layout;

#[cfg(test)]
mod tests {
    use super::*;

    /// NCCL reads as many bytes as its release of the header has, so that every field of it must be set.
    #[test]
    fn fields_are_those_of_the_release() {
        holds_layout!(HEADER_VERSION, RawConfig, "ncclConfig_t": "size" size, "magic" mark,
            "version" version, "blocking" blocking, "cgaClusterSize" cga_cluster_size,
            "minCTAs" min_ctas, "maxCTAs" max_ctas, "netName" net_name, "splitShare" split_share,
            "trafficClass" traffic_class, "commName" comm_name, "collnetEnable" collnet_enable,
            "CTAPolicy" cta_policy, "shrinkShare" shrink_share, "nvlsCTAs" nvls_ctas,
            "nChannelsPerNetPeer" channels_per_net_peer, "nvlinkCentricSched" nvlink_centric,
            "graphUsageMode" graph_usage_mode, "numRmaCtx" num_rma_contexts,
            "maxP2pPeers" max_p2p_peers, "graphStreamOrdering" graph_stream_ordering);
        holds_layout!(HEADER_VERSION, RawPrediction, "ncclSimInfo_t": "size" size, "magic" mark,
            "version" version, "estimatedTime" time);
    }

    #[test]
    fn an_older_library_is_not_told_what_it_does_not_know() {
        let config = Config { cta_policy: Some(1), nvlink_centric: true, max_p2p_peers: Some(2) };
        let fields = |library| {
            let raw = RawConfig::new(&config, library);
            (raw.version, raw.cta_policy, raw.nvlink_centric, raw.max_p2p_peers)
        };
        assert_eq!(fields(21805), (21805, UNDEFINED, UNDEFINED, UNDEFINED));
        assert_eq!(fields(22809), (22809, 1, 1, UNDEFINED));
        assert_eq!(fields(23203), (HEADER_VERSION, 1, 1, 2));
    }
}
