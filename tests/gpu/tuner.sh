#!/bin/bash
# busbw's tuner under real releases of NCCL on one GPU, which two ranks share, and under unmodified nccl-tests:
#   tests/gpu/tuner.sh BUSBW NCCL_TESTS_BUILD|- LIBNCCL…
# NCCL_TESTS_BUILD has all_reduce_perf of nccl-tests ("-": none, its cases are waived), built with MPI=1 where MPIRUN=mpirun
# names what starts it: NCCL asks no tuner for one rank, and two ranks on one GPU must be two processes. LIBNCCL are such as a
# wheel's nvidia/nccl/lib/libnccl.so.2. Prints a line for each case; exit 1 when one fails, 5 without a GPU.
# Not speed: ranks that share a GPU measure no hardware.
set -u
usage='usage: tests/gpu/tuner.sh BUSBW NCCL_TESTS_BUILD|- LIBNCCL…'
busbw=$(realpath "${1:?$usage}")
perf=${2:?$usage}
[ "$perf" = - ] || perf=$(realpath "$perf")/all_reduce_perf
shift 2
[ $# -gt 0 ] || { echo "$usage" >&2; exit 2; }
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BUSBW_NO_RECORD=1 XDG_CACHE_HOME=$work/cache NCCL_MAX_NCHANNELS=8
unset NCCL_PROTO NCCL_ALGO NCCL_DEBUG NCCL_DEBUG_SUBSYS NCCL_DEBUG_FILE NCCL_TUNER_PLUGIN BUSBW_TUNER BUSBW_TUNER_BEFORE
nvidia-smi -L >/dev/null 2>&1 || { echo "no GPU that nvidia-smi lists: nothing ran" >&2; exit 5; }

# Choices that are not NCCL's own at these sizes, none at 1 MiB.
file=$work/tuner.csv
cat >"$file" <<'CSV'
# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks
allreduce,0,4096,ring,simple,1,-1,2
allreduce,4097,65536,tree,simple,2,-1,2
allreduce,65537,131072,ring,ll128,2,-1,2
allreduce,131073,524288,tree,ll,1,-1,2
allgather,0,65536,ring,simple,1,-1,-1
CSV
tuner=$("$busbw" plugin path tuner)
value="$file#sha256=$(sha256sum "$file" | cut -c 1-64)"
export busbw perf here file tuner value work

two() { "$busbw" "$1" -g 2 --share-gpus --nccl "$nccl" -n 4 --batches 2 --record record.jsonl "${@:2}"; }
right_table() { grep -q '^# Out of bounds values : 0 OK' out; }
# ran SIZE PYTHON: the expression is true of what NCCL's log says of that size; `ran` is "RING SIMPLE, channels 0-1".
ran() {
    python3 - "$1" "$2" <<'P'
import json, sys
size, expression = int(sys.argv[1]), sys.argv[2]
rows = [row for row in map(json.loads, open("record.jsonl")) if row["kind"] == "row" and row["size"] == size]
assert rows, f"no row of {size} B"
for row in rows:
    ran = (row.get("out_of_place") or {}).get("algorithm") or ""
    assert eval(expression), f"{size} B: not {expression}: {ran!r}"
    print(f"{size} B: {ran}")
P
}
choices_show_in_the_log() {
    wants 0 two all_reduce -b 4K -e 1M -f 4 --tuner "$file"
    right_table
    said "NCCL asks busbw's tuner: 5 lines of"
    ran 4096 "ran == 'RING SIMPLE, channels 0-0'"
    ran 16384 "ran.startswith('TREE SIMPLE, channels 0-') and ran[-1] in '01'"
    ran 262144 "ran == 'TREE LL, channels 0-0'"
    wants 0 two all_gather -b 8K -e 8K --tuner "$file"
    right_table
    ran 8192 "ran == 'RING SIMPLE, channels 0-0'"
}
# Of a pair that NCCL cannot run here the log says something else; of one that it can, that pair. Either way the data are right.
ll128_is_taken_or_left() {
    wants 0 two all_reduce -b 128K -e 128K --tuner "$file"
    right_table
    ran 131072 "ran"
}
sizes_without_a_line_are_nccls() {
    wants 0 two all_reduce -b 1M -e 1M
    local own
    own=$(ran 1048576 "ran")
    wants 0 two all_reduce -b 1M -e 1M --tuner "$file"
    [ "$(ran 1048576 "ran")" = "$own" ]
    echo "with and without: $own"
}
nccls_log_names_the_tuner() {
    NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING NCCL_DEBUG_FILE=log.%p wants 0 two all_reduce -b 4K -e 4K -c 0 --tuner "$file"
    cat log.* | grep -o 'TUNER/Plugin: Using busbw (v[0-9])' | sort | uniq -c
    cat log.* | grep -o 'TUNER/busbw: .*' | sort | uniq -c
    cat log.* | grep -q 'TUNER/Plugin: Using busbw (v' && cat log.* | grep -q 'TUNER/busbw: 5 of 5 entries of'
}
another_file_fails_the_communicator() {
    cp "$file" altered.csv
    local altered="$PWD/altered.csv#sha256=${value##*=}"
    echo '# another' >>altered.csv
    NCCL_TUNER_PLUGIN=$tuner BUSBW_TUNER=$altered wants 2 two all_reduce -b 4K -e 4K
    said 'but BUSBW_TUNER says'
    # And in NCCL itself, which busbw cannot forestall: another tuner that is not there.
    BUSBW_TUNER_BEFORE=/nowhere.so wants 3 two all_reduce -b 4K -e 4K --tuner "$file"
    said 'cannot load /nowhere.so, the tuner of BUSBW_TUNER_BEFORE'
}
# One rank: the tuner is loaded and takes its file, and NCCL does not ask it.
under_nccl_tests() {
    NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING NCCL_TUNER_PLUGIN=$tuner BUSBW_TUNER=$value LD_PRELOAD=$nccl \
        wants 0 "$perf" -g 1 -b 4K -e 1M -f 4
    right_table
    grep -o 'TUNER/Plugin: Using busbw (v[0-9])' out | sort | uniq -c
    grep -o 'TUNER/busbw: .*' out | sort | uniq -c
    grep -q 'TUNER/Plugin: Using busbw (v' out && grep -q 'TUNER/busbw: 1 of 5 entries of' out
}
choices_under_nccl_tests() {
    NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING NCCL_TUNER_PLUGIN=$tuner BUSBW_TUNER=$value NCCL_TESTS_DEVICE=0 \
        wants 0 "$MPIRUN" -n 2 bash -c 'export NCCL_HOSTID=host${OMPI_COMM_WORLD_RANK:-$PMI_RANK} LD_PRELOAD=$nccl
            exec "$perf" -g 1 -b 4K -e 1M -f 4 -c 1'
    right_table
    grep -o 'AllReduce: [0-9]* Bytes -> Algo .*' out | sort | uniq -c
    grep -q 'AllReduce: 4096 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..0}' out
    grep -q 'AllReduce: 16384 Bytes -> Algo TREE proto SIMPLE' out
    grep -q 'AllReduce: 262144 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}' out
}
# The same file, its hash changed: nccl-tests fails, and NCCL's log has the sentence.
under_nccl_tests_another_hash_fails() {
    local code=0
    NCCL_DEBUG=WARN NCCL_TUNER_PLUGIN=$tuner BUSBW_TUNER=${value%?????}00000 LD_PRELOAD=$nccl \
        timeout 60 "$perf" -g 1 -b 4K -e 4K >out 2>err || code=$?
    cat out err | grep 'TUNER/busbw'
    [ "$code" != 0 ] && [ "$code" != 124 ]
    cat out err | grep -q 'has the SHA-256 .*, but BUSBW_TUNER says'
}
export -f two right_table ran choices_show_in_the_log ll128_is_taken_or_left sizes_without_a_line_are_nccls nccls_log_names_the_tuner \
    another_file_fails_the_communicator under_nccl_tests choices_under_nccl_tests under_nccl_tests_another_hash_fails

failed=0 count=0
run_case() {
    local code place=$work/$1-$count
    mkdir -p "$place"
    (cd "$place" && timeout 180 bash -c "set -eu -o pipefail; source '$here/tests.bash'; $1") >"$place.txt" 2>&1 </dev/null
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
gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1)
for library in "$@"; do
    nccl=$(realpath "$library")
    export nccl
    version=$(python3 -c 'import ctypes, sys; v = ctypes.c_int(); ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(v)); print(v.value)' "$nccl")
    echo "# $("$busbw" --version), NCCL $version, $gpu"
    for name in choices_show_in_the_log ll128_is_taken_or_left sizes_without_a_line_are_nccls nccls_log_names_the_tuner \
        another_file_fails_the_communicator; do
        run_case $name
    done
    for name in under_nccl_tests under_nccl_tests_another_hash_fails; do
        if [ "$perf" = - ]; then echo "waived   $name: no build of nccl-tests was named"; else run_case $name; fi
    done
    if [ "$perf" = - ] || [ -z "${MPIRUN:-}" ]; then
        echo "waived   choices_under_nccl_tests: two ranks of nccl-tests need its build with MPI, and MPIRUN"
    else
        run_case choices_under_nccl_tests
    fi
done
echo "# $count ran, $failed failed"
[ $failed = 0 ]
