#!/bin/bash
# RDMA from and to a GPU's memory, with an adapter that is software: the shims' libibverbs (tests/shims/verbs.cc) moves the bytes by
# the driver's own copies, everything else is real: the GPU, its driver's dma-bufs, NCCL.
#   tests/gpu/rdma.sh BUSBW PLUGIN LIBNCCL
# PLUGIN is libnccl-net-busbw.so ("-": the one that BUSBW carries). LIBNCCL is such as a wheel's nvidia/nccl/lib/libnccl.so.2.
# Prints a line for each case; exit 1 when one fails, 5 without a GPU. Needs g++ and cc. Within 5 minutes. No figure means anything.
set -u
usage='usage: tests/gpu/rdma.sh BUSBW PLUGIN|- LIBNCCL'
busbw=$(realpath "${1:?$usage}")
plugin=${2:?$usage}
nccl=$(realpath "${3:?$usage}")
here=$(realpath "$(dirname "$0")")
root=$(realpath "$here/../..")
nvidia-smi -L >/dev/null 2>&1 || { echo "no GPU that nvidia-smi lists: nothing ran" >&2; exit 5; }
[ "$plugin" = - ] && plugin=$("$busbw" plugin path net)
plugin=$(realpath "$plugin")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BUSBW_NO_RECORD=1 XDG_CACHE_HOME=$work/cache
failed=0

# The shims' libibverbs alone: the driver stays the real one.
"$root/tests/shims/build.sh" "$work/shims" || exit 1
mkdir "$work/verbs"
cp "$work/shims/libibverbs.so.1" "$work/verbs/"
cc -O2 -rdynamic "$root/bench/peers/net_one_gpu.c" -ldl -lpthread -o "$work/net_one_gpu" || exit 1
gpu=$(nvidia-smi --query-gpu=pci.bus_id --format=csv,noheader -i 0 | tr 'A-F' 'a-f' | sed 's/^0000\(....:\)/\1/')
"$root/tests/shims/rdma_host.sh" "$work/host" "$gpu"

# with WORDS…: a program on the host with the software adapters.
with() {
    env LD_LIBRARY_PATH="$work/verbs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" LD_PRELOAD="$work/shims/libsysfs-shim.so" \
        BUSBW_SHIM_RDMA="$work/host" "$@"
}

# judge NAME CODE WANTED TEXT FILE: one case.
judge() {
    if [ "$2" = "$3" ] && grep -qE -- "$4" "$5"; then
        echo "ok       $1: $(grep -oE -m 1 -- "$4" "$5" | head -n 1)"
    else
        failed=1
        echo "FAILED   $1: exit $2 ($3 expected), no \"$4\" in:"
        tail -n 15 "$5" | sed 's/^/         /'
    fi
}

# messages NAME CODE PATTERN WORDS…: a run of busbw over verbs.
messages() {
    local name=$1 code=$2 pattern=$3
    shift 3
    with timeout 60 "$busbw" "$@" --backend verbs -n 20 -w 2 --batches 1 >"$work/out" 2>&1
    judge "$name" "$?" "$code" "$pattern" "$work/out"
}

seen='memory of GPU 0 \([0-9a-f:.]*, (dma-buf|peer memory)\)'
for test in "bw write" "bw read" "bw send" "bibw write" "latency write" "latency read" "latency send"; do
    set -- $test
    messages "$1, $2, GPU to GPU, verified" 0 "$seen" "$1" --verb "$2" --buffers gpu -b 1 -e 4M -f 64
done
messages "bw, write over UC, verified" 0 "$seen" bw --verb write --connection UC --buffers gpu -b 1 -e 256K -f 64 -W 8
messages "bw, send over UD, verified" 0 "$seen" bw --verb send --connection UD --buffers gpu -b 1 -e 4K -f 64 -W 8
messages "bw, write, GPU to host, verified" 0 "$seen" bw --buffers gpu,host -b 1 -e 1M -f 64
messages "bw, write, host to GPU, verified" 0 "$seen" bw --buffers host,gpu -b 1 -e 1M -f 64
BUSBW_SHIM_RDMA_CORRUPT=1 messages "a bit that the adapter changes is found" 7 "." bw --buffers gpu -b 4K -e 4K
messages "the record says which GPU, and why" 0 "." bw --buffers gpu -b 8 -e 8 --record "$work/record"
judge "the record says which GPU, and why" 0 0 '"export":"dma-buf","why":"the nearest to mlx5_0, below the same PCI host bridge"' "$work/record"

# With nvidia_peermem alone, which the shim stands for.
BUSBW_SHIM_NO_DMA_BUF_MR=1 BUSBW_SHIM_PEERMEM=1 \
    messages "without dma-bufs by its address" 0 "peer memory" bw --buffers gpu -b 1 -e 1M -f 64
BUSBW_SHIM_NO_DMA_BUF_MR=1 messages "without both it is said why" 5 "modprobe nvidia_peermem" bw --buffers gpu -b 8 -e 8

# NCCL over the plugin's queue pairs: two ranks as threads of one process, whose kernels run side by side.
for rank in 0 1; do
    mkdir -p "$work/ranks/$rank"
    cp "$nccl" "$work/ranks/$rank/libnccl.so.2"
    cp "$plugin" "$work/ranks/$rank/plugin.so"
done
# ranks NAME PATTERN VARIABLE=VALUE…: all_reduce from 8 bytes to 16 MiB, every element of one call at each size checked.
ranks() {
    local name=$1 pattern=$2
    shift 2
    with env NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET NCCL_NET_GDR_LEVEL=SYS NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 BUSBW_NET=rdma "$@" \
        timeout 120 "$work/net_one_gpu" "$work/ranks" 2 8 16777216 8 5 1 >"$work/out" 2>&1
    judge "$name" "$?" 0 "$pattern" "$work/out"
}
ranks "NCCL over queue pairs from GPU to GPU, every element checked" 'via NET/busbw/[01]/GDRDMA' NCCL_NET_MERGE_LEVEL=LOC
ranks "the same over both ports, which NCCL merges" 'via NET/busbw/2/GDRDMA'
ranks "the same over both ports, which the plugin merges" 'via NET/busbw/0/GDRDMA' BUSBW_NET_MERGE=1
ranks "the same through host memory" 'via NET/busbw/[0-9]+$' NCCL_NET_GDR_LEVEL=LOC
ranks "the same, paths broken ten times a second" 'via NET/busbw/2/GDRDMA' BUSBW_NET_FAULT=kill:100
ranks "the same over UC queue pairs" 'via NET/busbw/2/GDRDMA' BUSBW_NET_CONNECTION=UC
ranks "the same over UC, five of a thousand frames lost" 'chunks sent again' BUSBW_NET_CONNECTION=UC BUSBW_SHIM_UNRELIABLE_LOSS=5
# nvidia_peermem instead of dma-bufs.
mkdir -p "$work/host/sys/module/nvidia_peermem"
ranks "the same by the memory's addresses" 'via NET/busbw/2/GDRDMA' NCCL_DMABUF_ENABLE=0 BUSBW_SHIM_NO_DMA_BUF_MR=1 BUSBW_SHIM_PEERMEM=1
exit "$failed"
