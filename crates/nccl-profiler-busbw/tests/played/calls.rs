//! Calls that are played, and their kernels as the proxy sees them.
//! Not in which order and by whom (`scenarios`).

use std::ffi::CStr;

use super::versions::{Call, Handle, Nccl};

/// Channels of a kernel.
pub const CHANNELS: u8 = 4;
/// From the first channel's start to the last one's end, ns.
pub const KERNEL_TIME: u64 = 1003;
/// The GPU's clock at the first call.
pub const GPU_CLOCK: u64 = 2_000_000_000;

pub const ALL_REDUCE: Call = Call {
    sequence: 0,
    function: c"AllReduce",
    count: 1000,
    datatype: c"ncclFloat32",
    algorithm: c"RING",
    channels: CHANNELS,
    other: 0,
};
pub const ALL_GATHER: Call = Call {
    function: c"AllGather",
    count: 4000,
    datatype: c"ncclInt8",
    algorithm: c"TREE",
    ..ALL_REDUCE
};
pub const SEND: Call =
    Call { function: c"Send", count: 500, datatype: c"ncclFloat16", other: 4, ..ALL_REDUCE };

pub fn named(call: Call, function: &'static CStr) -> Call {
    Call { function, ..call }
}

/// Times of a channel of the call of a number.
pub fn times(number: u64, channel: u8) -> (u64, u64) {
    let start = GPU_CLOCK + number * 1_000_000 + u64::from(channel);
    (start, start + KERNEL_TIME - u64::from(CHANNELS - 1))
}

/// All channels of a call's kernel, as the proxy sees them: they begin, then they end.
pub fn kernel(nccl: &dyn Nccl, context: Handle, call: Handle, number: u64, channels: u8) {
    let begun: Vec<Handle> = (0..channels)
        .map(|channel| nccl.channel(context, call, times(number, channel).0))
        .collect();
    for (channel, event) in begun.into_iter().enumerate() {
        nccl.end_channel(event, times(number, channel as u8).1);
    }
}

/// A call with its kernel, one after the other.
pub fn whole(nccl: &dyn Nccl, context: Handle, call: &Call, number: u64) {
    let group = nccl.group(context);
    let event = nccl.collective(context, call);
    nccl.stop(event);
    nccl.stop(group);
    kernel(nccl, context, event, number, call.channels);
}
