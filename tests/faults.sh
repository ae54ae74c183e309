#!/usr/bin/env bash
# Runs the fault tests ROUNDS times (default 1) and prints what they tell: cells and passes on every
# axis of the matrix, durations, what was waived.
# Exit code 0: every test of every round passed, and the matrix ran. 1: not so. 2: usage.
set -euo pipefail

rounds=${1:-1}
if ! [[ $rounds =~ ^[1-9][0-9]*$ ]]; then
    echo "usage: tests/faults.sh [ROUNDS]" >&2
    exit 2
fi
cd "$(dirname "$0")/.."
cargo test --quiet --package busbw --test it --no-run

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "$(uname -sr), $(nproc) cores, commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
for round in $(seq "$rounds"); do
    begun=$SECONDS
    status=0
    cargo test --package busbw --test it faults:: >"$log" 2>&1 || status=$?
    echo "== round $round of $rounds: $((SECONDS - begun)) s"
    # What tests tell, the table beneath it, and the harness's own last line.
    sed -n -e '/^faults: /,/^$/p' -e '/^waived: /p' -e '/^test result: /p' "$log" | grep -v '^test .* \.\.\. ' || true
    if [ "$status" != 0 ] || ! grep -q '^faults: the matrix' "$log"; then
        cat "$log"
        echo "tests/faults.sh: round $round failed (exit code $status)" >&2
        exit 1
    fi
done
