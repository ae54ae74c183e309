# What loss costs a transport that sends everything again from the lost packet on (soft RoCE) between two virtual machines: netem
# drops, delays and shapes what VM 0 sends. Not a check: prints what was measured; tests/rdma/loss.py puts `busbw plan loss` beside it.
# The same in both (vm.sh pair). The line below is replaced by tests/rdma.sh --loss.
RUNS=3
set -u
. ./checks.sh
export RANK=$VM WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500
rate=16 # Mbit/s
first() { [ "$VM" = 0 ]; }

# shaped LOSS DELAY: what this VM sends over link 1.
shaped() {
  ! first || tc qdisc replace dev d1 root netem rate ${rate}mbit delay "$2" loss "$1%" limit 4000
}

# rdma DEPTH LOSS: so many messages of four packets in flight; MB/s, and the round trip under load.
rdma() {
  meet || exit 1
  MASTER_PORT=$((MASTER_PORT + 1))
  ! first || (sleep 4; ping -c 10 10.0.1.2 >/tmp/ping 2>&1) &
  pinging=$!
  ran busbw bw --backend verbs --ib-dev rxe1 --mtu 1024 -b 4K -e 4K -W 1000 --tx-depth "$1" --cq-mod 1 -n 3 -w 1 --batches 1
  ends "depth $1, $2 % lost" 0
  wait "$pinging"
  first || return 0
  # Messages a second: bandwidth has two digits at such rates.
  speed=$(awk '/^ +4096 / { printf "%.4f", $5 * 4096 / 1e6 }' "$out")
  trip=$(awk -F/ '/round-trip/ { print $4 }' /tmp/ping)
  printf '\ngo-back-N depth %s lost %s MB/s %s rtt-ms %s\n' "$1" "$2" "$speed" "$trip"
}

run=0
while [ "$run" -lt "$RUNS" ]; do
  run=$((run + 1))
  for depth in 4 8 16; do
    for lost in 0 0.1 0.3 1 3; do
      shaped "$lost" 2ms
      rdma "$depth" "$lost"
    done
  done
done
