#!/usr/bin/env bash
# Ranks that launchers start, on the shim libraries: Open MPI, Hydra, Slurm, torchrun's environment, and two
# network namespaces as two hosts; and ranks that busbw starts through them and through ssh. Each check is one line, `ok` or `waived` with its reason, and their names
# must be those of tests/launchers.txt: a check that vanished fails. So does one whose part this machine lacks, unless
# the caller has named that part, and the list's first word `waived:` says that it may be.
#   tests/launchers.sh                 everything, about four minutes; installs what is missing (apt-get), needs root
#   tests/launchers.sh --waive slurm   may do without Slurm; so with pmix (its plugin), ssh, namespaces, and with several
#   tests/launchers.sh --quick         without installing; what is not there is waived
set -uo pipefail
cd "$(dirname "$0")/.."
quick= waivable="torch" lacking= not_run=0
while [ $# -gt 0 ]; do
  case "$1 ${2-}" in
    "--quick "*) quick=yes ;;
    "--waive slurm" | "--waive pmix" | "--waive ssh" | "--waive namespaces") waivable+=" $2" && shift ;;
    *)
      echo "not known: $*; known: --quick, --waive slurm, --waive pmix, --waive ssh, --waive namespaces" >&2
      exit 2
      ;;
  esac
  shift
done
work=$(mktemp -d)
# Several of these may run on one machine at once.
export net=busbw-$$ wire=bw$$ port=$((20000 + $$ % 1000 * 10))
started=()
cleanup() {
  local host
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; done
  for host in a b; do
    # All of these are ours: the namespace is.
    ip netns pids "$net-$host" 2>/dev/null | xargs -r kill -9 2>/dev/null
    ip netns del "$net-$host" 2>/dev/null
    rm -rf "/etc/netns/$net-$host"
  done
  rm -rf "$work"
}
trap cleanup EXIT

packages="openmpi-bin libpmix-dev mpich slurm-wlm munge openssh-server openssh-client iproute2 python3 g++"
if [ -z "$quick" ] && ! dpkg -s $packages >/dev/null 2>&1; then
  apt-get update -qq >"$work/apt" 2>&1
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >"$work/apt" 2>&1 || tail -3 "$work/apt"
fi
cargo build --release --quiet || exit 1
target=${CARGO_TARGET_DIR:-target}
# A name of its own, by which to see that nothing is left.
program=$work/busbw-launched-$$
cp "$target/release/busbw" "$program"
# As releases are: ssh copies it.
strip "$program"
# And another one for checks that run beside others (`later`).
export beside=$work/busbw-beside-$$
cp "$program" "$beside"
shims=${BUSBW_SHIMS:-}
if [ -z "$shims" ]; then
  # Those of `cargo test`, of which only what has changed is built.
  mkdir -p "$target/tmp" && shims=$(realpath "$target/tmp")/shims
  flock "$target/tmp/shims.lock" tests/shims/build.sh "$shims" >"$work/build" || exit 1
fi
export LD_LIBRARY_PATH=$shims BUSBW_NO_RECORD=1
small="-b 8 -e 64 -f 2 -n 5 --batches 1"

