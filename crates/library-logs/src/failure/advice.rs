//! What to do about an incident, and how to confirm that it is the cause, where that is known.
//! Not what happened (`sentence`).

use super::{incident::Incident, kind::Kind, sentence::opens_peer};

/// What removes the cause: half a sentence in the imperative, without a full stop.
pub fn remedy(incident: &Incident) -> Option<&'static str> {
    Some(match incident.kind {
        Kind::GpuHardware => {
            "take the host out of the job, reset the GPU, and have it replaced if it comes again"
        }
        Kind::NodeFailure => "exclude that host (--exclude) and look at its kernel log",
        Kind::OomKill => {
            "ask for more memory (--mem, the container's limit), or let each rank use less: data loaders and pinned buffers first"
        }
        Kind::RunAsRoot => "run it as another user; in a container, give --allow-run-as-root",
        Kind::TooFewSlots => {
            "give slots in the hostfile or --host name:N, or --oversubscribe if ranks may share cores"
        }
        Kind::NoUsableHost => {
            "name hosts with free slots (--host name:N); install ssh on the host of mpirun if ranks start on others"
        }
        Kind::ProgramMissing => {
            "install the program at this path on every host, or give its full path"
        }
        Kind::LibraryMissing => {
            "install the library on every host, or pass LD_LIBRARY_PATH to the ranks (mpirun -x LD_LIBRARY_PATH)"
        }
        Kind::HostUnknown => {
            "correct the name in the hostfile, or add it to the name service of every host"
        }
        Kind::NoSsh => "install ssh on the host of mpirun, or start the job by the scheduler",
        Kind::SshRefused => {
            "let ssh log in to that host without a question: key, known_hosts and sshd"
        }
        Kind::Unreachable => {
            "correct btl_tcp_if_include, or allow BTLs that reach the peers (--mca btl vader,tcp,self)"
        }
        Kind::PortInUse => {
            "end the process that listens there, or give another port (--master-port, --rdzv-endpoint)"
        }
        Kind::InterfaceMissing => {
            "set the variable to an interface that `ip -br addr` lists as up on every host, or unset it"
        }
        Kind::NetworkMissing => {
            "unset NCCL_NET, or install the plugin where the loader finds it (LD_LIBRARY_PATH)"
        }
        Kind::AlgorithmMissing => "unset NCCL_ALGO and NCCL_PROTO, or add ring to the list",
        Kind::DuplicateGpu => {
            "give each rank of a host its own GPU: torch.cuda.set_device(LOCAL_RANK), or --gpus-per-task=1"
        }
        Kind::VersionsDiffer => {
            "use the same image, or the same libnccl.so, on every host (LD_LIBRARY_PATH, LD_PRELOAD)"
        }
        Kind::InvalidDevice if opens_peer(incident) => {
            "let every rank see all GPUs of its host: no --gpus-per-task, and the same CUDA_VISIBLE_DEVICES for all ranks"
        }
        Kind::InvalidDevice => {
            "start no more ranks on a host than it has GPUs, and choose the GPU by the local rank"
        }
        Kind::NoGpu => {
            "check CUDA_VISIBLE_DEVICES and that the container or job was given GPUs (--gpus, --gres=gpu)"
        }
        Kind::GpuBusy => {
            "end the process that `nvidia-smi` shows on the GPU, or leave its exclusive compute mode"
        }
        Kind::DriverTooOld => {
            "install a driver that supports the program's CUDA version, or use an older build"
        }
        Kind::NoKernelImage => {
            "use a build of the program and of NCCL or RCCL for this GPU's architecture"
        }
        Kind::ShmFull => {
            "make /dev/shm larger: docker run --shm-size=8g, or an emptyDir of medium Memory in Kubernetes"
        }
        Kind::LockedMemory => {
            "set the limit of locked memory to unlimited (ulimit -l), in the container and for the launcher's daemons too"
        }
        Kind::RankCountMismatch => {
            "start all ranks with the same number of ranks and the same NCCL id"
        }
        Kind::GpuMemory => {
            "let the rank use less GPU memory (a smaller batch), and end other processes on the GPU"
        }
        Kind::CollectivesDiffer | Kind::NeverCalled => {
            "let every rank call the same collectives in the same order: branches and uneven data are the usual reasons"
        }
        Kind::SizesDiffer | Kind::Truncated => {
            "give the collective the same size and type on every rank; NCCL_ALGO and NCCL_PROTO must agree too"
        }
        Kind::IdNeverCame | Kind::ClientsMissing | Kind::RendezvousTimeout => {
            "start all ranks within the time-out, or raise it; look at what the missing ranks wait for"
        }
        Kind::MasterSilent => {
            "start rank 0, and check that MASTER_ADDR and MASTER_PORT are reachable from every host"
        }
        Kind::TimeLimit => {
            "find out where the ranks waited; raise the limit only if they still worked"
        }
        Kind::ConnectFailed => {
            "let the hosts reach each other on all ports, and name the right interface in NCCL_SOCKET_IFNAME"
        }
        Kind::NetworkRetries => {
            "check the link and the peer's state; NCCL_IB_TIMEOUT=22 rides out short losses"
        }
        Kind::VerbsFailed => {
            "check that NCCL_IB_HCA and NCCL_IB_GID_INDEX name ports that reach the peer's"
        }
        Kind::InitHang => {
            "start the missing ranks, or find out what they wait for before the first collective"
        }
        _ => return None,
    })
}

/// What shows whether it is the cause: a command or a setting, without a full stop.
pub fn confirm(incident: &Incident) -> Option<&'static str> {
    Some(match incident.kind {
        Kind::OomKill | Kind::Killed => {
            "dmesg on that host names the process if the kernel's out-of-memory killer ended it"
        }
        Kind::GpuHardware => "dmesg (NVRM: Xid) and `nvidia-smi -q -d ECC`",
        Kind::ShmFull => "df -h /dev/shm, inside the container",
        Kind::LockedMemory => "ulimit -l, printed by the ranks themselves",
        Kind::WatchdogTimeout | Kind::SizesDiffer | Kind::NeverCalled | Kind::Truncated => {
            "run with TORCH_FR_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1, or TORCH_DISTRIBUTED_DEBUG=DETAIL"
        }
        Kind::HostLost => "ping that host, and its kernel log",
        Kind::PeerLost => "the log of the rank that ended first",
        Kind::NcclError => "run with NCCL_DEBUG=INFO",
        Kind::Crashed => "a core dump or stack of that rank",
        Kind::ConnectFailed => "connect from one host to the other by hand (nc -vz HOST PORT)",
        Kind::NetworkRetries => "the port's error counters on both ends (perfquery, ethtool -S)",
        Kind::InitHang => "a stack of each missing rank (py-spy dump --pid)",
        _ => return None,
    })
}
