#!/bin/bash
# A DDP training of minutes with busbw's profiler, two ranks on one GPU (under CUDA MPS, over NCCL's sockets), and the same without it:
#   tests/gpu/training.sh BUSBW PROFILER|- [SECONDS]      SECONDS (120) with the profiler, a quarter of it without
# Every call's number is there once on both ranks and nothing was dropped, or exit 1; 5 where it cannot run. Prints what watch says,
# and the resident memory of the ranks with and without the profiler.
set -u
busbw=$(realpath "${1:?usage: tests/gpu/training.sh BUSBW PROFILER|- [SECONDS]}")
profiler=${2:?usage: tests/gpu/training.sh BUSBW PROFILER|- [SECONDS]}
seconds=${3:-120}
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
nvidia-smi -L >/dev/null 2>&1 || { echo "no GPU that nvidia-smi lists: nothing ran" >&2; exit 5; }
python3 -c 'import torch' 2>/dev/null || { echo "python3 has no torch: nothing ran" >&2; exit 5; }
[ "$profiler" = - ] && profiler=$("$busbw" plugin path profiler)
profiler=$(realpath "$profiler")
export CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps-log
mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY" "$work/watch"
trap 'echo quit | timeout 20 nvidia-cuda-mps-control >/dev/null 2>&1; rm -rf "$work"' EXIT
timeout 20 nvidia-cuda-mps-control -d >/dev/null 2>&1 || { echo "CUDA MPS does not start: the ranks' kernels would take turns" >&2; exit 5; }
export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 NCCL_SOCKET_IFNAME=lo NCCL_NET=Socket
unset BUSBW_WATCH NCCL_PROFILER_PLUGIN

train() { # PORT SECONDS
  export MASTER_PORT=$1
  RANK=1 timeout $(($2 + 60)) python3 "$here/training_job.py" 1 "$2" &
  local other=$!
  RANK=0 timeout $(($2 + 60)) python3 "$here/training_job.py" 0 "$2"
  local code=$?
  wait $other && [ $code = 0 ]
}
echo "# without the profiler"
train 29701 $((seconds / 4)) || exit 1
echo "# with it"
export NCCL_PROFILER_PLUGIN=$profiler BUSBW_WATCH_DIR=$work/watch
train 29702 "$seconds" || exit 1
"$busbw" watch --once "$work/watch"
python3 - "$work"/watch/*.jsonl <<'P'
import collections, json, sys
numbers = []
for name in sys.argv[1:]:
    lines = [json.loads(line) for line in open(name)]
    found, dropped = collections.defaultdict(list), [line["dropped_calls"] for line in lines if line["kind"] == "heartbeat"][-1]
    for line in lines:
        if line["kind"] == "calls":
            found[line["communicator"], line["operation"]] += [call[0] for call in line["calls"]]
    assert dropped == 0, f"{dropped} calls dropped"
    for key, one in found.items():
        assert sorted(one) == list(range(len(one))), f"{key}: numbers of calls are not each once"
    numbers.append({key: len(one) for key, one in found.items()})
assert len(numbers) == 2 and numbers[0] == numbers[1], numbers
print("every number once on both ranks, none dropped:", {f"{operation} of communicator {at}": count for (at, operation), count in numbers[0].items()})
P
