//! What stands below the options of each command.
//! Not how it is printed (`help`).

use super::Below;

const BENCH_EXITS: &str = "0 ok, 1 a gate was missed or internal, 2 usage, 3 a library failed, 4 timeout, 5 not possible on this machine, 6 a rank was lost, 7 wrong data or NCCL_TESTS_MIN_BW missed, 130 interrupted";

/// Below the list of commands.
pub(in crate::options) const EVERYTHING: Below = Below {
    notes: &[
        "Names are understood as people write them: allreduce, all-reduce and AllReduce are all_reduce; fp16, bf16 and float32 are types.",
        "busbw help COMMAND is busbw COMMAND --help.",
    ],
    examples: &[
        ("busbw all_reduce -b 8 -e 128M -f 2 -g 2", "two ranks, 8 B to 128 MiB"),
        ("busbw explain run.log --machine dgx-h100", "how good, and what limits it"),
        ("busbw doctor", "what is wrong with this node"),
        ("busbw all_reduce", "every GPU, or every core"),
        ("busbw alltoall -d bf16 -e 1M --precision 5%", "until within 5 %"),
        ("busbw all_reduce_perf -g 4", "needs GPUs: nccl-tests' defaults"),
        ("busbw all_reduce -e 1M --latency", "mean, slowest rank, percentiles"),
        ("busbw all_reduce -H hostA:8,hostB:8", "needs two hosts: by ssh"),
        ("busbw osu_allreduce -f -z50,99", "OSU's options and output"),
        ("busbw pairs", "which pair, which link is slow?"),
        ("busbw show", "the newest run again"),
        ("busbw lint job.sh", "mistakes in NCCL_* settings"),
        ("busbw import logs/", "what the logs of a folder hold"),
        ("busbw list", "past runs: when, on what, how fast"),
        ("busbw compare before.jsonl after.jsonl", "faster, slower or same"),
        ("busbw report -o newest.html", "the newest run as a page"),
        ("busbw topo", "GPUs, NICs and their links"),
        ("busbw sweep -x NCCL_ALGO=Ring,Tree all_reduce", "needs GPUs"),
        ("busbw transports all_reduce", "needs GPUs: which transport ran?"),
        ("busbw all_reduce --algorithm auto,RING_LL,TREE_LL", "needs GPUs, NCCL 2.22"),
        ("busbw algorithms", "which algorithm is fastest here"),
    ],
    exits: BENCH_EXITS,
};

/// Below the options of a collective.
pub(in crate::options) const COLLECTIVES: Below = Below {
    notes: &[
        "Every option of nccl-tests 2.19.6 is taken, with its meaning. --nccl-tests-version 2.20.0 prints that release's form, as far as it is published.",
    ],
    examples: &[
        ("busbw {} -b 8 -e 16M -f 2 -g 2", "two ranks, 8 B to 16 MiB"),
        ("busbw {} -e 1M --precision 5%", "until within 5 %"),
        ("busbw {} -e 1M -d bf16 -c 5", "another type, five checks a row"),
        ("busbw {} -e 1M --latency", "percentiles of every iteration"),
        ("busbw {} -e 1M -J out.json", "nccl-tests' JSON report as well"),
        ("busbw {} -H hostA:8,hostB:8", "needs two hosts: by ssh"),
    ],
    exits: BENCH_EXITS,
};

/// Below the options of `busbw barrier`.
pub(in crate::options) const BARRIER: Below = Below {
    notes: &[],
    examples: &[
        ("busbw barrier -g 2", "two ranks"),
        ("busbw barrier -g 2 -n 1000", "1000 barriers a batch"),
    ],
    exits: BENCH_EXITS,
};

/// Below the options of a collective under nccl-tests' name.
pub(in crate::options) const NCCL_TESTS: Below = Below {
    notes: &[
        "Options, defaults and output are those of nccl-tests 2.19.6; --nccl-tests-version 2.20.0 prints that release's form, as far as it is published. Without a GPU it ends with exit code 5; --backend host measures host memory.",
    ],
    examples: &[
        ("busbw {} -b 8 -e 1M -f 2 -g 2 --backend host", ""),
        ("busbw {} -b 8 -e 8G -f 2 -g 8", "needs eight GPUs"),
        ("mpirun -n 8 busbw {} -b 8 -e 8G -f 2", "needs eight GPUs"),
    ],
    exits: BENCH_EXITS,
};

