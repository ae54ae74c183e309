#!/usr/bin/env bash
# Two hosts and several paths between them, of namespaces, veth links and token buckets, and what a network makes of a
# slow path, a silent one, one that loses packets, of killed connections and of many senders to one. Each check is one
# line, `ok` or `waived` with its reason, and their names must be those of tests/netlab.txt (see tests/launchers.sh).
#   tests/netlab.sh              everything completes, verified and in time: under three minutes; needs root
#   tests/netlab.sh --bars [N]   how fast: N (5) repetitions, the reference in turn with busbw's network; a table of
#                                medians for docs/benchmarks.md
# PAIR=PROGRAM, BUSBW=PROGRAM and REFERENCE=LIBRARY stand for crates/nccl-plugin-busbw/examples/pair, busbw and
# bench/reference-net; those that are not given are built. The bed is tests/netlab/bed.sh; tests/netlab/cases.sh writes
# down what each path does.
set -uo pipefail
cd "$(dirname "$0")/.."
bars=${1:-} repetitions=${2:-5}
. tests/netlab/bed.sh
. tests/netlab/messages.sh

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
  local code killed name number
  local sizes="--sizes 8,1000,64K,1M --seconds 1"
  if ! namespaces; then
    grep -v '^#' tests/netlab.txt | sed 's/^waived://' >"$work/names"
    while read -r name; do waive "no network namespaces here: $(head -1 "$work/err")" "$name"; done <"$work/names"
    return
  fi
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
  disturbance=$!
  talk busbw --sizes 1M --seconds 7
  code=$?
  wait $disturbance
  complete "a path silent for 3 s" "$([ "$(cat "$work/met")" -gt 0 ] || echo "nothing was dropped")"

  (soon 1; rule oifname p1 counter drop; sleep 3; met >"$work/met"; no_rules) &
  disturbance=$!
  reduce 60
  code=$?
  wait $disturbance
  complete "all_reduce, a path silent for 3 s" "$([ "$(cat "$work/met")" -gt 0 ] || echo "nothing was dropped")"

  (soon 1; ip -n "$net-la" link set p2 down; sleep 3; ip -n "$net-la" link set p2 up) &
  disturbance=$!
  talk busbw --sizes 1M --seconds 7
  code=$?
  wait $disturbance
  complete "a path's link down for 3 s"

  # The program's own connection between its ends does not belong to the network.
  (
    soon 0.5
    for number in 1 2 3 4 5 6; do
      inside a ss -KHtn state established dst 10.77.2.1 dport != 4444 2>/dev/null | awk 'NR > 1 || NF > 3' | wc -l
      sleep 0.5
    done >"$work/killed"
  ) &
  disturbance=$!
  talk busbw --sizes 1M --seconds 4
  code=$?
  wait $disturbance
  killed=$(awk '{n += $1} END {print n + 0}' "$work/killed")
  complete "all connections killed, six times" "$([ "$killed" -gt 0 ] || echo "none was killed")"

  (soon 1; rule oifname p3 tcp sport != 4444 tcp dport != 4444 counter reject with tcp reset; sleep 2; met >"$work/met"; no_rules) &
  disturbance=$!
  talk busbw --sizes 1M --seconds 5
  code=$?
  wait $disturbance
  complete "a path that resets connections" "$([ "$(cat "$work/met")" -gt 0 ] || echo "nothing was reset")"

  rule oifname p1 numgen random mod 100 \< 1 counter drop
  talk busbw --sizes 64K,1M --seconds 3
  code=$?
  complete "1 % loss on one path" "$([ "$(met)" -gt 0 ] || echo "nothing was lost")"
  no_rules

  # Senders as one host's processes; the last hop is as fast as one path.
  last_hop 1gbit
  incast 4 --sizes 64K,1M --seconds 3
  code=$?
  cat "$work"/out[1-4] >"$work/out"
  complete "4 to 1" "$([ "$(grep -c '^size' "$work/out")" = 8 ] || echo "not all of them")"
  last_hop

  # Nothing goes any more: an error, and soon.
  (soon 1; rule tcp sport != 4444 tcp dport != 4444 drop) &
  disturbance=$!
  local began=$SECONDS
  talk busbw --sizes 1M --seconds 3
  code=$?
  wait $disturbance
  no_rules
  if [ "$code" = 3 ] && grep -q '^pair: test: code 6' "$work/listens" && [ $((SECONDS - began)) -lt 30 ]; then verdict ok "every path gone"; else
    verdict FAILED "every path gone" "exit $code after $((SECONDS - began)) s: $(tail -1 "$work/listens")"
  fi

  # Nothing goes but what is short, as where an MTU is smaller than hosts think. The other end waits for who has ended.
  (soon 1; rule tcp sport != 4444 tcp dport != 4444 ip length \> 1500 drop; sleep 26; ip netns pids "$net-b" | xargs -r kill -9) &
  disturbance=$!
  NCCL_DEBUG=WARN talk busbw --sizes 1M --seconds 3
  wait $disturbance
  no_rules
  if grep -q 'test: none of 16 paths .* (MTU)' "$work/err"; then verdict ok "paths that take no large packets"; else
    verdict FAILED "paths that take no large packets" "$(tail -1 "$work/err")"
  fi

  (soon 1; ip netns pids "$net-b" | xargs -r kill -9) &
  disturbance=$!
  began=$SECONDS
  talk busbw --sizes 1M --seconds 5
  wait $disturbance
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
# converge: four senders to one, whose last hop is as fast as one path: the sum, each, and Jain's index of fairness, noted.
converge() {
  local each bytes seconds
  last_hop 1gbit
  if incast 4 --sizes 1M --seconds 4; then
    each=$(cat "$work"/out[1-4] | awk -F'[ /]' '$1 == "each" {print $3, $4}')
    # All of their bytes in the longest of their times, lest what one sends while another has ended counts twice.
    note incast busbw "$(awk '{n += $1; if ($2 > t) t = $2} END {print n / t / 1e9}' <<<"$each")"
    while read -r bytes seconds; do note sender busbw "$(awk -v b="$bytes" -v t="$seconds" 'BEGIN {print b / t / 1e9}')"; done <<<"$each"
    awk '{x = $1 / $2; n += x; s += x * x} END {printf "%.3f\n", n * n / (NR * s)}' <<<"$each" >>"$work/bar.jain.busbw"
  else
    echo "FAILED  4 to 1: $(tail -1 "$work/err")"
    failed=1
    note incast busbw 0
    note sender busbw 0
    echo 0 >>"$work/bar.jain.busbw"
  fi
  last_hop
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
    no_offload
    rule oifname p1 numgen random mod 100 \< 1 counter drop
    for network in busbw $references; do stream loss "$network" 4; done
    no_rules
    offload
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
    disturbance=$!
    if reduce 150; then
      wait $disturbance
      note down busbw "$(cut -d' ' -f1 "$work/down")"
      note after busbw "$(cut -d' ' -f2 "$work/down")"
      note before busbw "$(cut -d' ' -f3 "$work/down")"
    else
      echo "FAILED  a path silent: $(tail -1 "$work/err")"
      failed=1
    fi
    wait $disturbance
    converge
    loopback
  done
  printf '\n| case | network | median Gb/s | range | runs |\n|---|---|---|---|---|\n'
  for network in busbw $references; do row even "$network" "4 paths × 1 Gb/s"; done
  for network in busbw $references; do row quarter "$network" "one path at a quarter"; done
  for network in busbw $references; do row loss "$network" "1 % loss on one path"; done
  row before busbw "all_reduce, 1.5 s before a path is silent"
  row down busbw "the 3 s in which it is"
  row after busbw "from 2 s after them on"
  row incast busbw "4 to 1, last hop 1 Gb/s, the sum"
  row sender busbw "4 to 1, each sender"
  printf '\n'
  bar "4 paths" "$(median "$work/bar.even.busbw")" 3.6
  bar "one path at a quarter, of the sum" "$(median "$work/bar.quarter.busbw")" "$(awk 'BEGIN {print 0.85 * 3.25}')"
  bar "one path at a quarter, twice the reference" "$(median "$work/bar.quarter.busbw")" "$(awk -v r="$(best quarter)" 'BEGIN {print 2 * r}')"
  bar "1 % loss, of three clean paths" "$(median "$work/bar.loss.busbw")" "$(awk 'BEGIN {print 0.85 * 3}')"
  bar "a path silent" "$(median "$work/bar.down.busbw")" "$(awk 'BEGIN {print 0.7 * 3}')"
  # An all_reduce need not fill the paths: the processors of a small machine may be what limits it.
  bar "after it, as before" "$(median "$work/bar.after.busbw")" "$(awk -v b="$(median "$work/bar.before.busbw")" 'BEGIN {print 0.95 * b}')"
  # Of a frame of 9014 B, 8948 are TCP's payload; of a chunk's 65568, 65536 are a message's.
  bar "4 to 1, of the last hop's payload" "$(median "$work/bar.incast.busbw" | awk '{print $1 / (8948 / 9014 * 65536 / 65568)}')" 0.85
  bar "4 to 1, Jain's index of fairness" "$(median "$work/bar.jain.busbw")" 0.9
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
