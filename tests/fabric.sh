#!/usr/bin/env bash
# The simulator of flows against real ones: random small fabrics of namespaces and token buckets, TCP flows over them, and
# links that become slow or go away meanwhile. Compared is the time until all flows of a case are done, and each flow's.
usage() {
  cat <<'END'
tests/fabric.sh [option...]      # needs root, and python3 of 3.11 or newer

  --seeds FIRST:COUNT   random cases (0:20); half a minute each
  --short               seeds 1 and 2, under a minute, for CI: fails where the time until all are done is off by more than 10 %
  --congestion NAME     TCP's congestion control of the senders (reno)
  --queue BYTES         the queue before each link (100000)
  --busbw PROGRAM       else it is built
  --help

Exit codes: 0; 1 where a case is off by more than 10 %; 2 usage; 3 where there are no namespaces, with the reason.
docs/fabric.md has what the columns are. A case is run again, three times at most, where the sender itself ran late: with a
99th percentile of more than 20 ms the processors are what is measured.
END
}
set -uo pipefail
cd "$(dirname "$0")/.."
seeds=0:20 congestion=reno queue=100000 busbw=${BUSBW:-}
while [ $# -gt 0 ]; do
  case $1 in
    --seeds) seeds=$2; shift ;;
    --short) seeds=1:2 ;;
    --congestion) congestion=$2; shift ;;
    --queue) queue=$2; shift ;;
    --busbw) busbw=$2; shift ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! python3 tests/fabric/bed.py --possible 2>"$work/why"; then
  echo "waived  flows against namespaces: $(tail -1 "$work/why")"
  exit 3
fi
if [ -z "$busbw" ]; then
  cargo build --release --quiet -p busbw || exit 1
  busbw=${CARGO_TARGET_DIR:-target}/release/busbw
fi

late() { python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["late_ms_p99"] <= 20)' "$1"; }
failed=0
: >"$work/lines"
echo "# Linux $(uname -r), $(nproc) processors; $congestion, queues of $queue B, buckets of 64 KiB, MTU 1500"
python3 tests/fabric/judge.py columns
for seed in $(seq "${seeds%:*}" $((${seeds%:*} + ${seeds#*:} - 1))); do
  python3 tests/fabric/draw.py "$seed" >"$work/$seed.toml" &&
    "$busbw" plan flows "$work/$seed.toml" --json >"$work/predicted" || { failed=1; continue; }
  rm -f "$work/measured"
  for _ in 1 2 3; do
    python3 tests/fabric/bed.py "$work/$seed.toml" --congestion "$congestion" --queue "$queue" >"$work/measured" || continue
    late "$work/measured" || break
    echo "case $seed: the sender ran late, again" >&2
  done
  if ! python3 tests/fabric/judge.py "$seed" "$work/$seed.toml" "$work/predicted" "$work/measured" >"$work/line"; then
    echo "FAILED  case $seed: no result"
    failed=1
    continue
  fi
  tee -a "$work/lines" <"$work/line"
  awk '{d = $9; if (d < 0) d = -d; exit !(d <= 10)}' "$work/line" || failed=1
done
[ -s "$work/lines" ] && python3 tests/fabric/judge.py total <"$work/lines"
exit $failed
