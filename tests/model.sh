#!/usr/bin/env bash
# Explores every model of the shared-memory protocol and of what the net plugin's threads share (docs/model_check.md) with
# loom, each printed with the number of its executions. Exit code 0: no race, deadlock or wrong message in any. 1: one was found.
# LOOM_MAX_PREEMPTIONS=N explores all of them so far; LOOM_LOCATION=1 says where a failing one was.
set -euo pipefail
cd "$(dirname "$0")/.."

# A target folder of its own: --cfg loom builds every dependency anew.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/loom
RUSTFLAGS="${RUSTFLAGS:-} --cfg loom" \
    timeout 600 cargo test --locked --release -p busbw-shm -p nccl-plugin-busbw --lib --no-run
out=$(mktemp)
trap 'rm -f "$out"' EXIT
RUSTFLAGS="${RUSTFLAGS:-} --cfg loom" \
    timeout "${MODEL_SECONDS:-300}" cargo test --locked --release -p busbw-shm -p nccl-plugin-busbw --lib \
    loom_models -- --nocapture >"$out" 2>&1 || { cat "$out" >&2; exit 1; }
grep -o '[a-z0-9_, ]*: [0-9]* executions in .*' "$out" | sort
models=$(grep -c ' executions in ' "$out") || true
if [ "$models" -lt 50 ]; then
    echo "tests/model.sh: only $models models were explored" >&2
    exit 1
fi
echo "$models models explored"
