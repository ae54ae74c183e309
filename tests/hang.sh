#!/usr/bin/env bash
# Plants six faults in a real job of four ranks (PyTorch over gloo, on CPUs) and asks `busbw explain` for the verdict:
# tests/hang.sh [BUSBW] [PYTHON with torch]. The network is cut between two network namespaces, which needs root.
# BACKEND=nccl takes four GPUs, busbw's profiler and NCCL's RAS, and asks three times: with files and RAS, with files, with RAS.
# Of these only the first is judged: neither source alone sees all. The cut network is waived there. Calls with another size, or with
# another operation, do not hang by themselves under NCCL: the verdict names the first of them, number 6, all the same.
# FAULTS=killed,stopped plants some of them; KEEP=FOLDER keeps the files. Not for CI: torch is large. The dumps of one run are
# tests' data (crates/analysis/src/hang/data); the outputs are tests/hang.txt and docs/data/*-hang.txt.
set -euo pipefail
root=$(realpath "$(dirname "$0")/..")
busbw=$(realpath "${1:-$root/target/release/busbw}")
python=${2:-python3}
work=$(mktemp -d)
left=busbw-hang-$$-l right=busbw-hang-$$-r
pids=()
end() {
  for pid in "${pids[@]}"; do kill -CONT "$pid" 2>/dev/null || true; kill -KILL "$pid" 2>/dev/null || true; done
  wait "${pids[@]}" 2>/dev/null || true
  pids=()
}
finish() {
  end
  ip netns del "$left" 2>/dev/null || true
  ip netns del "$right" 2>/dev/null || true
  if [ -n "${KEEP:-}" ]; then cp -a "$work"/. "$KEEP"; fi
  rm -rf "$work"
}
trap finish EXIT
"$python" -c 'import torch; print("torch", torch.__version__)'
backend=${BACKEND:-gloo}
if [ "$backend" = nccl ]; then
  gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ') || true
  if [ "${gpus:-0}" -lt 4 ]; then
    echo "waived: all six faults over NCCL take 4 GPUs, there are ${gpus:-0}"
    exit 5
  fi
  NCCL_PROFILER_PLUGIN=$("$busbw" plugin path profiler)
  export NCCL_PROFILER_PLUGIN BACKEND
else
  ip netns add "$left" && ip netns add "$right"
  ip link add hang-l netns "$left" type veth peer name hang-r netns "$right"
  ip -n "$left" addr add 10.231.7.1/24 dev hang-l && ip -n "$left" link set hang-l up && ip -n "$left" link set lo up
  ip -n "$right" addr add 10.231.7.2/24 dev hang-r && ip -n "$right" link set hang-r up && ip -n "$right" link set lo up
fi

failed=0 port=29600
plant() { # FAULT VERDICT RANKS
  local fault=$1 verdict=$2 ranks=$3 folder=$work/$1 rank
  case ",${FAULTS:-$fault}," in *,"$fault",*) ;; *) return ;; esac
  if [ "$fault $backend" = "network nccl" ]; then
    echo "waived network: NVLink is not cut; tests/hang.sh over gloo cuts a network"
    return
  fi
  mkdir "$folder"
  port=$((port + 1))
  local ras=()
  [ "$backend" = gloo ] || ras=(--ras "127.0.0.1:$((port + 1000))")
  for rank in 0 1 2 3; do
    local in=(env MASTER_ADDR=127.0.0.1 GLOO_SOCKET_IFNAME=lo)
    if [ "$fault" = network ]; then
      case $rank in
        0 | 1) in=(ip netns exec "$left" env MASTER_ADDR=10.231.7.1 GLOO_SOCKET_IFNAME=hang-l) ;;
        *) in=(ip netns exec "$right" env MASTER_ADDR=10.231.7.1 GLOO_SOCKET_IFNAME=hang-r) ;;
      esac
    fi
    [ "$backend" = gloo ] || in+=(BUSBW_WATCH_DIR="$folder" NCCL_RAS_ADDR="127.0.0.1:$((port + 1000))")
    OMP_NUM_THREADS=1 MASTER_PORT=$port nice -n 5 "${in[@]}" "$python" "$root/tests/hang/job.py" "$fault" "$folder" "$rank" \
      >"$folder/out.$rank" 2>&1 &
    pids+=($!)
  done
  for _ in $(seq 600); do
    [ "$(find "$folder" -name 'ready.*' | wc -l)" = 4 ] && break
    sleep 0.1
  done
  if [ "$fault" = network ]; then ip -n "$left" link set hang-l down; fi
  touch "$folder/go"
  sleep 7
  touch "$folder/dump"
  sleep 2
  local began said rc=0
  began=$(date +%s%N)
  said=$("$busbw" explain "$folder" "${ras[@]}" --json 2>"$folder/stderr") || rc=$?
  local ms=$((($(date +%s%N) - began) / 1000000))
  "$busbw" explain "$folder" "${ras[@]}" -v >"$folder/verdict.txt" 2>/dev/null || true
  local got
  got=$(printf '%s\n' "$said" | head -n 1 | "$python" -c '
import json, sys
one = json.loads(sys.stdin.readline())
print(one["verdict"], ",".join(str(r["rank"]) for r in one["ranks"]) or "-", one.get("call", {}).get("operation"), one.get("call", {}).get("number"))')
  local result=ok
  # gloo's calls that a cut network stops have their own number.
  local number=6
  [ "$fault" != network ] || number=${got##* }
  if [ "$rc" != 0 ] || [ "${got% * *} ${got##* }" != "$verdict $ranks $number" ]; then result=FAILED failed=1; fi
  echo "$result $fault: $got, exit code $rc ($ms ms; wanted $verdict $ranks, number $number)"
  sed 's/^/    /; s#'"$work"'/##g' "$folder/verdict.txt"
  if [ "$backend" = nccl ]; then
    for alone in "$folder" "${ras[*]}"; do
      began=$(date +%s%N)
      # shellcheck disable=SC2086
      "$busbw" explain $alone >"$folder/alone.txt" 2>&1 || true
      echo "    explain ${alone/"$work/"/} ($((($(date +%s%N) - began) / 1000000)) ms):"
      sed 's/^/      /; s#'"$work"'/##g' "$folder/alone.txt"
    done
  fi
  grep -h '^rank' "$folder"/out.* | cut -c1-160 | sed 's/^/    > /' || true
  end
}
plant never-comes never-came 2
plant other-size other-size 1
plant other-operation other-operation 3
plant killed died 2
plant stopped stopped 1
plant network network-stopped -
exit "$failed"
