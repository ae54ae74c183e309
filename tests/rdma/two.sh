# Two hosts, VM 0 and VM 1, joined by two links: the control connection goes over d0, messages over rxe1. The same in both
# (vm.sh pair). Not what one host can show (alone.sh).
set -u
. ./checks.sh
export RANK=$VM WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500
rdma="--backend verbs --ib-dev rxe1 -n 3 -w 1 --batches 1"

# both CODE NAME COMMAND...: runs it on both; both end with the code.
both() {
  wanted=$1 name=$2
  shift 2
  meet || exit 1
  # A port of its own: that of the run before may still be closing.
  MASTER_PORT=$((MASTER_PORT + 1))
  ran "$@"
  ends "$name" "$wanted"
}
# Only VM 0 prints the table and names the checks.
first() { [ "$VM" = 0 ]; }

name="latency: writes between two hosts, data verified"
both 0 "$name" busbw latency $rdma -b 2 -e 4K -f 8 -n 20
! first || { rows "$name" 4; says "$name" "rxe1/1 .*10\.0\.1\.1.*10\.0\.1\.2"; ok "$name"; }

name="bw: the kernel's connection manager connects four queue pairs (-R), data verified"
both 0 "$name" busbw bw $rdma -b 7 -e 10000 -f 11 -W 16 --rdma_cm --qp 4 --record /tmp/recordcm
! first || { rows "$name" 4; cp /tmp/recordcm "$out"; says "$name" '"connection_manager":true'; says "$name" '"gid":"10\.0\.1\.2"'; ok "$name"; }

for verb in write read send; do
  name="bw: $verb between two hosts, data verified"
  both 0 "$name" busbw bw $rdma -b 7 -e 10000 -f 11 -W 16 --verb $verb --record /tmp/record$verb
  ! first || { rows "$name" 4; ok "$name"; }
done

if first; then
  grep -vE '^#|^$' "$out" >/tmp/table
  name="the record names device, address, MTU and rate of both ports"
  cp /tmp/recordsend "$out"
  for pattern in '"device":"rxe1"' '"gid":"10\.0\.1\.1"' '"gid":"10\.0\.1\.2"' '"mtu":1024' '"gbps":'; do
    says "$name" "$pattern"
  done
  ok "$name"
  name="show prints the record's table again"
  ran busbw show /tmp/recordsend
  ends "$name" 0
  grep -vE '^#|^$' "$out" >/tmp/shown
  cmp -s /tmp/table /tmp/shown || failed "$name" "$(diff /tmp/table /tmp/shown)"
  ok "$name"
fi

name="pairs between two hosts: the limit of each pair, and the shares that pairs reach"
both 0 "$name" busbw pairs --backend verbs --ib-dev rxe1 --yes --only bw -e 32K -n 2 -W 8
! first || { says "$name" "limit of each pair: 0\.29 GB/s .*MTU 1024.*pairs reach [0-9.]+ to [0-9.]+ %"; ok "$name"; }

# resent RECORD: what the ports counted of packets that were lost or sent again.
resent() {
  grep -oE '"(ack_timeouts|out_of_sequence|sequence_errors)":[0-9]+' "$1" | awk -F: '{ sum += $2 } END { print sum + 0 }'
}
# 0.3 s: soft RoCE refuses what is sent again since a processor was held up (remote invalid request error).
name="no packet lost: the same run, to compare with"
both 0 "$name" busbw bw $rdma -b 16K -e 64K -f 4 -W 64 --qp-timeout 16 --record /tmp/whole
name="2 % of the packets lost: verified, and the record counts more that was sent again"
tc qdisc add dev d1 root netem loss 2%
both 0 "$name" busbw bw $rdma -b 16K -e 64K -f 4 -W 64 --qp-timeout 16 --record /tmp/lossy
tc qdisc del dev d1 root
if first; then
  rows "$name" 2
  whole=$(resent /tmp/whole) lossy=$(resent /tmp/lossy)
  [ "$lossy" -gt $((whole + 20)) ] || failed "$name" "$lossy with loss, $whole without"
  ok "$name ($lossy, $whole without loss)"
  name="explain names the retransmissions"
  ran busbw explain /tmp/lossy
  [ "$code" -le 1 ] || failed "$name" "exit $code"
  says "$name" "retrans|ack_timeouts"
  ok "$name"
fi

name="a link is cut in mid-run: the run ends, says which rank, and keeps its rows"
meet || exit 1
MASTER_PORT=$((MASTER_PORT + 1))
begun=$(date +%s)
timeout -s KILL 90 busbw bw $rdma -b 64 -e 1M -f 16384 -n 40 -W 64 --record /tmp/cut >"$out" 2>"$err" </dev/null &
run=$!
if first; then
  # Rows of small sizes come first; the last size does not end by itself.
  tries=0
  until grep -Eq '^ +64 ' "$out" || [ "$tries" = 300 ]; do sleep 0.1; tries=$((tries + 1)); done
  ip link set d1 down
fi
code=0
wait "$run" || code=$?
ends "$name" 3
if first; then
  says "$name" "rank [01].*(port went down|does not answer)"
  rows "$name" 1
  ok "$name"
  name="the record of a run whose link was cut has its rows"
  ran busbw show /tmp/cut
  grep -Eq '^ +64 ' "$out" || failed "$name" "no row"
  ok "$name"
fi
meet || exit 1

. ./network.sh