/// Below the options of a test of messages.
pub(in crate::options) const MESSAGES: Below = Below {
    notes: &["The loops are OSU's; osu_latency and its like print as they do, too."],
    examples: &[
        ("busbw {} -b 8 -e 1M -f 2", "8 B to 1 MiB, doubling"),
        ("busbw {} -e 64K -n 1000 -w 100", "iterations: timed, untimed"),
        ("mpirun -n 2 busbw {} -e 64K --backend mpi", "through MPI"),
    ],
    exits: BENCH_EXITS,
};

/// Below the options of `busbw pairs`.
pub(in crate::options) const PAIRS: Below = Below {
    notes: &[
        "Pairs are measured in rounds, all ranks at once, in both directions: latency at the first size (-b), bandwidth at the last (-e). What seems slow is measured again before it is named: docs/pairs.md.",
    ],
    examples: &[
        ("busbw pairs", "every pair of GPUs, or of cores"),
        ("busbw pairs --only bw -e 16M --strict", "exit with 1 if one is slow"),
        ("srun busbw pairs --sample 8", "needs Slurm: 8 random peers a rank"),
        ("busbw pairs --rails --launcher mpirun -H a:8,b:8", "needs two hosts"),
    ],
    exits: BENCH_EXITS,
};

/// Below the options of `busbw replay`.
pub(in crate::options) const REPLAY: Below = Below {
    notes: &[
        "The calls of the trace's first rank are made in their order. Each begins as long after the one before it as it did in the job, or when that one is complete. Calls of communicators with another number of ranks are left out; their time is waited. The first row is the whole sequence, the others are its classes of calls. What can be a trace: docs/trace.md.",
        "Where a launcher starts the ranks, the files have to be on the host of process 0.",
    ],
    examples: &[
        ("busbw replay fr_trace_rank_0 -g 8", "needs eight GPUs"),
        ("busbw replay nccl.log --no-gaps -g 8", "needs eight GPUs"),
        ("busbw replay watch/ --backend host -g 2", "needs a job's files, of two ranks"),
        ("busbw sweep -x NCCL_ALGO=Ring,Tree replay nccl.log -g 8", "needs eight GPUs"),
    ],
    exits: BENCH_EXITS,
};

/// Below the options of `busbw doctor`.
pub(in crate::options) const DOCTOR: Below = Below {
    notes: &[
        "Verdicts: fine; absent (not here, not needed); note; unknown (cannot be read here); slow (costs performance); error (something fails). Nothing on the machine is changed.",
    ],
    examples: &[
        ("busbw doctor", ""),
        ("busbw doctor --json", ""),
        ("sudo busbw doctor", "needs root: what the kernel keeps for it (ACS, XIDs)"),
        ("busbw doctor -g 8", "needs eight GPUs: what differs between ranks"),
    ],
    exits: "0 nothing is wrong, 1 something is, 2 usage, 5 more ranks than GPUs",
};

/// Below the options of `busbw explain`.
pub(in crate::options) const EXPLAIN: Below = Below {
    notes: &[
        "Measured, limit and percent; what sets the limit; a sentence; then what stands out, each finding with its evidence, how sure it is, what to do, and the command that would confirm it. What is missing for a better answer is named. The machine comes from --machine, a record, or the log as far as it names it.",
    ],
    examples: &[
        ("busbw explain all_reduce.log --machine dgx-h100", ""),
        ("busbw explain all_reduce.log --machine topo.xml --nodes 2", ""),
        ("busbw explain --list-machines", "what --machine knows"),
        ("busbw explain table.txt nccl-debug.log", "and NCCL's own lines"),
        ("busbw explain osu_latency-device.txt osu_latency-host.txt", ""),
        ("kubectl logs job/test | busbw explain - --json", "needs Kubernetes"),
        ("busbw explain all_reduce.log --markdown > comment.md", ""),
    ],
    exits: "0 explained, 2 a source is no log or cannot be read, or --machine describes none",
};

/// Below the options of `busbw topo`.
pub(in crate::options) const TOPO: Below = Below {
    notes: &[
        "Prints the tree, the way between each two devices in nvidia-smi's words, every link with its line rate, payload and what NCCL expects (GB/s one way), and what is wrong. Nothing is measured.",
    ],
    examples: &[
        ("busbw topo", "this machine"),
        ("busbw topo nccl-topo.xml", "what NCCL_TOPO_DUMP_FILE wrote"),
        ("busbw topo dgx-h100", "a machine that one has only read about"),
        ("busbw topo --xml=this.xml", "this machine, for NCCL_TOPO_FILE"),
        ("nvidia-smi topo -m | busbw topo -", "needs a GPU"),
    ],
    exits: "0 read, whatever was found; 2 the file is none of these",
};

