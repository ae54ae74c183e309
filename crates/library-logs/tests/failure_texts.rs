//! Texts that tests/failed_runs does not make, of other launchers, releases and vendors. A source that names an issue
//! is a real run's text, shortened, but for what is said to be composed; a text in the form of a program's messages
//! was not seen in a run. The sentence is what a user reads first, word for word.

use busbw_library_logs::{
    failure::{self, FailureFacts, Kind, confirm, remedy, sentence},
    nccl,
};

fn read(text: &str) -> FailureFacts {
    failure::parse(text, &nccl::parse(text))
}

/// (source, text, kind, sentence)
const TEXTS: &[(&str, &str, Kind, &str)] = &[
    (
        "composed in the form of NCCL 2.28.9, src/init.cc:896",
        "[2026-11-11 11:11:40] n1:734:746 [0] init.cc:896 (initTransportsRank) NCCL WARN Mismatched NCCL version detected : rank 0 version 22707 rank 8 version 22809",
        Kind::VersionsDiffer,
        "The ranks load different versions of NCCL on n1: 2.27.7 and 2.28.9.",
    ),
    (
        "composed in the form of nccl-tests 2.19, src/common.h: the second line names the process of the first",
        "n1: Test CUDA failure common.cu:1074 'out of memory'
 .. n1 pid 31: Test failure common.cu:1189
n1: Test CUDA failure common.cu:1074 'out of memory'
 .. n1 pid 32: Test failure common.cu:1189",
        Kind::GpuMemory,
        "2 processes on n1 ran out of GPU memory at common.cu:1074: other allocations fill the GPU.",
    ),
    (
        "composed in the form of torch 2.9, ProcessGroupNCCL.cpp: one of five ranks is silent",
        "[rank0]:[E930 03:08:12.1 ProcessGroupNCCL.cpp:688] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600068 milliseconds before timing out.
[rank1]:[E930 03:08:12.1 ProcessGroupNCCL.cpp:688] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600068 milliseconds before timing out.
[rank2]:[E930 03:08:12.1 ProcessGroupNCCL.cpp:688] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600068 milliseconds before timing out.
[rank4]:[E930 03:08:12.1 ProcessGroupNCCL.cpp:688] [Rank 4] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600068 milliseconds before timing out.",
        Kind::WatchdogTimeout,
        "Ranks 0-2 and 4 waited 600 s in all_reduce number 7 of 8 elements until PyTorch's watchdog ended it; rank 3 did not report it, and most likely did not call it.",
    ),
    (
        "desihub/desitarget issue 628",
        "srun: Force Terminated job 32233190
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
slurmstepd: error: *** STEP 32233190.0 ON nid01934 CANCELLED AT 2020-07-03T02:59:56 DUE TO TIME LIMIT ***
srun: error: nid01934: tasks 2,4-5,7: Terminated
srun: Terminating job step 32233190.0
srun: error: nid01935: tasks 8-15: Terminated",
        Kind::TimeLimit,
        "Slurm ended the job at its time limit.",
    ),
    (
        "ufs-community/ufs-weather-model pull request 907; composed: the second line",
        "  0: slurmstepd: error: *** STEP 25551887.0 ON h19c25 CANCELLED AT 2021-11-23T19:29:13 DUE TO TIME LIMIT ***
srun: error: h19c25: tasks 0-39: Killed",
        Kind::TimeLimit,
        "Slurm ended the job at its time limit.",
    ),
    (
        "facebookincubator/submitit issue 1613",
        "slurmstepd: error: *** STEP 37361369.0 ON learnfair5146 CANCELLED AT 2021-03-15T17:50:23 ***
slurmstepd: error: *** JOB 37361369 ON learnfair5146 CANCELLED AT 2021-03-15T18:00:46 DUE TO PREEMPTION ***
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
slurmstepd: error: Failed to send MESSAGE_TASK_EXIT: Connection refused",
        Kind::Preempted,
        "Slurm preempted the job on learnfair5146.",
    ),
    (
        "chrisknewman/tusas issue 149",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=440575.0. Some of the step tasks have been OOM Killed.
srun: error: nid001277: tasks 1-3: Out Of Memory
srun: Terminating StepId=440575.0
slurmstepd: error: *** STEP 440575.0 ON nid001277 CANCELLED AT 2023-12-05T07:16:01 ***",
        Kind::OomKill,
        "The out-of-memory (OOM) killer ended ranks 1-3 on nid001277: its host or its memory limit had no memory left.",
    ),
    (
        "hafs-community/HAFS issue 101",
        "srun: error: Orion-18-69: task 289: Bus error
srun: Terminating job step 3495450.0
slurmstepd: error: *** STEP 3495450.0 ON orion-01-04 CANCELLED AT 2021-10-27T20:22:22 ***",
        Kind::Crashed,
        "Rank 289 on Orion-18-69 died of a bus error (signal 7, SIGBUS).",
    ),
    (
        "ArjunaCluster/ArjunaUsers issue 52",
        "/var/spool/slurmd/job00191/slurm_script: line 28:  8156 Killed                  python3 main.py --prop hform
slurmstepd: error: Detected 1 oom-kill event(s) in StepId=191.batch cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler.",
        Kind::OomKill,
        "The out-of-memory (OOM) killer ended a process: its host or its memory limit had no memory left.",
    ),
    (
        "equinor/ert issue 7797",
        "2024-04-29T14:55:41,678612+02:00 pool invoked oom-killer: gfp_mask=0x6200ca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0
2024-04-29T14:55:41,679700+02:00 Out of memory: Killed process 1440763 (perl) total-vm:87033376kB, anon-rss:60356340kB",
        Kind::OomKill,
        "The out-of-memory (OOM) killer ended perl: its host or its memory limit had no memory left.",
    ),
    (
        "openai/jukebox issue 155 (MPICH)",
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 9665 RUNNING AT NeuroRTX6000
=   EXIT CODE: 9
=   CLEANING UP REMAINING PROCESSES
=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES
===================================================================================
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)
This typically refers to a problem with your application.",
        Kind::Killed,
        "A process on NeuroRTX6000 was killed by signal 9 (SIGKILL).",
    ),
    (
        "bsc-performance-tools/extrae issue 101 (Intel MPI); composed: the first signal",
        "===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   RANK 6 PID 2447372 RUNNING AT node0009
=   KILLED BY SIGNAL: 11 (Segmentation fault)
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   RANK 7 PID 2447373 RUNNING AT node0009
=   KILLED BY SIGNAL: 9 (Killed)",
        Kind::Crashed,
        "Rank 6 on node0009 died of a segmentation fault (signal 11, SIGSEGV).",
    ),
    (
        "NVIDIA/nccl issue 1814",
        "hostname-test:984:1357 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 172.36.143.59<44206> with status=12 opcode=129 len=65536 vendor err 129 (Recv) localGid ::ffff:29.87.88.182 remoteGids::ffff:29.87.4.221
hostname-test:984:1357 [4] NCCL INFO transport/net.cc:1298 -> 6
hostname-test:984:1357 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 172.36.143.59<44206> with status=5 opcode=32656 len=32659 vendor err 249 (Recv) localGid ::ffff:29.87.88.182 remoteGids::ffff:29.87.4.221",
        Kind::NetworkRetries,
        "The network lost messages of a process on hostname-test: a NIC gave up on 172.36.143.59<44206> (status 12: retries exceeded).",
    ),
    (
        "sgl-project/sglang issue 3820",
        "node5:240:240 [6] misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to 10.0.0.4<56849> returned 113(No route to host) errno 115(Operation now in progress)
node5:240:240 [6] NCCL INFO misc/socket.cc:570 -> 2
node5:240:240 [6] NCCL INFO bootstrap.cc:285 -> 2",
        Kind::ConnectFailed,
        "A process on node5 cannot connect to 10.0.0.4<56849>: No route to host.",
    ),
    (
        "hiyouga/LlamaFactory issue 8045",
        "zgiot:1183664:1184669 [0] NCCL INFO socketPollConnect: connect returned No route to host, retrying (33/34) after sleep for 3300 msec
zgiot:1183664:1184669 [0] NCCL INFO socketPollConnect: connect returned No route to host, retrying (34/34) after sleep for 3400 msec",
        Kind::ConnectFailed,
        "A process on zgiot cannot connect to a peer: No route to host.",
    ),
    (
        "NVIDIA/nccl-tests issue 206; composed: the host",
        "node1:10:20 [0] misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
        Kind::LockedMemory,
        "A process on node1 may not lock the memory that the NIC needs (ibv_reg_mr_iova2 failed at misc/ibvwrap.cc:278): the limit of locked memory is too low.",
    ),
    (
        "NVIDIA/nccl-tests issue 208; composed: the last line",
        "noodle-4090-0:1896106:1896121 [1] enqueue.cc:47 NCCL WARN Cuda failure 'named symbol not found'
noodle-4090-0: Test NCCL failure common.cu:954 'unhandled cuda error (run with NCCL_DEBUG=INFO for details) / '
 .. noodle-4090-0 pid 1896106: Test failure common.cu:844",
        Kind::NoKernelImage,
        "A process on noodle-4090-0 has no code for this GPU's architecture: named symbol not found at enqueue.cc:47.",
    ),
    (
        "vllm-project/vllm issue 19890; composed: the host and the last line",
        "host:10:20 [0] enqueue.cc:1556 NCCL WARN Cuda failure 700 'an illegal memory access was encountered'
terminate called after throwing an instance of 'c10::DistBackendError'",
        Kind::GpuFault,
        "A process on host met a fault of a GPU program: an illegal memory access was encountered at enqueue.cc:1556.",
    ),
    (
        "ROCm/rccl-tests issue 50",
        "sharbox-ultra:204802:204802 [0] /home/elias/rccl/build/release/hipify/src/init.cc:125 NCCL WARN Missing \"amd_iommu=on\" from kernel command line which can lead to system instablity or hang!
sharbox-ultra: Test NCCL failure common.cu:1285 'internal error - please report this issue to the NCCL developers'
 .. sharbox-ultra pid 117738: Test failure common.cu:1161",
        Kind::NcclError,
        "NCCL failed on a process on sharbox-ultra: internal error at common.cu:1285.",
    ),
    (
        "ROCm/rccl-tests issue 120; composed: the host, the path and the last line",
        "amd1:5161:5196 [1] /src/rccl/hipify/src/transport/p2p.cc:239 NCCL WARN hipIpcGetMemHandle failed : invalid argument
amd1: Test NCCL failure common.cu:1285 'unhandled cuda error (run with NCCL_DEBUG=INFO for details) / '",
        Kind::NcclError,
        "NCCL failed on a process on amd1: unhandled cuda error at transport/p2p.cc:239: hipIpcGetMemHandle failed : invalid argument.",
    ),
    (
        "sgl-project/sglang issue 3204; composed: all but the error",
        "[rank3]: Traceback (most recent call last):
[rank3]:   File \"/x.py\", line 1, in <module>
[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered
[rank0]:[E129 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600040 milliseconds before timing out.",
        Kind::GpuHardware,
        "The GPU of rank 3 is defective: uncorrectable ECC error encountered.",
    ),
    (
        "composed in the form of nvidia.ko's messages, by NVIDIA's Xid catalogue",
        "[ 1234.5] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
[ 1234.6] NVRM: Xid (PCI:0000:3b:00): 13, pid=77, Graphics Exception",
        Kind::GpuHardware,
        "The GPU of a process is defective: the driver reports Xid 79 at 0000:3b:00.",
    ),
    (
        "facebookresearch/dinov2 issue 447",
        "[rank0]:[E ProcessGroupNCCL.cpp:1316] [PG 0 Rank 0] Heartbeat monitor timed out! Process will be terminated after dumping debug info. workMetaList_.size()=1
[rank0]:[F ProcessGroupNCCL.cpp:1169] [PG 0 Rank 0] [PG 0 Rank 0] ProcessGroupNCCL's watchdog got stuck for 600 seconds without making progress in monitoring enqueued collectives.",
        Kind::HeartbeatTimeout,
        "PyTorch's watchdog thread of rank 0 got stuck for 600 s: a CUDA or NCCL call, or the interpreter's lock, blocks it.",
    ),
    (
        "NVIDIA/nccl issue 1394; composed: the traceback",
        "[rank1]: Traceback (most recent call last):
[rank1]:   File \"/x/torch/distributed/distributed_c10d.py\", line 2501, in all_reduce
[rank1]: RuntimeError: [enforce fail at /opt/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:446] op.preamble.length <= op.nbytes. 256000 vs 128000",
        Kind::SizesDiffer,
        "The ranks call all_reduce with different sizes: rank 1 got 256000 bytes for a buffer of 128000.",
    ),
    (
        "pytorch/pytorch issue 107021",
        "[E socket.cpp:860] [c10d] The client socket has timed out after 60s while trying to connect to 192.0.0.1:1234
torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details.",
        Kind::MasterSilent,
        "Nobody answers at the master address 192.0.0.1:1234 within 60 s: the process that listens there (rank 0) was not started, or is elsewhere.",
    ),
    (
        "facebookincubator/submitit issue 1613, of a restarted job",
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: store_based_barrier_key:1 (world_size=8, worker_count=16, timeout=0:30:00)",
        Kind::ClientsMissing,
        "16 processes came to a rendezvous of 8 ranks: processes of another run use the same store.",
    ),
    (
        "composed in the form of torch/csrc/distributed/c10d/ProcessGroupGloo.cpp",
        "[rank0]:[E ProcessGroupGloo.cpp:138] [Rank 0]: Ranks 2 failed to pass monitoredBarrier in 30000 ms",
        Kind::NeverCalled,
        "Rank 2 did not come to monitored_barrier within 30 s.",
    ),
    (
        "Azure/aks-rdma-infiniband issue 30",
        "ssh: Could not resolve hostname nccl-tests-worker-0.nccl-tests.default.svc: Name or service not known
--------------------------------------------------------------------------
ORTE was unable to reliably start one or more daemons.
This usually is caused by:",
        Kind::HostUnknown,
        "The host name nccl-tests-worker-0.nccl-tests.default.svc cannot be resolved, so that no rank starts there.",
    ),
    (
        "eth-cscs/cscs-docs, NCCL",
        "nid006365:179857:179897 [1] net.cc:626 NCCL WARN Error: network AWS Libfabric not found.",
        Kind::NetworkMissing,
        "NCCL has no network named AWS Libfabric (NCCL_NET or plugin) on nid006365.",
    ),
    (
        "composed in the form of glibc's dl-load.c",
        "[1,0]<stderr>:./build/all_reduce_perf: error while loading shared libraries: libnccl.so.2: cannot open shared object file: No such file or directory",
        Kind::LibraryMissing,
        "Rank 0 cannot load the shared library libnccl.so.2: cannot open shared object file: No such file or directory.",
    ),
    (
        "composed in the form of torch/utils/data/_utils/signal_handling.py",
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        Kind::ShmFull,
        "A process finds no space in /dev/shm for shared-memory segments.",
    ),
    (
        "composed in the form of NVIDIA/nccl's misc/ibvwrap.cc",
        "n1:10:20 [0] misc/ibvwrap.cc:342 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, next state RTR, local GID index 3",
        Kind::VerbsFailed,
        "A process on n1 cannot use the NIC: ibv_modify_qp failed: 110 Connection timed out at misc/ibvwrap.cc:342.",
    ),
    (
        "composed in the form of deepspeed/launcher/launch.py",
        "[2024-05-01 12:00:00,123] [INFO] [launch.py:316:sigkill_handler] Killing subprocess 4711
[2024-05-01 12:00:00,124] [ERROR] [launch.py:322:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py'] exits with return code = -9",
        Kind::Killed,
        "A process was killed by signal 9 (SIGKILL).",
    ),
    (
        "composed in the form of Python's subprocess.CalledProcessError",
        "subprocess.CalledProcessError: Command '['python', 'train.py']' died with <Signals.SIGKILL: 9>.",
        Kind::Killed,
        "A process was killed by signal 9 (SIGKILL).",
    ),
    (
        "composed in the form of Open MPI's help-errmgr-base.txt",
        "ORTE has lost communication with a remote daemon.

  HNP daemon   : [[15380,0],0] on node host1
  Remote daemon: [[15380,0],1] on node host2

This is usually due to either a failure of the TCP network
connection to the node, or possibly an internal failure of
the daemon itself. We cannot recover from this failure, and
therefore will terminate the job.",
        Kind::HostLost,
        "mpirun lost its daemon on host2: that host went down, or the network between.",
    ),
    (
        "composed in the form of ProcessGroupNCCL.cpp: rank 0 ended before the id was given",
        "[rank1]: torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer",
        Kind::PeerLost,
        "Rank 1 lost the connection to a peer: that rank ended, or the network failed.",
    ),
    (
        "NVIDIA/nccl-tests issue 166; composed: the last line",
        "ubuntu:39964:40075 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.0.2<45763> failed : Software caused connection abort
ubuntu:39964:40075 [0] NCCL INFO misc/socket.cc:564 -> 2
ubuntu:39964:40075 [0] proxy.cc:1519 NCCL WARN [Proxy Service 0] Failed to execute operation Connect from rank 0, retcode 2
ubuntu:39964:40049 [5] NCCL INFO Channel 20 : 5[5] -> 4[4] via SHM/direct/direct
ubuntu:39964:40044 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer node1<57557>
ubuntu:39964:40044 [0] proxy.cc:1143 NCCL WARN Socket recv failed while polling for opId=0x7f6f18cb7f40
ubuntu: Test NCCL failure common.cu:958 'internal error - please report this issue to the NCCL developers / '
 .. ubuntu pid 39964: Test failure common.cu:842",
        Kind::ConnectFailed,
        "A process on ubuntu cannot connect to 10.0.0.2<45763>: Software caused connection abort.",
    ),
    (
        "NVIDIA/nccl issue 629",
        "A03-R28-I49-3-9000018:46841:46987 [0] include/socket.h:428 NCCL WARN Net : Call to recv from 11.127.49.2<36048> failed : Connection reset by peer
A03-R28-I49-3-9000018:46841:46987 [0] NCCL INFO transport/net_ib.cc:619 -> 2
A03-R28-I49-2-6000166:104934:104934 [1] init.cc:204 NCCL WARN Cuda failure 'an illegal memory access was encountered'
A03-R28-I49-2-6000166:104934:104934 [1] NCCL INFO init.cc:990 -> 1
A03-R28-I49-2-6000166: Test NCCL failure common.cu:497 'unhandled cuda error'
 .. A03-R28-I49-2-6000166 pid 104934: Test failure common.cu:587",
        Kind::GpuFault,
        "A process on A03-R28-I49-2-6000166 met a fault of a GPU program: an illegal memory access was encountered at init.cc:204.",
    ),
    (
        "vllm-project/vllm issue 4108",
        "(RayWorkerVllm pid=7046) [E ProcessGroupNCCL.cpp:916] [Rank 0] NCCL watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered
(RayWorkerVllm pid=7046) CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
(RayWorkerVllm pid=7046) Fatal Python error: Aborted",
        Kind::GpuFault,
        "Rank 0 met a fault of a GPU program: an illegal memory access was encountered.",
    ),
    (
        "composed in the form of torch/utils/data/dataloader.py, and the watchdog of another rank",
        "[rank3]: Traceback (most recent call last):
[rank3]:   File \"train.py\", line 10, in <module>
[rank3]: RuntimeError: DataLoader worker (pid 12345) is killed by signal: Killed. 
[rank0]:[E ProcessGroupNCCL.cpp:563] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=_ALLGATHER_BASE, NumelIn=5, NumelOut=40, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.",
        Kind::Killed,
        "A data loader of rank 3 was killed by signal 9 (SIGKILL).",
    ),
    (
        "composed in the form of PRRTE's help texts (Open MPI 5)",
        "--------------------------------------------------------------------------
prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-host1-78@1,3] Exit code:    1
--------------------------------------------------------------------------",
        Kind::ExitCode,
        "Rank 3 exited with code 1.",
    ),
    (
        "composed in the form of Slurm's srun",
        "srun: error: Unable to create step for job 1234: Memory required by task is not available",
        Kind::StepRefused,
        "Slurm did not start the job step: Unable to create step for job 1234: Memory required by task is not available.",
    ),
    (
        "composed in the form of ProcessGroupNCCL.cpp: a result without a rule",
        "[rank0]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, internal error - please report this issue to the NCCL developers, NCCL version 2.20.5
[rank0]: ncclInternalError: Internal check failed.
[rank0]: Last error:
[rank0]: Failed to CUDA calloc async 24 bytes",
        Kind::NcclError,
        "NCCL failed on rank 0: internal error: Failed to CUDA calloc async 24 bytes.",
    ),
    (
        "composed in the form of MPICH's MPI_Abort",
        "Abort(3) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 3) - process 1",
        Kind::MpiAbort,
        "Rank 1 called MPI_Abort with code 3.",
    ),
];

#[test]
fn texts_of_other_programs_and_releases() {
    let mut wrong = Vec::new();
    for (source, text, kind, said) in TEXTS {
        let facts = read(text);
        let cause = facts.cause();
        let got = cause.map(|one| sentence(one, &facts)).unwrap_or_default();
        if cause.map(|one| one.kind) != Some(*kind) || got != *said {
            wrong.push(format!(
                "{source}\n  want {said}\n  got  {got} {:?}",
                cause.map(|one| one.kind)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn watchdog(rank: u32, sequence: u32, op: &str, elements: u64) -> String {
    format!(
        "[rank{rank}]:[E1124 08:33:22.728341765 ProcessGroupNCCL.cpp:689] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={sequence}, OpType={op}, NumelIn={elements}, NumelOut={elements}, Timeout(ms)=15000) ran for 15098 milliseconds before timing out.\n"
    )
}

#[test]
fn watchdogs_of_all_ranks_show_who_disagrees() {
    let cause = |text: &str| {
        let facts = read(text);
        let cause = facts.cause().expect("a cause");
        (cause.kind, sentence(cause, &facts))
    };
    let sizes = watchdog(0, 5, "ALLREDUCE", 16) + &watchdog(1, 5, "ALLREDUCE", 8);
    let said = "The ranks call all_reduce number 5 with different sizes: rank 0 16 elements, rank 1 8 elements.";
    assert_eq!(cause(&sizes), (Kind::SizesDiffer, said.to_owned()));
    let ops = watchdog(0, 5, "ALLREDUCE", 16) + &watchdog(1, 5, "BROADCAST", 16);
    let said = "The ranks call different collectives at the same time: rank 0 all_reduce, rank 1 broadcast.";
    assert_eq!(cause(&ops), (Kind::CollectivesDiffer, said.to_owned()));
    // Ranks of an all_to_all may give different sizes.
    let uneven = watchdog(0, 5, "ALLTOALL", 16) + &watchdog(1, 5, "ALLTOALL", 8);
    assert_eq!(cause(&uneven).0, Kind::WatchdogTimeout);
    let alone = watchdog(0, 5, "ALLREDUCE", 16);
    assert_eq!(cause(&alone).0, Kind::WatchdogTimeout);
    // A killed rank explains what the others wait for.
    let killed = sizes
        + "mpirun noticed that process rank 2 with PID 5 on node b exited on signal 9 (Killed).\n";
    assert_eq!(cause(&killed).0, Kind::Killed);
}

#[test]
fn consequences_are_no_causes() {
    let text = "[rank0]: Traceback (most recent call last):
[rank0]: RuntimeError: something broke because the peer is gone
mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 11 (Segmentation fault).";
    assert_eq!(read(text).cause().map(|one| one.kind), Some(Kind::Crashed));
    // The same rank: it raised first, and crashed while it ended.
    let text = text.replace("process rank 1", "process rank 0");
    assert_eq!(read(&text).cause().map(|one| one.kind), Some(Kind::Exception));
    // PyTorch's warnings about a store that has gone, at the end of a healthy run.
    let text = "[rank0]:[W503 01:52:07.597517393 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=3, addr=[localhost]:1): Connection reset by peer, ValueError";
    assert!(read(text).cause().is_none());
    // A script that misses a command, and a rank that is killed later.
    let text = "/bin/bash: line 3: module: command not found
mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9 (Killed).";
    assert_eq!(read(text).cause().map(|one| one.kind), Some(Kind::Killed));
    // A program that prints an exception and goes on.
    let text = "Traceback (most recent call last):
  File \"a.py\", line 1, in f
ImportError: no module named x
# Avg bus bandwidth    : 388.893
# Collective test concluded: all_reduce_perf";
    assert!(read(text).cause().is_none());
}

#[test]
fn prose_about_failures_is_no_failure() {
    for text in [
        "The job is Killed when memory runs out, see Segmentation fault below.",
        "We set NCCL_DEBUG=WARN to see Cuda failure messages; no Traceback was printed.",
        "timeouts (Heartbeat, error) were not seen",
        "srun: error handling is described in the manual: see there",
        "1: ok",
        "export NCCL_IB_TIMEOUT=22 # avoids status=12",
    ] {
        let facts = read(text);
        assert!(facts.cause().is_none(), "{text}: {facts:?}");
    }
}

#[test]
fn advice_is_for_users() {
    for (_, text, ..) in TEXTS {
        let facts = read(text);
        let cause = facts.cause().expect("a cause");
        for said in [remedy(cause), confirm(cause)].into_iter().flatten() {
            assert!(!said.ends_with('.'), "{said}");
        }
    }
}
