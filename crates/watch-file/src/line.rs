//! The lines of a file, and those about the process, its communicators and its network steps.
//! Not calls (`call`).

use serde::{Deserialize, Serialize};

use crate::{Calls, OpenCall, Totals};

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// The first line of each file.
    Process(Process),
    /// A communicator: before anything that names its number, in each file again.
    Communicator(Communicator),
    /// Calls that ended.
    Calls(Calls),
    /// A call that does not end.
    Open(OpenCall),
    /// What the steps of the network waited for.
    Steps(Steps),
    /// How a GPU's clock stands to the process's.
    Clock(GpuClock),
    /// What a class has had so far.
    Totals(Totals),
    /// The process lives.
    Heartbeat(Heartbeat),
    /// Nothing follows.
    End(End),
}

/// The process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// [`crate::VERSION`].
    pub version: u32,
    /// busbw's version.
    pub busbw: String,
    /// The host's name.
    pub host: String,
    /// The process, in its own namespace.
    pub pid: u32,
    /// The host's boot (/proc/sys/kernel/random/boot_id): hosts may have one name. None: not readable, or an older plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// The namespace in which `pid` counts: the inode of /proc/self/ns/pid. None: not readable, or an older plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<u64>,
    /// What makes the job's processes known as one: of Slurm, Kubernetes or Open MPI, where there is such a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The rank that the launcher gave this process (RANK, OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID), if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// When it began to write, ns since 1970 by the host's clock. All other times of this file but the GPU's count from here
    /// and by a clock that is never set.
    pub began: u64,
    /// A time shortly before the first that a GPU gave, ns of its own clock; 0 before there was one.
    #[serde(default)]
    pub gpu_origin: u64,
    /// The version of NCCL's profiler interface: 2 to 7.
    pub interface: u32,
    /// Kinds of events that are taken from the start, NCCL's bits.
    pub mask: u64,
}

/// A communicator, as one rank of it sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Communicator {
    /// Its number in this process, from 0: a process may have several ranks of one communicator.
    pub number: u32,
    /// NCCL's identification, the same on all ranks, hexadecimal. Empty: this NCCL does not say it (before 2.27).
    pub id: String,
    /// The name that the program gave it (PyTorch: the process group's). Empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Nodes. 0: not said.
    pub nodes: u32,
    /// Ranks. 0: not said.
    pub ranks: u32,
    /// The rank of this process, or of its thread.
    pub rank: u32,
    /// When it was made, ns since the process began to write.
    pub at: u64,
}

/// What the steps of one communicator's network connections to one peer waited for. Time is charged to the state that a step
/// left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    /// The communicator's number.
    pub communicator: u32,
    /// The other rank.
    pub peer: u32,
    /// From this rank to the peer; else from the peer.
    pub send: bool,
    /// Begin of the time in which these steps ended, ns since the process began to write.
    pub from: u64,
    /// Its end.
    pub to: u64,
    /// Steps.
    pub steps: u64,
    /// Bytes that they moved. 0: not said.
    pub bytes: u64,
    /// For this rank's GPU: to produce data, or to take it, ns, all steps together.
    pub gpu: u64,
    /// For the receiver's credit (sends only), ns.
    pub peer_wait: u64,
    /// For the wire: of a send the completion; of a receive the data, which the sender may be late with, ns.
    pub wire: u64,
    /// For the flush of received data into GPU memory, ns.
    pub flush: u64,
}

/// How the clock of a communicator's GPU stands to that of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuClock {
    /// The communicator's number.
    pub communicator: u32,
    /// ns since the process began to write.
    pub at: u64,
    /// Added to a time of the GPU since `gpu_origin` it gives the time since the process began to write, ns. It is the least
    /// difference seen since the last such line between when the process learnt of a begin or end on the GPU and the GPU's
    /// own time of it: too large by the least delay of NCCL's thread, and never too small.
    pub ahead: i64,
}

/// About once a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// ns since the process began to write.
    pub at: u64,
    /// The host's clock, ns since 1970: it may be set while the process runs.
    pub clock: u64,
    /// By how much the plugin's own thread, which wakes every 50 ms, was late at most, ns: the process was stopped, or got
    /// no core.
    pub late: u64,
    /// What the threads of the process waited for a core while they could have run, ns, all together since the last heartbeat
    /// (/proc/PID/task/TID/schedstat). None: not readable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_wait: Option<u64>,
    /// Calls so far for which there was no room: their times are missing, and calls and bytes of the totals are too small by
    /// them.
    pub dropped_calls: u64,
    /// Steps of the network so far for which there was no room.
    pub dropped_steps: u64,
    /// Kinds of events that NCCL is asked for now, its bits: RAS may have changed them, and a process
    /// that samples small calls changes them itself. None: no communicator is there, or the plugin is older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<u64>,
}

/// Why nothing follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// ns since the process began to write.
    pub at: u64,
    /// `finished`: all communicators ended. Else the reason in words: `cannot write: No space left on device`.
    pub why: String,
}