/// Below the options of `busbw sweep`.
pub(in crate::options) const SWEEP: Below = Below {
    notes: &[
        "Every launch is a run of its own with a record; rows are sizes, columns environments. `unset`, or nothing, among the values means that the variable is not set; `\\,` is a comma within a value.",
    ],
    examples: &[
        ("busbw sweep -x NCCL_ALGO=Ring,Tree all_reduce -b 1M -e 1G -f 4", "needs GPUs"),
        ("busbw sweep -x NCCL_PROTO=unset,LL,Simple all_reduce -e 64K", "needs GPUs"),
        ("busbw sweep -x NCCL_ALGO=Ring,Tree all_reduce --time 120s", "needs GPUs"),
    ],
    exits: "0 every environment ran, else that of the first that failed; 2 usage, 130 interrupted",
};

/// Below the options of `busbw transports`.
pub(in crate::options) const TRANSPORTS: Below = Below {
    notes: &[
        "Each transport is the environment that selects it, and the evidence that it ran: NCCL's log, and bytes that devices counted. A transport that NCCL replaced is marked; one that cannot run here is waived.",
    ],
    examples: &[
        ("busbw transports all_reduce -b 1M -e 1G -f 4", "needs GPUs"),
        ("busbw transports -H a:8,b:8 all_reduce", "needs two hosts"),
        ("busbw transports all_reduce --virtual-nodes 2", "needs GPUs"),
    ],
    exits: "0 all that can run here ran, else that of the first that failed; 2 usage, 5 none can run here, 130 interrupted",
};

/// Below the options of `busbw tune`.
pub(in crate::options) const TUNE: Below = Below {
    notes: &[
        "Without --search it climbs a ladder: each rung's settings are measured in turns with what was kept before them, by fresh launches, and kept only where the interval of the gain is above 0. What is recommended has won a comparison of its own with the defaults: at least 7 fresh launches a side, p < 0.001, 2 % or more. A setting that crashes, hangs or gives wrong data is out. Never tried unless -x lists values: traffic classes, service levels, adaptive routing, other NICs. Ctrl-C keeps what was measured: docs/tune.md.",
    ],
    examples: &[
        ("busbw tune all_reduce -b 1M -e 1G -f 4", "needs GPUs"),
        ("busbw tune --search all_reduce all_gather --time 10m", "needs GPUs"),
        ("busbw tune -H a:8,b:8 -x NCCL_IB_TC=unset,106", "needs two hosts"),
        ("busbw tune --resume tune.json", "needs an interrupted tuning"),
    ],
    exits: "0 something is recommended, or the defaults are; 2 usage, 3 the defaults themselves fail, 5 nothing to tune here, 130 interrupted",
};

/// Below the options of `busbw check`.
pub(in crate::options) const CHECK: Below = Below {
    notes: &[
        "Every host's doctor, and what hosts have unlike each other; one collective, started afresh some times; messages between pairs where the collective is slow, where nothing tells how fast it should be, or where time allows. A line each: pass, fail, cannot tell, waived. A fault that two readings or launches show is a failure and blocks; whatever cannot be told lets the job start, and stderr says so. Nothing is written on the hosts: docs/check.md.",
    ],
    examples: &[
        ("busbw check -g 2 --backend host", "this host alone"),
        ("busbw check -H a:8,b:8 --within 10m", "needs two hosts"),
        ("busbw check -H a:8,b:8 --fail-below-limit 80%", "needs two hosts"),
        ("busbw check --only doctor,settings", "loads nothing"),
    ],
    exits: "0 no fault, or it cannot be told; 1 a fault, or with --fail-closed something cannot be told; 2 usage, 130 interrupted",
};

