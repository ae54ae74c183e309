#!/usr/bin/env bash
# RDMA without RDMA hardware: busbw's verbs backend over soft RoCE, in a virtual machine and between two of them. Each check is
# one line with its number; the first that fails ends it, with its output. Under four minutes on two idle cores.
#   tests/rdma.sh BUSBW           verbs, connections, what is refused, bad input, two hosts, loss, a link cut in mid-run
#   tests/rdma.sh BUSBW --long    beside perftest instead, in turns (tests/rdma/perftest.sh); RUNS (10) a side,
#                                 only SIZES='2 64' VERBS='write' KINDS='RC' WHATS='lat' if they are given; WHATS=options: perftest's words
#   tests/rdma.sh BUSBW --loss    what loss costs (tests/rdma/loss.sh), beside what `busbw plan loss` says; RUNS (3)
#   tests/rdma.sh BUSBW --ecmp    four links of equal cost behind routers (tests/rdma/ecmp.sh); two minutes
#   tests/rdma.sh BUSBW --slow    `pairs` among four hosts, of which one has a slow link (tests/rdma/slow.sh); two minutes
#   tests/rdma.sh BUSBW --network [PAIR]
#                                 the plugin's rate over four shaped links beside its own over TCP, in turns, and links that break
#                                 (tests/rdma/paths.sh); RUNS (5) a side, RATE (5) MB/s a link, BREAKS (100) of each of KINDS ('RC UC'). PAIR: the example
#                                 `pair` of crates/nccl-plugin-busbw (target/release/examples/pair)
# Exit codes: 0, 1 a check failed, 5 there is no QEMU or no kernel and neither can be had. What it shows holds for any RDMA
# device, but no figure: packets go one by one through an emulated processor.
set -uo pipefail
cd "$(dirname "$0")/.."
[ -x "${1:-}" ] || { sed -n '4,13s/^# //p' "$0" >&2; exit 2; }
busbw=$(realpath "$1")
# What is called busbw there.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$busbw" "$work/busbw"
number=0

tests/rdma/vm.sh build >/dev/null || exit $?

# judge CODE: numbers the checks of one script.
judge() {
  local line
  while IFS= read -r line; do
    line=${line#[01]| }
    case $line in
      "ok: "*) number=$((number + 1)); printf 'ok %3d  %s\n' "$number" "${line#ok: }" ;;
    esac
  done <"$work/out"
  [ "$1" = 0 ] && return
  grep -vE '^([01]\| )?(ok: .*)?$' "$work/out"
  echo "failed after $number checks (exit $1)"
  exit 1
}

if [ "${2:-}" = --long ]; then
  # The virtual machine has no variables of ours.
  sed "s/^RUNS=.*/RUNS=${RUNS:-10} SIZES='${SIZES:-}' VERBS='${VERBS:-}' KINDS='${KINDS:-}' WHATS='${WHATS:-}'/" tests/rdma/perftest.sh >"$work/script"
  echo "# busbw beside perftest over soft RoCE, in turns, ${RUNS:-10} runs a side; $(nproc) cores, load before: $(cut -d ' ' -f 1-3 /proc/loadavg)"
  LIMIT=${LIMIT:-14400} tests/rdma/vm.sh run "$work/script" "$work/busbw" || exit 1
  echo "# load after: $(cut -d ' ' -f 1-3 /proc/loadavg)"
  exit
fi

if [ "${2:-}" = --loss ]; then
  sed "s/^RUNS=.*/RUNS=${RUNS:-3}/" tests/rdma/loss.sh >"$work/script"
  echo "# what loss costs over soft RoCE, shaped by netem; ${RUNS:-3} runs; $(nproc) cores, load before: $(cut -d ' ' -f 1-3 /proc/loadavg)"
  code=0
  LIMIT=${LIMIT:-3600} tests/rdma/vm.sh pair "$work/script" "$work/busbw" tests/rdma/checks.sh >"$work/out" || code=$?
  [ "$code" = 0 ] || { cat "$work/out"; exit 1; }
  python3 tests/rdma/loss.py "$busbw" <"$work/out"
  code=$?
  echo "# load after: $(cut -d ' ' -f 1-3 /proc/loadavg)"
  exit "$code"
fi

if [ "${2:-}" = --slow ] || [ "${2:-}" = --ecmp ]; then
  code=0
  export LIMIT=${LIMIT:-900}
  case $2 in
    --slow) VMS=4 tests/rdma/vm.sh pair tests/rdma/slow.sh "$work/busbw" tests/rdma/checks.sh >"$work/out" || code=$? ;;
    --ecmp) LINKS=5 tests/rdma/vm.sh pair tests/rdma/ecmp.sh "$work/busbw" tests/rdma/checks.sh >"$work/out" || code=$? ;;
  esac
  sed -n 's/^0| # /# /p' "$work/out"
  judge "$code"
  exit
fi

if [ "${2:-}" = --network ]; then
  pair=${3:-target/release/examples/pair}
  [ -x "$pair" ] || { echo "no $pair: cargo build --release -p nccl-plugin-busbw --example pair" >&2; exit 2; }
  sed "s/^RUNS=.*/RUNS=${RUNS:-5} RATE=${RATE:-5} BREAKS=${BREAKS:-100} KINDS='${KINDS:-RC UC}'/" tests/rdma/paths.sh >"$work/script"
  echo "# the plugin over four shaped soft-RoCE links and over TCP, in turns; $(nproc) cores, load before: $(cut -d ' ' -f 1-3 /proc/loadavg)"
  code=0
  LINKS=4 LIMIT=${LIMIT:-7200} tests/rdma/vm.sh pair "$work/script" "$pair" | sed 's/^0| //' || code=$?
  echo "# load after: $(cut -d ' ' -f 1-3 /proc/loadavg)"
  exit "$code"
fi

code=0
LIMIT=${LIMIT:-600} tests/rdma/vm.sh run tests/rdma/alone.sh "$work/busbw" tests/rdma/checks.sh >"$work/out" || code=$?
judge "$code"
code=0
LIMIT=${LIMIT:-600} tests/rdma/vm.sh pair tests/rdma/two.sh "$work/busbw" tests/rdma/checks.sh tests/rdma/network.sh >"$work/out" || code=$?
judge "$code"
echo "$number checks passed in $SECONDS s"
