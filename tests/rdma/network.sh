# busbw's own network over queue pairs (BUSBW_NET=rdma) between VM 0 and VM 1: what it carries, and what lost paths cost it. Sourced by
# two.sh, whose words it uses; the same in both. Not its rate (tests/rdma.sh --network).
ip link set d1 up
export BUSBW_NET=rdma NCCL_SOCKET_IFNAME=d0,d1 NCCL_DEBUG=INFO
net="--backend net --net busbw -w 1 --batches 1"

name="network: all_reduce, odd sizes, over both ports, data verified"
export BUSBW_NET_MERGE=1
both 0 "$name" busbw all_reduce $net -b 4 -e 400000 -f 10 -n 3
! first || { says "$name" "^# Out of bounds values : 0 OK"; says "$name" "RDMA, 1 device.*rxe0:1.*rxe1:1"; ok "$name"; }

name="network: transports over RDMA and sockets, and RDMA writes, in one table, each proven"
unset BUSBW_NET_MERGE BUSBW_NET
both 0 "$name" busbw transports sendrecv --backend net --only roce:rxe1 --only socket:d1 --only verbs -b 256K -e 256K -n 2 -w 1 --launches 1 --time 30
export BUSBW_NET=rdma BUSBW_NET_MERGE=1
! first || { says "$name" "roce:rxe1 .*proven"; says "$name" "socket:d1 .*proven"
  says "$name" "verbs:roce +proven +RDMA writes \(rxe0:1\)"; ok "$name"; }

name="network: latency over one port, chosen by NCCL_IB_HCA, data verified"
unset BUSBW_NET_MERGE
export NCCL_IB_HCA=rxe1
both 0 "$name" busbw latency $net -b 1 -e 64K -f 16 -n 10
! first || { rows "$name" 5; says "$name" "RDMA, 1 device.*rxe1:1"; ok "$name"; }
export BUSBW_NET_MERGE=1
unset NCCL_IB_HCA

name="network: paths are broken four times a second, data verified"
export BUSBW_NET_FAULT=kill:250
both 0 "$name" busbw bw $net -b 128K -e 512K -f 4 -n 20 -W 8
unset BUSBW_NET_FAULT
! first || { rows "$name" 2; says "$name" "broken on purpose|given it up"; ok "$name"; }

name="network: over UC queue pairs, one packet of a thousand lost: every message arrives, data verified"
export BUSBW_NET_CONNECTION=UC
for link in d0 d1; do tc qdisc add dev "$link" root netem loss 0.1%; done
both 0 "$name" busbw bw $net -b 1 -e 256K -f 64 -n 40 -W 8
for link in d0 d1; do tc qdisc del dev "$link" root; done
! first || { rows "$name" 4; says "$name" "chunks sent again"; ok "$name"; }
unset BUSBW_NET_CONNECTION

# broken NAME PATTERN BREAK MEND: a run in which the link of one port is broken, and mended.
broken() {
  name=$1 pattern=$2
  meet || exit 1
  MASTER_PORT=$((MASTER_PORT + 1))
  timeout -s KILL 90 busbw bw $net -b 256K -e 256K -n 60 -W 8 >"$out" 2>"$err" </dev/null &
  run=$!
  if first; then
    sleep 5
    eval "$3"
    sleep 3
    eval "$4"
  fi
  code=0
  wait "$run" || code=$?
  ends "$name" 0
  ! first || { rows "$name" 1; says "$name" "$pattern"; ok "$name"; }
}
broken "network: a port goes down in mid-run and comes back; every message arrives, data verified" \
  "path [13] (by rxe1:1 .*was|is) lost.*(port went down|is down)" "ip link set d1 down" "ip link set d1 up"
broken "network: a link carries nothing for 3 s; every message arrives, data verified" \
  "path [13] (by rxe1:1 .*was|is) lost" "tc qdisc add dev d1 root netem loss 100%" "tc qdisc del dev d1 root"
export BUSBW_NET_CONNECTION=UC
broken "network: the same over UC queue pairs" \
  "path [13] (by rxe1:1 .*was|is) lost" "tc qdisc add dev d1 root netem loss 100%" "tc qdisc del dev d1 root"
unset BUSBW_NET_CONNECTION

name="network: the other end is killed: this one ends, and says why"
meet || exit 1
MASTER_PORT=$((MASTER_PORT + 1))
timeout -s KILL 90 busbw bw $net -b 256K -e 1G -f 2 -n 2000 -W 8 >"$out" 2>"$err" </dev/null &
run=$!
sleep 6
first || kill -9 "$run"
code=0
wait "$run" || code=$?
! first || { ends "$name" 6; ok "$name"; }
unset NCCL_DEBUG BUSBW_NET BUSBW_NET_MERGE NCCL_SOCKET_IFNAME
meet || exit 1