/// Below the options of `busbw plan`.
pub(in crate::options) const PLAN: Below = Below {
    notes: &[
        "Nothing is run. Of a collective: time, algbw and busbw by size with a range, what NCCL's cost model chooses, the limit and what sets it. The range comes from public results that docs/plan.md names, and where there are none it says so.",
        "lossless: buffers, PFC headroom and ECN thresholds. loss: throughput where packets are lost, with go-back-N and selective repeat. incast: the queue of several senders to one port, when it overflows or PFC pauses. collisions: how many flows the busiest of equal links carries.",
        "FABRIC COLLECTIVE: a fabric file, or the name of an example. Flows share its links max-min fair; docs/fabric.md has the file, the model, and what is not in it. With --fail it says what that costs; with --target how many may fail before it is missed.",
    ],
    examples: &[
        ("busbw plan --machine dgx-h100 --nodes 2 all_reduce", ""),
        ("busbw plan --machine dgx-h100 --nodes 2 all_reduce --measured 469.67", ""),
        ("busbw plan lossless --rate 400G --ports 128 --round-trip 9us --buffer 165.2MB", ""),
        ("busbw plan lossless --rate 400G --ports 64 --cable 100m --classes 2", ""),
        ("busbw plan loss --rate 400G --round-trip 9us --drop 0.1%", ""),
        ("busbw plan collisions --flows 8 --queue-pairs 4 --uplinks 8", ""),
        ("busbw plan incast --senders 8 --rate 400G --round-trip 9us --buffer 16MB", ""),
        ("busbw plan --machine dgx-h100 --nodes 4 alltoall -b 1M --json", ""),
        ("busbw plan --example clos-2tier", "a fabric file to start from"),
        ("busbw plan multi-plane all_reduce --job tp8,pp8,dp", "the groups of a job"),
        ("busbw plan oversubscribed alltoall --job ep64 --fail switch", ""),
        ("busbw plan multi-plane all_reduce -g 2048 --fail plane --target 80%", ""),
        ("busbw plan flows flows.toml", "when flows of a file arrive"),
        ("busbw plan --from all_reduce.log --per-node 8 --nodes 4", ""),
    ],
    exits: "0 answered, 1 --measured cannot be true, 2 usage, or a fact is missing without which there is no answer",
};

/// Below the options of `busbw watch`.
pub(in crate::options) const WATCH: Below = Below {
    notes: &[
        "The job runs with NCCL_PROFILER_PLUGIN=$(busbw plugin path profiler), whose files this reads: here, with -H on other hosts over ssh. Per communicator: speeds by operation and size, ranks by what the others waited for them, what stands out: docs/watch.md.",
    ],
    examples: &[
        ("busbw watch", "needs a running job"),
        ("busbw watch --once --json watch-files", "a folder of a job's files"),
        ("busbw watch --once --machine dgx-h100 --against run.jsonl watch-files", ""),
        ("busbw watch -H hostA,hostB", "needs two hosts"),
        ("busbw watch --prometheus 127.0.0.1:9400", "needs a running job"),
    ],
    exits: "--once: 0 nobody is late, 1 somebody is late or hangs, 2 usage or no files, 5 cannot tell; else 0, 130 interrupted",
};

/// Below the options of `busbw show`.
pub(in crate::options) const SHOW: Below = Below {
    notes: &[],
    examples: &[
        ("busbw show", "the newest run"),
        ("busbw show --plot", "its curve, as wide as the terminal"),
        ("busbw show run.jsonl --units Gb/s", "a record's table in bits"),
    ],
    exits: "0 shown, 2 there is no such run, or it cannot be read",
};

/// Below the options of `busbw lint`.
pub(in crate::options) const LINT: Below = Below {
    notes: &[],
    examples: &[
        ("busbw lint job.sh", ""),
        ("env | busbw lint --nccl 2.28.9 -", "this shell's variables"),
    ],
    exits: "0 nothing found, 1 something found, 2 a file cannot be read",
};

/// Below the options of `busbw algorithms`.
pub(in crate::options) const ALGORITHMS: Below = Below {
    notes: &[],
    examples: &[
        ("busbw algorithms", "what was measured, or the defaults"),
        ("busbw algorithms --measure -g 2", "measure anew, and keep"),
    ],
    exits: "0 printed, 2 usage, 5 not possible on this machine",
};

/// Below the options of `busbw list`.
pub(in crate::options) const LIST: Below = Below {
    notes: &["A record that is damaged, or was cut, is listed as such."],
    examples: &[
        ("busbw list --collective all_reduce -n 10", ""),
        ("busbw list --since 2d --failed", "what went wrong since two days"),
        ("busbw compare --last 2", "the two newest runs"),
        ("busbw list --prune 30d", "old runs; --yes removes them"),
    ],
    exits: "0 listed, 2 usage",
};

