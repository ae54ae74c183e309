#!/bin/bash
# What `busbw watch` says of a real job whose fault is known: PyTorch, two ranks on one GPU (under CUDA MPS), over NCCL's sockets.
#   tests/gpu/stragglers.sh BUSBW PROFILER|- [RUNS]      RUNS (5) launches a fault; FAULTS='compute host' takes these only,
# KEEP=FOLDER keeps the profiler's files
# Faults of rank 1: its GPU computes twice as long; its program is 4 ms late; it shares its core with three busy programs; it is
# stopped for 2 s; what it sends is paced to 300 MB/s by SO_MAX_PACING_RATE. Before each fault but the last the same job runs
# without one, and nobody may be accused. A line for each; exit 1 when a healthy job is accused or fewer than 19 of 20 (of as
# many as ran) are right, 5 where it cannot run. About 20 s a launch.
set -u
busbw=$(realpath "${1:?usage: tests/gpu/stragglers.sh BUSBW PROFILER|- [RUNS]}")
profiler=${2:?usage: tests/gpu/stragglers.sh BUSBW PROFILER|- [RUNS]}
runs=${3:-5}
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
nvidia-smi -L >/dev/null 2>&1 || { echo "no GPU that nvidia-smi lists: nothing ran" >&2; exit 5; }
python3 -c 'import torch' 2>/dev/null || { echo "python3 has no torch: nothing ran" >&2; exit 5; }
[ "$profiler" = - ] && profiler=$("$busbw" plugin path profiler)
profiler=$(realpath "$profiler")
export CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps-log
mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
pids=()
cleanup() {
  local pid
  for pid in "${pids[@]}"; do kill -CONT "$pid" 2>/dev/null; kill -KILL "$pid" 2>/dev/null; done
  echo quit | timeout 20 nvidia-cuda-mps-control >/dev/null 2>&1
  rm -rf "$work"
}
trap cleanup EXIT
timeout 20 nvidia-cuda-mps-control -d >/dev/null 2>&1 || { echo "CUDA MPS does not start: the ranks' kernels would take turns" >&2; exit 5; }

# Every TCP connection that a process makes or takes sends at most PACE bytes/s.
cat >"$work/pace.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>
static void pace(int fd) {
  unsigned int rate = (unsigned int)strtoul(getenv("PACE"), 0, 10);
  int family = 0; socklen_t length = sizeof family;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length) == 0 && (family == AF_INET || family == AF_INET6))
    setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
}
int connect(int fd, const struct sockaddr *to, socklen_t length) {
  int (*real)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");
  pace(fd);
  return real(fd, to, length);
}
int accept(int fd, struct sockaddr *from, socklen_t *length) {
  int (*real)(int, struct sockaddr *, socklen_t *) = dlsym(RTLD_NEXT, "accept");
  int got = real(fd, from, length);
  if (got >= 0) pace(got);
  return got;
}
C
cc -shared -fPIC -O2 -o "$work/pace.so" "$work/pace.c" -ldl || exit 5

export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 NCCL_PROFILER_PLUGIN=$profiler NCCL_SOCKET_IFNAME=lo NCCL_NET=Socket
unset BUSBW_WATCH BUSBW_WATCH_DIR
port=29600

# launch FOLDER FAULT: both ranks, until they are ready. Rank 1's process is in pids[1].
launch() {
  local folder=$1 preload=
  port=$((port + 1))
  export MASTER_PORT=$port BUSBW_WATCH_DIR=$folder/watch
  mkdir -p "$folder/watch"
  [ "$2" != paced ] || preload=$work/pace.so
  RANK=0 python3 "$here/straggler_job.py" 0 "$folder" >"$folder/0.txt" 2>&1 &
  pids=($!)
  PACE=300000000 LD_PRELOAD=$preload RANK=1 python3 "$here/straggler_job.py" 1 "$folder" >"$folder/1.txt" 2>&1 &
  pids+=($!)
  local left=60
  until [ -e "$folder/ready.0" ] && [ -e "$folder/ready.1" ]; do
    left=$((left - 1))
    [ $left -gt 0 ] && kill -0 "${pids[0]}" 2>/dev/null || { tail -n 5 "$folder"/[01].txt; return 1; }
    sleep 0.5
  done
}

# look FOLDER SECONDS: what is said of the last SECONDS.
look() { "$busbw" watch --once --json --last "$2" "$1/watch"; }

# judge FAULT PID1: the line of a case from the JSON on stdin; exit 0 when it is right.
judge() { python3 "$here/straggler_judge.py" "$@"; }

# window FOLDER FAULT: the job runs for 4 s with the fault; then what is said of it.
window() {
  local folder=$1 fault=$2 begun=$SECONDS burners=() one
  case $fault in
    compute | host) echo "$fault" >"$folder/case.1" ;;
    core)
      local core
      core=$(python3 -c 'import os; print(sorted(os.sched_getaffinity(0))[-1])')
      taskset -a -p -c "$core" "${pids[1]}" >/dev/null
      for one in 1 2 3; do taskset -c "$core" sh -c 'while :; do :; done' & burners+=($!); done
      ;;
  esac
  sleep 1
  begun=$(date +%s.%N)
  touch "$folder/run"
  sleep 1.5
  if [ "$fault" = stopped ]; then
    kill -STOP "${pids[1]}"
    sleep 2
    kill -CONT "${pids[1]}"
  fi
  sleep 2.5
  rm "$folder/run"
  for one in "${burners[@]}"; do kill "$one" 2>/dev/null; wait "$one" 2>/dev/null; done
  rm -f "$folder/case.1"
  sleep 1.5
  # The files are at most a second behind.
  look "$folder" "$(python3 -c "import time; print(f'{time.time() - $begun + 0.3:.1f}s')")" >"$folder/said.json"
  judge "$fault" "${pids[1]}" <"$folder/said.json"
}

right=0 all=0 healthy=0 accused=0
for fault in ${FAULTS:-compute host core stopped paced}; do
  for run in $(seq "$runs"); do
    folder=$work/$fault.$run
    mkdir -p "$folder"
    unset BUSBW_WATCH
    [ $fault != paced ] || export BUSBW_WATCH=full
    if ! launch "$folder" $fault; then
      echo "$fault: the job did not start"
      all=$((all + 1))
      continue
    fi
    if [ $fault != paced ]; then
      healthy=$((healthy + 1))
      window "$folder" none || accused=$((accused + 1))
    fi
    all=$((all + 1))
    if window "$folder" $fault; then right=$((right + 1)); fi
    touch "$folder/end"
    for pid in "${pids[@]}"; do timeout 20 tail --pid="$pid" -f /dev/null; kill -KILL "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; done
    pids=()
    [ -z "${KEEP:-}" ] || cp -r "$folder" "$KEEP/$fault.$run"
    rm -rf "$folder"
  done
done
echo "# $right of $all faults right, $accused of $healthy healthy runs accused"
[ "$accused" = 0 ] && [ $((right * 20)) -ge $((all * 19)) ]