failed=0
seen=$work/seen
: >"$seen"
verdict() { # ok|FAILED name [detail]
  printf '%-7s %s%s\n' "$1" "$2" "${3:+: $3}"
  echo "$2" >>"$seen"
  [ "$1" = FAILED ] && failed=1
  return 0
}
waive() { # PART reason name...: a failure, unless that part may be lacking
  local part=$1 reason=$2 name
  shift 2
  if [ -z "$quick" ] && [[ " $waivable " != *" $part "* ]]; then
    lacking+=" $part" not_run=$((not_run + $#))
    for name in "$@"; do verdict FAILED "$name" "not run: $reason"; done
    return
  fi
  for name in "$@"; do
    printf '%-7s %s: %s\n' waived "$name" "$reason"
    echo "waived:$name" >>"$seen"
  done
}
# Also copies that ssh has made, in folders of that name.
left() { ps -eo args | grep -c "^[^ ]*busbw-${1:-launched}-$$[^ ]* "; }
# run NAME CODES RANKS ROWS TEXT command...: exit code one of CODES, one table with so many ranks and rows,
# TEXT (an extended regular expression) on stderr, and nobody left two seconds later.
run() {
  timeout 50 "${@:6}" >"$work/out" 2>"$work/err"
  judge $? "$work" launched "${@:1:5}"
}
judge() { # CODE FOLDER WHOSE NAME CODES RANKS ROWS TEXT
  local code=$1 out=$2/out err=$2/err whose=$3 name=$4 codes=$5 ranks=$6 rows=$7 text=$8 tables
  tables=$(grep -c '^# nccl-tests version' "$out")
  local got="exit $code, $tables tables, $(grep -c '^#  Rank' "$out") ranks, $(grep -c ' float ' "$out") rows"
  local why=
  [[ " $codes " == *" $code "* ]] || why="exit code not $codes"
  [ "$(grep -c '^#  Rank' "$out")" = "$ranks" ] || why="not $ranks ranks"
  [ "$(grep -c ' float ' "$out")" = "$rows" ] || why="not $rows rows"
  [ "$tables" -le 1 ] || why="several tables"
  [ -z "$text" ] || grep -aqE -e "$text" "$err" || why="stderr lacks: $text"
  for _ in $(seq 20); do [ "$(left "$whose")" = 0 ] && break; sleep 0.1; done
  [ "$(left "$whose")" = 0 ] || why="$(left "$whose") processes left"
  if [ -z "$why" ]; then verdict ok "$name"; else
    verdict FAILED "$name" "$why ($got)"
    tail -5 "$err"
  fi
}
# The same for what mostly waits: it runs beside the others, with $beside for its program, until `settle`.
waiting=()
later() { # as `run`
  local folder
  folder=$(mktemp -d -p "$work")
  timeout 50 "${@:6}" >"$folder/out" 2>"$folder/err" &
  waiting+=("$!" "$folder" "${@:1:5}")
}
settle() {
  local pid codes=() number
  for ((number = 0; number < ${#waiting[@]}; number += 7)); do
    wait "${waiting[number]}"
    codes+=($?)
  done
  for ((number = 0; number < ${#waiting[@]}; number += 7)); do
    judge "${codes[number / 7]}" "${waiting[number + 1]}" beside "${waiting[@]:number + 2:5}"
  done
  waiting=()
}
# Waits until the run under way has printed its head, and measures.
measuring() {
  for _ in $(seq 200); do grep -q '^#  Rank' "$work/out" 2>/dev/null && break; sleep 0.1; done
  sleep 0.5
}
# One doctor of 4 ranks, of which the last has a variable of its own; it says so once, and all exit alike.
doctor() { # NAME launcher...
  local name=$1 code
  shift
  timeout 50 "$@" sh -c 'number=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${SLURM_PROCID:-$RANK}}}
    NCCL_BUFFSIZE=$((4194304 << number / 3)) exec "$0" doctor' "$program" >"$work/out" 2>"$work/err"
  code=$?
  if [ $code = 1 ] && [ "$(grep -c '4 ranks compared' "$work/out")" = 1 ] &&
    grep -q 'rank 3.*NCCL_BUFFSIZE.*8388608' "$work/out" && [ "$(left)" = 0 ]; then
    verdict ok "$name"
  else
    verdict FAILED "$name" "exit $code, $(grep -c '4 ranks compared' "$work/out") reports, $(left) left"
    tail -n 5 "$work/out" "$work/err"
  fi
}
# Ctrl-C at a launcher: as a terminal does it, to its whole process group, so often as the launcher wants; when
# there is a row on stdout, or AWAIT on stderr.
interrupted() { # TIMES command...
  python3 - "$@" <<'PY'
import os, signal, subprocess, sys, threading, time
times, words, said = int(sys.argv[1]), sys.argv[2:], os.environ.get("AWAIT", "").encode()
streams = {"stderr": subprocess.PIPE} if said else {"stdout": subprocess.PIPE}
# Also where this script is a background job, which ignores Ctrl-C.
heed = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
child = subprocess.Popen(words, start_new_session=True, preexec_fn=heed, **streams)
stream = child.stderr if said else child.stdout
def line():
    text = stream.readline()
    if said:
        sys.stderr.buffer.write(text)
        sys.stderr.buffer.flush()
    return text
first = line()
while first and (said or b" float ") not in first:
    first = line()
threading.Thread(target=lambda: [None for _ in iter(line, b"")], daemon=True).start()
for _ in range(times):
    os.killpg(child.pid, signal.SIGINT)
    time.sleep(0.3)
sys.exit(child.wait(20) % 256)
PY
}
# torchrun's environment by hand (torch/distributed/elastic/agent/server/local_elastic_agent.py): N processes,
# and like its agent this ends with the first code that is not 0.
torchrun_like() { # N command...
  local size=$1 rank pids=() code=0
  shift
  for ((rank = 0; rank < size; rank++)); do
    RANK=$rank WORLD_SIZE=$size LOCAL_RANK=$rank LOCAL_WORLD_SIZE=${ON_HOST:-$size} ROLE_RANK=$rank GROUP_RANK=0 \
      MASTER_ADDR=127.0.0.1 MASTER_PORT=${PORT:-$port} TORCHELASTIC_RUN_ID=none \
      TORCHELASTIC_USE_AGENT_STORE=True "$@" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do
    wait "$pid"
    rank=$?
    [ $code = 0 ] && code=$rank
  done
  return $code
}
export -f torchrun_like
# What authenticates a job stays in its processes: of variables that are named so, and of two that are planted, no value is in
# the record, the output, or what other commands make of the record. `secrets NAME LAUNCHER...`
secrets() {
  local name=$1 folder=$work/secrets values found=
  shift
  rm -rf "$folder" && mkdir "$folder"
  NCCL_API_TOKEN=planted-token-8731 UCX_PASSWORD=planted-word-5520 timeout 50 "$@" 2 bash -c \
    'env >"$0/env.$$" && exec "$@"' "$folder" "$program" all_reduce $small --record "$folder/record.jsonl" \
    >"$folder/out" 2>"$folder/err"
  values=$(sed -nE 's/^[A-Za-z_]*(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|COOKIE|_JWT|precondition_transports|PMIX_SERVER_URI|local_uri|hnp_uri)[A-Za-z0-9_]*=(.{8,})$/\2/p' \
    "$folder"/env.* | sort -u)
  for command in explain "explain --json" "import --json" "compare --json" lint show; do
    "$program" $command "$folder/record.jsonl" ${command/#compare*/"$folder/record.jsonl"} >>"$folder/made" 2>&1
  done
  "$program" report "$folder/record.jsonl" -o "$folder/page.html" >>"$folder/made" 2>&1
  while read -r value; do
    grep -qsF -e "$value" "$folder"/{record.jsonl,out,err,made,page.html} && found+=" $value"
  done <<<"$values"
  if [ -s "$folder/record.jsonl" ] && [ -s "$folder/page.html" ] && [[ $values == *planted-token* ]] && [ -z "$found" ]; then
    verdict ok "$name" "$(wc -l <<<"$values") values"
  else
    verdict FAILED "$name" "found:$found"
    tail -5 "$folder/err" "$folder/made"
  fi
}
# What every launcher must do. `all NAME INTERRUPTS LAUNCHER...`, the last words ending in the option for the
# number of processes.
all() {
  local name=$1 interrupts=$2
  shift 2
  run "$name: 4 processes" 0 4 4 "" "$@" 4 "$program" all_reduce $small
  run "$name: -t 2 -g 1" 0 4 4 "" "$@" 2 "$program" all_reduce -t 2 $small
  run "$name: -t 1 -g 2, perf" 0 4 4 "" "$@" 2 "$program" all_reduce_perf -g 2 -b 8 -e 64 -f 2
  run "$name: -t 2 -g 2, perf" 0 8 4 "" "$@" 2 "$program" all_reduce_perf -t 2 -g 2 -b 8 -e 64 -f 2
  run "$name: host" 0 4 4 "" "$@" 4 "$program" all_reduce --backend host $small
  secrets "$name: secrets" "$@"
  run "$name: options that cannot be" 2 0 0 "-b is 8 bytes and -e 4" "$@" 4 "$program" all_reduce -b 8 -e 4
  run "$name: not enough GPUs" 5 0 0 "cannot take part: Invalid number of GPUs" "$@" 4 "$program" all_reduce -g 4 $small
  doctor "$name: doctor" "$@" 4
  run "$name: a killed worker" "6 137 9" 4 1 "${KILLED-rank 2 \(process [0-9]+ on [^ ]+\) was lost while timing row 1}" \
    "$@" 4 "$program" all_reduce $small --fault rank=2,phase=timed,row=1,do=kill
  run "$name: a killed rank of the first process" 6 4 1 "rank 0 \(process [0-9]+ on [^ ]+\) was killed by signal 9" \
    "$@" 4 "$program" all_reduce $small --fault rank=0,phase=timed,row=1,do=kill
  if [ "$interrupts" -gt 0 ]; then
    interrupted "$interrupts" "$@" 4 "$program" all_reduce -N 0 -b 8 -e 8 -n 5 2>"$work/err"
    local code=$?
    sleep 1
    # Hydra, interrupted itself, ended with 0 in 4 of some 240 runs, though strace saw every rank end with 130.
    if { [ $code != 0 ] || [ "$name" = Hydra ]; } && [ "$(left)" = 0 ] && grep -aq "interrupted by signal" "$work/err"; then
      verdict ok "$name: Ctrl-C"
    else
      verdict FAILED "$name: Ctrl-C" "exit $code, $(left) processes left"
    fi
  fi
}
# Ctrl-C at busbw, which has started the launcher: rows are kept, and nothing is left. `stopped NAME words...`
stopped() {
  local name=$1 code rows
  shift
  interrupted 1 "$program" all_reduce "$@" -N 0 -b 8 -e 8 -n 5 --record "$work/stopped.jsonl" 2>"$work/err"
  code=$?
  for _ in $(seq 20); do [ "$(left)" = 0 ] && break; sleep 0.1; done
  rows=$("$program" show "$work/stopped.jsonl" 2>/dev/null | grep -c ' float ')
  if [ $code = 130 ] && [ "$(left)" = 0 ] && [ "$rows" -ge 1 ]; then verdict ok "$name"; else
    verdict FAILED "$name" "exit $code, $rows rows kept, $(left) processes left"
    tail -5 "$work/err"
  fi
}
# busbw itself is killed. `orphaned NAME words...`
orphaned() {
  local name=$1 pid
  shift
  "$program" all_reduce "$@" -N 0 -b 8 -e 8 -n 5 >"$work/out" 2>"$work/err" &
  pid=$!
  for _ in $(seq 200); do grep -q ' float ' "$work/out" && break; sleep 0.1; done
  local before
  before=$(left)
  { kill -9 $pid && wait $pid; } 2>/dev/null
  for _ in $(seq 50); do [ "$(left)" = 0 ] && break; sleep 0.1; done
  if grep -q ' float ' "$work/out" && [ "$before" -ge 3 ] && [ "$(left)" = 0 ]; then verdict ok "$name"; else
    verdict FAILED "$name" "of $before processes $(left) are left after 5 s"
    tail -5 "$work/err"
  fi
}
# Process 0 is stopped: busbw names it by its number, and ends everything. `frozen NAME words...`
frozen() {
  local name=$1 pid first code
  shift
  timeout 50 "$program" all_reduce "$@" -N 0 -b 8 -e 8 -n 5 >"$work/out" 2>"$work/err" &
  pid=$!
  for _ in $(seq 200); do grep -q ' float ' "$work/out" && break; sleep 0.1; done
  # It is the parent of rank 0.
  first=$(ps -o ppid= -p "$(grep -oE '^#  Rank  0 .* Pid +[0-9]+' "$work/out" | grep -oE '[0-9]+$')" | tr -d ' ')
  kill -STOP "$first"
  wait $pid
  code=$?
  for _ in $(seq 20); do [ "$(left)" = 0 ] && break; sleep 0.1; done
  if [ "$code $(left)" = "6 0" ] && grep -qE "process 0 of the run \(process $first on [^ ]+\) has (been stopped|not answered) for" "$work/err"; then
    verdict ok "$name"
  else
    verdict FAILED "$name" "exit $code, $(left) processes left"
    tail -5 "$work/err"
  fi
}
# busbw starts the launcher. `by_us NAME PLACES words...`, PLACES being the words for four processes.
by_us() {
  local name=$1 places=$2
  shift 2
  run "$name by us: 4 processes" 0 4 4 "" "$program" all_reduce "$@" $places $small
  run "$name by us: options that cannot be" 2 0 0 "-b is 8 bytes and -e 4" "$program" all_reduce "$@" $places -b 8 -e 4
  stopped "$name by us: Ctrl-C" "$@" $places
  orphaned "$name by us: killed" "$@" $places
  frozen "$name by us: process 0 is stopped" "$@" $places
  swept "$name by us" "$@" $places
}
by_us_names() { # NAME: those of `by_us`
  local check
  for check in "4 processes" "options that cannot be" Ctrl-C killed "process 0 is stopped" "a sweep" "a sweep, Ctrl-C"; do echo "$1 by us: $check"; done
}
# Each launch of a sweep goes through the launcher; after Ctrl-C nothing is left, and what was measured is printed.
swept() { # NAME words...
  local name=$1 code cells
  shift
  timeout 50 ${BY-} "$program" sweep -x NCCL_PROTO=LL,unset -x MY_OWN=1 all_reduce "$@" $small --launches 1 --no-record --csv >"$work/out" 2>"$work/err"
  code=$?
  cells=$(grep -cE '^[12],MY_OWN=1 NCCL_PROTO' "$work/out")
  if [ "$code $cells $(left)" = "0 8 0" ]; then verdict ok "$name: a sweep"; else
    verdict FAILED "$name: a sweep" "exit $code, $cells cells, $(left) processes left"
    tail -5 "$work/err"
  fi
  AWAIT="launch 1 of" interrupted 1 ${BY-} "$program" sweep -x NCCL_PROTO=LL,Simple all_reduce "$@" -b 8 -e 8 -n 5 --launches 500 --no-record \
    >"$work/out" 2>"$work/err"
  code=$?
  for _ in $(seq 20); do [ "$(left)" = 0 ] && break; sleep 0.1; done
  if [ "$code $(left)" = "130 0" ] && grep -q '^ *8 ' "$work/out"; then verdict ok "$name: a sweep, Ctrl-C"; else
    verdict FAILED "$name: a sweep, Ctrl-C" "exit $code, $(left) processes left"
    tail -n 5 "$work/out" "$work/err"
  fi
}
# One of OSU's names, with busbw's own options: `osu_by_us NAME LIBRARY words...`
osu_by_us() {
  local name="$1 by us: osu_latency" library=$2
  shift 2
  timeout 50 "$program" osu_latency --mpi "$library" "$@" -m 1:64 -i 50 -x 5 -c >"$work/out" 2>"$work/err"
  if [ "$? $(grep -c ' Pass$' "$work/out") $(left)" = "0 7 0" ] && grep -q '^# OSU MPI Latency Test' "$work/out"; then
    verdict ok "$name"
  else
    verdict FAILED "$name"
    tail -n 5 "$work/out" "$work/err"
  fi
}
two_at_once() { # NAME LAUNCHER...
  local name=$1 one two
  shift
  "$@" 2 "$program" all_reduce -b 8 -e 64 -n 500 --batches 1 >"$work/one" 2>&1 &
  local first=$!
  PORT=$((port + 2)) "$@" 2 "$program" all_gather -b 32 -e 256 -n 500 --batches 1 >"$work/two" 2>&1
  two=$?
  wait $first
  one=$?
  if [ "$one$two$(grep -c ' float ' "$work/one")$(grep -c ' float ' "$work/two")" = 0044 ]; then
    verdict ok "$name: two jobs at once"
  else
    verdict FAILED "$name: two jobs at once" "exit $one and $two"
    tail -n 3 "$work/one" "$work/two"
  fi
}
# The mpi backend. `through_mpi NAME OTHER LAUNCHER...`: OTHER is a library that is not this launcher's.
through_mpi() {
  local name=$1 other=$2 wrong=() collective rows
  shift 2
  run "$name: messages through MPI" 0 2 4 "" "$@" 2 "$program" latency --backend mpi -d float -b 8 -e 64 -f 2 -n 50 --batches 1
  run "$name: windows through MPI" 0 4 4 "" "$@" 4 "$program" mbw_mr --backend mpi -d float -b 8 -e 1M -f 50 -n 5 --batches 1 -c 2
  for collective in all_reduce all_gather reduce_scatter broadcast reduce alltoall alltoallv gather scatter sendrecv hypercube; do
    # Every operator and root, three sizes of which one is odd, in place and not; #wrong is 0 or N/A.
    timeout 50 "$@" 4 "$program" $collective --backend mpi -b 64 -e 70000 -f 33 -n 2 --batches 1 -c 2 -o all -r all \
      >"$work/out" 2>"$work/err" || wrong+=("$collective: exit $?")
    rows=$(grep -c ' float ' "$work/out")
    [ "$rows" -ge 3 ] || wrong+=("$collective: $rows rows")
  done
  if [ ${#wrong[@]} = 0 ]; then verdict ok "$name: every collective through MPI"; else
    verdict FAILED "$name: every collective through MPI" "${wrong[*]}"
    tail -5 "$work/err"
  fi
  timeout 50 "$@" 4 "$program" osu_barrier -i 50 -x 5 >"$work/out" 2>"$work/err"
  if [ $? = 0 ] && grep -q '^# OSU MPI Barrier' "$work/out" && grep -qE '^ +[0-9.]+$' "$work/out"; then
    verdict ok "$name: osu_barrier"
  else
    verdict FAILED "$name: osu_barrier"
    tail -n 5 "$work/out" "$work/err"
  fi
  run "$name: a killed worker through MPI" "6 137 9" 2 1 "${KILLED-rank 1 \(process [0-9]+ on [^ ]+\) was lost while timing row 1}" \
    "$@" 2 "$program" bw --backend mpi -d float -b 8 -e 64 -n 50 --batches 1 --fault rank=1,phase=timed,row=1,do=kill
  run "$name: a killed rank of the first process through MPI" "${CODES-6}" 2 1 "rank 0 \(process [0-9]+ on [^ ]+\) was killed by signal 9" \
    "$@" 2 "$program" bw --backend mpi -d float -b 8 -e 64 -n 50 --batches 1 --fault rank=0,phase=timed,row=1,do=kill
  run "$name: another MPI's library" 2 2 0 "each is alone, rank 0 of 1: 2 copies instead of 2 ranks" \
    "$@" 2 "$program" latency --backend mpi --mpi "$other" -d float -b 8 -e 64
}
# What carried the data, by the library's own word: in the last sentence, in the record of every rank, and as
# `busbw explain` says it. `carried NAME SENTENCE RECORD EXPLANATION command...`, the three being extended regular
# expressions; none of the lines that were asked for may reach stderr.
carried() {
  local name=$1 sentence=$2 record=$3 explanation=$4 why=
  shift 4
  timeout 50 "$@" --record "$work/carried.jsonl" >"$work/out" 2>"$work/err" || why="exit $?"
  grep -qE -e "^busbw: $sentence" "$work/err" || why+=" stderr lacks: $sentence"
  grep -qE 'mca: |UCX  |select: ' "$work/err" && why+=" stderr has a library's lines"
  local rank
  for rank in 0 1; do
    grep '"kind":"mpi"' "$work/carried.jsonl" | grep "\"rank\":$rank," | tail -1 | grep -qE -e "$record" || why+=" rank $rank's record lacks: $record"
  done
  "$program" explain -v "$work/carried.jsonl" 2>&1 | tr -s ' \n' ' ' | grep -qE -e "$explanation" || why+=" explain lacks: $explanation"
  rm -f "$work/carried.jsonl"
  if [ -z "$why" ]; then verdict ok "$name"; else
    verdict FAILED "$name" "$why"
    tail -5 "$work/err"
  fi
}
carried_names=("Open MPI: what carried the data" "Open MPI: what carried the data, tcp" "Open MPI: what carried the data, ucx"
  "Open MPI: its words to the user" "Open MPI: its log where the user sent it")
carried_by_open_mpi() {
  local start=("$openmpi" --allow-run-as-root --oversubscribe) words=(-n 2 "$program" bw --backend mpi -b 8 -e 1M -f 8 -n 20 --batches 1)
  local set_up="transports set up: PML" shm="(vader|sm)"
  carried "${carried_names[0]}" "$set_up ob1, 2 connections $shm \(Open MPI's log\); counters: " "\"pml\":\"ob1\",.*\"$shm\":" \
    "Open MPI sent messages between ranks to its BTL $shm .* $set_up ob1, 2 connections $shm" "${start[@]}" "${words[@]}"
  # An address of this host is reached through lo, whose bytes are counted. Which finding is the headline depends
  # on whether the largest size still gains, and that differs from run to run.
  carried "${carried_names[1]}" "$set_up ob1, 2 connections tcp \(Open MPI's log\); counters: .*lo [0-9.]+ [MG]B" "\"pml\":\"ob1\",.*\"tcp\":" \
    "[Rr]anks of one host exchange messages over TCP instead of shared memory.* Open MPI's log: 2 ranks to others of the same host by the BTL tcp .* sent messages between ranks to its BTL tcp .* host: lo [0-9.]+ [MG]B" \
    "${start[@]}" --mca btl tcp,self "${words[@]}"
  carried "${carried_names[2]}" "$set_up ucx \(Open MPI's log\), lanes [a-z]+/.* \(UCX's log\); counters: " "\"pml\":\"ucx\",.*\"lanes\":" \
    "Open MPI sent messages to UCX, whose lanes are " \
    "${start[@]}" --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any "${words[@]}"
  # Lines that Open MPI writes where it was told to write those that are kept back.
  run "${carried_names[3]}" 0 2 0 "^\[.*\] mpi_show_mca_params=enviro" "${start[@]}" --mca mpi_show_mca_params enviro "${words[@]}"
  run "${carried_names[4]}" 0 2 0 "mca: bml: Using $shm btl for send to" "${start[@]}" --mca btl_base_verbose 1 "${words[@]}"
  grep -q "^busbw: transports set up: no line names any; not proven: OMPI_MCA_btl_base_verbose is set" "$work/err" ||
    verdict FAILED "${carried_names[4]}" "not said"
}
# Buffers on the shims' GPUs. `on_gpus NAME OWN LAUNCHER...`: OWN says that it takes none; with
# tests/shims/mpi_aware.cc in front it says that it does, and their memory is the process's.
on_gpus() {
  local name=$1 own=$2 aware=$work/aware-$2 wrong=() collective small="-d float -b 8 -e 1M -f 50 -n 5 --batches 1 -c 2"
  shift 2
  run "$name: an MPI that takes no GPU's memory" "${REFUSED-5}" 2 0 "takes no buffers in GPUs' memory: MPIX_Query_cuda_support\(\) is 0" \
    "$@" 2 "$program" latency --backend mpi --buffers gpu $small
  local define=()
  [ "$own" = libmpich.so.12 ] && define=(-DSHIM_OF_MPICH)
  g++ -shared -fPIC "${define[@]}" tests/shims/mpi_aware.cc -o "$aware" -Wl,--no-as-needed "-l:$own" ||
    verdict FAILED "$name: linking tests/shims/mpi_aware.cc"
  local on=(--backend mpi --mpi "$aware" --buffers)
  run "$name: messages in GPUs' memory" 0 4 4 "" "$@" 4 "$program" mbw_mr "${on[@]}" gpu $small
  # Each rank on the GPU of its place on the host.
  grep -qE '^#  Rank  0 .* device  0 \[.*Shim H200' "$work/out" && grep -qE '^#  Rank  3 .* device  3 \[.*Shim H200' "$work/out" ||
    verdict FAILED "$name: each rank's GPU" "$(grep '#  Rank' "$work/out")"
  run "$name: one end in a GPU's memory" 0 2 4 "" "$@" 2 "$program" bibw "${on[@]}" gpu,host $small
  grep -qE '^#  Rank  0 .*Shim H200' "$work/out" && ! grep -qE '^#  Rank  1 .*Shim H200' "$work/out" ||
    verdict FAILED "$name: one end's GPU" "$(grep '#  Rank' "$work/out")"
  for collective in all_reduce all_gather reduce_scatter broadcast reduce alltoall alltoallv gather scatter sendrecv hypercube; do
    timeout 50 "$@" 4 "$program" $collective "${on[@]}" gpu -b 64 -e 70000 -f 33 -n 2 --batches 1 -c 1 \
      >"$work/out" 2>"$work/err" || wrong+=("$collective: exit $?")
    [ "$(grep -c ' float ' "$work/out")" = 3 ] || wrong+=("$collective: rows")
  done
  if [ ${#wrong[@]} = 0 ]; then verdict ok "$name: every collective in GPUs' memory"; else
    verdict FAILED "$name: every collective in GPUs' memory" "${wrong[*]}"
    tail -5 "$work/err"
  fi
  run "$name: wrong bytes in GPUs' memory, messages" 7 2 4 "wrong" "$@" 2 "$program" bw "${on[@]}" gpu $small \
    --fault rank=1,phase=timed,row=1,do=corrupt:0
  run "$name: wrong bytes in GPUs' memory, all_reduce" 7 2 4 "wrong" "$@" 2 "$program" all_reduce "${on[@]}" gpu \
    -b 8 -e 64 -f 2 -n 5 --batches 1 --fault rank=1,phase=timed,row=1,do=corrupt:1
  BUSBW_MPI=$aware timeout 50 "$@" 2 "$program" osu_latency -c -m 1:64K -i 20 -x 2 D H >"$work/out" 2>"$work/err"
  if [ $? = 0 ] && grep -q '^# OSU MPI-CUDA Latency Test' "$work/out" && grep -qE '^65536 .*Pass' "$work/out"; then
    # By way of a file: grep -q goes at the first line, and Hydra does not like that.
    BUSBW_MPI=$aware timeout 50 "$@" 2 "$program" osu_latency -m 1:1 -i 20 --json D H >"$work/out" 2>"$work/err"
    if grep -q '"buffers":\["gpu","host"\]' "$work/out"; then verdict ok "$name: osu_latency D H"; else
      verdict FAILED "$name: osu_latency D H" "the record does not say where buffers were"
      tail -5 "$work/err"
    fi
  else
    verdict FAILED "$name: osu_latency D H"
    tail -n 5 "$work/out" "$work/err"
  fi
}
names() { # NAME check...: those of `all`
  local name=$1 check
  for check in "4 processes" "-t 2 -g 1" "-t 1 -g 2, perf" "-t 2 -g 2, perf" host secrets "options that cannot be" \
    "not enough GPUs" doctor "a killed worker" "a killed rank of the first process" Ctrl-C "two jobs at once"; do
    echo "$name: $check"
  done
}

mpi_names() { # NAME: those of `through_mpi` and `on_gpus`
  local check
  for check in "messages through MPI" "windows through MPI" "every collective through MPI" osu_barrier \
    "a killed worker through MPI" "a killed rank of the first process through MPI" "another MPI's library" \
    "an MPI that takes no GPU's memory" "messages in GPUs' memory" "one end in a GPU's memory" \
    "every collective in GPUs' memory" "wrong bytes in GPUs' memory, messages" \
    "wrong bytes in GPUs' memory, all_reduce" "osu_latency D H"; do
    echo "$1: $check"
  done
}

# Two hosts: network namespaces with a wire between them, and names of their own. The shim NCCL goes through
# memory of this machine; busbw's own way between processes goes over the wire.
two_hosts() { # command...: process 0 on host a, process 1 on host b; the first code that is not 0
  local code other a b
  export RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=${FIRST-10.77.0.1} MASTER_PORT=$((port + 4))
  ip netns exec "$net-a" unshare --uts bash -c 'hostname host-a; exec "$@"' a "$@" &
  a=$!
  # A GPU of its own: the shim has one machine's.
  RANK=1 NCCL_TESTS_DEVICE=1 BUSBW_JOB_SECRET=${OTHER_SECRET-${BUSBW_JOB_SECRET-}} \
    ip netns exec "$net-b" unshare --uts bash -c 'hostname host-b; exec "$@"' b "$@" &
  b=$!
  wait $a
  code=$?
  wait $b
  other=$?
  [ $code = 0 ] && code=$other
  return $code
}
export -f two_hosts
hosts=("two hosts: a run" "two hosts: a killed worker" "two hosts: a cut wire" "two hosts: another secret"
  "two hosts: a missing rank and its host" "two networks: the first one is dead" "two networks: --interface"
  "two networks: an interface of one host only" "IPv6 only: by address" "IPv6 only: by name" "IPv6 only: link-local")
# A wire between the hosts: `wire NAME ADDRESS-A ADDRESS-B`, an interface of that name on both.
wire() {
  ip link add ${wire}a type veth peer name ${wire}b && ip link set ${wire}a netns "$net-a" name "$1" &&
    ip link set ${wire}b netns "$net-b" name "$1" && ip -n "$net-a" addr add "$2" dev "$1" &&
    ip -n "$net-b" addr add "$3" dev "$1" && ip -n "$net-a" link set "$1" up && ip -n "$net-b" link set "$1" up
}
# What the hosts call host-a, for `ip netns exec`: `call ADDRESS...`
call() {
  local host
  for host in a b; do
    mkdir -p "/etc/netns/$net-$host" && { echo "127.0.0.1 localhost"; printf '%s host-a\n' "$@"; } >"/etc/netns/$net-$host/hosts"
  done
}
# Addresses of IPv6 are there at once, without a second of looking for others of the same.
at_once() {
  local host
  for host in a b; do ip netns exec "$net-$host" sh -c 'echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad'; done
}
# Both take 30 s.
absent() { # command...
  # What Slurm says on two hosts with two processes each; rank 1 comes, ranks 2 and 3 do not.
  export SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=host-a,host-b \
    SLURM_STEP_TASKS_PER_NODE="2(x2)" SLURM_JOB_ID=1 SLURM_STEP_ID=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((port + 7))
  SLURM_PROCID=1 SLURM_LOCALID=1 ip netns exec "$net-a" unshare --uts bash -c 'hostname host-a; exec "$@"' a "$@" 2>/dev/null &
  SLURM_PROCID=0 SLURM_LOCALID=0 ip netns exec "$net-a" unshare --uts bash -c 'hostname host-a; exec "$@"' a "$@"
}
export -f absent
two=
if ip netns add "$net-a" 2>"$work/unmade" && ip netns add "$net-b" && at_once && ip -n "$net-a" link set lo up &&
  ip -n "$net-b" link set lo up && wire eth0 10.77.0.1/24 10.77.0.2/24; then
  two=yes
  on_two=(bash -c 'two_hosts "$@"' two_hosts)
  BUSBW_JOB_SECRET=word OTHER_SECRET=guess later "${hosts[3]}" 4 0 0 \
    "rank 1 on a host that the launcher does not name \(rank 0 is on host-a\). Rank 0 accepts|the busbw that listens there belongs to another job" \
    "${on_two[@]}" "$beside" all_reduce $small
  later "${hosts[4]}" 4 0 0 "2 of 4 processes did not join within 30 s: ranks 2, 3 on host-b. Rank 0 accepts" \
    bash -c 'absent "$@"' absent "$beside" all_reduce $small
fi

openmpi=$(command -v mpirun.openmpi || { mpirun --version 2>/dev/null | grep -q "Open MPI" && command -v mpirun; })
if [ -n "$openmpi" ]; then
  launch=("$openmpi" --allow-run-as-root --oversubscribe -n)
  later "Open MPI: a stopped worker" 6 4 1 "rank 2 \(process [0-9]+ on [^ ]+\) has been stopped for 5 s" \
    "${launch[@]}" 4 "$beside" all_reduce $small --fault rank=2,phase=timed,row=1,do=stop
  all "Open MPI" 1 "${launch[@]}"
  two_at_once "Open MPI" "${launch[@]}"
  through_mpi "Open MPI" libmpich.so.12 "${launch[@]}"
  on_gpus "Open MPI" libmpi.so.40 "${launch[@]}"
  carried_by_open_mpi
  run "Open MPI: each bound to a core, host" 0 2 4 "" \
    "$openmpi" --allow-run-as-root --bind-to core -n 2 "$program" all_reduce --backend host $small
  run "Open MPI: other words" 2 0 0 'was started with "all_gather" where rank 0' \
    "${launch[@]}" 1 "$program" all_reduce $small : -n 1 "$program" all_gather $small
  ours=(--launcher mpirun --launcher-command "$openmpi --allow-run-as-root --oversubscribe")
  by_us "Open MPI" "-H localhost:4" "${ours[@]}"
  osu_by_us "Open MPI" libmpi.so.40 "${ours[@]}" -H localhost:2
  run "Open MPI: one process is no launch" 0 8 4 "" "${launch[@]}" 1 "$program" all_reduce $small
  run "Open MPI: two runs of one shell" 0 0 0 "" "${launch[@]}" 1 sh -c '"$0" "$@" & one=$!; "$0" "$@" && wait $one' \
    "$program" all_reduce --csv -g 2 $small
else
  mapfile -t checks < <(names "Open MPI"; mpi_names "Open MPI"; by_us_names "Open MPI")
  waive openmpi "there is no mpirun of Open MPI" "${checks[@]}" "Open MPI by us: osu_latency" "Open MPI: each bound to a core, host" \
    "Open MPI: other words" "Open MPI: a stopped worker" "Open MPI: one process is no launch" "Open MPI: two runs of one shell" "${carried_names[@]}"
fi

if command -v mpiexec.hydra >/dev/null; then
  # Hydra kills all processes within a millisecond when one dies of a signal, and with it what they say.
  KILLED="" all "Hydra" 1 mpiexec.hydra -n
  two_at_once "Hydra" mpiexec.hydra -n
  # Processes that have called MPI_Init: Hydra's code is not always theirs (docs/launchers.md).
  KILLED="" CODES="6 1 9" through_mpi "Hydra" libmpi.so.40 mpiexec.hydra -n
  by_us Hydra "-H localhost:4" --launcher mpirun --launcher-command mpiexec.hydra
  osu_by_us Hydra libmpich.so.12 --launcher mpirun --launcher-command mpiexec.hydra -H localhost:2
  REFUSED="5 1 9" on_gpus "Hydra" libmpich.so.12 mpiexec.hydra -n
  carried "Hydra: what carried the data" "transports set up: device ch4:ucx \(MPICH's version\), lanes .* \(UCX's log\); not proven: within a host MPICH's own" \
    '"device":"ch4:ucx",.*"lanes":.*"unknown":\["within a host' "no log proves which transport carried the messages" \
    mpiexec.hydra -n 2 "$program" bw --backend mpi -b 8 -e 1M -f 8 -n 20 --batches 1
  # Told not to, it usually leaves busbw the time to name the rank; on a busy machine it does not.
  run "Hydra: a killed worker, -disable-auto-cleanup" "6 9" 4 1 "" \
    mpiexec.hydra -disable-auto-cleanup -n 4 "$program" all_reduce $small --fault rank=2,phase=timed,row=1,do=kill
else
  mapfile -t checks < <(names Hydra; mpi_names Hydra; by_us_names Hydra)
  waive hydra "there is no mpiexec.hydra" "${checks[@]}" "Hydra by us: osu_latency" "Hydra: a killed worker, -disable-auto-cleanup" "Hydra: what carried the data"
fi

# Hydra's processes within a job of Open MPI's see the outer job's variables first, which say that it has one.
if [ -n "$openmpi" ] && command -v mpiexec.hydra >/dev/null; then
  run "copies instead of ranks" 2 0 0 "hydra_pmi_proxy \(process [0-9]+\) started copies of busbw.*OMPI_COMM_WORLD_SIZE=1" \
    "${launch[@]}" 1 mpiexec.hydra -n 2 "$program" all_reduce $small
else
  waive openmpi+hydra "there are not both of Open MPI and Hydra" "copies instead of ranks"
fi

# A controller and a node on loopback, as whoever runs this.
slurm() {
  local s=$work/slurm host part
  for part in srun slurmctld slurmd munged; do
    command -v $part >/dev/null || { echo "Slurm or munge is not installed: there is no $part"; return 1; }
  done
  [ "$(id -u)" = 0 ] || { echo "slurmd needs root"; return 1; }
  host=$(hostname -s)
  mkdir -p "$s/state" "$s/spool"
  chmod 755 "$work" "$s"
  head -c 128 /dev/urandom >"$s/key" && chmod 600 "$s/key"
  cat >"$s/slurm.conf" <<CONF
ClusterName=busbw
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$((port + 5))
SlurmdPort=$((port + 6))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$s/munge
StateSaveLocation=$s/state
SlurmdSpoolDir=$s/spool
SlurmctldPidFile=$s/slurmctld.pid
SlurmdPidFile=$s/slurmd.pid
SlurmctldLogFile=$s/slurmctld.log
SlurmdLogFile=$s/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SchedulerType=sched/builtin
SelectType=select/linear
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE
CONF
  munged --foreground --force --key-file="$s/key" --socket="$s/munge" --pid-file="$s/munge.pid" \
    --log-file="$s/munge.log" --seed-file="$s/seed" >"$s/munged.out" 2>&1 &
  started+=($!)
  export SLURM_CONF=$s/slurm.conf
  sleep 1
  slurmctld -D >"$s/ctld.out" 2>&1 &
  started+=($!)
  slurmd -D -N "$host" >"$s/d.out" 2>&1 &
  started+=($!)
  for _ in $(seq 100); do
    sinfo -h -o %T 2>/dev/null | grep -q idle && return 0
    sleep 0.1
  done
  echo "its node did not come up: $(tail -n 1 "$s/slurmd.log" "$s/slurmctld.log" 2>/dev/null | tr '\n' ' ')"
  return 1
}
# Open MPI's processes under srun need it (docs/mpi.md).
pmix() { srun --mpi=list 2>&1 | grep -qw pmix; }
no_pmix="this Slurm has no plugin for PMIx (srun --mpi=list)"
with_pmix=("Slurm: --mpi=pmix, all_reduce through MPI" "Slurm: --mpi=pmix, host")
if slurm >"$work/why" 2>&1; then
  # With two SIGINTs instead of -X, SIGKILL is at the heels of SIGINT: what is written then is luck.
  all Slurm 1 srun --disable-status --overcommit -n
  cat >"$work/two" <<SCRIPT
srun --overcommit --overlap -n 2 "$program" all_reduce -b 8 -e 64 -n 500 --batches 1 >"$work/one" & one=\$!
srun --overcommit --overlap -n 2 "$program" all_gather -b 32 -e 256 -n 500 --batches 1 >"$work/other"
two=\$?; wait \$one && exit \$two
SCRIPT
  salloc -n 2 --overcommit bash "$work/two" >/dev/null 2>"$work/err"
  if [ "$?$(grep -c ' float ' "$work/one")$(grep -c ' float ' "$work/other")" = 044 ]; then
    verdict ok "Slurm: two jobs at once" "steps of one job"
  else
    verdict FAILED "Slurm: two jobs at once" "$(tail -n 3 "$work/err")"
  fi
  by_us Slurm "--np 4" --launcher slurm --launcher-command "srun --overcommit"
  run "Slurm by us: named nodes" 0 4 4 "" "$program" all_reduce --launcher slurm --launcher-command "srun --overcommit" \
    -H "$(hostname -s):4" $small
  run "Slurm: --mpi=pmi2" 0 4 4 "" srun --mpi=pmi2 --overcommit -n 4 "$program" all_reduce $small
  if pmix; then
    run "${with_pmix[0]}" 0 2 4 "transports set up: PML ob1, 2 connections (vader|sm) " \
      srun --mpi=pmix --overcommit -n 2 "$program" all_reduce --backend mpi -c 1 $small
    run "${with_pmix[1]}" 0 2 4 "" srun --mpi=pmix --overcommit -n 2 "$program" all_reduce --backend host $small
  else
    waive pmix "$no_pmix" "${with_pmix[@]}"
  fi
else
  mapfile -t checks < <(names Slurm; by_us_names Slurm)
  waive slurm "$(tail -n 1 "$work/why")" "${checks[@]}" "Slurm: --mpi=pmi2" "Slurm by us: named nodes" "${with_pmix[@]}"
fi

torch=(bash -c 'torchrun_like "$@"' torchrun_like)
all "torchrun's environment" 0 "${torch[@]}"
two_at_once "torchrun's environment" "${torch[@]}"
waive torch "torch is hundreds of megabytes: its variables are set by hand" "torchrun: the real one"

# Where not all processes are known to be on one host they meet over TCP.
export ON_HOST=2
run "TCP: 4 processes" 0 4 4 "" "${torch[@]}" 4 "$program" all_reduce $small
run "TCP: -t 2 -g 2, perf" 0 16 4 "" env BUSBW_SHIM_GPUS=16 "${torch[@]}" 4 "$program" all_reduce_perf -t 2 -g 2 -b 8 -e 64 -f 2
run "TCP: host" 2 0 0 "--backend host measures the memory of one machine" "${torch[@]}" 4 "$program" all_reduce --backend host $small
run "TCP: a killed worker" 6 4 1 "rank 3 \(process [0-9]+ on [^ ]+\) was lost about row 1" \
  "${torch[@]}" 4 "$program" all_reduce $small --fault rank=3,phase=timed,row=1,do=kill
run "TCP: a killed supervisor's rank" 6 4 1 "rank 0 \(process [0-9]+ on [^ ]+\) was killed by signal 9" \
  "${torch[@]}" 4 "$program" all_reduce $small --fault rank=0,phase=timed,row=1,do=kill
unset ON_HOST

settle
if [ -n "$two" ]; then
  export BUSBW_JOB_SECRET=word
  run "${hosts[0]}" 0 2 4 "control over eth0 \(10.77.0.1\)" "${on_two[@]}" "$program" all_reduce $small
  grep -q "on  *host-a device  0" "$work/out" && grep -q "on  *host-b device  1" "$work/out" ||
    verdict FAILED "two hosts: names in the table" "$(grep '#  Rank' "$work/out")"
  run "${hosts[1]}" 6 2 1 "rank 1 \(process [0-9]+ on host-b\) was lost" \
    "${on_two[@]}" "$program" all_reduce $small --fault rank=1,phase=timed,row=1,do=kill
  rm "$work/out"
  (measuring; ip -n "$net-a" link set eth0 down) &
  run "${hosts[2]}" 6 2 0 "rank 1 \(process [0-9]+ on host-b\) (was lost|has not answered)" \
    "${on_two[@]}" "$program" all_reduce -b 8 -e 8 -n 5 --batches 1 -T 60 --fault rank=1,phase=timed,row=0,do=slow:1000000
  ip -n "$net-a" link set eth0 up

  # A second network, and a name with an address on each.
  wire eth1 10.78.0.1/24 10.78.0.2/24
  call 10.77.0.1 10.78.0.1
  # Unlike a link that is down, that only makes packets vanish.
  ip -n "$net-a" addr del 10.77.0.1/24 dev eth0
  FIRST=host-a run "${hosts[5]}" 0 2 4 "control over eth1 \(10.78.0.1\)" "${on_two[@]}" "$program" all_reduce $small
  ip -n "$net-a" addr add 10.77.0.1/24 dev eth0
  # They meet at the first network's address, are sent on to the second, and do not mind when the first goes down.
  (sleep 1.5; ip -n "$net-a" link set eth0 down) &
  run "${hosts[6]}" 0 2 1 "control over eth1 \(10.78.0.1\)" "${on_two[@]}" "$program" all_reduce -b 8 -e 8 -n 5 --batches 1 \
    --interface eth1 --fault rank=1,phase=timed,row=0,do=slow:400000us
  ip -n "$net-a" link set eth0 up
  ip -n "$net-b" link set eth1 name eth9
  run "${hosts[7]}" 2 0 0 "rank 1 .* on host-b\) cannot take part: --interface eth1 .* matches no interface, network or address of host-b, which has lo" \
    "${on_two[@]}" "$program" all_reduce $small --interface eth1

  # Nothing but IPv6.
  for host in a b; do
    for link in eth0 eth1 eth9; do ip -n "$net-$host" link del $link 2>/dev/null; done
    ip -n "$net-$host" -4 addr flush dev lo
  done
  wire eth0 fd77::1/64 fd77::2/64
  call fd77::1
  local_a=$(ip -n "$net-a" -6 -o addr show dev eth0 scope link | grep -oE 'fe80::[0-9a-f:]+')
  FIRST=fd77::1 run "${hosts[8]}" 0 2 4 "control over eth0 \(fd77::1\)" "${on_two[@]}" "$program" all_reduce $small
  FIRST=host-a run "${hosts[9]}" 0 2 4 "control over eth0 \(fd77::1\)" "${on_two[@]}" "$program" all_reduce $small
  FIRST=$local_a%eth0 run "${hosts[10]}" 0 2 4 "control over eth0 \($local_a\)" "${on_two[@]}" "$program" all_reduce $small

  # As they were at first, for ssh.
  ip -n "$net-a" link del eth0
  for host in a b; do ip -n "$net-$host" addr add 127.0.0.1/8 dev lo; done
  wire eth0 10.77.0.1/24 10.77.0.2/24
  call 10.77.0.1
else
  waive namespaces "network namespaces cannot be made: $(head -c 200 "$work/unmade")" "${hosts[@]}"
fi

# ssh: servers of our own, on loopback and on both hosts, with keys that nobody else has.
sshd=$(command -v sshd || ls /usr/sbin/sshd 2>/dev/null)
remote=$work/busbw-launched-$$
ssh_server() { # NAME ADDRESS VARIABLE=VALUE command...: a server called host-NAME, for whoever has our key
  local name=$1 address=$2 variable=$3
  shift 3
  ssh-keygen -q -t ed25519 -N '' -f "$work/$name.key"
  printf '%s\n' "ListenAddress $address:$((port + 8))" "HostKey $work/$name.key" "AuthorizedKeysFile $work/user.pub" \
    "StrictModes no" "UsePAM no" "PidFile none" "SetEnv XDG_CACHE_HOME=$remote-$name $variable" >"$work/$name.conf"
  "$@" unshare --uts bash -c 'hostname "$0"; exec "$@"' "host-$name" "$sshd" -D -f "$work/$name.conf" -E "$work/$name.log" &
  started+=($!)
}
ssh_names() {
  local check
  for check in "a run" "the copy is used again" "a damaged copy" "two runs copy at once" host "-t 2 -g 2, perf" \
    "options that cannot be" "a killed rank" "a stopped rank" Ctrl-C killed "process 0 is stopped" "a sweep" "a sweep, Ctrl-C" "no such host" "no key" \
    "two hosts" "two hosts: a killed worker" "two hosts: a killed ssh" "two hosts: a cut wire" "two hosts: a sweep" \
    "two hosts: a sweep, Ctrl-C"; do echo "ssh: $check"; done
}
copies() { # NAME: size, inode and name of everything in a host's cache
  find "$remote-$1" -type f -printf '%s %i %f\n'
}
# What ssh says at first, about a host that it has not seen, is no concern here.
secure="ssh -F none -p $((port + 8)) -i $work/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
over_ssh() { # HOSTS words...
  local hosts=$1
  shift
  $BY "$program" "$1" --launcher ssh --launcher-command "$secure" -H "$hosts" "${@:2}"
}
through_ssh() {
  local one two before
  export -f over_ssh
  export program secure BY=
  local by_ssh=(bash -c 'over_ssh "$@"' over_ssh)
  local here=(--launcher ssh --launcher-command "$secure" -H 127.0.0.1:2)
  run "ssh: a run" 0 4 4 "" "${by_ssh[@]}" 127.0.0.1:4 all_reduce $small
  before=$(copies loopback)
  run "ssh: the copy is used again" 0 4 4 "" "${by_ssh[@]}" 127.0.0.1:4 all_reduce $small
  [ "$(copies loopback)" = "$before" ] && [ "$(wc -l <<<"$before")" = 1 ] || verdict FAILED "ssh: the copy is used again" "$before; $(copies loopback)"
  printf x | dd of="$(find "$remote-loopback" -type f)" bs=1 seek=1000 conv=notrunc status=none
  run "ssh: a damaged copy" 0 4 4 "" "${by_ssh[@]}" 127.0.0.1:4 all_reduce $small
  rm -r "$remote-loopback"
  over_ssh 127.0.0.1:2 all_reduce -b 8 -e 64 -n 500 --batches 1 >"$work/one" 2>&1 &
  local first=$!
  over_ssh 127.0.0.1:2 all_gather -b 32 -e 256 -n 500 --batches 1 >"$work/two" 2>&1
  two=$?
  wait $first
  one=$?
  if [ "$one$two$(grep -c ' float ' "$work/one")$(grep -c ' float ' "$work/two")$(copies loopback | wc -l)" = 00441 ]; then
    verdict ok "ssh: two runs copy at once"
  else
    verdict FAILED "ssh: two runs copy at once" "exit $one and $two, $(copies loopback | wc -l) files"
    tail -n 3 "$work/one" "$work/two"
  fi
  run "ssh: host" 0 4 4 "" "${by_ssh[@]}" 127.0.0.1:4 all_reduce --backend host $small
  run "ssh: -t 2 -g 2, perf" 0 8 4 "" "${by_ssh[@]}" 127.0.0.1:2 all_reduce_perf -t 2 -g 2 -b 8 -e 64 -f 2
  run "ssh: options that cannot be" 2 0 0 "-b is 8 bytes and -e 4" "${by_ssh[@]}" 127.0.0.1:2 all_reduce -b 8 -e 4
  run "ssh: a killed rank" 6 4 1 "rank 2 \(process [0-9]+ on host-loopback\) was lost while timing row 1" \
    "${by_ssh[@]}" 127.0.0.1:4 all_reduce $small --fault rank=2,phase=timed,row=1,do=kill
  run "ssh: a stopped rank" 6 2 1 "rank 1 \(process [0-9]+ on host-loopback\) has been stopped for 5 s" \
    "${by_ssh[@]}" 127.0.0.1:2 all_reduce $small --fault rank=1,phase=timed,row=1,do=stop
  stopped "ssh: Ctrl-C" "${here[@]}"
  orphaned "ssh: killed" "${here[@]}"
  frozen "ssh: process 0 is stopped" "${here[@]}"
  swept ssh "${here[@]}"
  run "ssh: no such host" 3 0 0 "ssh to nowhere.invalid .*Could not resolve" "${by_ssh[@]}" 127.0.0.1:2,nowhere.invalid:2 all_reduce $small
  secure=${secure/$work\/user/$work\/unknown_key} run "ssh: no key" 3 0 0 "ssh to 127.0.0.1 .*Permission denied" \
    "${by_ssh[@]}" 127.0.0.1:2 all_reduce $small
}
two_by_ssh() {
  # From a machine that is neither, though in the first one's network.
  local both=10.77.0.1:1,10.77.0.2:1 slow=1000000
  export BY="ip netns exec $net-a"
  local by_ssh=(bash -c 'over_ssh "$@"' over_ssh)
  run "ssh: two hosts" 0 2 4 "" "${by_ssh[@]}" $both all_reduce $small
  grep -q "on  *host-a device  0" "$work/out" && grep -q "on  *host-b device  1" "$work/out" ||
    verdict FAILED "ssh: two hosts" "names in the table: $(grep '#  Rank' "$work/out")"
  swept "ssh: two hosts" --launcher ssh --launcher-command "$secure" -H $both
  run "ssh: two hosts: a killed worker" 6 2 1 "rank 1 \(process [0-9]+ on host-b\) was lost" \
    "${by_ssh[@]}" $both all_reduce $small --fault rank=1,phase=timed,row=1,do=kill
  rm "$work/out"
  (measuring; kill -9 "$(pgrep -f "^ssh .*$work/user .* 10.77.0.2 ")") &
  run "ssh: two hosts: a killed ssh" 6 2 0 "connection to 10.77.0.2 is lost|rank 1 \(process [0-9]+ on host-b\) was lost" \
    "${by_ssh[@]}" $both all_reduce -b 8 -e 8 -n 5 --batches 1 --fault rank=1,phase=timed,row=0,do=slow:$slow
  rm "$work/out"
  (measuring; ip -n "$net-a" link set eth0 down) &
  run "ssh: two hosts: a cut wire" 6 2 0 "rank 1 \(process [0-9]+ on host-b\) (was lost|has not answered)" \
    "${by_ssh[@]}" $both all_reduce -b 8 -e 8 -n 5 --batches 1 -T 60 --fault rank=1,phase=timed,row=0,do=slow:$slow
  ip -n "$net-a" link set eth0 up
}
two_ssh_names=("ssh: two hosts" "ssh: two hosts: a killed worker" "ssh: two hosts: a killed ssh" "ssh: two hosts: a cut wire"
  "ssh: two hosts: a sweep" "ssh: two hosts: a sweep, Ctrl-C")
# mpirun and srun of ours on these two hosts, called on the first: mpirun comes to the other by its sshd.
on_host_a() { ip netns exec "$net-a" unshare --uts bash -c 'hostname host-a; exec "$@"' a "$@"; }
export -f on_host_a
launched_on_two() { # NAME LAUNCHER COMMAND
  local name="$1 by us: two hosts"
  run "$name" 0 2 4 "control over eth0 \(10.77.0.1\)" bash -c 'on_host_a "$@"' on_host_a \
    "$program" all_reduce --launcher "$2" --launcher-command "$3" -H host-a:1,host-b:1 $small
  grep -q "on  *host-a device  0" "$work/out" && grep -q "on  *host-b device  1" "$work/out" ||
    verdict FAILED "$name" "names in the table: $(grep '#  Rank' "$work/out")"
}
sent() { # bytes sent by host-a's and host-b's eth0, and by their lo
  local device
  for device in eth0 lo; do
    ip netns exec "$net-a" cat "/sys/class/net/$device/statistics/tx_bytes"
    ip netns exec "$net-b" cat "/sys/class/net/$device/statistics/tx_bytes"
  done
}
# Through MPI between these two, called on the first: every element verified, each rank on its host, and what was moved
# went over the wire by the interfaces' own counters, where launcher, ssh and busbw say little. No variable says where
# processes meet.
# `wired NAME THERE BACK TEXT RECORD command...`: THERE and BACK are how many of 20 times 64 KiB go each way at least,
# TEXT and RECORD what busbw says of transports, on stderr and in each rank's line of kind mpi.
wired() {
  local name=$1 there=$2 back=$3 text=$4 record=$5 rank host why= each=$((20 * 65536)) before after
  shift 5
  rm -f "$work/wired.jsonl"
  mapfile -t before < <(sent)
  run "$name" 0 2 3 "^busbw: transports set up: $text" bash -c 'on_host_a "$@"' on_host_a \
    "$@" --backend mpi -c 1 -d float -b 64 -e 64K -f 32 -n 20 --batches 1 --record "$work/wired.jsonl"
  mapfile -t after < <(sent)
  [ "$(grep -oE '"wrong":[^,]*' "$work/wired.jsonl" | sort -u)" = '"wrong":0' ] || why="not every row is verified"
  for rank in 0 1; do
    [ $rank = 0 ] && host=host-a || host=host-b
    grep -qE "\"rank\":$rank,[^}]*\"host\":\"$host\"" "$work/wired.jsonl" || why+=" rank $rank is not on $host"
    grep '"kind":"mpi"' "$work/wired.jsonl" | grep "\"rank\":$rank," | tail -1 | grep -qE -e "$record" || why+=" rank $rank's record lacks: $record"
  done
  if ((after[0] - before[0] < there * each || after[1] - before[1] < back * each)) ||
    ((after[2] - before[2] >= each || after[3] - before[3] >= each)); then
    why+=" bytes sent on eth0 and lo: ${before[*]} before, ${after[*]} after"
  fi
  # Ranks of two hosts share no memory.
  grep -a 'not proven' "$work/err" && why+=" what carried messages is not proven"
  [ -z "$why" ] || verdict FAILED "$name" "$why"
}
mpi_on_two() { # NAME TEXT RECORD LAUNCHER...
  local name=$1 text=$2 record=$3
  shift 3
  wired "$name: two hosts, latency through MPI" 1 1 "$text" "$record" "$@" "$program" latency
  wired "$name: two hosts, bw through MPI" 64 0 "$text" "$record" "$@" "$program" bw
  wired "$name: two hosts, all_reduce through MPI" 1 1 "$text" "$record" "$@" "$program" all_reduce
}
mpi_on_two_names() { # NAME
  local check
  for check in latency bw all_reduce; do echo "$1: two hosts, $check through MPI"; done
}
# A controller on host-a and a node on each, beside those of `slurm`.
slurm_on_two() {
  local s=$work/slurm host
  sed -e 's/^SlurmctldHost=.*/SlurmctldHost=host-a(10.77.0.1)/' -e 's|/state$|/state-two|' -e 's|/spool$|/spool-%n|' \
    -e 's|/slurmd\.|/slurmd-%n.|' -e 's|/slurmctld\.|/slurmctld-two.|' -e '/^NodeName=/d' "$s/slurm.conf" >"$s/two.conf"
  mkdir -p "$s/state-two" "$s/"{spool,tmp}-host-{a,b}
  # The plugin for PMIx makes a folder of the job's name there, and does not take one that it finds.
  echo "TmpFS=$s/tmp-%n" >>"$s/two.conf"
  printf 'NodeName=host-%s NodeAddr=10.77.0.%s CPUs=2 State=UNKNOWN\n' a 1 b 2 >>"$s/two.conf"
  # Its own GPU for the second host, as elsewhere its sshd says.
  printf '#!/bin/sh\n[ "$SLURMD_NODENAME" != host-b ] || echo export NCCL_TESTS_DEVICE=1\n' >"$s/prolog"
  chmod 755 "$s/prolog"
  export SLURM_CONF=$s/two.conf
  for host in a b; do
    # As `ip netns exec` does it, but for a /sys without control groups.
    nsenter --net="/run/netns/$net-$host" unshare --uts --mount bash -c 'hostname "$0"; mount --bind "$1" /etc/hosts; exec slurmd -D' \
      "host-$host" "/etc/netns/$net-$host/hosts" >"$s/d-$host.out" 2>&1 &
    started+=($!)
  done
  ip netns exec "$net-a" unshare --uts bash -c 'hostname host-a; exec "$@"' a slurmctld -D >"$s/ctld-two.out" 2>&1 &
  started+=($!)
  local end=$((SECONDS + 30))
  while [ $SECONDS -lt $end ]; do
    [ "$(on_host_a timeout 5 sinfo -h -N -o %T 2>/dev/null | grep -c idle)" = 2 ] && return 0
    sleep 0.1
  done
  echo "its nodes did not come up: $(tail -n 1 "$s"/slurmd-host-*.log "$s/slurmctld-two.log" 2>/dev/null | tr '\n' ' ')"
  return 1
}
all_on_two() {
  local host start checks
  for host in a b; do printf '%s\n' "127.0.0.1 localhost" "10.77.0.1 host-a" "10.77.0.2 host-b" >"/etc/netns/$net-$host/hosts"; done
  printf '#!/bin/sh\nexec %s "$@"\n' "$secure" >"$work/rsh"
  chmod 755 "$work/rsh"
  # Two ranks that wait without yielding leave two cores no time for the wire: a message then takes until the clock's
  # next tick, 4 ms, also in ten lines of C.
  local tcp=(env OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_mpi_yield_when_idle=1)
  local connected="PML ob1, 2 connections tcp \(Open MPI's log\)" connections='"pml":"ob1",.*"tcp":'
  if [ -n "$openmpi" ]; then
    start="$openmpi --allow-run-as-root --mca plm_rsh_agent $work/rsh --mca oob_tcp_if_include eth0"
    launched_on_two "Open MPI" mpirun "$start"
    mpi_on_two "Open MPI" "$connected" "$connections" "${tcp[@]}" $start --host host-a:1,host-b:1 -x LD_LIBRARY_PATH -x BUSBW_NO_RECORD
    printf 'rank 0=host-b slot=0\nrank 1=host-a slot=0\n' >"$work/ranks"
    run "Open MPI: two hosts, the first process elsewhere" 2 0 0 "process 0 is on host-b, and the workers would connect to 10.77.0.1" \
      bash -c 'on_host_a "$@"' on_host_a "${tcp[@]}" $start -n 2 --host host-a:1,host-b:1 -rf "$work/ranks" -x LD_LIBRARY_PATH -x BUSBW_NO_RECORD \
      "$program" latency --backend mpi -b 8 -e 8 -n 5 --batches 1
    wired "Open MPI by us: two hosts, all_reduce through MPI" 1 1 "$connected" "$connections" \
      "${tcp[@]}" "$program" all_reduce --launcher mpirun --launcher-command "$start" -H host-a:1,host-b:1
  else
    mapfile -t checks < <(mpi_on_two_names "Open MPI")
    waive openmpi "there is no mpirun of Open MPI" "Open MPI by us: two hosts" "${checks[@]}" "Open MPI: two hosts, the first process elsewhere" \
      "Open MPI by us: two hosts, all_reduce through MPI"
  fi
  if command -v mpiexec.hydra >/dev/null; then
    start="mpiexec.hydra -launcher ssh -launcher-exec $work/rsh"
    launched_on_two Hydra mpirun "$start"
    # Else UCX sees one machine, and takes its memory.
    local ucx=(env UCX_TLS=tcp,self UCX_NET_DEVICES=eth0) lanes="device ch4:ucx .*, lanes tcp/eth0 \(UCX's log\)" lane='"tag":\["tcp/eth0"\]'
    mpi_on_two Hydra "$lanes" "$lane" "${ucx[@]}" $start -hosts host-a,host-b -n 2
    wired "Hydra by us: two hosts, all_reduce through MPI" 1 1 "$lanes" "$lane" \
      "${ucx[@]}" "$program" all_reduce --launcher mpirun --launcher-command "$start" -H host-a:1,host-b:1
  else
    mapfile -t checks < <(mpi_on_two_names Hydra)
    waive hydra "there is no mpiexec.hydra" "Hydra by us: two hosts" "${checks[@]}" "Hydra by us: two hosts, all_reduce through MPI"
  fi
  mapfile -t checks < <(mpi_on_two_names "Slurm: --mpi=pmix")
  if [ ! -e "$work/slurm/munge" ]; then
    waive slurm "there is no munged" "Slurm by us: two hosts" "${checks[@]}"
  elif slurm_on_two >"$work/why" 2>&1; then
    launched_on_two Slurm slurm "srun --overcommit --task-prolog=$work/slurm/prolog"
    if pmix; then
      mpi_on_two "Slurm: --mpi=pmix" "$connected" "$connections" "${tcp[@]}" srun --mpi=pmix --overcommit -N 2 -n 2
    else
      waive pmix "$no_pmix" "${checks[@]}"
    fi
  else
    waive slurm "$(tail -n 1 "$work/why")" "Slurm by us: two hosts" "${checks[@]}"
  fi
}
all_on_two_names() {
  local launcher
  for launcher in "Open MPI" Hydra Slurm; do echo "$launcher by us: two hosts"; done
  for launcher in "Open MPI" Hydra "Slurm: --mpi=pmix"; do mpi_on_two_names "$launcher"; done
  for launcher in "Open MPI" Hydra; do echo "$launcher by us: two hosts, all_reduce through MPI"; done
  echo "Open MPI: two hosts, the first process elsewhere"
}
mapfile -t two_names < <(all_on_two_names)
mapfile -t checks < <(ssh_names)
if [ -n "$sshd" ] && command -v ssh >/dev/null && [ "$(id -u)" = 0 ]; then
  chmod 755 "$work"
  mkdir -p /run/sshd
  ssh-keygen -q -t ed25519 -N '' -f "$work/user"
  ssh-keygen -q -t ed25519 -N '' -f "$work/unknown_key"
  ssh_server loopback 127.0.0.1 A=1
  [ -n "$two" ] && ssh_server a 10.77.0.1 A=1 ip netns exec "$net-a" &&
    ssh_server b 10.77.0.2 NCCL_TESTS_DEVICE=1 ip netns exec "$net-b"
  sleep 0.5
  unset BUSBW_JOB_SECRET
  through_ssh
  if [ -n "$two" ]; then
    two_by_ssh
    all_on_two
  else
    waive namespaces "network namespaces cannot be made" "${two_ssh_names[@]}" "${two_names[@]}"
  fi
else
  waive ssh "there is no sshd, or whoever runs this is not root" "${checks[@]}" "${two_names[@]}"
fi

# The wrapper of the MPI library, under both launchers and under the wrong one.
# Of the whole workspace, as `cargo test --release` has built it: one package alone would be built anew.
cargo test --release --quiet --test mpi >"$work/mpi" 2>"$work/err" ||
  verdict FAILED "MPI's library" "$(grep -v '^ok ' "$work/mpi" "$work/err" | head -c 3000)"
while read -r word name; do
  case $word in
    ok) verdict ok "$name" ;;
    waived) waive mpi "${name#*: *: }" "$(sed -E 's/^([^:]*: [^:]*): .*/\1/' <<<"$name")" ;;
  esac
done <"$work/mpi"

# Every name that is expected, and no other; waived only where the list allows it.
while read -r line; do
  name=${line#waived:}
  grep -qxF "$name" "$seen" && continue
  if grep -qxF "waived:$name" "$seen" && { [ "$line" != "$name" ] || [ -n "$quick" ]; }; then continue; fi
  verdict FAILED "$name" "expected, but neither run nor allowed to be waived"
done < <(grep -v '^#' tests/launchers.txt)
while read -r name; do
  grep -qxF -e "${name#waived:}" -e "waived:${name#waived:}" tests/launchers.txt ||
    verdict FAILED "${name#waived:}" "not in tests/launchers.txt"
done < <(sort -u "$seen")
for part in slurm pmix ssh namespaces; do
  [[ " $lacking " != *" $part "* ]] || echo "to do without: --waive $part"
done
printf '%s run, %s lacking, %s waived, in %s s\n' $(($(grep -vc '^waived:' "$seen") - not_run)) $not_run "$(grep -c '^waived:' "$seen")" "$SECONDS"
exit $failed
