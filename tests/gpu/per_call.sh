#!/bin/bash
# Configurations of calls (ncclCollConfig_t) on a real GPU, which two ranks share:
#   tests/gpu/per_call.sh BUSBW LIBNCCL [OLDER LIBNCCL]
# LIBNCCL is an NCCL from 2.31 on (a wheel's nvidia/nccl/lib/libnccl.so.2). With an older one (2.22 to 2.30) the same by busbw's
# tuner is tested, too. Prints a line for each case; exit 1 when one fails, 5 without a GPU.
# Not speed: ranks that share a GPU measure no hardware.
set -u
busbw=$(realpath "${1:?usage: per_call.sh BUSBW LIBNCCL [OLDER LIBNCCL]}")
nccl=$(realpath "${2:?usage: per_call.sh BUSBW LIBNCCL [OLDER LIBNCCL]}")
older=${3:+$(realpath "$3")}
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BUSBW_NO_RECORD=1 XDG_CACHE_HOME=$work/cache NCCL_MAX_NCHANNELS=2
unset NCCL_PROTO NCCL_ALGO NCCL_DEBUG NCCL_DEBUG_SUBSYS NCCL_DEBUG_FILE
export busbw nccl older here
nvidia-smi -L >/dev/null 2>&1 || { echo "no GPU that nvidia-smi lists: nothing ran" >&2; exit 5; }

# two COLLECTIVE OPTIONS…: two ranks on one GPU; each process has a host identity of its own.
two() { "$busbw" "$1" -g 2 --share-gpus --nccl "$nccl" -n 4 --batches 2 --record record.jsonl "${@:2}"; }
# variant LABEL PYTHON: the expression is true of every row of the variant, and there is one.
variant() {
    python3 - "$1" "$2" <<'P'
import json, sys
label, expression = sys.argv[1:]
rows = [row for row in map(json.loads, open("record.jsonl")) if row["kind"] == "row"]
own = [row for row in rows if row["variant"].get("algorithm", "auto") == label]
assert own, f"no row of {label}"
for row in own:
    half = row.get("out_of_place") or {}
    ran, evidence, waived = half.get("algorithm") or "", row["variant"].get("evidence"), row.get("waived") or ""
    wrong = [row[place]["wrong"] for place in ("out_of_place", "in_place") if row.get(place)]
    assert eval(expression), f"{label}, {row['size']} B: {expression}: ran {ran!r}, {evidence}, wrong {wrong}, waived {waived!r}"
print(f"{label}: {len(own)} rows, such as {ran or waived}")
P
}
right='wrong and not any(wrong)'
export right
proven() {
    for name in "$@"; do
        variant "$name" "$right and evidence == 'proven' and ran.startswith('${name%_*} ${name##*_},')"
    done
}
honoured() { variant "$1" "$right and not waived"; }

