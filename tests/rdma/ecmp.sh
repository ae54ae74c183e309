# Soft RoCE between VM 0 and VM 1 over four links of equal cost, among which routers choose by the hash of addresses and UDP ports (ECMP): how
# queue pairs spread, and what a link costs that carries nothing. The same in both (vm.sh pair, LINKS=5; d0 is for the two scripts alone).
# Not links that a path is bound to (paths.sh). Packets wait for the emulated processor: a retransmission comes after half a second.
set -u
. ./checks.sh

# Each virtual machine is a host and its router: the host's adapter is one end of e0, the four links are the router's.
for link in 0 1 2 3 4; do rdma link delete "rxe$link"; done
mkdir -p /var/run/netns
ip netns add router
ip link add e0 type veth peer name r0
ip link set r0 netns router
other=$((1 - VM))
hops=
for link in 1 2 3 4; do
  ip link set "d$link" netns router
  ip -n router addr add "10.0.$link.$((VM + 1))/24" dev "d$link"
  ip -n router link set "d$link" up
  hops="$hops nexthop via 10.0.$link.$((other + 1)) dev d$link"
done
ip -n router addr add "10.9.$VM.254/24" dev r0
ip -n router link set r0 up
ip netns exec router sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv4/fib_multipath_hash_policy'
# shellcheck disable=SC2086
ip -n router route add "10.9.$other.0/24" $hops
ip addr add "10.9.$VM.1/24" dev e0
ip link set e0 up
ip route add "10.9.$other.0/24" via "10.9.$VM.254"
rdma link add rxe9 type rxe netdev e0
meet || exit 1

export MASTER_ADDR=10.9.0.1 MASTER_PORT=7100 RANK=$VM WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 BUSBW_JOB_SECRET=ecmp
export NCCL_SOCKET_IFNAME=e0 NCCL_IB_HCA=rxe9 NCCL_DEBUG=INFO NCCL_IB_TIMEOUT=17
first() { [ "$VM" = 0 ]; }
# sent LINK: bytes that have left by it.
sent() { ip -n router -s link show "d$1" | awk '/TX:/ { getline; print $1; exit }'; }
counts() { for link in 1 2 3 4; do printf '%s ' "$(sent "$link")"; done; }
# spread BEFORE AFTER: the share of each link, %.
spread() { echo "$1 $2" | awk '{ for (i = 1; i <= 4; i++) { by[i] = $(i + 4) - $i; all += by[i] } for (i = 1; i <= 4; i++) printf "%s%.0f", (i > 1 ? " " : ""), 100 * by[i] / all }'; }
# both COMMAND...: runs it in both.
both() {
  meet || exit 1
  MASTER_PORT=$((MASTER_PORT + 1))
  longest=150 ran "$@"
}

# Each run's queue pairs have other UDP ports.
name="ecmp: queue pairs of the plugin spread over links of equal cost, data verified"
used=
for run in 1 2 3; do
  before=$(counts)
  BUSBW_NET=rdma both busbw bw --backend net --net busbw -b 256K -e 256K -n 20 -W 8 -w 1 --batches 1
  ends "$name" 0
  ! first || { rows "$name" 1; share=$(spread "$before" "$(counts)"); echo "# run $run: % of the bytes on each link: $share"; used="$used $share"; }
done
! first || { echo "$used" | awk '{ for (i = 1; i <= 12; i++) if ($i >= 5) n[int((i - 1) / 4)]++; for (run in n) if (n[run] >= 2) good++; exit good < 2 }' || failed "$name" "one link only: $used"; ok "$name"; }

name="ecmp: eight queue pairs of the verbs backend through routers, data verified"
before=$(counts)
# Where soft RoCE (Linux 6.1) sends a part of a message again, its other end may refuse all of it: no packet may wait for long.
both busbw bw --backend verbs --ib-dev rxe9 --qp 8 --qp-timeout 18 -b 16K -e 16K -n 20 -W 8 -w 1 --batches 1
ends "$name" 0
! first || { rows "$name" 1; echo "# % of the bytes on each link: $(spread "$before" "$(counts)")"; ok "$name"; }

name="ecmp: the busiest link carries nothing for 10 s; every message arrives, over the others, data verified"
meet || exit 1
MASTER_PORT=$((MASTER_PORT + 1))
before=$(counts)
BUSBW_NET=rdma timeout -s KILL 150 busbw bw --backend net --net busbw -b 256K -e 256K -n 60 -W 8 -w 1 --batches 1 >"$out" 2>"$err" </dev/null &
run=$!
if first; then
  sleep 5
  shares=$(spread "$before" "$(counts)")
  busiest=$(echo "$shares" | tr ' ' '\n' | awk '$1 > most { most = $1; at = NR } END { print at }')
  ip netns exec router tc qdisc add dev "d$busiest" root netem loss 100%
  sleep 2
  middle=$(counts)
  sleep 8
  during=$(spread "$middle" "$(counts)")
  ip netns exec router tc qdisc del dev "d$busiest" root
fi
code=0
wait "$run" || code=$?
ends "$name" 0
! first || {
  rows "$name" 1
  says "$name" "path [0-9]+ .*lost"
  echo "# % of the bytes on each link: $shares; while link $busiest carried nothing: $during"
  ok "$name"
}
meet || exit 1
