#!/usr/bin/env bash
# Messages over the bed of tests/netlab.sh in known cases, and what was measured: a table that a simulated network is
# compared with (docs/data/netlab_cases.tsv). Nothing is judged here but that every byte was right.
usage() {
  cat <<'END'
tests/netlab/cases.sh [option...] >TABLE     # needs root, and python3

  --cases WHICH         named: those of tests/netlab/draw.py; random: 20 that are drawn from seeds; both (default);
                        or names and seeds, with commas between
  --seed FIRST          the first seed (0); each case has its own, the next one
  --random COUNT        how many cases are drawn (20)
  --repetitions COUNT   of each case, a row for each (3). Ports differ, and so do the links of the paths
  --others SHARE        of the processors, that other programs may take during a run; else it is repeated, twice at most
                        (0.05)
  --help

PAIR=PROGRAM stands for crates/nccl-plugin-busbw/examples/pair; else it is built.
The table goes to stdout, with tabs between its columns; docs/netlab.md has what they are. What went wrong, to stderr.
END
}
set -uo pipefail
cd "$(dirname "$0")/../.."
arguments=$*
which=both seed=0 count=20 repetitions=3 most=0.05
while [ $# -gt 0 ]; do
  case $1 in
    --cases) which=$2 ;;
    --seed) seed=$2 ;;
    --random) count=$2 ;;
    --repetitions) repetitions=$2 ;;
    --others) most=$2 ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift 2
done
. tests/netlab/bed.sh
BUSBW=${BUSBW:-none} REFERENCE=${REFERENCE:-none}
. tests/netlab/messages.sh
failed=0
if ! namespaces; then
  echo "no network namespaces here: $(head -1 "$work/err")" >&2
  exit 5
fi

# time_used: jiffies so far: of all processors, without work, and of programs that are not this one's. The kernel's threads belong
# to nobody: they move our packets, too.
time_used() {
  awk '/^cpu / {for (i = 2; i <= 9; i++) n += $i; print n, $5 + $6}' /proc/stat
  cat /proc/[0-9]*/stat 2>/dev/null | awk -v me=$$ '
    {pid = $1; sub(/^.*\) /, ""); parent[pid] = $2; used[pid] = $12 + $13 + $14 + $15}
    END {for (pid in used) {at = pid; while (at in parent && at != me && at != 2) at = parent[at]; if (at == 0) n += used[pid]} print n + 0}'
}
# shares SINCE: shares of the processors since then (what time_used said) that were without work, and that others had.
shares() { echo $1 $(time_used) | awk '{t = $4 - $1; o = ($6 - $3) / t; printf "%.2f\t%.3f\n", ($5 - $2) / t, (o > 0 ? o : 0)}'; }
few() { awk -v a="$1" -v b="$most" 'BEGIN {exit !(a <= b)}'; }
# quiet: waits, half a minute at most, until nothing else runs here.
quiet() {
  local tries since
  for tries in $(seq 60); do
    since=$(time_used)
    sleep 0.5
    few "$(shares "$since" | cut -f2)" && return
  done
}
sent_bytes() { inside la awk '/^ *p[0-9]/ {n += $10} END {print n}' /proc/net/dev; }
# first_message: returns when messages have begun: 100 kB have left.
first_message() {
  local tries
  for tries in $(seq 500); do
    [ "$(sent_bytes)" -gt 100000 ] && break
    sleep 0.01
  done
  date +%s.%N
}
# disturb FAULT LINK FROM TO: what happens to a link meanwhile, and in $work/fault when it did, seconds from the first message.
disturb() {
  local zero on off
  zero=$(first_message)
  sleep "$3"
  on=$(date +%s.%N)
  if [ "$1" = blackhole ]; then rule oifname "p$2" counter drop; else ip -n "$net-la" link set "p$2" down; fi
  sleep "$(awk -v a="$3" -v b="$4" 'BEGIN {print b - a}')"
  off=$(date +%s.%N)
  if [ "$1" = blackhole ]; then no_rules; else ip -n "$net-la" link set "p$2" up; fi
  awk -v z="$zero" -v a="$on" -v b="$off" 'BEGIN {printf "%.2f\t%.2f", a - z, b - z}' >"$work/fault"
}
# count_flows: packets of each TCP connection on each link, in both leaves, before rules that drop any.
count_flows() {
  local leaf
  for leaf in la lb; do
    inside $leaf nft add set ip lab flows '{ type ifname . inet_service . inet_service; flags dynamic; size 65535; counter; }' &&
      inside $leaf nft add chain ip lab count '{ type filter hook forward priority -10; }' &&
      inside $leaf nft add rule ip lab count oifname '"p*"' 'add @flows { oifname . tcp sport . tcp dport }' || return 1
  done
}
# run: one run of the case in the variables of `read` below; its measured columns are left in $work/row.
run() {
  local link=0 part since begun= code out= leaf down=-
  local parts
  IFS=, read -ra parts <<<"$links"
  bed "${#parts[@]}" && count_flows || return 1
  for part in "${parts[@]}"; do
    link=$((link + 1))
    rate $link "${part%:*}mbit" "${part#*:}ms" "${burst}kb" || return 1
  done
  [ "$hop" = - ] || last_hop "${hop%:*}mbit" "${hop#*:}ms" "${burst}kb"
  [ "$offload" = on ] || no_offload
  [ "$fault" = loss ] && rule oifname "p$fault_link" numgen random mod 10000 \< "$(awk -v v="$value" 'BEGIN {print v * 10000}')" counter drop
  rm -f "$work"/stats.*.json "$work"/out* "$work/fault"
  printf -- '-\t-' >"$work/fault"
  load=$(cut -d' ' -f1 /proc/loadavg) since=$(time_used)
  case $fault in
    blackhole | down) disturb "$fault" "$fault_link" "$from" "$to" & begun=$! ;;
  esac
  export BUSBW_NET_STATS=$work/stats.%p.json
  if [ "$senders" = 1 ]; then
    talk busbw --sizes "$bytes" --open "$open" --connections "$connections" --seconds "$seconds"
    code=$?
    cp "$work/out" "$work/out1"
  else
    incast "$senders" --sizes "$bytes" --open "$open" --connections "$connections" --seconds "$seconds"
    code=$?
  fi
  unset BUSBW_NET_STATS
  [ -z "$begun" ] || wait "$begun"
  used=$(shares "$since")
  if [ $code != 0 ] || grep -h '^size' "$work"/out[1-9] | grep -qv ' wrong 0 '; then
    echo "FAILED  $case: exit $code: $(tail -1 "$work/err") $(tail -1 "$work/listens")" >&2
    return 1
  fi
  for leaf in la lb; do
    out=
    for link in $(seq "$paths"); do out+=,$(inside $leaf tc -s qdisc show dev "p$link" | awk '$1 == "Sent" {print $2}'); done
    echo "${out#,}" >"$work/bytes.$leaf"
    inside $leaf nft -j list set ip lab flows >"$work/flows.$leaf" || return 1
  done
  [ "$fault" = down ] && down=$fault_link
  python3 tests/netlab/row.py "$work" "$senders" "$net" "$down" >"$work/row"
}

