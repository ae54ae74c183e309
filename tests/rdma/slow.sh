# Four hosts on one network, whose links have the same rate; then one host's link is slower by a fifth, and then the way from one host to
# another, as behind a switch. NCCL's own check of its network warns from 30 % off the median on, and asks neighbours in a ring alone:
# it sees neither. The same in all (vm.sh pair, VMS=4). Not two hosts (two.sh).
set -u
. ./checks.sh
export RANK=$VM WORLD_SIZE=$VMS LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 NCCL_IB_TIMEOUT=17
pairs="busbw pairs --backend verbs --ib-dev rxe0 --qp-timeout 17 --yes --strict --only bw -e 32K -n 3 -W 4"
# Far below what the processors carry.
RATE=1000 SLOW=800
longest=180

# shape DEVICE KB/s: what leaves by it.
shape() {
  tc qdisc del dev "$1" root 2>/dev/null
  tc qdisc add dev "$1" root handle 1: htb default 1
  tc class add dev "$1" parent 1: classid 1:1 htb rate "$(($2 * 8))kbit" burst 16k cburst 16k
}
# shape_to DEVICE ADDRESS KB/s: what leaves to an address.
shape_to() {
  tc class add dev "$1" parent 1: classid 1:2 htb rate "$(($3 * 8))kbit" burst 16k cburst 16k
  tc filter add dev "$1" parent 1: protocol ip u32 match ip dst "$2/32" flowid 1:2
}
# all WHAT: what each host sends, and what the switch sends to it.
all() {
  if [ "$VM" = 0 ]; then
    for port in 1 2 3; do shape "p$port" "$RATE"; done
    [ "$1" != host ] || shape p2 "$SLOW"
  else
    shape d0 "$RATE"
    [ "$1.$VM" != host.2 ] || shape d0 "$SLOW"
    # From VM 1 to VM 3, which are no neighbours in the ring of ranks.
    [ "$1.$VM" != way.1 ] || shape_to d0 10.0.0.4 "$SLOW"
  fi
}
# named WHAT CODE NAME TEXT
named() {
  all "$1"
  MASTER_PORT=$((MASTER_PORT + 1))
  ran $pairs
  ends "$3" "$2"
  [ "$VM" != 0 ] || { says "$3" "$4"
    [ "$(grep -c '^# .* slower than' "$out")" = 1 ] || failed "$3" "somebody else is named, too"
    ok "$3"; grep -E "^# (nobody|rank|pair|link|host|.*slow|normal|limit)" "$out"; }
}
named none 0 "four hosts alike: nobody is named" "^# nobody is slower than the others"
named host 1 "a host whose link is slower by a fifth is named" "^# vm2 .*slower than its peers do .6 of 6 directed pairs"
named way 1 "the way from one host to another that is slower by a fifth is named, and nobody else" "^# vm1 rxe0/1 to vm3 rxe0/1 .*slower than other pairs are"