/// Below the options of `busbw compare`.
pub(in crate::options) const COMPARE: Below = Below {
    notes: &[
        "Points are compared where test, type, operator, root, ranks, size and place are equal. \"same\", \"faster\" and \"slower\" are said only where at least 4 launches a side tell (--repeat, or several runs a side), or, with fewer, 20 earlier launches of the same on this machine; else \"inconclusive\" with what is missing. Ratios are of speeds: 1.05 is 5 % faster than the baseline.",
        "--fail-below counts what launches or history call slower, and takes fewer than 4 launches as they are. It fails as well where a point of the baseline is missing, data are wrong, or a run did not complete; what noise hides it names.",
    ],
    examples: &[
        ("busbw compare before.jsonl after.jsonl --fail-below 0.95", ""),
        ("busbw compare nightly/monday nightly/tuesday --markdown", ""),
        ("busbw compare mine.log --with 8x-h200-nvlink", "a reference"),
        ("busbw compare --last 2", "the two newest runs"),
        ("busbw compare all_reduce.log --machine dgx-h100 --fail-below-limit 80%", ""),
        ("busbw compare --by nodes 1node.log 2nodes.log 4nodes.log", ""),
    ],
    exits: "0 compared, 1 a gate does not hold, or nothing was compared, 2 a side cannot be read, or --fail-below-limit finds no limit",
};

/// Below the options of `busbw import`.
pub(in crate::options) const IMPORT: Below = Below {
    notes: &[
        "What is recognised is kept, what is not is counted and shown. Each bandwidth is computed again from size, time, collective and ranks; those that disagree, and a stated average that the rows do not give, are named.",
    ],
    examples: &[
        ("busbw import all_reduce.log", ""),
        ("busbw import logs/ --json > runs.jsonl", "a run a line"),
        ("kubectl logs job/test | busbw import", "needs Kubernetes"),
    ],
    exits: "0 read, 2 a file that was named gives nothing, or no file of a folder does",
};

/// Below the options of `busbw references`.
pub(in crate::options) const REFERENCES: Below = Below {
    notes: &[],
    examples: &[
        ("busbw references", ""),
        ("busbw compare mine.log --with 8x-h200-nvlink", "with one of them"),
    ],
    exits: "0 listed",
};

/// Below the options of `busbw schema`.
pub(in crate::options) const SCHEMA: Below = Below {
    notes: &[
        "Keys may be added without a new version; a reader ignores those that it does not know.",
    ],
    examples: &[
        ("busbw schema", "the names"),
        ("busbw schema explain > explain.json", "one of them"),
    ],
    exits: "0 printed, 2 there is no such schema",
};

/// Below the options of `busbw report`.
pub(in crate::options) const REPORT: Below = Below {
    notes: &["One HTML file that needs nothing else: charts, findings, setup, all rows with CSV."],
    examples: &[
        ("busbw report -o newest.html", "the newest run"),
        ("busbw report before.jsonl after.jsonl -o both.html", ""),
        ("busbw report all_reduce.log --machine dgx-h100 --redact", "for a vendor"),
        ("busbw report sweep-folder/ --title Four --force", "a sweep"),
        ("busbw report watch-files -o job.html", "a job, by its profiler's files"),
    ],
    exits: "0 written, 2 a source cannot be read, or the page is there already (--force)",
};

/// Below the options of `busbw plugin`.
pub(in crate::options) const PLUGIN: Below = Below {
    notes: &[],
    examples: &[
        ("NCCL_NET_PLUGIN=$(busbw plugin path) ./train", "needs your program"),
        ("NCCL_TUNER_PLUGIN=$(busbw plugin path tuner) ./train", "needs your program"),
        ("NCCL_PROFILER_PLUGIN=$(busbw plugin path profiler) ./app", "needs your program"),
        ("busbw plugin check busbw", "busbw's own"),
        ("busbw plugin check /opt/ofi/lib/libnccl-net.so", "needs that plugin"),
        ("busbw latency -e 64K --backend net", "how fast it is"),
    ],
    exits: "0 no rule failed, 1 some did, 3 it cannot be loaded",
};

/// Below the options of `busbw completions`.
pub(in crate::options) const COMPLETIONS: Below = Below {
    notes: &["Releases hold these files in the usual places."],
    examples: &[
        ("source <(busbw completions bash)", "this shell"),
        ("busbw completions zsh > _busbw", "into a folder of $fpath"),
        ("busbw completions fish > busbw.fish", "~/.config/fish/completions"),
    ],
    exits: "0 printed, 2 usage",
};

/// Below the options of `busbw man`.
pub(in crate::options) const MAN: Below = Below {
    notes: &["Releases hold these files in the usual places."],
    examples: &[
        ("busbw man all_reduce | man -l -", "needs man: read one"),
        ("busbw man --all man1", "a page for each command, into the folder"),
    ],
    exits: "0 printed or written, 2 usage",
};
