//! The kinds of incidents, and how close to the cause of a failure each kind is.
//! Not their texts (`nccl`, `pytorch`, `launcher`, `system`), and not sentences.

use serde::{Deserialize, Serialize};

/// How close to the cause of a failure an incident is. Where a log has several, the first of these classes
/// names the cause, whatever the order of the lines: ranks print at once, and launchers report late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Causality {
    /// Hardware, the kernel or the scheduler took a rank or a host away. Nothing inside a job causes that.
    Machine,
    /// A launcher or a library refused to start: no rank was there yet that could fail first.
    Refused,
    /// A rank met an error that names its own reason. Others lose their peer afterwards.
    Specific,
    /// A rank's program gave up for a reason of its own: an exception without a more precise kind.
    Raised,
    /// A rank crashed. It comes before `Killed`, since launchers end the remaining ranks by SIGKILL.
    Crashed,
    /// A rank was killed from outside. The survivors' connections break, and their watchdogs time out.
    Killed,
    /// A rank reported an error without a precise reason, or asked for the end of the job.
    Reported,
    /// The ranks disagree on a collective, so that no rank is broken and all stop.
    Disagreement,
    /// A wait was too long. It follows from anything above.
    Timeout,
    /// A limit of the scheduler or launcher ended a job that was still running or waiting.
    Limit,
    /// A network did not carry a message, and no rank is known to have failed before.
    Network,
    /// A library gives only the class of the error.
    Unspecific,
    /// A rank ended with an exit code and no message.
    Exit,
    /// A rank lost its peer: whatever ended the peer is the cause.
    PeerLost,
    /// A rank was ended because another one failed.
    Aftermath,
    /// Nothing failed: a warning that healthy runs print too.
    Harmless,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $causality:ident,)*) => {
        /// What an incident is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Kind { $($(#[$doc])* $kind,)* }

        impl Kind {
            /// How close to a failure's cause it is.
            pub fn causality(self) -> Causality {
                match self { $(Kind::$kind => Causality::$causality,)* }
            }

            /// Every kind.
            pub const ALL: &[Kind] = &[$(Kind::$kind,)*];
        }
    };
}

