# Hosts of namespaces on one bridge, each with a NIC that tbf slows to a rate, and a program in place of ssh that starts
# commands in them: sourced by tests/check.sh. Not what is planted, and not what is judged.
# Sets `tag`, the prefix of its namespaces (several may run on one machine at once), and `work`, a folder that is gone with
# the process; all that runs in the namespaces ends with it, too.
work=$(mktemp -d)
tag=bbc$$
cleanup() {
  local name
  for name in $(ip netns list | awk '{print $1}' | grep -x "$tag.*"); do
    # All of these are ours: the namespace is.
    ip netns pids "$name" 2>/dev/null | xargs -r kill -9 2>/dev/null
    ip netns del "$name" 2>/dev/null
  done
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

at() { ip netns exec "$tag$1" "${@:2}"; } # HOST COMMAND...

rate() { # HOST MBIT: of its NIC, both ways
  tc -n "$tag$1" qdisc replace dev eth0 root tbf rate "$2mbit" burst 64kb latency 50ms &&
    tc -n "${tag}sw" qdisc replace dev "port$1" root tbf rate "$2mbit" burst 64kb latency 50ms
}

# A further network of all hosts, which they have at 250 Mb/s: NAME NUMBER MBIT, the rate of its switch's ports.
rail() {
  local host
  ip -n "${tag}sw" link add "br$1" mtu 9000 type bridge && ip -n "${tag}sw" link set "br$1" up || return 1
  for host in $(seq "$hosts"); do
    ip -n "$tag$host" link add "$1" mtu 9000 type veth peer name "$1-$host" mtu 9000 netns "${tag}sw" &&
      ip -n "${tag}sw" link set "$1-$host" mtu 9000 master "br$1" up &&
      ip -n "$tag$host" addr add "10.77.$2.$host/24" dev "$1" && ip -n "$tag$host" link set "$1" up &&
      tc -n "$tag$host" qdisc replace dev "$1" root tbf rate 250mbit burst 64kb latency 50ms || return 1
  done
  rail_rate "$1" "$3"
}
rail_rate() { # NAME MBIT: of its switch's ports; no host sees it
  local host
  for host in $(seq "$hosts"); do
    tc -n "${tag}sw" qdisc replace dev "$1-$host" root tbf rate "$2mbit" burst 64kb latency 50ms || return 1
  done
}

# Of one host, by what is bound over it there: the file etc/NAME-HOST of the script's folder, if there is one, is read by the stand-in for ssh.
bed() { # HOSTS MBIT
  local host
  hosts=$1
  ip netns add "${tag}sw" 2>"$work/why" && ip -n "${tag}sw" link add bridge mtu 9000 type bridge && ip -n "${tag}sw" link set bridge up || return 1
  for host in $(seq "$hosts"); do
    ip netns add "$tag$host" || return 1
    ip -n "$tag$host" link add eth0 mtu 9000 type veth peer name "port$host" mtu 9000 netns "${tag}sw" || return 1
    ip -n "${tag}sw" link set "port$host" mtu 9000 master bridge up
    ip -n "$tag$host" addr add "10.77.0.$host/24" dev eth0
    ip -n "$tag$host" link set eth0 up
    ip -n "$tag$host" link set lo up
    rate "$host" "$2" || return 1
  done
  # What stands for ssh: -T -o OPTION… -- 10.77.0.HOST COMMAND. `before-HOST` holds words that the command is run by.
  cat >"$work/ssh" <<AGENT
#!/bin/bash
while [ "\$1" != -- ]; do shift; done
host=\${2##*.}
before=()
[ -f "$work/before-\$host" ] && mapfile -t before <"$work/before-\$host"
[ -f "$work/environment-\$host" ] && export \$(cat "$work/environment-\$host")
exec ip netns exec "$tag\$host" unshare --uts bash -c "hostname n\$host; exec \"\\\$@\"" bash "\${before[@]}" sh -c "\$3"
AGENT
  chmod +x "$work/ssh"
}

# The words of -H: one process on each host.
everywhere() { local host; for host in $(seq "$hosts"); do printf '10.77.0.%s:1,' "$host"; done | sed 's/,$//'; }
