#!/bin/bash
# busbw tune on a real GPU that two ranks share under CUDA MPS, joined by NCCL's sockets:
#   tests/gpu/tune.sh BUSBW LIBNCCL FOLDER [OPTIONS OF tune…]
# Results, records and what was said lie in FOLDER. MPS has pipes of its own and is ended here. Exit 5 without a GPU or MPS.
# --shared: the server of MPS is a process on the GPU. Nothing is judged but that it ends with an answer: compare `busbw show FOLDER/tune.json` with earlier ones.
set -u
busbw=$(realpath "${1:?usage: tune.sh BUSBW LIBNCCL FOLDER [OPTIONS]}")
nccl=$(realpath "${2:?usage: tune.sh BUSBW LIBNCCL FOLDER [OPTIONS]}")
mkdir -p "${3:?usage: tune.sh BUSBW LIBNCCL FOLDER [OPTIONS]}"
folder=$(realpath "$3")
shift 3
nvidia-smi -L >/dev/null 2>&1 || { echo "no GPU that nvidia-smi lists: nothing ran" >&2; exit 5; }
command -v nvidia-cuda-mps-control >/dev/null || { echo "no nvidia-cuda-mps-control: nothing ran" >&2; exit 5; }
work=$(mktemp -d)
export CUDA_MPS_PIPE_DIRECTORY=$work/pipes CUDA_MPS_LOG_DIRECTORY=$work/log XDG_CACHE_HOME=$work/cache BUSBW_NO_RECORD=1
mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
trap 'echo quit | nvidia-cuda-mps-control >/dev/null 2>&1; rm -rf "$work"' EXIT
nvidia-cuda-mps-control -d || { echo "MPS does not start: nothing ran" >&2; exit 5; }

"$busbw" tune "$@" -g 2 --share-gpus --nccl "$nccl" --yes --shared --record "$folder" >"$folder/table.txt" 2>"$folder/said.txt"
code=$?
cat "$folder/table.txt"
grep -v ': launch [0-9]*: ' "$folder/said.txt" >&2
exit $code
