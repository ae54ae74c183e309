#!/usr/bin/env bash
# `busbw transports` between two hosts: network namespaces with three networks of different rate between them, one
# command, and whether each row is proven and its limit and percent are right; over the net backend, on shim GPUs
# (MNNVL, RoCE, sockets; a rank that falls back alone), through ssh and under a launcher's variables.
#   tests/transports.sh          each once
#   tests/transports.sh 20       the rank that falls back: so many times
# Exit code 0: all is well; 1: something is not; 3: nothing was run, as there are no namespaces here.
# BUSBW=PROGRAM and BUSBW_SHIMS=FOLDER stand for what is built otherwise. Needs root, iproute2 and python3.
set -uo pipefail
cd "$(dirname "$0")/.."
times=${1:-1}
work=$(mktemp -d)
net=busbw-tr-$$
failed=0
cleanup() {
  local host
  for host in a b; do
    # All of these are ours: the namespace is.
    ip netns pids "$net-$host" 2>/dev/null | xargs -r kill -9 2>/dev/null
    ip netns del "$net-$host" 2>/dev/null
  done
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
if [ -z "${BUSBW:-}" ]; then
  cargo build --release --quiet || exit 1
  BUSBW=$(realpath "${CARGO_TARGET_DIR:-target}")/release/busbw
fi
shims=${BUSBW_SHIMS:-}
if [ -z "$shims" ]; then
  mkdir -p target/tmp && shims=$(realpath target/tmp)/shims
  flock target/tmp/shims.lock tests/shims/build.sh "$shims" >"$work/build" || exit 1
fi
if ! ip netns add "$net-a" 2>"$work/err" || ! ip netns add "$net-b" 2>"$work/err"; then
  echo "waived  everything: no network namespaces here: $(head -1 "$work/err")"
  exit 3
fi

# Three networks: control without a shaper, 1 Gb/s at MTU 1500, and 4 Gb/s at MTU 9000. Buckets are of the hosts'
# own interfaces, where busbw can see them.
wire() { # NAME SUBNET MTU [RATE]
  ip -n "$net-a" link add "$1" mtu "$3" type veth peer name "$1" netns "$net-b" &&
    ip -n "$net-b" link set "$1" mtu "$3" || return 1
  local host number=1
  for host in a b; do
    ip -n "$net-$host" addr add "$2.$number/24" dev "$1" && ip -n "$net-$host" link set "$1" up || return 1
    [ -z "${4:-}" ] || ip netns exec "$net-$host" tc qdisc add dev "$1" root tbf rate "$4" burst 256kb latency 20ms || return 1
    number=2
  done
}
ip -n "$net-a" link set lo up && ip -n "$net-b" link set lo up && wire eth0 10.88.0 1500 && wire slow 10.88.1 1500 1gbit &&
  wire fast 10.88.2 9000 4gbit || exit 1

# host HOST command...: as that host, with a name of its own and, where $RDMA is set, two InfiniBand adapters in /sys.
cat >"$work/host" <<EOF
#!/usr/bin/env bash
host=\$1
shift
exec ip netns exec $net-\$host unshare --uts --mount bash -c '
hostname host-\$0
if [ -n "\$RDMA" ]; then
  class=\$(mktemp -d $work/class.XXXX) && mount -t tmpfs none "\$class" && mkdir "\$class/net" "\$class/infiniband" &&
    mount --bind /sys/class/net "\$class/net" && cp -r $work/rdma/. "\$class/infiniband" && mount --rbind "\$class" /sys/class || exit 1
fi
exec "\$@"' "\$host" "\$@"
EOF
for device in mlx5_0 mlx5_1; do
  port=$work/rdma/$device/ports/1
  mkdir -p "$port" && echo "4: ACTIVE" >"$port/state" && echo "5: LinkUp" >"$port/phys_state" &&
    echo "400 Gb/sec (4X NDR)" >"$port/rate" && echo InfiniBand >"$port/link_layer"
done
# What `ssh HOST COMMAND` would do.
cat >"$work/ssh" <<EOF
#!/usr/bin/env bash
while [ "\${1#-}" != "\$1" ]; do
  case \$1 in -o | -p | -i | -F | -l) shift ;; esac
  shift
