#!/usr/bin/env bash
# Ranks that launchers start, on the shim libraries: Open MPI, Hydra, Slurm, torchrun's environment, and two
# network namespaces as two hosts. Each check is one line, `ok` or `waived` with its reason, and their names
# must be those of tests/launchers.txt: a check that vanished fails. A first word `waived:` there is what a
# machine without the part may waive; anything else that is waived fails, too.
#   tests/launchers.sh           everything, about a minute; installs what is missing (apt-get), needs root
#   tests/launchers.sh --quick   without installing; what is not there is waived
set -uo pipefail
cd "$(dirname "$0")/.."
quick=${1:-}
work=$(mktemp -d)
# Several of these may run on one machine at once.
export net=busbw-$$ wire=bw$$ port=$((20000 + $$ % 1000 * 10))
started=()
cleanup() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; done
  ip netns del "$net-a" 2>/dev/null
  ip netns del "$net-b" 2>/dev/null
  rm -rf "$work"
}
trap cleanup EXIT

if [ -z "$quick" ]; then
  apt-get update -qq >"$work/apt" 2>&1
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    openmpi-bin mpich slurm-wlm munge iproute2 python3 g++ >"$work/apt" 2>&1 || tail -3 "$work/apt"
fi
cargo build --release --quiet || exit 1
target=${CARGO_TARGET_DIR:-target}
# A name of its own, by which to see that nothing is left.
program=$work/busbw-launched-$$
cp "$target/release/busbw" "$program"
shims=${BUSBW_SHIMS:-$work/shims}
[ -e "$shims/libcuda.so.1" ] || tests/shims/build.sh "$shims" >"$work/build" || exit 1
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
waive() { # reason name...
  local reason=$1 name
  shift
  for name in "$@"; do
    printf '%-7s %s: %s\n' waived "$name" "$reason"
    echo "waived:$name" >>"$seen"
  done
}
left() { ps -eo args | grep -c "^[^ ]*busbw-launched-$$ "; }
# run NAME CODES RANKS ROWS TEXT command...: exit code one of CODES, one table with so many ranks and rows,
# TEXT (an extended regular expression) on stderr, and nobody left two seconds later.
run() {
  local name=$1 codes=$2 ranks=$3 rows=$4 text=$5 code tables
  shift 5
  timeout 50 "$@" >"$work/out" 2>"$work/err"
  code=$?
  tables=$(grep -c '^# nccl-tests version' "$work/out")
  local got="exit $code, $tables tables, $(grep -c '^#  Rank' "$work/out") ranks, $(grep -c ' float ' "$work/out") rows"
  local why=
  [[ " $codes " == *" $code "* ]] || why="exit code not $codes"
  [ "$(grep -c '^#  Rank' "$work/out")" = "$ranks" ] || why="not $ranks ranks"
  [ "$(grep -c ' float ' "$work/out")" = "$rows" ] || why="not $rows rows"
  [ "$tables" -le 1 ] || why="several tables"
  [ -z "$text" ] || grep -aqE -e "$text" "$work/err" || why="stderr lacks: $text"
  for _ in $(seq 20); do [ "$(left)" = 0 ] && break; sleep 0.1; done
  [ "$(left)" = 0 ] || why="$(left) processes left"
  if [ -z "$why" ]; then verdict ok "$name"; else
    verdict FAILED "$name" "$why ($got)"
    tail -5 "$work/err"
  fi
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
    tail -5 "$work/out" "$work/err"
  fi
}
# Ctrl-C at a launcher: as a terminal does it, to its whole process group, so often as the launcher wants.
interrupted() { # TIMES command...
  python3 - "$@" <<'PY'
import os, signal, subprocess, sys, threading, time
times, words = int(sys.argv[1]), sys.argv[2:]
child = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
first = child.stdout.readline()
while first and b" float " not in first:
    first = child.stdout.readline()
threading.Thread(target=lambda: [None for _ in child.stdout], daemon=True).start()
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
  run "$name: options that cannot be" 2 0 0 "-b is 8 bytes and -e 4" "$@" 4 "$program" all_reduce -b 8 -e 4
  run "$name: not enough GPUs" 5 0 0 "cannot take part: Invalid number of GPUs" "$@" 4 "$program" all_reduce -g 4 $small
  doctor "$name: doctor" "$@" 4
  run "$name: a killed guest" "6 137 9" 4 1 "${KILLED-rank 2 \(process [0-9]+ on [^ ]+\) was lost while timing row 1}" \
    "$@" 4 "$program" all_reduce $small --fault rank=2,phase=timed,row=1,do=kill
  run "$name: a killed rank of the first process" 6 4 1 "rank 0 \(process [0-9]+ on [^ ]+\) was killed by signal 9" \
    "$@" 4 "$program" all_reduce $small --fault rank=0,phase=timed,row=1,do=kill
  if [ "$interrupts" -gt 0 ]; then
    interrupted "$interrupts" "$@" 4 "$program" all_reduce -N 0 -b 8 -e 8 -n 5 2>"$work/err"
    local code=$?
    sleep 1
    if [ $code != 0 ] && [ "$(left)" = 0 ] && grep -aq "interrupted by signal" "$work/err"; then
      verdict ok "$name: Ctrl-C"
    else
      verdict FAILED "$name: Ctrl-C" "exit $code, $(left) processes left"
    fi
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
    tail -3 "$work/one" "$work/two"
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
    tail -5 "$work/out" "$work/err"
  fi
  run "$name: a killed guest through MPI" "6 137 9" 2 1 "${KILLED-rank 1 \(process [0-9]+ on [^ ]+\) was lost while timing row 1}" \
    "$@" 2 "$program" bw --backend mpi -d float -b 8 -e 64 -n 50 --batches 1 --fault rank=1,phase=timed,row=1,do=kill
  run "$name: a killed rank of the first process through MPI" 6 2 1 "rank 0 \(process [0-9]+ on [^ ]+\) was killed by signal 9" \
    "$@" 2 "$program" bw --backend mpi -d float -b 8 -e 64 -n 50 --batches 1 --fault rank=0,phase=timed,row=1,do=kill
  run "$name: another MPI's library" 2 2 0 "each is alone, rank 0 of 1: 2 copies instead of 2 ranks" \
    "$@" 2 "$program" latency --backend mpi --mpi "$other" -d float -b 8 -e 64
}
# Buffers on the shims' GPUs. `on_gpus NAME OWN LAUNCHER...`: OWN says that it takes none; with
# tests/shims/mpi_aware.cc in front it says that it does, and their memory is the process's.
on_gpus() {
  local name=$1 own=$2 aware=$work/aware-$2 wrong=() collective small="-d float -b 8 -e 1M -f 50 -n 5 --batches 1 -c 2"
  shift 2
  run "$name: an MPI that takes no GPU's memory" 5 2 0 "takes no buffers in GPUs' memory: MPIX_Query_cuda_support\(\) is 0" \
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
    BUSBW_MPI=$aware timeout 50 "$@" 2 "$program" osu_latency -m 1:1 -i 20 --json D H 2>"$work/err" |
      grep -q '"buffers":\["gpu","host"\]' && verdict ok "$name: osu_latency D H" ||
      verdict FAILED "$name: osu_latency D H" "the record does not say where buffers were"
  else
    verdict FAILED "$name: osu_latency D H"
    tail -5 "$work/out" "$work/err"
  fi
}
names() { # NAME check...: those of `all`
  local name=$1 check
  for check in "4 processes" "-t 2 -g 1" "-t 1 -g 2, perf" "-t 2 -g 2, perf" host "options that cannot be" \
    "not enough GPUs" doctor "a killed guest" "a killed rank of the first process" Ctrl-C "two jobs at once"; do
    echo "$name: $check"
  done
}

