//! What stands below the options in every command's help: examples and exit codes.
//! Not the options' own lines, which stand at each option.

/// Below the list of commands.
pub(super) const EXAMPLES: &str = "Examples:
  busbw all_reduce                           every GPU, or every core where there is none
  busbw all_reduce -b 8 -e 128M -f 2 -g 2    two ranks, 8 B to 128 MiB
  busbw alltoall -d bfloat16 --precision 2%  sample until the interval is within 2 %
  busbw all_reduce_perf -b 8 -e 64M -f 2 -g 4   nccl-tests' defaults and output
  busbw all_reduce --latency                 mean, fastest and slowest rank, percentiles
  busbw all_reduce -H hostA:8,hostB:8        two hosts, by ssh; docs/launchers.md
  busbw osu_allreduce -f -z50,99             OSU's options and output; docs/osu.md lists the names
  busbw pairs                                every pair of GPUs, both directions: which link is slow?
  busbw show                                 the newest run again
  busbw lint job.sh                          mistakes in NCCL_* and UCX_* settings
  busbw import logs/                         what the logs of a folder hold, whoever wrote them
  busbw list                                 past runs: when, on what, how fast, how they ended
  busbw compare before.jsonl after.jsonl     faster, slower or same, with an interval over launches
  busbw explain run.log --machine dgx-h100   how good a result is, and what limits it
  busbw report -o report.html                the newest run as a page, to be sent
  busbw doctor                               what is wrong with this node, its cost, its remedy
  busbw topo                                 switches, GPUs, NICs, their links, and what is wrong
  busbw sweep -x NCCL_ALGO=Ring,Tree all_reduce   one job under several environments
  busbw transports all_reduce                the same job over each transport, with evidence of what ran
  busbw algorithms                           which algorithm is fastest here at which size
Exit codes: 0 ok, 1 gate missed or internal, 2 usage, 3 library, 4 timeout, 5 not possible here,
            6 rank lost, 7 wrong data or NCCL_TESTS_MIN_BW missed, 130 interrupted";

/// Below the options of `busbw doctor`.
pub(super) const DOCTOR_HELP: &str = "Verdicts: fine; absent (not here, not needed); note; unknown (cannot be read here); slow (costs
performance); broken (something fails). Nothing on the machine is changed.
Examples:
  busbw doctor
  sudo busbw doctor          reads what the kernel keeps for root: ACS, XIDs
  busbw doctor -g 8 --json
Exit codes: 0 nothing is wrong, 1 something is, 2 usage, 5 more ranks than GPUs";

/// Below the options of `busbw explain`.
pub(super) const EXPLAIN_HELP: &str =
    "Measured, limit and percent; what sets the limit; a sentence; then what stands out, each
finding with its evidence, how sure it is, what to do, and the command that would confirm it.
What is missing for a better answer is named. The machine comes from --machine, a record, or the
log as far as it names it.
Examples:
  busbw explain all_reduce.log --machine dgx-h100
  busbw explain all_reduce.log --machine topo.xml --nodes 2
  busbw explain --list-machines                 what --machine knows by name
  busbw explain table.txt nccl-debug.log        a table and NCCL's lines from another file
  busbw explain osu_latency-device.txt osu_latency-host.txt
  kubectl logs job/nccl-test | busbw explain - --json
  busbw explain nightly.log --markdown | gh pr comment 12 --body-file -
Exit codes: 0 explained, 2 a source is no log or cannot be read, or --machine describes none";

/// Below the options of `busbw topo`.
pub(super) const TOPO_HELP: &str = "Prints the tree, the way between each two devices in nvidia-smi's words, every link with its line
rate, payload and what NCCL expects (GB/s one way), and what is wrong. Nothing is measured.
Examples:
  busbw topo                      this machine
  busbw topo nccl-topo.xml        what NCCL_TOPO_DUMP_FILE wrote
  nvidia-smi topo -m | busbw topo -
  busbw topo dgx-h100             a machine that one has only read about
  busbw topo --xml=topo.xml       this machine, for NCCL_TOPO_FILE
Exit codes: 0 read, whatever was found; 2 the file is none of these";

/// Below the options of `busbw sweep`.
pub(super) const SWEEP_HELP: &str = "Every launch is a run of its own with a record; rows are sizes, columns environments.
`unset`, or nothing, among the values means that the variable is not set; `\\,` is a comma within a value.
Examples:
  busbw sweep -x NCCL_IB_QPS_PER_CONNECTION=1,4,16 -x NCCL_MAX_NCHANNELS=8,16 all_reduce -b 1M -e 1G -f 4
  busbw sweep -x NCCL_ALGO=unset,Ring,Tree all_reduce -b 8 -e 64K -f 2 --show time --baseline 1 --time 120s
  busbw sweep -x UCX_TLS=rc,tcp latency --backend mpi --launcher mpirun -H hostA:1,hostB:1
Exit codes: 0 every environment ran, else that of the first that failed; 2 usage, 130 interrupted";

/// Below the options of `busbw transports`.
pub(super) const TRANSPORTS_HELP: &str = "Each transport is the environment that selects it, and the evidence that it ran: NCCL's log, and bytes that
devices counted. A transport that NCCL replaced is marked; one that cannot run here is waived.
Examples:
  busbw transports all_reduce -b 1M -e 1G -f 4
  busbw transports all_reduce -b 1M -e 1G -f 4 --only p2p,shm,socket --baseline p2p --virtual-nodes 2
Exit codes: 0 all that can run here ran, else that of the first that failed; 2 usage, 5 none can run here,
            130 interrupted";

/// Below a benchmark's options.
pub(super) const MESSAGES_EXAMPLES: &str =
    "The loops are OSU's; osu_latency and its like print as they do, too.
Examples:
  -b 8 -e 4M -f 2            sizes 8 B to 4 MiB, doubling
  --backend mpi              through MPI, under mpirun -n 2 or srun -n 2
  -n 1000 -w 100             1000 timed iterations a batch, after 100 untimed ones
  -W 16                      16 messages in flight at once (bw, bibw, mbw_mr)";

/// Below the options of `busbw pairs`.
pub(super) const PAIRS_EXAMPLES: &str =
    "Pairs are measured in rounds, all ranks at once, in both directions: latency at the first size (-b, 8 B), bandwidth
at the last (-e, 64 MiB). What seems slow is measured again before it is named: docs/pairs.md.
Examples:
  busbw pairs                        every pair of this machine's GPUs, or cores
  busbw pairs --rails --launcher mpirun -H a:8,b:8   GPU i of each node with GPU i of the others
  srun busbw pairs --sample 8        8 random peers for each rank, if all pairs take too long
  busbw pairs --only bw -e 1G --strict   exit with 1 if something is slower than the rest";

pub(super) const BENCH_EXAMPLES: &str =
    "Every option of nccl-tests 2.19.6 is taken, with its meaning.
Examples:
  -b 8 -e 128M -f 2 -g 2     sizes 8 B to 128 MiB, doubling, on two ranks
  -n 100 --precision 2%      100 iterations a batch, until the interval is within 2 %
  -d half -o max -c 5        another type and operator, five checked operations a row
  --latency                  each iteration timed: mean, fastest and slowest rank, percentiles
  -H hostA:8,hostB:8         8 ranks on each of two hosts, by ssh; --launcher mpirun or slurm
  -J out.json                nccl-tests' JSON report as well";
