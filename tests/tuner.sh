#!/usr/bin/env bash
# busbw's tuner on two hosts that are network namespaces, with shim GPUs: the same file on both is taken, and another file,
# another variable or a missing file on one of them ends the run within 10 s with a sentence that names host and rank.
#   tests/tuner.sh           each case 5 times
#   tests/tuner.sh 100       so many times, by hand; its output is tests/tuner.txt
# Exit code 0: all is well; 1: something is not; 3: nothing was run, as there are no namespaces here.
# BUSBW=PROGRAM and BUSBW_SHIMS=FOLDER stand for what is built otherwise. Needs root, iproute2 and python3.
set -uo pipefail
cd "$(dirname "$0")/.."
times=${1:-5}
most_seconds=10
work=$(mktemp -d)
net=busbw-tu-$$
cleanup() {
  local host
  for host in a b; do
    # All of these are ours: the namespace is.
    ip netns pids "$net-$host" 2>/dev/null | xargs -r kill -9 2>/dev/null
    ip netns del "$net-$host" 2>/dev/null
  done
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
if [ -z "${BUSBW:-}" ]; then
  cargo build --release --quiet || exit 1
  BUSBW=$(realpath "${CARGO_TARGET_DIR:-target}")/release/busbw
fi
shims=${BUSBW_SHIMS:-}
if [ -z "$shims" ]; then
  mkdir -p target/tmp && shims=$(realpath target/tmp)/shims
  flock target/tmp/shims.lock tests/shims/build.sh "$shims" >"$work/build" || exit 1
fi
if ! ip netns add "$net-a" 2>"$work/err" || ! ip netns add "$net-b" 2>"$work/err"; then
  echo "waived  everything: no network namespaces here: $(head -1 "$work/err")"
  exit 3
fi
ip -n "$net-a" link set lo up && ip -n "$net-b" link set lo up &&
  ip -n "$net-a" link add eth0 type veth peer name eth0 netns "$net-b" || exit 1
number=1
for host in a b; do
  ip -n "$net-$host" addr add "10.89.0.$number/24" dev eth0 && ip -n "$net-$host" link set eth0 up || exit 1
  mkdir -p "$work/of-$host"
  number=2
done
mkdir "$work/etc"

# at HOST RANK VARIABLE WORDS…: a process of a job of two, as a launcher starts it; the host has its own name and files.
at() {
  ip netns exec "$net-$1" unshare --uts --mount bash -c '
    hostname "host-$0" && mount --bind "$1/of-$0" "$1/etc" || exit 99
    exec "${@:2}"' "$1" "$work" env WORLD_SIZE=2 RANK="$2" LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.89.0.1 \
    MASTER_PORT=29567 LD_LIBRARY_PATH="$shims" BUSBW_NVML="$shims/libnvidia-ml.so.1" BUSBW_NO_RECORD=1 \
    XDG_CACHE_HOME="$work/cache" ${3:+BUSBW_TUNER="$3"} timeout 60 "$BUSBW" "${@:4}"
}
# job VARIABLE-ON-A VARIABLE-ON-B WORDS…: both hosts at once; sets `code_a`, `code_b`, `took` (seconds).
job() {
  local started=$EPOCHREALTIME other
  at b 1 "$2" "${@:3}" >"$work/out-b" 2>"$work/err-b" &
  other=$!
  at a 0 "$1" "${@:3}" >"$work/out-a" 2>"$work/err-a"
  code_a=$?
  wait "$other"
  code_b=$?
  took=$(python3 -c "print(f'{$EPOCHREALTIME - $started:.2f}')")
}

file=$work/etc/tuner.csv
chosen='allreduce,0,65536,tree,simple,1,-1,-1'
other='allreduce,0,65536,tree,simple,2,-1,-1'
collective=(all_reduce --backend nccl -b 4K -e 4K -n 2 --batches 2)
# put HOST LINE|-: its file.
put() { if [ "$2" = - ]; then rm -f "$work/of-$1/tuner.csv"; else echo "$2" >"$work/of-$1/tuner.csv"; fi; }
# What BUSBW_TUNER says of a line.
variable() { echo "$file#sha256=$(echo "$1" | sha256sum | cut -d ' ' -f 1)"; }

declare -A right=() runs=() longest=()
# judge CASE SENTENCE: an empty sentence means that the run goes well; otherwise it stands once, on host a.
judge() {
  local why=
  runs[$1]=$((${runs[$1]:-0} + 1))
  longest[$1]=$(printf '%s\n' "${longest[$1]:-0}" "$took" | sort -g | tail -n 1)
  if [ -z "$2" ]; then
    [ "$code_a$code_b" = 00 ] || why="exit codes $code_a and $code_b"
    grep -q '"algorithm":"TREE SIMPLE, channels 0-0"' "$work/out-a" || why=${why:-"NCCL's log does not name the choice"}
  else
    [ "$code_a$code_b" = 22 ] || why="exit codes $code_a and $code_b"
    [ "$(grep -Ec "$2" "$work/err-a")" = 1 ] || why=${why:-"no line, or several, with: $2"}
    awk -v s="$took" -v most="$most_seconds" 'BEGIN {exit !(s > most)}' && why=${why:-"it took $took s"}
  fi
  if [ -z "$why" ]; then
    right[$1]=$((${right[$1]:-0} + 1))
  else
    echo "# $1: $why"
    tail -n 3 "$work/err-a" "$work/err-b" | sed 's/^/#   /'
  fi
}
whose='rank 1 \(process [0-9]+ on host-b\)'
declare -a cases=("the same file on both hosts" "the same variable on both hosts" "another file on one host" "no file on one host"
  "another variable on one host" "no variable on one host" "one variable, another file on one host" "one variable, no file on one host"
  "one variable, another file on the host of rank 0")
for _ in $(seq "$times"); do
  put a "$chosen" && put b "$chosen"
  job "" "" "${collective[@]}" --json --tuner "$file"
  judge "${cases[0]}" ""
  NCCL_TUNER_PLUGIN=$(XDG_CACHE_HOME=$work/cache "$BUSBW" plugin path tuner) job "$(variable "$chosen")" "$(variable "$chosen")" "${collective[@]}" --json
  judge "${cases[1]}" ""
  put b "$other"
  job "" "" "${collective[@]}" --tuner "$file"
  judge "${cases[2]}" "$whose has BUSBW_TUNER=.*, and rank 0 on host-a has BUSBW_TUNER="
  job "$(variable "$chosen")" "$(variable "$chosen")" "${collective[@]}"
  judge "${cases[6]}" "$whose cannot take part: .* has the SHA-256 .*, but BUSBW_TUNER says"
  job "$(variable "$chosen")" "$(variable "$other")" "${collective[@]}"
  judge "${cases[4]}" "$whose has BUSBW_TUNER=.*, and rank 0 on host-a has BUSBW_TUNER="
  put b -
  job "" "" "${collective[@]}" --tuner "$file"
  judge "${cases[3]}" "$whose cannot take part: cannot read the tuner's file"
  job "$(variable "$chosen")" "$(variable "$chosen")" "${collective[@]}"
  judge "${cases[7]}" "$whose cannot take part: cannot read the tuner's file"
  job "$(variable "$chosen")" "" "${collective[@]}"
  judge "${cases[5]}" "$whose has no BUSBW_TUNER, and rank 0 on host-a has BUSBW_TUNER="
  put a "$other" && put b "$chosen"
  job "$(variable "$chosen")" "$(variable "$chosen")" "${collective[@]}"
  judge "${cases[8]}" 'rank 0 on host-a: .* has the SHA-256 .*, but BUSBW_TUNER says'
done

status=0
echo "two hosts that are namespaces, shim GPUs, $(nproc) processors; a refusal within $most_seconds s"
for name in "${cases[@]}"; do
  echo "$name: ${right[$name]:-0} of ${runs[$name]}, longest ${longest[$name]} s"
  [ "${right[$name]:-0}" = "${runs[$name]}" ] || status=1
done
exit $status
