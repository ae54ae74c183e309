#!/bin/bash
# busbw's profiler under real releases of NCCL on one GPU, which two ranks share (under CUDA MPS where it can be started):
#   tests/gpu/profiler.sh BUSBW PROFILER|- LIBNCCL…
# PROFILER is libnccl-profiler-busbw.so ("-": the one that BUSBW carries). LIBNCCL are such as a wheel's
# nvidia/nccl/lib/libnccl.so.2. With PyTorch there (python3 -c 'import torch') its own NCCL is tried, too.
#   SECONDS_OF_TURNS=N  how long launches with and without the profiler are measured in turns [default: 200; 0: not at all]
# Prints a line for each case with what was seen; exit 1 when one fails, 5 without a GPU. Within 6 minutes.
# Not speed: ranks that share a GPU measure no hardware. Calls and bytes are held against NCCL's own log.
set -u
usage='usage: tests/gpu/profiler.sh BUSBW PROFILER|- LIBNCCL…'
busbw=$(realpath "${1:?$usage}")
profiler=${2:?$usage}
shift 2
[ $# -gt 0 ] || { echo "$usage" >&2; exit 2; }
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
export BUSBW_NO_RECORD=1 XDG_CACHE_HOME=$work/cache XDG_DATA_HOME=$work/data NCCL_MAX_NCHANNELS=4
unset NCCL_PROTO NCCL_ALGO NCCL_DEBUG NCCL_DEBUG_SUBSYS NCCL_DEBUG_FILE NCCL_PROFILER_PLUGIN NCCL_TUNER_PLUGIN BUSBW_WATCH BUSBW_WATCH_DIR
nvidia-smi -L >/dev/null 2>&1 || { echo "no GPU that nvidia-smi lists: nothing ran" >&2; exit 5; }
[ "$profiler" = - ] && profiler=$("$busbw" plugin path profiler)
profiler=$(realpath "$profiler")

# MPS lets kernels of two processes run side by side; without it they take turns of milliseconds.
export CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps-log
mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
mps=without
stop_mps() {
    [ "$mps" = without ] || echo quit | timeout 20 nvidia-cuda-mps-control >/dev/null 2>&1
    mps=without
}
trap 'stop_mps; rm -rf "$work"' EXIT
if command -v nvidia-cuda-mps-control >/dev/null && timeout 20 nvidia-cuda-mps-control -d >/dev/null 2>&1; then
    mps=with
    if ! timeout 60 "$busbw" all_reduce -g 1 -b 8 -e 8 -n 1 --batches 1 --nccl "$(realpath "$1")" >/dev/null 2>&1; then
        stop_mps
    fi
fi
[ $mps = with ] || unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY

# What the files of a folder hold, against NCCL's log of the same run: a Python module of this script.
cat >"$work/watched.py" <<'P'
import collections, glob, json, re, statistics, sys

TYPES = {0: 1, 1: 1, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2}  # ncclDataType_t
SIZES = {"ncclInt8": 1, "ncclUint8": 1, "ncclFloat16": 2, "ncclBfloat16": 2, "ncclInt32": 4, "ncclFloat32": 4}

def files(folder):
    for name in sorted(glob.glob(folder + "/*.jsonl")):
        lines = [json.loads(line) for line in open(name)]
        assert lines[0]["kind"] == "process" and lines[0]["version"] == 1, name
        yield name, lines

def calls(lines):
    """By operation and size: the calls; and what was dropped."""
    ranks = {line["number"]: line["ranks"] for line in lines if line["kind"] == "communicator"}
    found = collections.defaultdict(list)
    for line in lines:
        if line["kind"] == "calls":
            found[line["operation"], line["size"]] += line["calls"]
    dropped = [line["dropped_calls"] for line in lines if line["kind"] == "heartbeat"][-1]
    return found, dropped, ranks

def logged(text, ranks):
    """By operation and size: the calls in NCCL's log with NCCL_DEBUG_SUBSYS=COLL."""
    found = collections.Counter()
    # busbw asks NCCL once for each row what it would choose (ncclGroupSimulateEnd): such a call is logged and never runs.
    rows = [row for row in map(json.loads, open("record.jsonl")) if row["kind"] == "row"]
    for name, count, kind in re.findall(r"NCCL INFO (\w+): opCount \S+ sendbuff \S+ recvbuff \S+ .*?count (\d+) datatype (\d+)", text):
        parts = ranks if name in ("AllGather", "ReduceScatter") else 1
        found[name, int(count) * TYPES[int(kind)] * parts] += 1
    for row in rows:
        for name, size in [key for key in found if key[1] == row["size"]]:
            found[name, size] -= 1
    return found
P
export busbw profiler work here mps PYTHONPATH=$work
gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1)