done
case \$1 in 10.88.0.1) host=a ;; 10.88.0.2) host=b ;; *) exit 255 ;; esac
shift
exec $work/host \$host sh -c "\$*"
EOF
chmod +x "$work/ssh" "$work/host"
on() { "$work/host" "$@"; } # HOST command...
export HOME=$work/home BUSBW_NO_RECORD=1
mkdir -p "$HOME"
verdict() { # ok|FAILED NAME [WHY]
  printf '%-7s %s%s\n' "$1" "$2" "${3:+: $3}"
  [ "$1" = ok ] || failed=1
}
# judge NAME RULES: python's view of the result, `r` by name; the first rule that does not hold is printed.
judge() {
  local name=$1 why
  why=$(python3 - "$work/out" "$2" <<'PY'
import json, sys
try:
    outcome = json.load(open(sys.argv[1]))
except ValueError as error:
    sys.exit(print(f"no result: {error}"))
r = {one["name"]: one for one in outcome["environments"]}
last = outcome["rows"][-1] if outcome["rows"] else {"cells": []}
cells = {one["name"]: cell for one, cell in zip(outcome["environments"], last["cells"]) if cell}
verdict = lambda name: r[name].get("transport", {}).get("verdict", "waived" if r[name].get("waived") else "failed")
busbw = lambda name: cells[name]["busbw"]
limit = lambda name: cells[name].get("limit")
near = lambda a, b, share=0.03: a is not None and abs(a / b - 1) <= share
for rule in filter(None, map(str.strip, sys.argv[2].splitlines())):
    try:
        if not eval(rule):
            sys.exit(print(f"not: {rule}"))
    except Exception as error:
        sys.exit(print(f"{rule}: {error!r}"))
PY
  )
  if [ -z "$why" ]; then verdict ok "$name"; else
    verdict FAILED "$name" "$why"
    tail -n 4 "$work/err"
    cp "$work/out" "${KEEP:-$work}/failed.json" 2>/dev/null
  fi
}
ssh_to=(--launcher ssh --launcher-command "$work/ssh" -H 10.88.0.1:1,10.88.0.2:1)

# Payload of TCP in full packets: of MTU 1500 1448 of 1514 B that the bucket counts, of 9000 8948 of 9014.
six='verdict("socket:slow") == "proven"
verdict("socket:fast") == "proven"
verdict("socket:eth0") == "proven"
"RDMA" in r["ib"]["waived"] and "RDMA" in r["roce"]["waived"]
"GPUs" in r["mnnvl"]["waived"] and "GPUs" in r["p2p"]["waived"]
"slow" in r["socket:slow"]["transport"]["counters"]["detail"]
near(limit("socket:slow"), 0.125 * 1448 / 1514) and near(limit("socket:fast"), 0.5 * 8948 / 9014)
limit("socket:eth0") is None
near(r["socket:slow"]["transport"]["limit"], busbw("socket:slow") / limit("socket:slow") * 100)
busbw("socket:slow") / limit("socket:slow") <= 1.03 and busbw("socket:fast") / limit("socket:fast") <= 1.03'
on a "$BUSBW" transports "${ssh_to[@]}" all_reduce --backend net -b 1M -e 16M -f 4 --launches 3 --time 30 --json >"$work/out" 2>"$work/err"
judge "net backend over ssh: six rows, limits, percents" "$six"
[ "${SHOW:-}" ] && on a "$BUSBW" transports "${ssh_to[@]}" all_reduce --backend net -b 1M -e 16M -f 4 --launches 3 --time 30

