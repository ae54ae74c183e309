//! ncclTuner_v2_t to v7_t: the tables by which NCCL 2.21 to 2.32 ask a tuner, and what they take.
//! Not what a tuner may do (docs/tuner.md).
//!
//! v2 to v6: src/include/plugin/tuner/tuner_v2.h to tuner_v6.h of NCCL 2.30.7 (5067397c). v7: tuner_v7.h of
//! NCCL 2.32.6 (2449986f). The tests hold the layouts against those of NCCL's libraries.

use std::ffi::{c_char, c_int, c_void};

use crate::{Logger, Status};

/// A pair of algorithm and protocol that NCCL cannot run here, in its table of costs (NCCL_ALGO_PROTO_IGNORE).
pub const IGNORED: f32 = -1.0;
/// The cost of the pair that NCCL is to take.
pub const FORCED: f32 = 0.0;
/// The symbols by which NCCL finds the tables, newest first, as it tries them.
pub const SYMBOLS: [&str; 6] = [
    "ncclTunerPlugin_v7",
    "ncclTunerPlugin_v6",
    "ncclTunerPlugin_v5",
    "ncclTunerPlugin_v4",
    "ncclTunerPlugin_v3",
    "ncclTunerPlugin_v2",
];

/// ncclNvlDomainInfo_v5_t, the same to v7: the domains of NVLink of a communicator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct NvlDomains {
    /// Domains.
    pub count: c_int,
    /// Ranks of the smallest.
    pub least_ranks: c_int,
    /// Ranks of the largest.
    pub most_ranks: c_int,
}

/// ncclTunerConstants_v5_t, the same in v6 (`COMPUTE` is 4), and that of v7 (5): latencies in us and bandwidths in GB/s of
/// NCCL's cost model, which a tuner may change in `init`. Algorithms, protocols, links (NVLink, PCI, network), compute
/// capabilities (Volta to Blackwell, and from v7 on Rubin) and scales (1 node, 2, more) are in NCCL's order.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
pub struct Constants<const COMPUTE: usize> {
    /// By algorithm and protocol.
    pub base_latencies: [[f64; 3]; 7],
    /// By link, algorithm and protocol.
    pub link_latencies: [[[f64; 3]; 7]; 3],
    /// By compute capability and scale.
    pub most_ll: [[f64; 3]; COMPUTE],
    /// A channel's, by compute capability and scale.
    pub most_ring_ll128: [[f64; 3]; COMPUTE],
    /// A channel's, by compute capability and scale.
    pub most_tree_ll128: [[f64; 3]; COMPUTE],
    /// A channel's, by compute capability and scale.
    pub most_tree: [[f64; 3]; COMPUTE],
    /// A channel's, by compute capability and scale.
    pub most_nvls_tree: [[f64; 3]; COMPUTE],
}

/// `init(ranks, nodes, logger, context)` of v2 to v4.
pub type InitV2 = unsafe extern "C" fn(usize, usize, Option<Logger>, *mut *mut c_void) -> Status;
/// `init(context, communicator, ranks, nodes, logger, domains, constants)` since v5.
pub type InitV5<const COMPUTE: usize> = unsafe extern "C" fn(
    *mut *mut c_void,
    u64,
    usize,
    usize,
    Option<Logger>,
    *mut NvlDomains,
    *mut Constants<COMPUTE>,
) -> Status;
/// `getCollInfo(context, function, bytes, collnet, nvls, operations, algorithm, protocol, channels)` of v2.
pub type AskV2 = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    usize,
    c_int,
    c_int,
    c_int,
    *mut c_int,
    *mut c_int,
    *mut c_int,
) -> Status;
/// `getCollInfo(context, function, bytes, operations, costs, algorithms, protocols, channels)` of v3. The costs are
/// `float[algorithms][protocols]` in one piece, whatever the type says.
pub type AskV3 = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    usize,
    c_int,
    *mut *mut f32,
    c_int,
    c_int,
    *mut c_int,
) -> Status;
/// `getCollInfo(context, function, bytes, operations, costs, algorithms, protocols, registered, channels)` since v4.
pub type AskV4 = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    usize,
    c_int,
    *mut *mut f32,
    c_int,
    c_int,
    c_int,
    *mut c_int,
) -> Status;
/// `getChunkSize(context, function, bytes, algorithm, protocol, channels, chunk)` since v6.
pub type ChunkSize =
    unsafe extern "C" fn(*mut c_void, c_int, usize, c_int, c_int, c_int, *mut usize) -> Status;
/// `destroy(context)`, `finalize` since v5.
pub type End = unsafe extern "C" fn(*mut c_void) -> Status;

/// ncclTuner_v2_t (the newest of NCCL 2.21).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct TunerV2 {
    /// Name of the tuner, ended by a zero.
    pub name: *const c_char,
    /// [`InitV2`].
    pub init: Option<InitV2>,
    /// [`AskV2`].
    pub ask: Option<AskV2>,
    /// [`End`].
    pub end: Option<End>,
}

/// ncclTuner_v3_t (the newest of NCCL 2.22 and 2.23).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct TunerV3 {
    /// Name of the tuner, ended by a zero.
    pub name: *const c_char,
    /// [`InitV2`].
    pub init: Option<InitV2>,
    /// [`AskV3`].
    pub ask: Option<AskV3>,
    /// [`End`].
    pub end: Option<End>,
}

/// ncclTuner_v4_t (the newest of NCCL 2.24 to 2.27).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct TunerV4 {
    /// Name of the tuner, ended by a zero.
    pub name: *const c_char,
    /// [`InitV2`].
    pub init: Option<InitV2>,
    /// [`AskV4`].
    pub ask: Option<AskV4>,
    /// [`End`].
    pub end: Option<End>,
}

/// ncclTuner_v5_t (the newest of NCCL 2.28 and 2.29).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct TunerV5 {
    /// Name of the tuner, ended by a zero.
    pub name: *const c_char,
    /// [`InitV5`].
    pub init: Option<InitV5<4>>,
    /// [`AskV4`].
    pub ask: Option<AskV4>,
    /// [`End`].
    pub end: Option<End>,
}

/// ncclTuner_v6_t (the newest of NCCL 2.30 to 2.32.3; `COMPUTE` is 4) and ncclTuner_v7_t (2.32.6; 5).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct TunerV6<const COMPUTE: usize> {
    /// Name of the tuner, ended by a zero.
    pub name: *const c_char,
    /// [`InitV5`].
    pub init: Option<InitV5<COMPUTE>>,
    /// [`AskV4`].
    pub ask: Option<AskV4>,
    /// [`End`].
    pub end: Option<End>,
    /// [`ChunkSize`], which may be left out.
    pub chunk_size: Option<ChunkSize>,
}