two() { "$busbw" "$1" -g 2 --share-gpus --nccl "$nccl" --record record.jsonl "${@:2}"; }
profiled() { NCCL_PROFILER_PLUGIN=$profiler BUSBW_WATCH=${BUSBW_WATCH:-every} BUSBW_WATCH_DIR=$PWD/watch "$@"; }

# Calls and bytes of each operation and size: NCCL's own log says them, too.
calls_and_bytes_are_exact() {
    # NCCL 2.29 and 2.30 tell a profiler of no broadcast otherwise (docs/watch.md).
    export NCCL_ALLGATHERV_ENABLE=0
    for name in all_reduce all_gather reduce_scatter broadcast; do
        rm -rf watch log.*
        NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL,PROFILE NCCL_DEBUG_FILE=log.%p wants 0 profiled two $name -b 1K -e 16M -f 64 -n 10 --batches 3
        right_table
        python3 - $name <<'P'
import glob, sys
from watched import *
logs = [open(name, errors="replace").read() for name in glob.glob("log.*")]
truth = sorted(sorted(one.items()) for one in (logged(text, 2) for text in logs) if one)
seen = []
for name, lines in files("watch"):
    found, dropped, ranks = calls(lines)
    assert dropped == 0 and set(ranks.values()) == {2}, (dropped, ranks)
    numbers = collections.defaultdict(list)
    for line in lines:
        if line["kind"] == "calls":
            numbers[line["communicator"], line["operation"]] += [call[0] for call in line["calls"]]
    for key, one in numbers.items():
        assert sorted(one) == list(range(len(one))), f"{key}: numbers of calls are not each once"
    untimed = sum(call[3] is None for one in found.values() for call in one)
    seen.append(sorted((key, len(one)) for key, one in found.items()))
    print(f"{sys.argv[1]}: interface v{lines[0]['interface']}, {sum(map(len, numbers.values()))} calls, {untimed} without a time, end: {lines[-1].get('why')}")
assert sorted(seen) == truth, f"\nfile {sorted(seen)}\nlog  {truth}"
P
    done
    cat log.* | grep -o 'PROFILER/busbw: calls.*\|PROFILER/Plugin: Loaded.*' | sort | uniq -c
}
# The time on the GPU against the row's, which has the gaps between kernels, too. From 1 MiB on the bar is 2 %.
kernel_times_are_the_rows() {
    wants 0 profiled two all_reduce -b 1K -e 256M -f 4 -n 20 --batches 5
    python3 - <<'P'
import json, statistics
from watched import *
rows = {row["size"]: row for row in map(json.loads, open("record.jsonl")) if row["kind"] == "row"}
times = collections.defaultdict(list)
for _, lines in files("watch"):
    for (_, size), one in calls(lines)[0].items():
        times[size].append(statistics.median(call[3] / 1e3 for call in one if call[3] is not None))
beyond = []
for size, row in sorted(rows.items()):
    halves = [row[place] for place in ("out_of_place", "in_place") if row.get(place)]
    batches = [time for half in halves for time in half["batches_us"] for time in [max(time)]]
    wall, kernel = statistics.median(batches), max(times[size])
    print(f"{size:>10} B  row {wall:10.2f} us  on the GPU {kernel:10.2f} us  {kernel / wall:6.3f}")
    if size >= 1 << 20 and abs(kernel / wall - 1) > 0.02:
        beyond.append(size)
print("beyond 2 % from 1 MiB on:", beyond or "none")
P
}
# What steps of the network moved: with two ranks a ring sends each byte once a rank.
steps_have_the_bytes() {
    NCCL_ALGO=Ring NCCL_PROTO=Simple BUSBW_WATCH=full wants 0 profiled two all_reduce -b 64M -e 64M -n 10 --batches 2
    python3 - <<'P'
from watched import *
for name, lines in files("watch"):
    found, dropped, _ = calls(lines)
    steps = [line for line in lines if line["kind"] == "steps"]
    lost = [line["dropped_steps"] for line in lines if line["kind"] == "heartbeat"][-1]
    expected = sum(size * len(one) for (_, size), one in found.items())
    for send in (True, False):
        own = [step for step in steps if step["send"] == send]
        total = {key: sum(step[key] for step in own) for key in ("steps", "bytes", "gpu", "peer_wait", "wire", "flush")}
        print("sends" if send else "receives", total, f"bytes of the calls {expected}, ratio {total['bytes'] / expected:.4f}")
        assert steps and lost == 0 and abs(total["bytes"] / expected - 1) < 0.01
P
}
# NCCL 2.29 and newer do not time ncclBroadcast unless NCCL_ALLGATHERV_ENABLE=0; from 2.31 on no time after it can be trusted
# (docs/watch.md). A job of one broadcast and all-reduces after it.
no_times_after_a_broadcast() {
    python3 - <<'P'
import json
def entry(number, operation):
    return {"process_group": ["0", ""], "collective_seq_id": number, "p2p_seq_id": 0, "profiling_name": f"nccl:{operation}",
            "time_created_ns": 1000000 * number, "input_sizes": [[1 << 22]], "input_dtypes": ["Float"],
            "output_sizes": [[1 << 22]], "output_dtypes": ["Float"]}
entries = [entry(number, "all_reduce" if number else "broadcast") for number in range(21)]
group = {"0": {"name": "0", "desc": "", "ranks": "[0, 1]"}}
json.dump({"version": "2.10", "pg_config": group, "entries": entries}, open("fr_trace_rank_0", "w"))
P
    for value in 0 1; do
        rm -rf watch
        NCCL_ALLGATHERV_ENABLE=$value wants 0 profiled "$busbw" replay fr_trace_rank_0 --backend nccl -g 2 --share-gpus --nccl "$nccl" \
            --no-gaps --batches 5 --record record.jsonl
        right_table
        python3 - $value "$version" "$mps" <<'P'
import sys
from watched import *
(value, version), mps = map(int, sys.argv[1:3]), sys.argv[3]
rows = [row for row in map(json.loads, open("record.jsonl")) if row["kind"] == "row"]
row = next(row["out_of_place"]["time_us"] for row in rows if row["benchmark"] == "all_reduce")
both = list(files("watch"))
assert len(both) == 2, both
for name, lines in both:
    found, dropped, _ = calls(lines)
    assert dropped == 0 and any(operation == "AllReduce" for operation, _ in found), found.keys()
    for (operation, size), one in sorted(found.items()):
        timed = [call[3] / 1e3 for call in one if call[3] is not None]
        middle = f", median {statistics.median(timed):.1f} us" if timed else ""
        print(f"NCCL_ALLGATHERV_ENABLE={value}: {operation} {size} B: {len(one)} calls, {len(timed)} with a time{middle}, row {row:.1f} us")
        if operation == "AllReduce" and (value == 0 or version < 23100):
            assert len(timed) == len(one)
            # Without MPS ranks take turns on the GPU, for milliseconds each.
            assert mps != "with" or abs(statistics.median(timed) / row - 1) < 0.1
        if operation == "AllReduce" and value == 1 and version >= 23100:
            assert not timed
P
    done
}
off_is_off() {
    BUSBW_WATCH=off wants 0 profiled two all_reduce -b 1K -e 1K -n 4 --batches 1
    right_table
    [ ! -e watch ]
}
# A program whose calls are known: PyTorch, two processes, its own NCCL.
pytorch_loop() {
    cat >loop.py <<'P'
import os, sys, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
os.environ["NCCL_HOSTID"] = f"host{rank}"
torch.cuda.set_device(0)
dist.init_process_group("nccl", rank=rank, world_size=2)
whole = torch.ones(1 << 20, device="cuda")
part = torch.ones(1 << 19, device="cuda")
for _ in range(200):
    dist.all_reduce(whole)
    dist.all_gather_into_tensor(whole, part)
    dist.reduce_scatter_tensor(part, whole)
    if rank == 0:
        dist.send(part, 1)
    else:
        dist.recv(part, 0)
    whole.fill_(1)
torch.cuda.synchronize()
print("NCCL", torch.cuda.nccl.version(), flush=True)
dist.destroy_process_group()
P
    export MASTER_ADDR=127.0.0.1 MASTER_PORT=29571 NCCL_PROFILER_PLUGIN=$profiler BUSBW_WATCH_DIR=$PWD/watch BUSBW_WATCH=every WORLD_SIZE=2
    RANK=1 python3 loop.py >one.txt 2>&1 &
    local other=$!
    RANK=0 python3 loop.py || { cat one.txt; return 1; }
    wait $other || { cat one.txt; return 1; }
    python3 - <<'P'
from watched import *
total = collections.Counter()
for name, lines in files("watch"):
    found, dropped, ranks = calls(lines)
    assert dropped == 0
    for (operation, size), one in sorted(found.items()):
        untimed = sum(call[3] is None for call in one)
        print(f"rank {lines[0].get('rank')}: {operation} {size} B: {len(one)} calls, {untimed} without a time")
        total[operation, size] += len(one)
for key, wanted in {("AllReduce", 4 << 20): 400, ("AllGather", 4 << 20): 400, ("ReduceScatter", 4 << 20): 400,
                    ("Send", 2 << 20): 200, ("Recv", 2 << 20): 200}.items():
    assert total[key] == wanted, (key, total[key], wanted)
P
}
# With two ranks on one GPU launches differ by more than the bar asks for: printed, not judged.
overhead_in_turns() {
    python3 "$here/../../bench/profiler_overhead.py" --busbw "$busbw" --profiler "$profiler" --time "${SECONDS_OF_TURNS:-200}" -- \
        all_reduce -g 2 --share-gpus --nccl "$nccl" -b 8 -e 64M -f 64 -n 20 --batches 3 -c 0 || [ $? = 1 ]
}
right_table() { grep -q '^# Out of bounds values : 0 OK' out; }
export -f two profiled right_table calls_and_bytes_are_exact kernel_times_are_the_rows steps_have_the_bytes no_times_after_a_broadcast off_is_off \
    pytorch_loop overhead_in_turns

