#!/usr/bin/env bash
# Fuzzes every target for SECONDS: builds, starts from the committed corpus, prints what was run.
# Exit code 0: no crash, and at least 30 % of each target's inputs parsed. 1: not so. 2: usage.
set -euo pipefail

seconds=${1:-}
if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
    echo "usage: tests/fuzz.sh SECONDS [TARGET...]" >&2
    exit 2
fi
shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(sizes options lint nccl_log topology machine_file fabric_file import trace pairs wire tuner_file hang)
declare -A longest=([sizes]=64 [options]=1024 [lint]=2048 [nccl_log]=4096 [topology]=4096 [machine_file]=2048 [fabric_file]=2048 [import]=4096 [trace]=4096 [pairs]=2048 [wire]=1024 [tuner_file]=2048 [hang]=4096)
for target in "${targets[@]}"; do
    if [ -z "${longest[$target]:-}" ]; then
        echo "tests/fuzz.sh: there is no target $target: sizes, options, lint, nccl_log, topology, machine_file, fabric_file, import, trace, pairs, wire, tuner_file, hang" >&2
        exit 2
    fi
done
least=30

root=$(cd "$(dirname "$0")/.." && pwd)
triple=x86_64-unknown-linux-gnu
built=${CARGO_TARGET_DIR:-$root/fuzz/target}
# What cargo-fuzz passes, less the sanitizer that needs a nightly compiler. With a --target given,
# build scripts and macros stay without it.
RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Ccodegen-units=1 -Cdebug-assertions=on -Coverflow-checks=on" \
    CARGO_TARGET_DIR=$built cargo build --locked --release --target $triple \
    --manifest-path "$root/fuzz/Cargo.toml"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
artifacts=$root/fuzz/artifacts
mkdir -p "$artifacts"

# Fuzzes one target; what there is to say goes to stdout, and 1 is returned where something is wrong.
fuzz() {
    local target=$1 log=$work/$1.log rc=0 runs coverage share bad=0
    # New inputs go to the first folder and are dropped; the committed corpus is only read.
    mkdir "$work/$target"
    "$built/$triple/release/$target" -max_total_time="$seconds" -max_len="${longest[$target]}" \
        -timeout=5 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$artifacts/$target-" \
        "$work/$target" "$root/fuzz/corpus/$target" >"$log" 2>&1 || rc=$?
    if [ $rc -ne 0 ]; then
        echo "$target: FAILED with exit code $rc; the input is in fuzz/artifacts"
        grep -v -E '	(NEW|REDUCE|pulse)' "$log" | tail -n 60
        return 1
    fi
    runs=$(sed -n 's/^Done \([0-9]*\) runs.*/\1/p' "$log")
    coverage=$(sed -n 's/.*DONE *cov: \([0-9]*\).*/\1/p' "$log")
    share=$(sed -n 's/^parse share: \([0-9.]*\) %.*/\1/p' "$log")
    echo "$target: ${runs:-no} runs, coverage ${coverage:-none}, parse share ${share:-none} %, no crash"
    # No coverage means no feedback, and a missing share counts as none.
    if [ "${coverage:-0}" -lt 100 ]; then
        echo "$target: FAILED: coverage is not measured; were the compiler's flags taken?"
        bad=1
    fi
    if ! awk -v share="${share:-0}" -v least=$least 'BEGIN { exit !(share >= least) }'; then
        echo "$target: FAILED: less than $least % of its inputs parsed, so it tests next to nothing"
        bad=1
    fi
    return $bad
}

# A target runs on one core: as many at a time as there are cores.
bad=0 running=0
for target in "${targets[@]}"; do
    if [ $running -ge "$(nproc)" ]; then
        wait -n || bad=1
        running=$((running - 1))
    fi
    fuzz "$target" >"$work/$target.said" &
    running=$((running + 1))
done
while [ $running -gt 0 ]; do
    wait -n || bad=1
    running=$((running - 1))
done
for target in "${targets[@]}"; do
    cat "$work/$target.said"
done
exit $bad