cases() {
  case $which in
    named) python3 tests/netlab/draw.py ;;
    random) python3 tests/netlab/draw.py "$seed" "$count" ;;
    both) python3 tests/netlab/draw.py; python3 tests/netlab/draw.py "$seed" "$count" ;;
    *) { python3 tests/netlab/draw.py; python3 tests/netlab/draw.py 0 10000; } | awk -F'\t' -v which=",$which," 'index(which, "," $1 ",")' ;;
  esac
}
header() {
  local spec='case repetition links_Mbps:queue_ms burst_KiB last_hop_Mbps:queue_ms fault fault_link fault_value fault_from_s fault_to_s'
  spec+=' message_B open senders connections seconds mtu_B offload congestion'
  printf '%s\t%s\tload1\tidle\tothers\tmedian_Gbps\n' "${spec// /$'\t'}" "$(python3 tests/netlab/row.py columns)"
}
congestion=$(cat /proc/sys/net/ipv4/tcp_congestion_control)
echo "# tests/netlab/cases.sh${arguments:+ $arguments}: Linux $(uname -r), $(nproc) processors ($(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -1)). Columns: docs/netlab.md"
header
while IFS=$'\t' read -r case links burst hop fault fault_link value from to bytes open senders connections seconds mtu offload <&3; do
  : >"$work/rows"
  for repetition in $(seq "$repetitions"); do
    for _ in 1 2 3; do
      quiet
      run || { failed=1; continue; }
      printf '%s\t' "$case" "$repetition" "$links" "$burst" "$hop" "$fault" "$fault_link" "$value" "$(cat "$work/fault")" \
        "$bytes" "$open" "$senders" "$connections" "$seconds" "$mtu" "$offload" "$congestion" >"$work/line"
      printf '%s\t%s\t%s\n' "$(cat "$work/row")" "$load" "$used" >>"$work/line"
      few "${used#*$'\t'}" && break
      echo "$case, repetition $repetition: others had ${used#*$'\t'} of the processors" >&2
    done
    cat "$work/line" >>"$work/rows"
  done
  column=$(header | tr '\t' '\n' | grep -nx goodput_Gbps | cut -d: -f1)
  middle=$(cut -f"$column" "$work/rows" | sort -g | awk '{v[NR] = $1} END {print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2}')
  sed "s/$/\t$middle/" "$work/rows"
done 3< <(cases)
exit $failed
