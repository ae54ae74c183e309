//! What there is to say of a backend: the fields of a [`BackendSpec`].
//! Not what is said of each (`backend`), and not how bytes move.

use super::super::{RankLayout, Style};

/// All that busbw knows of a backend, apart from how it moves bytes and finds devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackendSpec {
    /// Its name in options, records and messages.
    pub name: &'static str,
    /// Its line in the help of `--backend`; without one the help leaves it out.
    pub help: Option<&'static str>,
    /// Whose code moves the bytes.
    pub moved_by: MovedBy,
    /// The memory of its buffers.
    pub buffers: BufferMemory,
    /// Whether all ranks share the memory of all buffers: they are on one host then.
    pub shares_memory: bool,
    /// What holds one rank.
    pub rank_holder: RankHolder,
    /// Whether its ranks must be processes of a launcher. The launcher also assigns their processors.
    pub needs_launcher: bool,
    /// Whether a rank can be in several communicators at once.
    pub several_communicators: bool,
    /// What becomes of the options that nccl-tests has for GPUs.
    pub gpu_options: GpuOptionUse,
}

/// Whose code moves the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MovedBy {
    /// Nothing moves: times are computed.
    Nothing,
    /// busbw's own.
    Busbw,
    /// NCCL's or RCCL's.
    Nccl,
    /// An MPI's.
    Mpi,
    /// A net plugin's, of NCCL's kind.
    NetPlugin,
    /// RDMA devices', which busbw gives work through libibverbs.
    Verbs,
}

impl MovedBy {
    /// Whether it is a library, which may use devices and may crash.
    pub const fn is_library(self) -> bool {
        matches!(self, MovedBy::Nccl | MovedBy::Mpi | MovedBy::NetPlugin | MovedBy::Verbs)
    }
}

/// The memory of a backend's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferMemory {
    /// There are no buffers.
    None,
    /// Memory of hosts.
    Host,
    /// Memory of GPUs, whose kernels move the bytes.
    Gpu,
    /// As `--buffers` says.
    Chosen,
}

/// What holds one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankHolder {
    /// Nothing: one thread of the user's process stands for all ranks.
    Simulated,
    /// A process.
    Process,
    /// A thread.
    Thread,
    /// A device, of which a thread may have several.
    Device,
}

/// What becomes of the options that nccl-tests has for GPUs: `-G`, `-y`, `-R`, `-x`, `-D`, `-V`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuOptionUse {
    /// They say what runs.
    Used,
    /// They are taken: graphs are modelled, and the others change no time.
    Modelled,
    /// Each is waived.
    Waived {
        /// Why registration (`-R`) means nothing.
        registration: &'static str,
    },
}

impl BackendSpec {
    /// The rank layout under a name's style, in processes that a launcher started or not.
    pub fn rank_layout(&self, style: Style, launched: bool) -> RankLayout {
        match self.rank_holder {
            RankHolder::Simulated => RankLayout::Alone,
            RankHolder::Device if style == Style::NcclTests => RankLayout::Threads,
            _ if launched => RankLayout::Launched,
            RankHolder::Process | RankHolder::Thread | RankHolder::Device => RankLayout::Processes,
        }
    }
}