algorithms_are_proven() {
    wants 0 two all_reduce -b 1K -e 1M -f 32 --algorithm auto,RING_SIMPLE,RING_LL,TREE_SIMPLE,TREE_LL
    right_table
    honoured auto
    proven RING_SIMPLE RING_LL TREE_SIMPLE TREE_LL
}
ll128_is_declined() {
    wants 0 two all_reduce -b 1K -e 1M -f 32 --algorithm RING_LL128,RING_LL,TREE_LL128,TREE_LL
    right_table
    variant RING_LL128 "waived.startswith('NCCL: RING_LL128 cannot be honored for all_reduce')"
    variant TREE_LL128 "waived.startswith('NCCL: TREE_LL128 cannot be honored for all_reduce')"
    proven RING_LL TREE_LL
}
# NCCL 2.32.3 ignores what a call asks for where a variable chooses, and its log does not say so: busbw refuses it, and sees it
# where a file sets the variable.
a_variable_overrides_calls() {
    NCCL_PROTO=LL,LL128,Simple wants 2 two all_reduce -b 1K -e 1K --algorithm RING_LL128
    said 'NCCL_PROTO is set, and NCCL then ignores what a call asks for'
    echo NCCL_PROTO=LL128 >nccl.conf
    NCCL_CONF_FILE=$PWD/nccl.conf wants 0 two all_reduce -b 64K -e 64K --algorithm RING_SIMPLE,RING_LL128
    variant RING_SIMPLE "evidence == 'conflicting' and ran.startswith('RING LL128,')"
    variant RING_LL128 "evidence == 'proven'"
}
other_algorithms_are_proven_or_declined() {
    wants 0 two all_reduce -b 64K -e 64K --algorithm auto,NVLS_SIMPLE,COLLNET_DIRECT_SIMPLE,PAT_SIMPLE,SYMK_LL,SYMK_RSxLD_AGxST
    for name in NVLS_SIMPLE COLLNET_DIRECT_SIMPLE PAT_SIMPLE SYMK_LL SYMK_RSxLD_AGxST; do
        variant $name "evidence == 'proven' or waived.startswith('NCCL: $name cannot be honored')"
    done
    honoured auto
}
all_eight_collectives() {
    local collective
    for collective in all_gather reduce_scatter broadcast reduce; do
        wants 0 two $collective -b 4K -e 256K -f 64 --algorithm auto,RING_SIMPLE,RING_LL,TREE_LL
        right_table
        proven RING_SIMPLE RING_LL
        variant TREE_LL "waived.startswith('NCCL: TREE_LL cannot be honored for $collective')"
    done
    for collective in alltoall gather scatter; do
        wants 0 two $collective -b 4K -e 256K -f 64 --max-ctas 1,2
        right_table
        honoured auto
    done
}
ctas() {
    wants 0 two all_reduce -b 4M -e 4M --algorithm RING_SIMPLE --max-ctas 1,2
    right_table
    variant RING_SIMPLE "ran.endswith(', channels 0-' + str(row['variant']['max_ctas'] - 1))"
    wants 0 two all_reduce -b 8 -e 8 --algorithm RING_SIMPLE --min-ctas 2
    # How many channels so few bytes use in the end is NCCL's: the line says it.
    proven RING_SIMPLE
    wants 0 two all_reduce -b 64K -e 64K -x auto,0,1
    right_table
    honoured auto
}
graphs_and_groups() {
    wants 0 two all_reduce -b 4K -e 256K -f 64 -G 3 --algorithm RING_SIMPLE,TREE_LL
    proven RING_SIMPLE TREE_LL
    wants 0 two all_reduce -b 4K -e 256K -f 64 -m 3 --algorithm RING_SIMPLE,RING_LL128,TREE_LL
    proven RING_SIMPLE TREE_LL
}
# By NCCL's own log of every call: batches of both take turns.
batches_take_turns() {
    NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING NCCL_DEBUG_FILE=log.%p wants 0 two all_reduce -b 64K -e 64K -c 0 --batches 5 --algorithm RING_SIMPLE,TREE_LL
    variant TREE_LL "evidence == 'unproven'"
    local turns
    turns=$(cat log.* | sed -n 's/.* -> Algo \([A-Z]*\) .*/\1/p' | uniq | wc -l)
    echo "$turns turns of RING and TREE"
    [ "$turns" -ge 20 ]
}
# From 2.22 on: busbw's tuner is told what the next calls are to have.
older_by_a_tuner() {
    nccl=$older wants 0 two all_reduce -b 4K -e 256K -f 8 --algorithm auto,RING_SIMPLE,TREE_LL,RING_LL
    right_table
    proven RING_SIMPLE TREE_LL RING_LL
    nccl=$older wants 0 two all_reduce -b 64K -e 64K --algorithm RING_SIMPLE --max-ctas 1
    proven RING_SIMPLE
    variant RING_SIMPLE "'channels 0-0' in ran or '{0..0}' in ran"
    nccl=$older wants 0 two all_reduce -b 64K -e 64K -G 3 --algorithm RING_SIMPLE,TREE_LL
    proven RING_SIMPLE TREE_LL
    nccl=$older wants 0 two all_reduce -b 64K -e 64K --algorithm auto,SYMK_LL
    variant SYMK_LL "'needs NCCL 2.31' in waived"
    NCCL_TUNER_PLUGIN=none nccl=$older wants 5 two all_reduce -b 1K -e 1K --algorithm RING_LL
    said 'needs NCCL 2.31 or later; [0-9.]+ is loaded from'
}
right_table() { grep -q '^# Out of bounds values : 0 OK' out; }
export -f two variant proven honoured right_table algorithms_are_proven ll128_is_declined a_variable_overrides_calls \
    other_algorithms_are_proven_or_declined all_eight_collectives ctas graphs_and_groups batches_take_turns older_by_a_tuner

failed=0 ran=0
run_case() {
    local code
    mkdir -p "$work/$1"
    (cd "$work/$1" && timeout 120 bash -c "set -eu -o pipefail; source '$here/tests.bash'; $1") >"$work/$1.txt" 2>&1 </dev/null
    code=$?
    ran=$((ran + 1))
    if [ $code = 0 ]; then
        echo "ok       $1"
        sed 's/^/         /' "$work/$1.txt"
    else
        failed=$((failed + 1))
        echo "FAILED   $1: exit $code"
        tail -n 40 "$work/$1.txt" | sed 's/^/         /'
    fi
}
version=$(python3 -c 'import ctypes, sys; v = ctypes.c_int(); ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(v)); print(v.value)' "$nccl")
echo "# $("$busbw" --version), NCCL $version, $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1)"
for name in algorithms_are_proven ll128_is_declined a_variable_overrides_calls other_algorithms_are_proven_or_declined \
    all_eight_collectives ctas graphs_and_groups batches_take_turns; do
    run_case $name
done
if [ -n "$older" ]; then run_case older_by_a_tuner; else echo "waived   older_by_a_tuner: no older NCCL was named"; fi
echo "# $ran ran, $failed failed"
[ $failed = 0 ]
