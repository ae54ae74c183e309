#!/bin/bash
# A real NCCL over busbw's net plugin while paths are cut all the time: random collectives, sizes, types and numbers
# of ranks, all on one GPU, each posing as a host of its own. Every element of every row is checked.
#   tests/net_stress.sh BUSBW SEED SECONDS
# Exit 1 when any launch does not end with 0, or when no path was lost at all.
# docs/data/h200x1-net-stress.txt has the last output.
set -u
b=$(realpath "${1:?usage: tests/net_stress.sh BUSBW SEED SECONDS}")
RANDOM=$2 end=$((SECONDS + $3)) n=0 bad=0 rows=0 cuts=0
OUT=$(mktemp -d)
trap 'rm -rf "$OUT"' EXIT
all=(all_reduce all_gather reduce_scatter broadcast reduce alltoall alltoallv gather scatter sendrecv hypercube)
types=(int8 half float double bfloat16 int32 uint64)
export NCCL_MAX_NCHANNELS=2 BUSBW_NET_STATS=$OUT/net.%p.json
while [ $SECONDS -lt $end ]; do
  c=${all[RANDOM % 11]}; g=$((RANDOM % 2 ? 2 : 4)); d=${types[RANDOM % 7]}; k=$((5 + RANDOM % 100))
  lo=$((1 + RANDOM * 7 % 50000)); hi=$((lo + (RANDOM << (RANDOM % 11)))); f=$((2 + RANDOM % 3))
  BUSBW_NET_FAULT=kill:$k timeout 100 $b $c -g $g --share-gpus --net busbw -b $lo -e $hi -f $f -d $d -n 3 -w 1 -c 2 --batches 1 --row-time 0.5 --no-record -T 60 > "$OUT/run.txt" 2>"$OUT/run.err"
  rc=$?; n=$((n + 1)); r=$(grep -c -E '^ +[0-9]' "$OUT/run.txt"); rows=$((rows + r))
  # What the ranks' plugins say of themselves.
  cuts=$((cuts + $(cat "$OUT"/net.*.json | grep -o '"lost":[0-9]*' | awk -F: '{n += $2} END {print n + 0}')))
  rm -f "$OUT"/net.*.json
  [ $((n % 20)) = 0 ] && echo "so far: $n launches, $rows rows, $cuts paths lost, $bad bad"
  if [ $rc != 0 ]; then bad=$((bad + 1)); echo "rc $rc: $c -g $g -b $lo -e $hi -f $f -d $d kill:$k"; tail -3 "$OUT/run.err"; fi
done
echo "seed $2: $n launches, $rows rows, $cuts paths lost, $bad bad"
tail -2 "$OUT/run.err"
[ "$cuts" -gt 0 ] && [ "$bad" = 0 ]
