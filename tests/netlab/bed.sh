# Two hosts and several paths between them, of namespaces, veth links and token buckets: sourced by tests/netlab.sh and
# tests/netlab/cases.sh. Not the messages over it (tests/netlab/messages.sh), and not what is judged.
# Sets `net`, the prefix of its namespaces (several may run on one machine at once), and `work`, a folder that is gone
# with the process; all that runs in the namespaces ends with it, too.
work=$(mktemp -d)
net=netlab-$$
cleanup() {
  local name
  for name in a b la lb; do
    # All of these are ours: the namespace is.
    ip netns pids "$net-$name" 2>/dev/null | xargs -r kill -9 2>/dev/null
    ip netns del "$net-$name" 2>/dev/null
  done
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

if ! command -v nft >/dev/null || ! command -v tc >/dev/null; then
  apt-get update -qq >"$work/apt" 2>&1
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nftables iproute2 >"$work/apt" 2>&1 || tail -3 "$work/apt"
fi

# Whether this machine has network namespaces for us; if not, $work/err says why.
namespaces() {
  ip netns add "$net-a" 2>"$work/err" && ip link add "$net" type veth peer name "$net-" netns "$net-a" 2>"$work/err" && ip link del "$net"
}

# Host a -- leaf la == paths p1, p2, … == leaf lb -- host b. The leaves hash connections over the paths by address and
# port (ECMP), as switches do. A socket bound to 10.77.1.1N (on a) or 10.77.2.1N (on b) takes path N, both ways.
paths=4
mtu=9000
inside() { ip netns exec "$net-$1" "${@:2}"; }
link() { # NAMESPACE INTERFACE ADDRESS NAMESPACE INTERFACE ADDRESS
  ip -n "$net-$1" link add "$2" mtu "$mtu" type veth peer name "$5" netns "$net-$4" &&
    ip -n "$net-$4" link set "$5" mtu "$mtu" &&
    ip -n "$net-$1" addr add "$3" dev "$2" && ip -n "$net-$4" addr add "$6" dev "$5" &&
    ip -n "$net-$1" link set "$2" up && ip -n "$net-$4" link set "$5" up
}
# bucket LEAF INTERFACE RATE [QUEUE [BURST]]: what leaves by it, with a queue of 8 ms as a switch has. The queue holds
# RATE × QUEUE + BURST bytes: so tc understands `latency`.
bucket() { inside "$1" tc qdisc replace dev "$2" root tbf rate "$3" burst "${5:-128kb}" latency "${4:-8ms}"; }
# rate PATH RATE [QUEUE [BURST]]: of both directions.
rate() { bucket la "p$1" "${@:2}" && bucket lb "p$1" "${@:2}"; }
# last_hop [RATE [QUEUE]]: to host b, as fast as it likes where none is given.
last_hop() {
  if [ $# = 0 ]; then inside lb tc qdisc del dev host root; else bucket lb host "$@"; fi
}
# Packet by packet, not 64 KiB at once; and as it was.
no_offload() { ip -n "$net-a" link set eth0 gso_max_segs 1; }
offload() { ip -n "$net-a" link set eth0 gso_max_segs 65535; }
bed() { # PATHS
  local name path to_a= to_b=
  paths=$1
  unbed
  for name in a b la lb; do
    ip netns add "$net-$name" && ip -n "$net-$name" link set lo up &&
      inside $name sysctl -qw net.ipv4.fib_multipath_hash_policy=3 net.ipv4.fib_multipath_hash_fields=55 net.ipv4.ip_forward=1 \
        net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 \
        net.ipv4.conf.default.ignore_routes_with_linkdown=1 || return 1
  done
  link a eth0 10.77.1.1/24 la host 10.77.1.254/24 && link b eth0 10.77.2.1/24 lb host 10.77.2.254/24 || return 1
  ip -n "$net-a" route add default via 10.77.1.254
  ip -n "$net-b" route add default via 10.77.2.254
  for path in $(seq "$paths"); do
    link la "p$path" "10.77.10$path.1/30" lb "p$path" "10.77.10$path.2/30" && rate "$path" 1gbit || return 1
    to_b+=" nexthop via 10.77.10$path.2" to_a+=" nexthop via 10.77.10$path.1"
    ip -n "$net-a" addr add "10.77.1.1$path/32" dev lo
    ip -n "$net-b" addr add "10.77.2.1$path/32" dev lo
    ip -n "$net-la" rule add from "10.77.1.1$path" lookup "10$path"
    ip -n "$net-la" route add default via "10.77.10$path.2" table "10$path"
    ip -n "$net-la" route add "10.77.1.1$path/32" via 10.77.1.1
    ip -n "$net-la" route add "10.77.2.1$path/32" via "10.77.10$path.2"
    ip -n "$net-lb" rule add from "10.77.2.1$path" lookup "10$path"
    ip -n "$net-lb" route add default via "10.77.10$path.1" table "10$path"
    ip -n "$net-lb" route add "10.77.2.1$path/32" via 10.77.2.1
    ip -n "$net-lb" route add "10.77.1.1$path/32" via "10.77.10$path.1"
  done
  # shellcheck disable=SC2086
  ip -n "$net-la" route add 10.77.2.0/24 $to_b && ip -n "$net-lb" route add 10.77.1.0/24 $to_a || return 1
  for name in la lb; do
    inside $name nft add table ip lab && inside $name nft add chain ip lab lab '{ type filter hook forward priority 0; }' || return 1
  done
}
unbed() {
  local name
  for name in a b la lb; do ip netns del "$net-$name" 2>/dev/null; done
  return 0
}
# rule CHAIN-RULE...: in both leaves, for what leaves by a path; and away with all of them.
rule() { inside la nft add rule ip lab lab "$@" && inside lb nft add rule ip lab lab "$@"; }
no_rules() { inside la nft flush chain ip lab lab && inside lb nft flush chain ip lab lab; }
# Packets that rules have met.
met() { { inside la nft list chain ip lab lab; inside lb nft list chain ip lab lab; } | awk '{for (i = 1; i < NF; i++) if ($i == "packets") n += $(i + 1)} END {print n + 0}'; }
# Bytes that have left by a path from a to b.
carried() { inside la tc -s qdisc show dev "p$1" | awk '$1 == "Sent" {print $2}'; }

all_carried() { local path; for path in $(seq "$paths"); do carried "$path"; done | awk '{n += $1} END {printf "%.0f\n", n}'; }