mpi_names() { # NAME: those of `through_mpi` and `on_gpus`
  local check
  for check in "messages through MPI" "windows through MPI" "every collective through MPI" osu_barrier \
    "a killed guest through MPI" "a killed rank of the first process through MPI" "another MPI's library" \
    "an MPI that takes no GPU's memory" "messages in GPUs' memory" "one end in a GPU's memory" \
    "every collective in GPUs' memory" "wrong bytes in GPUs' memory, messages" \
    "wrong bytes in GPUs' memory, all_reduce" "osu_latency D H"; do
    echo "$1: $check"
  done
}

openmpi=$(command -v mpirun.openmpi || { mpirun --version 2>/dev/null | grep -q "Open MPI" && command -v mpirun; })
if [ -n "$openmpi" ]; then
  launch=("$openmpi" --allow-run-as-root --oversubscribe -n)
  all "Open MPI" 1 "${launch[@]}"
  two_at_once "Open MPI" "${launch[@]}"
  through_mpi "Open MPI" libmpich.so.12 "${launch[@]}"
  on_gpus "Open MPI" libmpi.so.40 "${launch[@]}"
  run "Open MPI: each bound to a core, host" 0 2 4 "" \
    "$openmpi" --allow-run-as-root --bind-to core -n 2 "$program" all_reduce --backend host $small
  run "Open MPI: other words" 2 0 0 'was started with "all_gather" where rank 0' \
    "${launch[@]}" 1 "$program" all_reduce $small : -n 1 "$program" all_gather $small
  run "Open MPI: a stopped guest" 6 4 1 "rank 2 \(process [0-9]+ on [^ ]+\) has been stopped for 5 s" \
    "${launch[@]}" 4 "$program" all_reduce $small --fault rank=2,phase=timed,row=1,do=stop
