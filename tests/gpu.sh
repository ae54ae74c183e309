#!/bin/bash
# Everything that needs a GPU, on 1, 2 or more of them:
#   tests/gpu.sh BUSBW [FOLDER OF NCCL-TESTS] [TEST…]
# With nccl-tests' *_perf in that folder ("" is none), its tables are held against ours. MPI_CUDA names the folder of an Open MPI that was
# configured --with-cuda, whose bin/mpirun and lib are then used. Exit 1 when a test fails, or when what ran and
# what was waived is not what tests/gpu/expected.tsv says for so many GPUs, 5 when nothing ran; with tests named, only these run.
# Not speed: bench/nccl_tests.py measures that.
set -u
busbw=$(realpath "${1:?usage: tests/gpu.sh BUSBW [FOLDER OF NCCL-TESTS] [TEST…]}")
theirs=${2:+$(realpath "$2")}
named=" ${*:3} "
here=$(realpath "$(dirname "$0")/gpu")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BUSBW_NO_RECORD=1 XDG_CACHE_HOME=$work/cache
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')
few=$((gpus > 4 ? 4 : gpus))
ran=0 waived=0 failed=0
: >"$work/ran"

# has PART: whether what a test needs was named.
has() {
    case $1 in
    '') ;;
    nccl-tests) [ -n "$theirs" ] ;;
    MPI_CUDA) [ -n "${MPI_CUDA:-}" ] ;;
    *) echo "tests/gpu/expected.tsv: what is $1?" >&2; exit 2 ;;
    esac
}

# run_test NAME GPUS PART: runs it in a shell of its own, in an empty folder, if there are so many GPUs and there is that.
run_test() {
    local name=$1 needed=$2 part=$3 code
    if [ "$gpus" -lt "$needed" ]; then
        echo "waived   $name: takes $needed GPUs, there are $gpus"
        waived=$((waived + 1))
        return
    fi
    if ! has "$part"; then
        echo "waived   $name: takes $part, of which no folder was named"
        waived=$((waived + 1))
        return
    fi
    local since
    since=$(date +%s)
    mkdir -p "$work/$name"
    (cd "$work/$name" && timeout 300 bash -c "set -eu -o pipefail; source '$here/tests.bash'; $name") >"$work/$name.txt" 2>&1 </dev/null
    code=$?
    ran=$((ran + 1))
    echo "$name" >>"$work/ran"
    if [ $code = 0 ]; then
        echo "ok       $name ($(($(date +%s) - since)) s)"
    else
        failed=$((failed + 1))
        echo "FAILED   $name: exit $code ($(($(date +%s) - since)) s)"
        tail -n 25 "$work/$name.txt" | sed 's/^/         /'
    fi
}
export busbw theirs here gpus few

begun=$(date +%s)
about() { nvidia-smi --query-gpu="$1" --format=csv,noheader | head -n 1; }
if [ "$gpus" = 0 ]; then machine="no GPU that nvidia-smi lists"; else machine="$gpus × $(about name), driver $(about driver_version)"; fi
echo "# $("$busbw" --version), $machine"
for name in "${@:3}"; do
    awk -F'\t' -v name="$name" '$1 == name {found = 1} END {exit !found}' "$here/expected.tsv" || { echo "there is no test $name" >&2; exit 2; }
done
wanted=$(awk -F'\t' -v gpus="$gpus" -v named="$named" -v theirs="$theirs" -v mpi="${MPI_CUDA:-}" \
    '!/^#/ && NF > 1 && $2 <= gpus && (named == "  " || index(named, " " $1 " ")) &&
    ($3 == "" || $3 == "nccl-tests" && theirs != "" || $3 == "MPI_CUDA" && mpi != "") {n++} END {print n + 0}' "$here/expected.tsv")
while IFS=$'\t' read -r name needed part; do
    case $name in '' | '#'*) continue ;; esac
    case $named in '  ' | *" $name "*) ;; *) continue ;; esac
    run_test "$name" "$needed" "$part"
done <"$here/expected.tsv"
# Whoever else uses the GPUs is not ours: our processes have our cache folder in their environment.
ours() { (unset XDG_CACHE_HOME; grep -lszxF "XDG_CACHE_HOME=$work/cache" /proc/[0-9]*/environ | wc -l); }
# A process that was killed has a moment to end.
for _ in $(seq 50); do
    left=$(ours)
    [ "$left" = 0 ] && break
    sleep 0.1
done
echo "# $ran ran of $wanted expected, $waived waived, $failed failed; $left processes left; $(($(date +%s) - begun)) s"
if [ $ran = 0 ] && [ $failed = 0 ]; then
    echo "# nothing ran: this shows nothing" >&2
    exit 5
fi
[ $failed = 0 ] && [ "$ran" = "$wanted" ] && [ "$left" = 0 ]
