# busbw beside perftest on one device, in turns: a table of medians. Runs in a virtual machine (tests/rdma.sh BUSBW --long).
# Not a judgement of hardware: both share an emulated processor with the device.
set -u
RUNS=10
export BUSBW_NO_RECORD=1
cp busbw /bin/busbw
ip link add d0 type veth peer name d1
ip link set d1 up
ip addr add 10.0.0.1/24 dev d0
ip link set d0 up
rdma link add rxe0 type rxe netdev d0
sleep 1
mkdir -p /tmp/figures

# theirs PROGRAM OPTION...: one run of perftest between two processes; its row. Reads take no -I.
theirs() {
  program=$1 inline="-I 0"
  shift
  case $program in ib_read_*) inline= ;; esac
  timeout 120 "$program" -F -d rxe0 -x 1 $inline "$@" >/tmp/server 2>&1 &
  server=$!
  # 18515, where it listens.
  tries=0
  until grep -q ":4853 .* 0A " /proc/net/tcp /proc/net/tcp6 || [ "$tries" = 100 ]; do sleep 0.1; tries=$((tries + 1)); done
  timeout 120 "$program" -F -d rxe0 -x 1 $inline "$@" 10.0.0.1 >/tmp/client 2>&1
  wait "$server"
  awk '$1 == "#bytes" { at = 1; next } at && $1 ~ /^[0-9]+$/ { print; exit }' /tmp/client
}

# ours COMMAND OPTION...: one run of busbw between two processes; its row.
ours() {
  timeout 120 busbw "$@" --backend verbs --ib-dev rxe0 --gid-index 1 --inline_size 0 -w 0 --batches 1 -c 0 >/tmp/table 2>/tmp/err
  awk '$1 ~ /^[0-9]+$/ && $2 == "int8" { print; exit }' /tmp/table
}

# compare VERB KIND what SIZE: RUNS of each in turns.
compare() {
  verb=$1 kind=$2 what=$3 size=$4
  # A run of the longest ones takes as long as their bytes do.
  messages=1000
  [ "$size" -lt 1048576 ] || messages=100
  rm -f /tmp/figures/*
  run=0
  while [ "$run" -lt "$RUNS" ]; do
    case $what in
      bw)
        # Messages a second: MB/s of two kinds have few digits where messages are small.
        receives=""
        [ "$verb" != send ] || receives="-r 512"
        theirs "ib_${verb}_bw" -c "$kind" -s "$size" -n "$messages" -t 128 $receives | awk '{ print $5 * 1e6 }' >>/tmp/figures/theirs
        ours bw --verb "$verb" --connection "$kind" -b "$size" -e "$size" -n 1 -W "$messages" --tx-depth 128 | awk '{ print $5 }' >>/tmp/figures/ours
        ;;
      lat)
        # Of every half round trip: the median and the mean. Reads are whole round trips for both.
        theirs "ib_${verb}_lat" -c "$kind" -s "$size" -n "$messages" | awk '{ print $5 >>"/tmp/figures/theirs"; print $6 >>"/tmp/figures/theirs_mean" }'
        ours latency --verb "$verb" --connection "$kind" -b "$size" -e "$size" -n "$messages" | awk '{ print $6 >>"/tmp/figures/ours"; print $3 >>"/tmp/figures/ours_mean" }'
        ;;
    esac
    run=$((run + 1))
  done
  if [ "$what" = bw ]; then
    row "$verb bw" "messages/s" "$kind" "$size" theirs ours higher
  else
    row "$verb latency" "median us" "$kind" "$size" theirs ours lower
    row "$verb latency" "mean us" "$kind" "$size" theirs_mean ours_mean lower
  fi
}

# optioned PROGRAM COLUMN BETTER UNIT OPTION...: both with the same words of perftest's, RUNS of each in turns.
optioned() {
  program=$1 column=$2 better=$3 unit=$4
  shift 4
  rm -f /tmp/figures/*
  # The connection manager chooses the address by itself.
  index="-x 1"
  case "$*" in *-R*) index= ;; esac
  run=0
  while [ "$run" -lt "$RUNS" ]; do
    scale=1
    [ "$unit" != messages/s ] || scale=1e6
    theirs "$program" -n 1000 "$@" | awk -v c="$column" -v scale="$scale" '{ print $c * scale }' >>/tmp/figures/theirs
    timeout 120 busbw "$program" -d rxe0 $index -I 0 -g 2 -n 1000 "$@" --batches 1 >/tmp/table 2>/tmp/err
    awk -v latency="$([ "$unit" = messages/s ] || echo 1)" '$1 ~ /^[0-9]+$/ && $2 == "int8" { print latency ? $6 : $5; exit }' /tmp/table >>/tmp/figures/ours
    run=$((run + 1))
  done
  row "$program $*" "$unit" "" 4096 theirs ours "$better"
}

# row TEST UNIT KIND SIZE THEIRS OURS BETTER: medians, ratio, ranges, verdict.
row() {
  touch "/tmp/figures/$5" "/tmp/figures/$6"
  sort -g "/tmp/figures/$5" >/tmp/a
  sort -g "/tmp/figures/$6" >/tmp/b
  awk -v test="$1" -v unit="$2" -v kind="$3" -v size="$4" -v better="$7" '
    function median(values, count) { return count % 2 ? values[(count + 1) / 2] : (values[count / 2] + values[count / 2 + 1]) / 2 }
    FILENAME == "/tmp/a" { a[++as] = $1; next }
    { b[++bs] = $1 }
    END {
      if (!as || !bs) { printf "%-14s %-10s %-3s %8d  perftest %d runs, busbw %d runs: FAILED\n", test, unit, kind, size, as, bs; exit }
      ma = median(a, as); mb = median(b, bs); ratio = mb / ma
      good = better == "higher" ? ratio >= 0.9 || mb >= a[1] : ratio <= 1.1 || mb <= a[as]
      printf "%-14s %-10s %-3s %8d %11.1f %11.1f %7.3f   %.1f..%.1f   %.1f..%.1f   %s\n", test, unit, kind, size, ma, mb, ratio, a[1], a[as], b[1], b[bs], good ? "within" : "SLOWER"
    }' /tmp/a /tmp/b
}

echo "# clock: $(cat /sys/devices/system/clocksource/clocksource0/current_clocksource) of $(cat /sys/devices/system/clocksource/clocksource0/available_clocksource)"
printf "%-14s %-10s %-3s %8s %11s %11s %7s   %s   %s\n" test unit kind bytes perftest busbw ratio "perftest's range" "busbw's range"
if [ "${WHATS:-}" = options ]; then
  for words in "-q 4" "-l 8" "-t 16" "-Q 1" "-m 256" "-b" "-R"; do optioned ib_write_bw 5 higher messages/s -s 4096 $words; done
  optioned ib_read_bw 5 higher messages/s -s 4096 -o 4
  optioned ib_send_bw 5 higher messages/s -s 4096 -r 64
  for words in "-m 256" "-R"; do optioned ib_write_lat 5 lower "median us" -s 4096 $words; done
  exit
fi
for size in ${SIZES:-2 64 1024 4096 65536 1048576}; do
  for verb in ${VERBS:-write read send}; do
    for kind in ${KINDS:-RC UC UD}; do
      case "$verb $kind" in "read U"* | "write UD") continue ;; esac
      [ "$kind" != UD ] || [ "$size" -le 1024 ] || continue
      for what in ${WHATS:-bw lat}; do compare "$verb" "$kind" "$what" "$size"; done
    done
  done
done
