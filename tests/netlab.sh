#!/usr/bin/env bash
# Two hosts and several paths between them, of namespaces, veth links and token buckets, and what a network makes of a
# slow path, a silent one, one that loses packets, of killed connections and of many senders to one. Each check is one
# line, `ok` or `waived` with its reason, and their names must be those of tests/netlab.txt (see tests/launchers.sh).
#   tests/netlab.sh              everything completes, verified and in time: under three minutes; needs root
#   tests/netlab.sh --bars [N]   how fast: N (5) repetitions, the reference in turn with busbw's network; a table of
#                                medians for docs/benchmarks.md
# PAIR=PROGRAM, BUSBW=PROGRAM and REFERENCE=LIBRARY stand for crates/nccl-plugin-busbw/examples/pair, busbw and
# bench/reference-net; those that are not given are built.
set -uo pipefail
cd "$(dirname "$0")/.."
bars=${1:-} repetitions=${2:-5}
work=$(mktemp -d)
# Several of these may run on one machine at once.
net=netlab-$$
cleanup() {
  local name
  for name in a b la lb; do
    # All of these are ours: the namespace is.
    ip netns pids "$net-$name" 2>/dev/null | xargs -r kill -9 2>/dev/null
    ip netns del "$net-$name" 2>/dev/null
  done
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

if ! command -v nft >/dev/null || ! command -v tc >/dev/null; then
  apt-get update -qq >"$work/apt" 2>&1
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nftables iproute2 >"$work/apt" 2>&1 || tail -3 "$work/apt"
fi
pair=${PAIR:-} busbw=${BUSBW:-} reference=${REFERENCE:-}
if [ -z "$pair" ] || [ -z "$busbw" ] || [ -z "$reference" ]; then
  # Together with busbw: alone, the plugin would be built again with other features of its dependencies.
  cargo build --release --quiet -p busbw -p nccl-plugin-busbw -p reference-net --lib --bins --example pair || exit 1
  built=$(realpath "${CARGO_TARGET_DIR:-target}")/release
  pair=${pair:-$built/examples/pair} busbw=${busbw:-$built/busbw} reference=${reference:-$built/libreference_net.so}
fi

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

# --- the bed -------------------------------------------------------------------------------------------------------
# Host a -- leaf la == paths p1, p2, … == leaf lb -- host b. The leaves hash connections over the paths by address and
# port (ECMP), as switches do. A socket bound to 10.77.1.1N (on a) or 10.77.2.1N (on b) takes path N, both ways.
paths=4
inside() { ip netns exec "$net-$1" "${@:2}"; }
link() { # NAMESPACE INTERFACE ADDRESS NAMESPACE INTERFACE ADDRESS
  ip -n "$net-$1" link add "$2" mtu 9000 type veth peer name "$5" netns "$net-$4" &&
    ip -n "$net-$4" link set "$5" mtu 9000 &&
    ip -n "$net-$1" addr add "$3" dev "$2" && ip -n "$net-$4" addr add "$6" dev "$5" &&
    ip -n "$net-$1" link set "$2" up && ip -n "$net-$4" link set "$5" up
}
rate() { # PATH RATE: of both directions, with a queue of 8 ms as a switch has
  local leaf
  for leaf in la lb; do
    inside $leaf tc qdisc replace dev "p$1" root tbf rate "$2" burst 128kb latency 8ms || return 1
  done
}
bed() { # PATHS
  local name path to_a= to_b=
  paths=$1
  unbed
  for name in a b la lb; do
    ip netns add "$net-$name" && ip -n "$net-$name" link set lo up &&
      inside $name sysctl -qw net.ipv4.fib_multipath_hash_policy=3 net.ipv4.fib_multipath_hash_fields=55 net.ipv4.ip_forward=1 \
        net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 \
        net.ipv4.conf.default.ignore_routes_with_linkdown=1 || return 1
  done
  link a eth0 10.77.1.1/24 la host 10.77.1.254/24 && link b eth0 10.77.2.1/24 lb host 10.77.2.254/24 || return 1
  ip -n "$net-a" route add default via 10.77.1.254
  ip -n "$net-b" route add default via 10.77.2.254
  for path in $(seq "$paths"); do
    link la "p$path" "10.77.10$path.1/30" lb "p$path" "10.77.10$path.2/30" && rate "$path" 1gbit || return 1
    to_b+=" nexthop via 10.77.10$path.2" to_a+=" nexthop via 10.77.10$path.1"
    ip -n "$net-a" addr add "10.77.1.1$path/32" dev lo
    ip -n "$net-b" addr add "10.77.2.1$path/32" dev lo
    ip -n "$net-la" rule add from "10.77.1.1$path" lookup "10$path"
    ip -n "$net-la" route add default via "10.77.10$path.2" table "10$path"
    ip -n "$net-la" route add "10.77.1.1$path/32" via 10.77.1.1
    ip -n "$net-la" route add "10.77.2.1$path/32" via "10.77.10$path.2"
    ip -n "$net-lb" rule add from "10.77.2.1$path" lookup "10$path"
    ip -n "$net-lb" route add default via "10.77.10$path.1" table "10$path"
    ip -n "$net-lb" route add "10.77.2.1$path/32" via 10.77.2.1
    ip -n "$net-lb" route add "10.77.1.1$path/32" via "10.77.10$path.1"
  done
  # shellcheck disable=SC2086
  ip -n "$net-la" route add 10.77.2.0/24 $to_b && ip -n "$net-lb" route add 10.77.1.0/24 $to_a || return 1
  for name in la lb; do
    inside $name nft add table ip lab && inside $name nft add chain ip lab lab '{ type filter hook forward priority 0; }' || return 1
  done
}
unbed() {
  local name
  for name in a b la lb; do ip netns del "$net-$name" 2>/dev/null; done
  return 0
}
# rule CHAIN-RULE...: in both leaves, for what leaves by a path; and away with all of them.
rule() { inside la nft add rule ip lab lab "$@" && inside lb nft add rule ip lab lab "$@"; }
no_rules() { inside la nft flush chain ip lab lab && inside lb nft flush chain ip lab lab; }
# Packets that rules have met.
met() { { inside la nft list chain ip lab lab; inside lb nft list chain ip lab lab; } | awk '{for (i = 1; i < NF; i++) if ($i == "packets") n += $(i + 1)} END {print n + 0}'; }
# Bytes that have left by a path from a to b.
carried() { inside la tc -s qdisc show dev "p$1" | awk '$1 == "Sent" {print $2}'; }

all_carried() { local path; for path in $(seq "$paths"); do carried "$path"; done | awk '{n += $1} END {print n}'; }

# --- messages ------------------------------------------------------------------------------------------------------
# addresses SIDE: those of its paths, for sockets that are pinned one to a path.
addresses() { seq -f "10.77.$1.1%g" -s, "$paths"; }
# choose NETWORK: sets `plugin`, options of pair and busbw, and `variables`. NETWORK is `busbw`, `socket` (NCCL's own way,
# one socket) or `socket:THREADSxSOCKETS`.
choose() {
  local shape=${1#socket:}
  plugin=() variables=(BUSBW_NET=sockets)
  [ "$1" = busbw ] && return
  plugin=(--net "$reference")
  [ "$1" = socket ] || variables+=("NCCL_SOCKET_NTHREADS=${shape%x*}" "NCCL_NSOCKS_PERTHREAD=${shape#*x}")
}
# talk NETWORK [option...]: messages from a to b; exit code of either end, 0 if both are.
talk() {
  local address=10.77.2.1:4444 listens code plugin variables
  choose "$1"
  shift
  inside b env "${variables[@]}" REFERENCE_NET_BIND="$(addresses 2)" timeout -k 1 55 "$pair" "${plugin[@]}" listen $address >"$work/listens" 2>&1 &
  listens=$!
  inside a env "${variables[@]}" REFERENCE_NET_BIND="$(addresses 1)" timeout -k 1 55 "$pair" "${plugin[@]}" connect $address "$@" >"$work/out" 2>"$work/err"
  code=$?
  wait $listens && return $code
  return $((code ? code : $?))
}
# reduce ITERATIONS: an all_reduce of 16 MiB between a and b by `--backend net`; as `talk` otherwise.
reduce() {
  local other code command=("$busbw" all_reduce --backend net -b 16M -e 16M -n "$1" -w 1 -c 1 --batches 1)
  local ranks=(WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.77.1.1 MASTER_PORT=4444 BUSBW_NO_RECORD=1 BUSBW_NET=sockets)
  inside b unshare --uts sh -c 'hostname host-b; exec "$@"' b env "${ranks[@]}" RANK=1 timeout -k 1 55 "${command[@]}" >"$work/listens" 2>&1 &
  other=$!
  inside a unshare --uts sh -c 'hostname host-a; exec "$@"' a env "${ranks[@]}" RANK=0 timeout -k 1 55 "${command[@]}" >"$work/table" 2>"$work/err"
  code=$?
  # As the program of `talk` says it.
  awk '$1 == 16777216 {print "size", $1, "wrong", $9 + $13}' "$work/table" >"$work/out"
  wait $other && return $code
  return $((code ? code : $?))
}
# soon SECONDS: waits so long from the first bytes on, before something is done to the bed.
soon() {
  local begun tries
  begun=$(carried 1)
  for tries in $(seq 100); do
    [ "$(($(carried 1) - begun))" -gt 100000 ] && break
    sleep 0.05
  done
  sleep "$1"
}
# complete NAME [ALSO]: judges the talk whose code is $code.
complete() {
  local why=
  [ "$code" = 0 ] || why="exit $code"
  grep -q '^size' "$work/out" || why=${why:-no message arrived}
  grep '^size' "$work/out" | grep -Evq ' wrong 0( |$)' && why="wrong bytes"
  [ -z "$why" ] && [ -n "${2:-}" ] && why=$2
  if [ -z "$why" ]; then verdict ok "$1"; else
    verdict FAILED "$1" "$why"
    tail -n 3 "$work/err" "$work/listens"
  fi
}

correctness() {
  local code killed name number pids=()
  local sizes="--sizes 8,1000,64K,1M --seconds 1"
  if ! ip netns add "$net-a" 2>"$work/err" || ! ip link add "$net" type veth peer name "$net-" netns "$net-a" 2>"$work/err"; then
    grep -v '^#' tests/netlab.txt | sed 's/^waived://' >"$work/names"
    while read -r name; do waive "no network namespaces here: $(head -1 "$work/err")" "$name"; done <"$work/names"
    return
  fi
  ip link del "$net"
  if ! bed 2; then
    verdict FAILED "2 paths" "no bed"
    return
  fi
  talk busbw $sizes
  code=$?
  complete "2 paths" "$([ "$(carried 2)" -gt 1000000 ] && [ "$(carried 1)" -gt 1000000 ] || echo "one path carried all of it")"

  bed 4
  for number in socket socket:1x4 socket:4x1; do
    talk $number $sizes
    code=$?
    complete "4 paths, $number"
  done
  talk busbw $sizes --latency
  code=$?
  complete "4 paths"
  talk busbw $sizes --connections 4
  code=$?
  complete "4 paths, 4 connections"

  rate 1 250mbit
  talk busbw --sizes 1M --seconds 3
  code=$?
  complete "one path at a quarter"
  rate 1 1gbit

  (soon 1; rule oifname p1 counter drop; sleep 3; met >"$work/met"; no_rules) &
  talk busbw --sizes 1M --seconds 7
  code=$?
  wait $!
  complete "a path silent for 3 s" "$([ "$(cat "$work/met")" -gt 0 ] || echo "nothing was dropped")"

  (soon 1; rule oifname p1 counter drop; sleep 3; met >"$work/met"; no_rules) &
  reduce 60
  code=$?
  wait $!
  complete "all_reduce, a path silent for 3 s" "$([ "$(cat "$work/met")" -gt 0 ] || echo "nothing was dropped")"

  (soon 1; ip -n "$net-la" link set p2 down; sleep 3; ip -n "$net-la" link set p2 up) &
  talk busbw --sizes 1M --seconds 7
  code=$?
  wait $!
  complete "a path's link down for 3 s"

  # The program's own connection between its ends does not belong to the network.
  (
    soon 0.5
    for number in 1 2 3 4 5 6; do
      inside a ss -KHtn state established dst 10.77.2.1 dport != 4444 2>/dev/null | awk 'NR > 1 || NF > 3' | wc -l
      sleep 0.5
    done >"$work/killed"
  ) &
  talk busbw --sizes 1M --seconds 4
  code=$?
  wait $!
  killed=$(awk '{n += $1} END {print n + 0}' "$work/killed")
  complete "all connections killed, six times" "$([ "$killed" -gt 0 ] || echo "none was killed")"

  (soon 1; rule oifname p3 tcp sport != 4444 tcp dport != 4444 counter reject with tcp reset; sleep 2; met >"$work/met"; no_rules) &
  talk busbw --sizes 1M --seconds 5
  code=$?
  wait $!
  complete "a path that resets connections" "$([ "$(cat "$work/met")" -gt 0 ] || echo "nothing was reset")"

  rule oifname p1 numgen random mod 100 \< 1 counter drop
  talk busbw --sizes 64K,1M --seconds 3
  code=$?
  complete "1 % loss on one path" "$([ "$(met)" -gt 0 ] || echo "nothing was lost")"
  no_rules

  # Senders as one host's processes; the last hop is as fast as one path.
  inside lb tc qdisc replace dev host root tbf rate 1gbit burst 128kb latency 8ms
  for number in 1 2 3 4; do
    BUSBW_NET=sockets inside b timeout -k 1 50 "$pair" listen 10.77.2.1:$((5000 + number)) >"$work/listens" 2>&1 &
    pids+=($!)
    BUSBW_NET=sockets inside a timeout -k 1 50 "$pair" connect 10.77.2.1:$((5000 + number)) --sizes 64K,1M --seconds 3 >"$work/out$number" 2>"$work/err" &
    pids+=($!)
  done
  code=0
  for number in "${pids[@]}"; do wait "$number" || code=$?; done
  cat "$work"/out[1-4] >"$work/out"
  complete "4 to 1" "$([ "$(grep -c '^size' "$work/out")" = 8 ] || echo "not all of them")"
  inside lb tc qdisc del dev host root

  # Nothing goes any more: an error, and soon.
  (soon 1; rule tcp sport != 4444 tcp dport != 4444 drop) &
  local began=$SECONDS
  talk busbw --sizes 1M --seconds 3
  code=$?
  wait $!
  no_rules
  if [ "$code" = 3 ] && grep -q '^pair: test: code 6' "$work/listens" && [ $((SECONDS - began)) -lt 30 ]; then verdict ok "every path gone"; else
    verdict FAILED "every path gone" "exit $code after $((SECONDS - began)) s: $(tail -1 "$work/listens")"
  fi

  # Nothing goes but what is short, as where an MTU is smaller than hosts think. The other end waits for who has ended.
  (soon 1; rule tcp sport != 4444 tcp dport != 4444 ip length \> 1500 drop; sleep 26; ip netns pids "$net-b" | xargs -r kill -9) &
  NCCL_DEBUG=WARN talk busbw --sizes 1M --seconds 3
  wait $!
  no_rules
  if grep -q 'test: none of 16 paths .* (MTU)' "$work/err"; then verdict ok "paths that take no large packets"; else
    verdict FAILED "paths that take no large packets" "$(tail -1 "$work/err")"
  fi

  (soon 1; ip netns pids "$net-b" | xargs -r kill -9) &
  began=$SECONDS
  talk busbw --sizes 1M --seconds 5
  wait $!
  if [ $((SECONDS - began)) -lt 45 ] && ! grep -q '^size' "$work/out"; then verdict ok "the other end killed"; else
    verdict FAILED "the other end killed" "after $((SECONDS - began)) s: $(head -1 "$work/out")"
  fi
}

# --- bars ----------------------------------------------------------------------------------------------------------
# note CASE NETWORK GB/s...: figures of one run, in Gb/s.
note() {
  local file=$work/bar.$1.$2
  shift 2
  awk -v v="$1" 'BEGIN {printf "%.3f\n", v * 8}' >>"$file"
}
median() { sort -g "$1" | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }
row() { # CASE NETWORK WHAT: a line of the table
  local file=$work/bar.$1.$2
  printf '| %s | %s | %.2f | %.2f–%.2f | %s |\n' "$3" "$2" "$(median "$file")" "$(sort -g "$file" | head -1)" "$(sort -g "$file" | tail -1)" "$(wc -l <"$file")"
}
bar() { # NAME VALUE AT-LEAST
  if awk -v a="$2" -v b="$3" 'BEGIN {exit !(a >= b)}'; then printf 'ok      %s: %.2f, at least %.2f\n' "$@"; else
    printf 'MISSED  %s: %.2f, at least %.2f\n' "$@"
    failed=1
  fi
}
# stream CASE NETWORK SECONDS: 1 MiB messages, as NCCL's slices are; noted.
stream() {
  if talk "$2" --sizes 1M --seconds "$3"; then note "$1" "$2" "$(awk '/^size/ {print $4}' "$work/out")"; else
    echo "FAILED  $1, $2: $(tail -1 "$work/err")"
    failed=1
    note "$1" "$2" 0
  fi
}
references="socket:1x4 socket:4x1"
best() { # CASE: of the references' medians
  local reference
  for reference in $references; do median "$work/bar.$1.$reference"; done | sort -g | tail -1
}
measure() {
  local turn network
  bed 4 || exit 1
  for turn in $(seq "$repetitions"); do
    for network in busbw $references; do stream even "$network" 4; done
    rate 1 250mbit
    for network in busbw $references; do stream quarter "$network" 4; done
    rate 1 1gbit
    # Packet by packet, not 64 KiB at once.
    ip -n "$net-a" link set eth0 gso_max_segs 1
    rule oifname p1 numgen random mod 100 \< 1 counter drop
    for network in busbw $references; do stream loss "$network" 4; done
    no_rules
    ip -n "$net-a" link set eth0 gso_max_segs 65535
    # What leaves by the paths in the 1.5 s before, in these 3 s, and from 2 s after them on for 2 s.
    (
      soon 0.5
      first=$(all_carried)
      sleep 1.5
      rule oifname p1 counter drop
      before=$(all_carried)
      sleep 3
      no_rules
      between=$(all_carried)
      sleep 2
      after=$(all_carried)
      sleep 2
      awk -v f="$first" -v a="$before" -v b="$between" -v c="$after" -v d="$(all_carried)" \
        'BEGIN {print (b - a) / 3e9, (d - c) / 2e9, (a - f) / 1.5e9}' >"$work/down"
    ) &
    if reduce 150; then
      wait $!
      note down busbw "$(cut -d' ' -f1 "$work/down")"
      note after busbw "$(cut -d' ' -f2 "$work/down")"
      note before busbw "$(cut -d' ' -f3 "$work/down")"
    else
      echo "FAILED  a path silent: $(tail -1 "$work/err")"
      failed=1
    fi
    wait $!
    loopback
  done
  printf '\n| case | network | median Gb/s | range | runs |\n|---|---|---|---|---|\n'
  for network in busbw $references; do row even "$network" "4 paths × 1 Gb/s"; done
  for network in busbw $references; do row quarter "$network" "one path at a quarter"; done
  for network in busbw $references; do row loss "$network" "1 % loss on one path"; done
  row before busbw "all_reduce, 1.5 s before a path is silent"
  row down busbw "the 3 s in which it is"
  row after busbw "from 2 s after them on"
  printf '\n'
  bar "4 paths" "$(median "$work/bar.even.busbw")" 3.6
  bar "one path at a quarter, of the sum" "$(median "$work/bar.quarter.busbw")" "$(awk 'BEGIN {print 0.85 * 3.25}')"
  bar "one path at a quarter, twice the reference" "$(median "$work/bar.quarter.busbw")" "$(awk -v r="$(best quarter)" 'BEGIN {print 2 * r}')"
  bar "1 % loss, of three clean paths" "$(median "$work/bar.loss.busbw")" "$(awk 'BEGIN {print 0.85 * 3}')"
  bar "a path silent" "$(median "$work/bar.down.busbw")" "$(awk 'BEGIN {print 0.7 * 3}')"
  # An all_reduce need not fill the paths: the processors of a small machine may be what limits it.
  bar "after it, as before" "$(median "$work/bar.after.busbw")" "$(awk -v b="$(median "$work/bar.before.busbw")" 'BEGIN {print 0.95 * b}')"
  loopback_table
}
# One pair, no congestion: every size against the references' best; the largest ones by busbw's own benchmark, which
# checks messages outside of the time.
sizes=8,64,512,4K,32K,128K,512K,1M,4M,16M
settings="busbw socket socket:1x4 socket:4x1"
loopback() {
  local network size rate _ plugin variables
  for network in $settings; do
    choose "$network"
    variables+=(NCCL_SOCKET_IFNAME=lo)
    inside a env "${variables[@]}" timeout 60 "$pair" "${plugin[@]}" listen 127.0.0.1:4444 >/dev/null 2>&1 &
    inside a env "${variables[@]}" timeout 60 "$pair" "${plugin[@]}" connect 127.0.0.1:4444 --latency --sizes $sizes --seconds 1 >"$work/out" 2>"$work/err"
    local code=$?
    wait $! && [ $code = 0 ] || loopback_failed "$network"
    # Not a rate: what `note` makes of one is undone.
    note latency "$network" "$(awk '/^latency/ {print $4 / 8}' "$work/out")"
    while read -r _ size _ rate _; do note "lo$size" "$network" "$rate"; done < <(grep '^size' "$work/out")
    inside a env "${variables[@]}" BUSBW_NO_RECORD=1 timeout 60 "$busbw" bw --backend net "${plugin[@]}" -g 2 \
      -b 64M -e 256M -f 4 -W 4 --batches 3 >"$work/out" 2>"$work/err" || loopback_failed "$network"
    while read -r size _ rate _; do note "lo$size" "$network" "$rate"; done < <(grep ' int8 ' "$work/out")
  done
}
loopback_failed() { # NETWORK
  echo "FAILED  loopback, $1: $(tail -1 "$work/err")"
  failed=1
}
loopback_table() {
  local size network quickest slower=
  printf '\n| loopback, bytes | %s |\n|---|---|---|---|---|\n' "${settings// / | }"
  printf '| latency of 8, us |'
  for network in $settings; do printf ' %.1f |' "$(median "$work/bar.latency.$network")"; done
  for size in $(ls "$work" | sed -n 's/^bar\.lo\([0-9]*\)\.busbw$/\1/p' | sort -g); do
    printf '\n| %s, Gb/s |' "$size"
    for network in $settings; do printf ' %.3f |' "$(median "$work/bar.lo$size.$network")"; done
    # Slower than the best of the references even in its best run.
    quickest=$(for network in $settings; do [ "$network" = busbw ] || echo "$(median "$work/bar.lo$size.$network") $network"; done | sort -g | tail -1)
    awk -v a="$(sort -g "$work/bar.lo$size.busbw" | tail -1)" -v b="$(sort -g "$work/bar.lo$size.${quickest#* }" | head -1)" 'BEGIN {exit !(a < b)}' &&
      slower+=" $size"
  done
  printf '\n\n'
  if [ -z "$slower" ]; then printf 'ok      loopback: at no size slower beyond the ranges\n'; else
    printf 'MISSED  loopback: slower beyond the ranges at%s\n' "$slower"
    failed=1
  fi
}

if [ "$bars" = --bars ]; then
  measure
  exit $failed
fi
correctness
# Every name that is expected, and no other; waived only where the list allows it.
while read -r line; do
  name=${line#waived:}
  grep -qxF "$name" "$seen" && continue
  grep -qxF "waived:$name" "$seen" && [ "$line" != "$name" ] && continue
  verdict FAILED "$name" "expected, but neither run nor allowed to be waived"
done < <(grep -v '^#' tests/netlab.txt)
while read -r name; do
  grep -qxF -e "${name#waived:}" -e "waived:${name#waived:}" tests/netlab.txt ||
    verdict FAILED "${name#waived:}" "not in tests/netlab.txt"
done < <(sort -u "$seen")
printf '%s run, %s waived, in %s s\n' "$(grep -vc '^waived:' "$seen")" "$(grep -c '^waived:' "$seen")" "$SECONDS"
exit $failed