failed=0 count=0
run_case() {
    local code place=$work/$1-$count
    mkdir -p "$place"
    (cd "$place" && timeout "$2" bash -c "set -eu -o pipefail; source '$here/tests.bash'; $1") >"$place.txt" 2>&1 </dev/null
    code=$?
    count=$((count + 1))
    if [ $code = 0 ]; then
        echo "ok       $1"
        sed 's/^/         /' "$place.txt"
    else
        failed=$((failed + 1))
        echo "FAILED   $1: exit $code"
        tail -n 40 "$place.txt" | sed 's/^/         /'
    fi
}
turns=0
for library in "$@"; do
    nccl=$(realpath "$library")
    export nccl version
    version=$(python3 -c 'import ctypes, sys; v = ctypes.c_int(); ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(v)); print(v.value)' "$nccl")
    echo "# $("$busbw" --version), NCCL $version, $gpu, $mps MPS"
    for name in calls_and_bytes_are_exact kernel_times_are_the_rows steps_have_the_bytes no_times_after_a_broadcast off_is_off; do
        run_case $name 90
    done
    # Once: it takes most of the time.
    if [ $turns = 0 ] && [ "${SECONDS_OF_TURNS:-200}" != 0 ]; then
        turns=1
        run_case overhead_in_turns $((${SECONDS_OF_TURNS:-200} + 30))
    fi
done
if python3 -c 'import torch' 2>/dev/null; then
    run_case pytorch_loop 90
else
    echo "waived   pytorch_loop: python3 has no torch"
fi
echo "# $count ran, $failed failed"
[ $failed = 0 ]
