#!/bin/bash
# busbw pairs on four hosts, by MPI over TCP: network namespaces on a bridge, each with a NIC of its own that tbf
# slows to a rate. With a seed's host one fifth slower (its NIC, or its processor) it has to be named, and nobody else;
# with none, nobody. Needs root, Open MPI, ip and tc.
#
#   tests/pairs.sh target/release/busbw [SEEDS]        rates of all seeds; exit 1 below 48 of 50, or above 1 of 50
set -u
program=$(realpath "$1")
seeds=${2:-50}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 BUSBW_NO_RECORD=1
mpirun=$(command -v mpirun.openmpi || command -v mpirun) || { echo "there is no mpirun"; exit 2; }
tag=bbp$$
work=$(mktemp -d)

cleanup() {
  for host in 1 2 3 4; do ip netns delete "$tag$host" 2>/dev/null; done
  ip netns delete "${tag}sw" 2>/dev/null
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

hosts() { # four namespaces on a bridge in a fifth
  ip netns add "${tag}sw" && ip -n "${tag}sw" link add bridge type bridge && ip -n "${tag}sw" link set bridge up || return 1
  for host in 1 2 3 4; do
    ip netns add "$tag$host" || return 1
    ip -n "$tag$host" link add eth0 type veth peer name "port$host" netns "${tag}sw" || return 1
    ip -n "${tag}sw" link set "port$host" master bridge up
    ip -n "$tag$host" addr add "10.77.0.$host/24" dev eth0
    ip -n "$tag$host" link set eth0 up
    ip -n "$tag$host" link set lo up
    rate "$host" 250 || return 1
  done
}

rate() { # HOST MBIT: of its NIC, both ways
  tc -n "$tag$1" qdisc replace dev eth0 root tbf rate "$2mbit" burst 64kb latency 50ms &&
    tc -n "${tag}sw" qdisc replace dev "port$1" root tbf rate "$2mbit" burst 64kb latency 50ms
}

# What Open MPI calls instead of ssh: HOST COMMAND...
cat >"$work/agent" <<AGENT
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
host=\${1##*.}; shift
exec ip netns exec "$tag\$host" unshare --uts bash -c "hostname node\$host; \$*"
AGENT
chmod +x "$work/agent"

pairs() { # OPTIONS...: the lines of a record
  timeout 120 ip netns exec "${tag}1" unshare --uts bash -c 'hostname node1; exec "$@"' bash \
    "$mpirun" --mca plm_rsh_agent "$work/agent" --mca btl tcp,self --mca btl_tcp_if_include eth0 \
    --mca oob_tcp_if_include eth0 --mca mpi_yield_when_idle 1 \
    -x MASTER_ADDR=10.77.0.1 -x MASTER_PORT=29777 -x BUSBW_NO_RECORD \
    -host 10.77.0.1:1,10.77.0.2:1,10.77.0.3:1,10.77.0.4:1 -n 4 \
    "$program" pairs --backend mpi -e 256K --json -T 60 "$@" 2>"$work/err"
}

named() { # who is named, as compact JSON, a line each
  python3 -c '
import json, sys
for line in sys.stdin:
    row = json.loads(line)
    if row["kind"] == "row":
        for finding in row["pairs"]["verdict"]["findings"]:
            print(*(json.dumps(s, sort_keys=True) for s in [finding["subject"], *finding.get("alternatives", [])]), sep=" | ")
'
}

hosts >"$work/why" 2>&1 || { echo "cannot make namespaces: $(tail -n 1 "$work/why")"; exit 2; }
declare -A right=() wrong=() runs=()
try() { # KIND SEED WANTED OPTIONS...
  local kind=$1 seed=$2 wanted=$3 lines who
  shift 3
  lines=$(pairs --seed "$seed" "$@") || { echo "$kind, seed $seed: exit code $?: $(tail -n 3 "$work/err")"; exit 1; }
  who=$(named <<<"$lines")
  runs[$kind]=$((${runs[$kind]:-0} + 1))
  if [ -z "$wanted" ]; then
    [ -z "$who" ] && right[$kind]=$((${right[$kind]:-0} + 1))
  elif grep -qF "$wanted" <<<"$who"; then
    right[$kind]=$((${right[$kind]:-0} + 1))
  fi
  [ -n "$who" ] && grep -vqF "${wanted:-nobody}" <<<"$who" && wrong[$kind]=$((${wrong[$kind]:-0} + 1))
  if [ "${right[$kind]:-0}" != "${runs[$kind]}" ]; then echo "# $kind, seed $seed: wanted '$wanted', named: $who"; fi
}
for seed in $(seq "$seeds"); do
  rank=$((seed * 7 % 4))
  subject="{\"is\": \"rank\", \"rank\": $rank}"
  try healthy "$seed" ""
  rate $((rank + 1)) 200
  try "a NIC 20 % slower" "$seed" "$subject" --only bw
  rate $((rank + 1)) 250
  try "a rank 100 us slower" "$seed" "$subject" --only latency --fault "rank=$rank,do=slow:100us"
done
code=0
for kind in healthy "a NIC 20 % slower" "a rank 100 us slower"; do
  echo "$kind: right ${right[$kind]:-0} of ${runs[$kind]}, somebody else named ${wrong[$kind]:-0}"
  # 48 of 50, and 49 of 50 where nobody is to be named; of few seeds all but none.
  allowed=$((${runs[$kind]} * 2 / 50))
  [ "$kind" = healthy ] && allowed=$((${runs[$kind]} / 50))
  [ $((${runs[$kind]} - ${right[$kind]:-0})) -le $allowed ] || code=1
done
exit $code