kinds! {
    /// A GPU or its links are defective: an uncorrectable ECC or NVLink error, or an Xid that says so.
    GpuHardware: Machine,
    /// The scheduler lost a host.
    NodeFailure: Machine,
    /// The scheduler gave the hosts to another job.
    Preempted: Machine,
    /// The kernel's or the container's out-of-memory killer ended a process.
    OomKill: Machine,
    /// mpirun does not run as root without consent.
    RunAsRoot: Refused,
    /// Fewer slots than ranks.
    TooFewSlots: Refused,
    /// mpirun found no host on which it may start a rank.
    NoUsableHost: Refused,
    /// The scheduler did not start the job step.
    StepRefused: Refused,
    /// The program to run does not exist.
    ProgramMissing: Refused,
    /// A shared library is missing.
    LibraryMissing: Refused,
    /// A host name is not resolved.
    HostUnknown: Refused,
    /// mpirun has no ssh or rsh to start ranks elsewhere.
    NoSsh: Refused,
    /// A host refused the ssh connection.
    SshRefused: Refused,
    /// No BTL connects two ranks.
    Unreachable: Refused,
    /// Another process uses the port.
    PortInUse: Refused,
    /// The interface that a variable names does not exist.
    InterfaceMissing: Refused,
    /// NCCL has no network, or not the one that was asked for.
    NetworkMissing: Refused,
    /// NCCL_ALGO and NCCL_PROTO leave nothing for a collective.
    AlgorithmMissing: Refused,
    /// Two ranks use one GPU.
    DuplicateGpu: Refused,
    /// A rank asks for a GPU that the host does not have.
    InvalidDevice: Refused,
    /// No GPU is visible.
    NoGpu: Refused,
    /// Another process holds the GPU.
    GpuBusy: Refused,
    /// The driver is too old.
    DriverTooOld: Refused,
    /// The program or library has no code for this GPU.
    NoKernelImage: Refused,
    /// Shared memory is full.
    ShmFull: Refused,
    /// The limit of locked memory is too low for a NIC.
    LockedMemory: Refused,
    /// The ranks load different releases of NCCL.
    VersionsDiffer: Refused,
    /// The ranks do not agree how many they are.
    RankCountMismatch: Refused,
    /// A network refused to register memory.
    RegistrationFailed: Refused,
    /// A GPU ran out of memory.
    GpuMemory: Specific,
    /// A GPU met a fault of the program: an illegal address, a failed launch or assertion.
    GpuFault: Specific,
    /// Any other failure of CUDA or HIP.
    CudaFailure: Reported,
    /// The host had no memory to give.
    HostMemory: Specific,
    /// The ranks call different collectives.
    CollectivesDiffer: Specific,
    /// An uncaught exception of Python.
    Exception: Raised,
    /// A signal of a fault: SIGSEGV, SIGBUS, SIGILL, SIGFPE.
    Crashed: Crashed,
    /// SIGKILL.
    Killed: Killed,
    /// MPI_Abort.
    MpiAbort: Reported,
    /// An error of an MPI call.
    MpiError: Reported,
    /// A rank sent more than another expected.
    Truncated: Disagreement,
    /// The ranks call a collective with different sizes.
    SizesDiffer: Disagreement,
    /// Ranks that did not call a collective that others wait in.
    NeverCalled: Disagreement,
    /// PyTorch's watchdog ended a collective, and it is not known which rank is behind.
    WatchdogTimeout: Timeout,
    /// A rank waited for NCCL's unique id.
    IdNeverCame: Timeout,
    /// Too few ranks came to the rendezvous.
    ClientsMissing: Timeout,
    /// Nobody answers at the master address.
    MasterSilent: Timeout,
    /// torchelastic's rendezvous timed out, or closed.
    RendezvousTimeout: Timeout,
    /// gloo waited for a message.
    GlooTimeout: Timeout,
    /// PyTorch's watchdog thread itself is stuck.
    HeartbeatTimeout: Timeout,
    /// The log ends in the initialization of a communicator.
    InitHang: Timeout,
    /// The time limit of the scheduler or launcher.
    TimeLimit: Limit,
    /// Someone cancelled the job.
    Cancelled: Limit,
    /// A peer's address did not take the connection.
    ConnectFailed: Network,
    /// A NIC gave up after retransmissions.
    NetworkRetries: Network,
    /// A call of the NIC's library failed.
    VerbsFailed: Network,
    /// The launcher lost its daemon on another host.
    HostLost: Network,
    /// A result code of NCCL without a reason.
    NcclError: Unspecific,
    /// mpirun could not start its daemons.
    DaemonsNotStarted: Unspecific,
    /// A benchmark found wrong data.
    WrongData: Unspecific,
    /// A command of a script does not exist: the script may go on without it.
    CommandMissing: Exit,
    /// A nonzero exit code.
    ExitCode: Exit,
    /// A connection to a peer broke.
    PeerLost: PeerLost,
    /// SIGABRT: the program ended itself.
    Aborted: Aftermath,
    /// SIGTERM and what launchers do to the remaining ranks.
    Ended: Aftermath,
    /// A launcher's process end, until its lines tell which.
    ProcessEnd: Aftermath,
    /// A message of NCCL at level WARN, of no other kind.
    NcclWarning: Harmless,
    /// An Xid that does not stand for defective hardware.
    Xid: Harmless,
    /// An optional plugin is missing, or has no table of a version.
    PluginMissing: Harmless,
    /// NCCL found no RDMA device, and used another network.
    NoRdmaDevice: Harmless,
    /// NCCL 2.32 asks for GDRCopy for one-sided transfers.
    GdrCopyMissing: Harmless,
    /// No processor is local to the GPU, so that NCCL does not bind.
    AffinityEmpty: Harmless,
    /// PyTorch's process group was not destroyed.
    GroupNotDestroyed: Harmless,
    /// torchrun set OMP_NUM_THREADS.
    OmpThreads: Harmless,
    /// A rank is not bound to processors.
    NotBound: Harmless,
    /// The X server refused: nothing that a job needs.
    NoDisplay: Harmless,
    /// Open MPI ignores an interface that does not exist; other transports carry the messages.
    InterfaceIgnored: Harmless,
    /// A file of Open MPI's shared memory has no room.
    MpiShmFull: Harmless,
    /// RCCL warns of a setting of the host.
    HostSetting: Harmless,
}

impl Kind {
    /// Whether healthy runs print it too.
    pub fn is_harmless(self) -> bool {
        self.causality() == Causality::Harmless
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_json_are_stable() {
        assert_eq!(serde_json::to_string(&Kind::OomKill).expect("json"), "\"oom_kill\"");
        for kind in Kind::ALL {
            let json = serde_json::to_string(kind).expect("json");
            assert_eq!(serde_json::from_str::<Kind>(&json).expect("and back"), *kind);
        }
    }
}