# Under a launcher: its variables, as torchrun sets them.
under() { # words...
  local port=$((20000 + RANDOM % 8000)) other
  on b env WORLD_SIZE=2 RANK=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.88.0.1 MASTER_PORT=$port "$BUSBW" "$@" >"$work/other" 2>&1 &
  other=$!
  on a env WORLD_SIZE=2 RANK=0 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.88.0.1 MASTER_PORT=$port "$BUSBW" "$@" >"$work/out" 2>"$work/err"
  echo $? >"$work/code"
  wait $other
  echo $? >>"$work/code"
}
under transports all_reduce --backend net -b 1M -e 16M -f 4 --launches 3 --time 30 --json
judge "net backend under torchrun's variables: the same" "$six"
[ "$(sort -u "$work/code")" = 0 ] || verdict FAILED "exit codes of both processes" "$(tr '\n' ' ' <"$work/code")"
# Shim GPUs: two hosts of four, in one NVLink clique, with two InfiniBand adapters each. Few bytes: shims move them
# through shared memory, and interfaces that were idle while many had to move would contradict the log.
printf '* fabric.state 3\n* fabric.cluster 7\n* fabric.clique 1\n' >"$work/nvml"
on_gpus() { # VARIABLE=VALUE... -- option...
  local variables=()
  while [ "$1" != -- ]; do variables+=("$1") && shift; done
  shift
  RDMA=yes on a env LD_LIBRARY_PATH="$shims" BUSBW_SHIM_GPUS=4 BUSBW_SHIM_HCA=mlx5_0/IB,mlx5_1/IB BUSBW_SHIM_GDR=1 BUSBW_SHIM_MNNVL=1 \
    BUSBW_SHIM_NVML_FILE="$work/nvml" NCCL_NVLS_ENABLE=0 "${variables[@]}" "$BUSBW" transports --launcher ssh --launcher-command "$work/ssh" \
    -H 10.88.0.1:4,10.88.0.2:4 all_reduce -b 64 -e 4K -f 8 -n 2 --batches 1 --json "$@" >"$work/out" 2>"$work/err"
}
on_gpus -- --launches 1
judge "shims: MNNVL, InfiniBand, sockets, each proven" 'verdict("mnnvl") == "proven" and "P2P/MNNVL" in r["mnnvl"]["transport"]["found"]
verdict("ib:mlx5_0") == "proven" and "(mlx5_0)" in r["ib:mlx5_0"]["transport"]["found"]
verdict("ib:mlx5_1") == "proven" and verdict("ib:all") == "proven" and "mlx5_0, mlx5_1" in r["ib:all"]["transport"]["found"]
verdict("ib:gpudirect") == "proven" and "GDRDMA" in r["ib:gpudirect"]["transport"]["found"]
verdict("ib:no-gpudirect") == "proven" and "GDRDMA" not in r["ib:no-gpudirect"]["transport"]["found"]
verdict("socket:slow") == "proven" and verdict("socket:fast") == "proven"
verdict("ib:qp4") == "proven" and r["ib:qp16"]["variables"]["NCCL_IB_QPS_PER_CONNECTION"] == "16"
r["verbs:ib"]["waived"] and "mbw_mr" in r["verbs:ib"]["options"]
verdict("p2p") == "proven" and verdict("shm") == "proven"
"NCCL_NVLS_ENABLE=0" in r["nvls"]["waived"]'
found=0
for turn in $(seq "$times"); do
  # Ranks with a connection to the other host.
  ranks=(0 3 4 7) hosts=(a a b b) which=$((turn % 4))
  on_gpus BUSBW_SHIM_FALLBACK=${ranks[$which]} -- --launches 1 --only mnnvl,ib:all
  judge "shims: rank ${ranks[$which]} falls back, and is named ($turn of $times)" 'all(verdict(one) == "mixed" for one in ("mnnvl", "ib:all"))
all("only rank '"${ranks[$which]} on host-${hosts[$which]}"' used NET/Socket" in r[one]["transport"]["why"] for one in ("mnnvl", "ib:all"))' >"$work/judged"
  if grep -q ^ok "$work/judged"; then found=$((found + 1)); else cat "$work/judged"; fi
done
[ "$found" = "$times" ] && verdict ok "shims: a rank that falls back alone is named" "$found of $times" ||
  verdict FAILED "shims: a rank that falls back alone is named" "$found of $times"
# A host outside of the clique, and one transport that hangs: it is ended, the others go on.
on_gpus BUSBW_SHIM_HANG=5:1 -- --launches 1 --only socket:slow,p2p -T 5
judge "shims: a launch that hangs is ended" 'r["socket:slow"]["failed"]["exit"] == 4 and r["p2p"]["failed"]["exit"] == 4'
left=$(pgrep -f "$BUSBW" | while read -r pid; do ip netns identify "$pid" 2>/dev/null; done | grep -c "^$net-")
[ "$left" = 0 ] && verdict ok "nothing is left on the hosts" || verdict FAILED "nothing is left on the hosts" "$left processes"
exit $failed
