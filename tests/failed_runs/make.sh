#!/usr/bin/env bash
# Makes the logs of failed, hanging and harmless runs that `busbw explain` must tell apart, on a machine with one GPU:
#   tests/failed_runs/make.sh OUTDIR [NAME…]
# Each kind of kinds.tsv becomes OUTDIR/NAME.log, what its launcher and its ranks print; with a flight recorder, also
# OUTDIR/NAME.trace_rank_N. OUTDIR/logs.tar.gz holds all of them; tests/failed_runs/logs keeps them. Needs PyTorch with NCCL
# and gloo, Open MPI and a C compiler; takes minutes, 8 at most.
# Not a test: nothing is judged but that failures fail and harmless runs end well. Exit code 1: not so. 2: usage.
#
# No setting of the GPU or of the machine changes. NVLink multicast stays off in every process. A small /dev/shm exists in a
# namespace of its own. What a case leaves running is ended by its process id, which the case's own variable names.
set -uo pipefail
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
if [ $# = 0 ] || [[ $1 == -* ]]; then
    echo "usage: tests/failed_runs/make.sh OUTDIR [NAME…]" >&2
    exit 2
fi
mkdir -p "$1" || exit 2
out=$(realpath "$1")
shift

# Cases of one lane run in turn, lanes run side by side: name and seconds that it may take.
mpi="mpi_as_root:20 mpi_too_few_slots:20 mpi_program_missing:20 mpi_segfault:20 mpi_truncate:30 mpi_abort:20 mpi_timeout:30 mpi_rank_killed:30
    mpi_rank_exits:20 mpi_no_memory:30 mpi_unknown_host:40 mpi_no_ssh:20 mpi_no_transport:30 mpi_interface_missing:30
    mpi_shm_full:30 mpi_harmless_warnings:30"
gloo="gloo_rank_killed:60 gloo_size_mismatch:60 gloo_rank_stuck:60 gloo_interface_missing:60 gloo_wrong_collective:60
    torch_rank_raises:60 torch_rank_never_comes:60 torch_master_silent:60 torch_node_never_comes:60 torch_port_in_use:60"
nccl="nccl_healthy:60 nccl_duplicate_gpu:60 nccl_wrong_device:60 nccl_no_gpu:60 nccl_plugin_missing:60 nccl_net_missing:60
    nccl_interface_missing:60 nccl_algorithm_missing:60 nccl_shm_full:60 nccl_rank_killed:60 nccl_peer_killed:80 torch_gpu_memory:60"
hangs="nccl_size_mismatch:90 nccl_size_truncated:90 nccl_rank_stuck:90 nccl_wrong_collective:90 nccl_root_stuck:80 nccl_init_hang:60"
# This one fills the GPU's memory: nothing may run beside it.
alone="nccl_no_memory:90"

every=$(tr -s '[:space:]' '\n' <<<"$mpi $gloo $nccl $hangs $alone" | sed -n 's/:.*//p' | sort)
listed=$(sed -e '/^#/d' -e '/^name\t/d' -e 's/\t.*//' "$here/kinds.tsv" | sort)
if [ "$every" != "$listed" ]; then
    echo "tests/failed_runs: make.sh and kinds.tsv name different kinds:" >&2
    diff <(echo "$every") <(echo "$listed") >&2
    exit 2
fi
for name in "$@"; do
    grep -qx -e "$name" <<<"$every" || { echo "tests/failed_runs: no such kind: $name" >&2; exit 2; }
done
wanted=" $* "
# Seconds by which the last case must have ended.
limit=460

# Neutral: the folder and the programs show in logs.
work=/tmp/failed_runs
rm -rf "$work"
mkdir -p "$work" || exit 2
trap 'rm -rf "$work"' EXIT
cp "$here/train.py" "$work"
mpicc -O1 -g -o "$work/solver" "$here/solver.c" || echo "tests/failed_runs: no MPI: its cases are waived" >&2

export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PYTHONUNBUFFERED=1 LC_ALL=C.UTF-8
# What a user has not set must not be in a log, whoever calls.
unset NCCL_DEBUG NCCL_DEBUG_SUBSYS NCCL_DEBUG_FILE NCCL_HOSTID NCCL_NET NCCL_NET_PLUGIN NCCL_SOCKET_IFNAME NCCL_ALGO NCCL_PROTO PLANTED
ulimit -c 0

# end_leftovers RUN: ends every process that carries FAILED_RUN=RUN, by its id.
end_leftovers() {
    local file pids
    mapfile -t file < <(grep -lzsx -e "FAILED_RUN=$1" /proc/[0-9]*/environ)
    pids=("${file[@]//[!0-9]/}")
    [ ${#pids[@]} = 0 ] || kill -KILL "${pids[@]}" 2>/dev/null
}

# run_case NAME SECONDS: writes OUTDIR/NAME.log and a line for the table.
run_case() {
    local name=$1 seconds=$2 run=$1.$$ since=$SECONDS code=0 outcome note='' file took
    rm -f "$out/$name".{log,trace_rank_*}
    if [ $((limit - since)) -lt "$seconds" ]; then
        printf '%-24s UNEXPECTED: not started, %d s are over\n' "$name" "$since" | tee -a "$work/table"
        return
    fi
    # shellcheck disable=SC2016 # the inner shell expands these
    FAILED_RUN=$run timeout --kill-after=5 "$seconds" bash -c 'cd "$1" && source "$2" && "$3"' bash \
        "$work" "$here/cases.bash" "$name" >"$work/$name.out" 2>&1 </dev/null || code=$?
    took=$((SECONDS - since))
    end_leftovers "$run"
    # Only the lane of hangs writes these, one case at a time.
    for file in "$work"/trace_rank_*; do
        [[ $name == nccl_* && -e $file ]] && mv "$file" "$out/$name.trace_rank_${file##*_}"
    done
    if [ $code = 77 ]; then
        printf '%-24s waived: %s\n' "$name" "$(tail -n 1 "$work/$name.out")" | tee -a "$work/table"
        return
    fi
    cp "$work/$name.out" "$out/$name.log"
    outcome=$(awk -F '\t' -v name="$name" '$1 == name { print $2 }' "$here/kinds.tsv")
    case $outcome:$code in
    harmless:0 | hung:0) ;;
    harmless:*) note="UNEXPECTED: a harmless run ended with $code" ;;
    hung:*) note="UNEXPECTED: the hanging run was not watched for long enough" ;;
    failed:0) note='UNEXPECTED: the run did not fail' ;;
    esac
    [ $took -lt "$seconds" ] || note="UNEXPECTED: it did not end within $seconds s"
    printf '%-24s %4d s %8d B  exit %3d  %s\n' "$name" $took "$(stat -c %s "$out/$name.log")" $code "$note" | tee -a "$work/table"
}

# run_lane NAME:SECONDS…
run_lane() {
    local case
    for case in "$@"; do
        if [ "$wanted" = "  " ] || [[ $wanted == *" ${case%:*} "* ]]; then
            run_case "${case%:*}" "${case#*:}"
        fi
    done
}

: >"$work/table"
# shellcheck disable=SC2086 # words on purpose
{
    run_lane $mpi &
    run_lane $gloo &
    run_lane $nccl &
    run_lane $hangs &
    wait
    run_lane $alone
}
echo "$(wc -l <"$work/table") cases in $SECONDS s"
(cd "$out" && shopt -s nullglob && tar -czf logs.tar.gz -- *.log *.trace_rank_*)
! grep -q UNEXPECTED "$work/table"