else
  mapfile -t checks < <(names "Open MPI"; mpi_names "Open MPI")
  waive "there is no mpirun of Open MPI" "${checks[@]}" "Open MPI: each bound to a core, host" \
    "Open MPI: other words" "Open MPI: a stopped guest"
fi

if command -v mpiexec.hydra >/dev/null; then
  # Hydra kills all processes within a millisecond when one dies of a signal, and with it what they say.
  KILLED="" all "Hydra" 1 mpiexec.hydra -n
  two_at_once "Hydra" mpiexec.hydra -n
  KILLED="" through_mpi "Hydra" libmpi.so.40 mpiexec.hydra -n
  on_gpus "Hydra" libmpich.so.12 mpiexec.hydra -n
  # Told not to, it usually leaves busbw the time to name the rank; on a busy machine it does not.
  run "Hydra: a killed guest, -disable-auto-cleanup" "6 9" 4 1 "" \
    mpiexec.hydra -disable-auto-cleanup -n 4 "$program" all_reduce $small --fault rank=2,phase=timed,row=1,do=kill
else
  mapfile -t checks < <(names Hydra; mpi_names Hydra)
  waive "there is no mpiexec.hydra" "${checks[@]}" "Hydra: a killed guest, -disable-auto-cleanup"
fi

# A controller and a node on loopback, as whoever runs this.
slurm() {
  command -v srun slurmctld slurmd munged >/dev/null || { echo "Slurm or munge is not installed"; return 1; }
  [ "$(id -u)" = 0 ] || { echo "slurmd needs root"; return 1; }
  local s=$work/slurm host
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
if slurm >"$work/why" 2>&1; then
  all Slurm 2 srun --overcommit -n
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
  run "Slurm: --mpi=pmi2" 0 4 4 "" srun --mpi=pmi2 --overcommit -n 4 "$program" all_reduce $small
else
  mapfile -t checks < <(names Slurm)
  waive "$(tail -n 1 "$work/why")" "${checks[@]}" "Slurm: --mpi=pmi2"
fi

torch=(bash -c 'torchrun_like "$@"' torchrun_like)
all "torchrun's environment" 0 "${torch[@]}"
two_at_once "torchrun's environment" "${torch[@]}"
waive "torch is hundreds of megabytes: its variables are set by hand" "torchrun: the real one"

# Where not all processes are known to be on one host they meet over TCP.
export ON_HOST=2
run "TCP: 4 processes" 0 4 4 "" "${torch[@]}" 4 "$program" all_reduce $small
run "TCP: -t 2 -g 2, perf" 0 16 4 "" env BUSBW_SHIM_GPUS=16 "${torch[@]}" 4 "$program" all_reduce_perf -t 2 -g 2 -b 8 -e 64 -f 2
run "TCP: host" 2 0 0 "--backend host measures the memory of one machine" "${torch[@]}" 4 "$program" all_reduce --backend host $small
run "TCP: a killed guest" 6 4 1 "rank 3 \(process [0-9]+ on [^ ]+\) was lost about row 1" \
  "${torch[@]}" 4 "$program" all_reduce $small --fault rank=3,phase=timed,row=1,do=kill
run "TCP: a killed supervisor's rank" 6 4 1 "rank 0 \(process [0-9]+ on [^ ]+\) was killed by signal 9" \
  "${torch[@]}" 4 "$program" all_reduce $small --fault rank=0,phase=timed,row=1,do=kill
unset ON_HOST

# Two hosts: network namespaces with a wire between them, and names of their own. The shim NCCL goes through
# memory of this machine; busbw's own way between processes goes over the wire.
two_hosts() { # command...: process 0 on host a, process 1 on host b; the first code that is not 0
  local code other a b
  export RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.77.0.1 MASTER_PORT=$((port + 4))
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
hosts=("two hosts: a run" "two hosts: a killed guest" "two hosts: a cut wire" "two hosts: another secret")
if ip netns add "$net-a" 2>"$work/why" && ip netns add "$net-b" && ip link add $wire-a type veth peer name $wire-b &&
  ip link set $wire-a netns "$net-a" && ip link set $wire-b netns "$net-b" &&
  ip -n "$net-a" addr add 10.77.0.1/24 dev $wire-a && ip -n "$net-b" addr add 10.77.0.2/24 dev $wire-b &&
  ip -n "$net-a" link set lo up && ip -n "$net-b" link set lo up &&
  ip -n "$net-a" link set $wire-a up && ip -n "$net-b" link set $wire-b up; then
  on_two=(bash -c 'two_hosts "$@"' two_hosts)
  export BUSBW_JOB_SECRET=word
  run "${hosts[0]}" 0 2 4 "" "${on_two[@]}" "$program" all_reduce $small
  grep -q "on  *host-a device  0" "$work/out" && grep -q "on  *host-b device  1" "$work/out" ||
    verdict FAILED "two hosts: names in the table" "$(grep '#  Rank' "$work/out")"
  run "${hosts[1]}" 6 2 1 "rank 1 \(process [0-9]+ on host-b\) was lost" \
    "${on_two[@]}" "$program" all_reduce $small --fault rank=1,phase=timed,row=1,do=kill
  (sleep 3; ip -n "$net-a" link set $wire-a down) &
  run "${hosts[2]}" 6 2 0 "rank 1 \(process [0-9]+ on host-b\) was lost" \
    "${on_two[@]}" "$program" all_reduce -b 8 -e 8 -n 5 --batches 1 -T 60 --fault rank=1,phase=timed,row=0,do=slow:1000000
  ip -n "$net-a" link set $wire-a up
  OTHER_SECRET=guess run "${hosts[3]}" 4 0 0 "rank 1. Rank 0 waits|who listens there is of another job" \
    "${on_two[@]}" "$program" all_reduce $small
else
  waive "network namespaces cannot be made: $(head -c 200 "$work/why")" "${hosts[@]}"
fi

# The wrapper of the MPI library, under both launchers and under the wrong one.
cargo test --release --quiet -p busbw-native --test mpi >"$work/mpi" 2>"$work/err" ||
  verdict FAILED "MPI's library" "$(grep -v '^ok ' "$work/mpi" "$work/err" | head -c 3000)"
while read -r word name; do
  case $word in
    ok) verdict ok "$name" ;;
    waived) waive "${name#*: *: }" "$(sed -E 's/^([^:]*: [^:]*): .*/\1/' <<<"$name")" ;;
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
printf '%s run, %s waived, in %s s\n' "$(grep -vc '^waived:' "$seen")" "$(grep -c '^waived:' "$seen")" "$SECONDS"
exit $failed
