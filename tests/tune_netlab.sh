#!/usr/bin/env bash
# Whether `busbw tune` names a slow path, and a collision of two paths on one link, and neither where there is none: ladders on the
# four-path bed (tests/netlab/bed.sh), two hosts that are namespaces, from the reference's sockets on.
#   tests/tune_netlab.sh [HEALTHY [SLOW [COLLIDE]]]   so many ladders of each (2 2 2), in turns, each about a minute on a free
#                                                     machine; the last output by hand is tests/tune_netlab.txt
# Bars: no healthy bed gets a name; of 20 slow paths and of 20 collisions 19 are named with their interfaces and no other, and 19
# ladders end within 5 % of the best setting that they tried.
# Exit code 0: the bars hold; 1: one is missed; 3: nothing was run, as there are no namespaces here.
# LIMIT_S=SECONDS begins no further ladders after that. KEEP=FOLDER keeps each ladder's tune.json.
# BUSBW=PROGRAM and REFERENCE=LIBRARY (bench/reference-net) stand for what is built otherwise. Needs root, iproute2 and python3.
set -uo pipefail
cd "$(dirname "$0")/.."
healthy=${1:-2} slow=${2:-2} collide=${3:-2}
. tests/netlab/bed.sh
busbw=${BUSBW:-} reference=${REFERENCE:-}
if [ -z "$busbw" ] || [ -z "$reference" ]; then
  cargo build --release --quiet -p busbw -p reference-net || exit 1
  built=$(realpath "${CARGO_TARGET_DIR:-target}")/release
  busbw=${busbw:-$built/busbw} reference=${reference:-$built/libreference_net.so}
fi
if ! namespaces; then
  echo "waived  everything: no network namespaces here: $(head -1 "$work/err")"
  exit 3
fi

# Mb/s of a path: little enough that the links and not the processors are measured. A queue holds what it holds at 1 Gb/s and 8 ms.
path_mbits=150 quarter_kbits=37500 queue=53ms
# rails: an interface for each path on both hosts, with the address that takes that path. Its veth leads nowhere: routes are by address.
rails() {
  local side=1 host number
  for host in a b; do
    for number in $(seq "$paths"); do
      ip -n "$net-$host" addr del "10.77.$side.1$number/32" dev lo &&
        ip -n "$net-$host" link add "rail$number" type veth peer name "end$number" &&
        ip -n "$net-$host" addr add "10.77.$side.1$number/16" dev "rail$number" noprefixroute &&
        ip -n "$net-$host" link set "end$number" up && ip -n "$net-$host" link set "rail$number" up || return 1
    done
    side=2
  done
}
# onto RAIL PATH: what takes the path of that rail, both ways.
onto() {
  local side=1 leaf
  for leaf in la lb; do
    ip -n "$net-$leaf" rule del from "10.77.$side.1$1" && ip -n "$net-$leaf" rule add from "10.77.$side.1$1" lookup "10$2" || return 1
    side=2
  done
}
# ladder FOLDER: on both hosts; its result is FOLDER/tune.json.
ladder() {
  local other code
  local ranks=(WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.77.1.1 MASTER_PORT=4444 BUSBW_NET=sockets NCCL_SOCKET_IFNAME=rail
    NCCL_SOCKET_NTHREADS=4 NCCL_NSOCKS_PERTHREAD=1 BUSBW_NET_THREADS=0 XDG_CACHE_HOME="$work/cache" XDG_DATA_HOME="$work/data")
  # One value of a variable leaves its rung out.
  local words=(tune all_reduce --backend net --net "$reference" -b 2M -e 2M --row-time 0.5 --time 150s --yes --shared --record "$1"
    -x NCCL_SOCKET_NTHREADS=4 -x NCCL_NSOCKS_PERTHREAD=1 -x BUSBW_NET_THREADS=0,1)
  inside b unshare --uts sh -c 'hostname host-b; exec "$@"' b env "${ranks[@]}" REFERENCE_NET_BIND="$(seq -f "10.77.2.1%g" -s, "$paths")" \
    RANK=1 timeout -k 1 240 "$busbw" "${words[@]}" >"$work/other" 2>&1 &
  other=$!
  inside a unshare --uts sh -c 'hostname host-a; exec "$@"' a env "${ranks[@]}" REFERENCE_NET_BIND="$(seq -f "10.77.1.1%g" -s, "$paths")" \
    RANK=0 timeout -k 1 240 "$busbw" "${words[@]}" >"$work/out" 2>"$work/err"
  code=$?
  wait "$other" && return $code
  return $((code ? code : 1))
}
# run KIND NUMBER: a line, which begins with `named` or `none` or `wrong`; see tests/netlab/tuned.py.
run() {
  local began=$SECONDS path=$(($2 % paths + 1)) next=$((($2 + 1) % paths + 1)) expected= number line
  bed 4 && rails || exit 1
  for number in $(seq "$paths"); do rate "$number" "${path_mbits}mbit" "$queue" || exit 1; done
  case $1 in
    slow) rate "$path" "${quarter_kbits}kbit" "$queue" && expected="slow-path:rail$path" ;;
    collide) onto "$next" "$path" && expected="path-collision:$(printf '%s\n' "rail$path" "rail$next" | sort | paste -sd,)" ;;
  esac || exit 1
  rm -rf "$work/record"
  if ladder "$work/record"; then line=$(python3 tests/netlab/tuned.py "$work/record/tune.json" "$expected"); else
    line="failed: $(tail -n 1 "$work/err")"
  fi
  printf '%-8s %2d  %3d s  %s\n' "$1" "$2" "$((SECONDS - began))" "$line"
  echo "$1 $line" >>"$work/lines"
  [ -n "${KEEP:-}" ] && cp "$work/record/tune.json" "$KEEP/$1-$2.json"
}

: >"$work/lines"
echo "# four paths of $path_mbits Mb/s, a slow one of $quarter_kbits kb/s, $(nproc) processors, load $(cut -d ' ' -f 1 /proc/loadavg)"
for number in $(seq "$(printf '%s\n' "$healthy" "$slow" "$collide" | sort -g | tail -n 1)"); do
  [ "$SECONDS" -lt "${LIMIT_S:-36000}" ] || break
  [ "$number" -le "$healthy" ] && run healthy "$number"
  [ "$number" -le "$slow" ] && run slow "$number"
  [ "$number" -le "$collide" ] && run collide "$number"
done
failed=0
# count KIND PATTERN BAR WHAT: so many lines of that kind have it; BAR of 20 are enough.
count() {
  local right many verdict=ok
  many=$(grep -c "^$1 " "$work/lines")
  right=$(grep -c "^$1 .*$2" "$work/lines")
  [ $((right * 20)) -ge $(($3 * many)) ] || verdict=MISSED failed=1
  printf '%-7s %s: %s %d of %d\n' "$verdict" "$1" "$4" "$right" "$many"
}
count healthy "none;" 20 "nothing is named,"
count slow "named;" 19 "the slow path is named, and nothing else,"
count collide "named;" 19 "the collision is named, and nothing else,"
count healthy "; within" 19 "ends within 5 % of the best,"
count slow "; within" 19 "ends within 5 % of the best,"
count collide "; within" 19 "ends within 5 % of the best,"
printf '%-7s ladders further from the best than 5 %%, where launches do not tell the two apart: %d of %d\n' "" \
  "$(grep -c 'not tell apart' "$work/lines")" "$(grep -vc '; within' "$work/lines")"
exit $failed
