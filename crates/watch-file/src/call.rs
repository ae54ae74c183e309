//! Calls of collectives and of sends and receives, with their times.
//! Not lines about the process itself (`line`).

use serde::{Deserialize, Serialize};

/// What calls have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Class {
    /// The number of the communicator in this process ([`crate::Communicator::number`]).
    pub communicator: u32,
    /// NCCL's name: `AllReduce`, `AllGather`, `ReduceScatter`, `Broadcast`, `Reduce`, `AlltoAll`, `Gather`, `Scatter`, `Send`,
    /// `Recv`.
    pub operation: String,
    /// Elements, as NCCL says them: of an all-gather and a broadcast it has made bytes of them, with the type `ncclInt8`.
    pub count: u64,
    /// NCCL's name of the type: `ncclFloat32`. Empty: not said.
    pub datatype: String,
    /// Bytes of the message as nccl-tests counts them (its column `size`): of an all-gather and a reduce-scatter those of all
    /// ranks together, else those of `count` elements. 0: the type is not known, or the number of ranks where it counts.
    pub size: u64,
    /// `RING`, `TREE`, `NVLS`, … Empty: not said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub algorithm: String,
    /// `LL`, `LL128`, `SIMPLE`. Empty: not said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub protocol: String,
    /// Channels. 0: not said.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub channels: u32,
    /// The root of the operations that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<u32>,
    /// The other rank of a send or a receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<u32>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_zero(channels: &u32) -> bool {
    *channels == 0
}

/// One call. In the file four numbers: `[17, 1200340, 88012, 412300]`; times that are not known are null.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Numbers", into = "Numbers")]
pub struct Call {
    /// The number of the call: NCCL's own, which counts a communicator's calls of one operation and is the same on all ranks.
    /// Of sends and receives the plugin's, which counts those with the same peer and direction.
    pub sequence: u64,
    /// When the process asked for it, ns since the process began to write.
    pub enqueued: u64,
    /// When its first channel began on the GPU, ns of the GPU's own clock since [`Process::gpu_origin`](crate::Process::gpu_origin).
    pub started: Option<u64>,
    /// From there to the end of its last channel, ns of the GPU's own clock.
    pub duration: Option<u64>,
}

type Numbers = (u64, u64, Option<u64>, Option<u64>);

impl From<Numbers> for Call {
    fn from((sequence, enqueued, started, duration): Numbers) -> Self {
        Self { sequence, enqueued, started, duration }
    }
}

impl From<Call> for Numbers {
    fn from(call: Call) -> Self {
        (call.sequence, call.enqueued, call.started, call.duration)
    }
}

/// Calls that ended since the last line of their class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// What they have in common.
    #[serde(flatten)]
    pub class: Class,
    /// The calls, in the order in which they ended.
    pub calls: Vec<Call>,
}

/// A call that has stood for seconds: it was asked for and has not ended. Written again with each heartbeat while it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCall {
    /// What it is.
    #[serde(flatten)]
    pub class: Class,
    /// As [`Call::sequence`].
    pub sequence: u64,
    /// As [`Call::enqueued`].
    pub enqueued: u64,
    /// Now, ns since the process began to write.
    pub at: u64,
    /// Channels that began on the GPU.
    pub channels_started: u32,
    /// Channels that ended there.
    pub channels_ended: u32,
}

/// All that a class has had so far: written where an older file is about to be dropped, and at the end.
///
/// A process has totals of a bounded number of classes. What came later is in one line for each communicator and operation,
/// whose class has no count, type, size and peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// What the calls have in common.
    #[serde(flatten)]
    pub class: Class,
    /// ns since the process began to write.
    pub at: u64,
    /// Calls that ended.
    pub calls: u64,
    /// The bytes of their messages ([`Class::size`]), all together.
    #[serde(default)]
    pub bytes: u64,
    /// Of these, those whose time on the GPU is known.
    pub timed: u64,
    /// The sum of their times on the GPU, ns.
    pub duration: u64,
}
