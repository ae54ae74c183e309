# One host with one RDMA device: what goes together, what is refused, and bad input. Runs in a virtual machine (vm.sh run).
# Not two hosts (two.sh).
set -u
. ./checks.sh
ip link add d0 type veth peer name d1
ip link set d1 up
ip addr add 10.0.0.1/24 dev d0
ip link set d0 up

refuses "no RDMA device" 5 "RDMA device" busbw bw --backend verbs
rdma link add rxe0 type rxe netdev d0
# The port is active when the interface has its addresses.
tries=0
until rdma link | grep -q ACTIVE || [ "$tries" = 50 ]; do sleep 0.1; tries=$((tries + 1)); done
rdma="--backend verbs --ib-dev rxe0 -n 3 -w 1 --batches 1"
odd="-b 7 -e 10000 -f 11"

for kind in RC UC; do
  for verb in write read send; do
    [ "$kind $verb" != "UC read" ] || continue
    verified "bw: $verb over $kind, odd sizes, data verified" 4 busbw bw $rdma $odd -W 16 --verb $verb --connection $kind
    verified "latency: $verb over $kind, odd sizes, data verified" 4 busbw latency $rdma $odd -n 20 --verb $verb --connection $kind
  done
done
verified "bw: send over UD, data verified" 2 busbw bw $rdma -b 77 -e 847 -f 11 -W 16 --verb send --connection UD
verified "latency: send over UD, data verified" 2 busbw latency $rdma -b 77 -e 847 -f 11 -n 20 --verb send --connection UD

ran busbw bw $rdma -b 512 -e 4K -f 8 -W 16 --verb send --connection UD
ends "UD beyond the MTU is a waived row with its reason" 0
says "UD beyond the MTU is a waived row with its reason" "a datagram has at most 1024 bytes"
ok "UD beyond the MTU is a waived row with its reason"

verified "bw: 4 queue pairs, lists of 8" 4 busbw bw $rdma $odd -W 64 --qp 4 --post_list 8
verified "bw: sends over 3 queue pairs, 16 receives each, a completion for each message" 4 \
  busbw bw $rdma $odd -W 48 --verb send --qp 3 --rx-depth 16 --tx-depth 16 --cq-mod 1
verified "bibw: writes, 2 queue pairs" 4 busbw bibw $rdma $odd -W 16 --qp 2
verified "bibw: sends" 4 busbw bibw $rdma $odd -W 16 --verb send
verified "mbw_mr: 2 pairs of ranks" 4 busbw mbw_mr $rdma $odd -W 16 -g 4
# Its own default sizes go up to 64 MiB, some minutes here.
ran busbw pairs --backend verbs --ib-dev rxe0 -b 8 -e 4K -n 10 -g 4
ends "pairs: 4 ranks, every pair" 0
says "pairs: 4 ranks, every pair" "2.*3"
ok "pairs: 4 ranks, every pair"
refuses "pairs: nothing is known where every message is beyond the port's largest" 5 "waived: a message of this port" \
  busbw pairs --backend verbs --ib-dev rxe0 --only bw -e 64M -g 2
verified "latency: a traffic class, a service level, an MTU of 256, inline data of 64 bytes" 4 \
  busbw latency $rdma $odd -n 20 --tclass 104 --sl 3 --mtu 256 --inline_size 64

refuses "a read over UC is refused" 2 "--connection UC has no read: that goes over RC" busbw bw $rdma --verb read --connection UC
refuses "a write over UD is refused" 2 "--connection UD has no write" busbw bw $rdma --verb write --connection UD
refuses "a list longer than its queue is refused" 2 "--post_list 9: a queue of 8" busbw bw $rdma --post_list 9 --tx-depth 8
refuses "an option of RDMA without RDMA is refused" 2 "--verb is for RDMA" busbw bw --backend host --verb write
refuses "a collective over verbs is refused" 5 "verbs has no all_reduce" busbw all_reduce --backend verbs --ib-dev rxe0

refuses "a device that does not exist is named, with those that do" 5 "rxe7.*rxe0" busbw bw --backend verbs --ib-dev rxe7
refuses "a port that does not exist" 5 "port 2" busbw bw --backend verbs --ib-dev rxe0:2
refuses "an empty GID index" 5 "GID.*9" busbw bw --backend verbs --ib-dev rxe0 --gid-index 9

# A user without privileges, who may open the device.
chmod 666 /dev/infiniband/* 2>/dev/null
chmod 1777 /tmp
echo 'user:x:1000:1000::/tmp:/bin/sh' >/etc/passwd
refuses "too little memory may be locked (ulimit -l 64)" 3 "memlock" su -s /bin/sh user -c "ulimit -l 64; busbw bw $rdma -b 1M -e 1M"

# busbw's own network over queue pairs, both ends in one process.
export BUSBW_NET=rdma NCCL_SOCKET_IFNAME=d0
ran busbw plugin check busbw
ends "plugin check over RDMA: every rule that applies" 0
says "plugin check over RDMA: every rule that applies" "in-order"
ok "plugin check over RDMA: every rule that applies ($(grep -c "^ *fine" "$out") rules hold)"
net="--backend net --net busbw -g 2 -b 8 -e 64K -f 16"
refuses "network: a device that does not exist" 5 "NCCL_IB_HCA=mlx5" env NCCL_IB_HCA=mlx5 busbw bw $net
refuses "network: an empty GID index" 3 "entry 9 of its addresses is empty" env NCCL_IB_GID_INDEX=9 busbw bw $net
refuses "network: too little memory may be locked (ulimit -l 64)" 3 "memlock" su -s /bin/sh user -c "ulimit -l 64; busbw bw $net"
unset BUSBW_NET NCCL_SOCKET_IFNAME

ip link set d0 down
refuses "the port is down" 5 "down|not active|DOWN" busbw bw $rdma
