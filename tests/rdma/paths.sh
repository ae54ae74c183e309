# The plugin over four shaped soft-RoCE links between VM 0 and VM 1: its rate beside its own over TCP, in turns, with all links alike and with
# one at a quarter; and links that break in mid-transfer. The same in both (vm.sh pair, LINKS=4). Prints figures, not verdicts, but for
# the last: tests/rdma.sh --network. The first line is replaced.
RUNS=5 RATE=5 BREAKS=100 KINDS='RC UC'
set -u
export NCCL_SOCKET_IFNAME=d0,d1,d2,d3 BUSBW_NET_MERGE=1 NCCL_DEBUG=WARN
port=7000
links="0 1 2 3"

# shape LINK MBYTES: so many MB/s leave by a link, and no more.
shape() { tc qdisc replace dev "d$1" root tbf rate "$(echo "$2" | awk '{ print $1 * 8000 }')kbit" burst 32k latency 400ms; }
# The processor's time so far: idle, and all.
processor() { awk '/^cpu / { print $5 + $6, $2 + $3 + $4 + $5 + $6 + $7 + $8 }' /proc/stat; }

# one TRANSPORT SIZES SECONDS WORDS: one run of the pair; VM 0 prints the rates, each the share of the processor that was idle.
one() {
  meet || exit 1
  port=$((port + 1))
  before=$(processor)
  if [ "$VM" = 1 ]; then
    BUSBW_NET=$1 timeout -s KILL 200 ./pair listen "10.0.0.2:$port" >/tmp/out 2>&1
  else
    BUSBW_NET=$1 timeout -s KILL 200 ./pair connect "10.0.0.2:$port" --sizes "$2" --seconds "$3" --open 4 >/tmp/out 2>&1
  fi
  code=$?
  idle=$(echo "$before $(processor)" | awk '{ printf "%.0f", 100 * ($3 - $1) / ($4 - $2) }')
  [ "$code" = 0 ] || { echo "$4 $1: exit $code"; cat /tmp/out; }
  if [ "$VM" = 0 ]; then
    sed -n "s/^size \([0-9]*\) GB\/s \([0-9.]*\) .*wrong \([0-9]*\) .*/\1 \2 \3/p" /tmp/out | while read -r size rate wrong; do
      echo "$4 $1 size $size MB/s $(echo "$rate" | awk '{ printf "%.2f", $1 * 1000 }') wrong $wrong idle $idle %"
    done
  else
    echo "$4 $1 idle $idle %"
  fi
}

# A packet waits in the shaper for longer than 67 ms at times, and so does one for the emulated processor.
export NCCL_IB_TIMEOUT=17
for link in $links; do shape "$link" "$RATE"; done
for run in $(seq "$RUNS"); do
  for transport in sockets rdma; do one "$transport" 1M,4M 8 "four links of $RATE MB/s, run $run:"; done
done
shape 3 "$(echo "$RATE" | awk '{ print $1 / 4 }')"
for run in $(seq "$RUNS"); do
  for transport in sockets rdma; do one "$transport" 1M,4M 8 "three of $RATE MB/s and one of a quarter, run $run:"; done
done

# Each transfer has a link of its own that breaks: it goes down, or carries nothing. Links are not shaped here.
unset NCCL_IB_TIMEOUT
for link in $links; do tc qdisc del dev "d$link" root; done
whole=0
run=0
# As many with queue pairs of each kind.
for BUSBW_NET_CONNECTION in $KINDS; do for again in $(seq "$BREAKS"); do
  export BUSBW_NET_CONNECTION
  run=$((run + 1))
  link=$((run % 4))
  meet || exit 1
  port=$((port + 1))
  if [ "$VM" = 1 ]; then
    BUSBW_NET=rdma timeout -s KILL 60 ./pair listen "10.0.0.2:$port" >/tmp/out 2>&1
    code=$?
    [ "$code" = 0 ] || { echo "transfer $run: exit $code"; cat /tmp/out; }
  else
    # The control connection of the pair goes over d0, which stays.
    [ "$link" != 0 ] || link=1
    BUSBW_NET=rdma NCCL_DEBUG=INFO timeout -s KILL 60 ./pair connect "10.0.0.2:$port" --sizes 1M --seconds 3 --open 4 >/tmp/out 2>&1 &
    pid=$!
    sleep 1.5
    case $((run / 4 % 2)) in
      0) ip link set "d$link" down; how="went down" ;;
      1) tc qdisc replace dev "d$link" root netem loss 100%; how="carried nothing" ;;
    esac
    sleep 1
    # One that stands still says where its threads are.
    (
      sleep 20
      for thread in /proc/"$pid"/task/*; do
        [ ! -e "$thread" ] || echo "standing: $(cat "$thread/comm" "$thread/wchan" | tr '\n' ' ') $(cut -d ' ' -f 3,14,15 "$thread/stat") $(tr '\n' ' ' <"$thread/stack")"
      done
    ) 2>/dev/null &
    code=0
    wait "$pid" || code=$?
    case $how in
      "went down") ip link set "d$link" up ;;
      *) tc qdisc del dev "d$link" root ;;
    esac
    result=$(sed -n 's/^size .*\(messages [0-9]* wrong [0-9]*\).*gap \([0-9.]*\) ms/\1, longest gap \2 ms/p' /tmp/out)
    lost=$(grep -c "was lost" /tmp/out)
    if [ "$code" = 0 ] && echo "$result" | grep -q "wrong 0"; then whole=$((whole + 1)); fi
    echo "transfer $run, $BUSBW_NET_CONNECTION, link $link $how: exit $code, $result, paths lost $lost"
    [ "$code" = 0 ] || cat /tmp/out
  fi
done; done
[ "$VM" = 1 ] || echo "complete and verified: $whole of $run"
meet
[ "$VM" = 1 ] || [ "$whole" = "$run" ]
