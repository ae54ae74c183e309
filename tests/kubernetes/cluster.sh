#!/usr/bin/env bash
# A Kubernetes cluster of one node for tests, with pods that have addresses of their own, RBAC, ServiceAccount tokens
# and PodSecurity: all its processes, mounts, links and pods live in namespaces of their own, which end with one process.
#   cluster.sh up DIR [--no-dns]   starts it, work and logs in DIR; some 15 s once tests/kubernetes/build.sh has run. Then
#                                  DIR/admin.conf      may do everything
#                                  DIR/least.conf      a ServiceAccount of namespace `least`, bound to a Role `busbw` that
#                                                      `busbw … --launcher kubernetes --kind role --dry-run` prints
#                                  DIR/expired.conf    the same, its token out of date
#   cluster.sh load DIR IMAGE.tar  makes an image known to the node
#   cluster.sh inside DIR WORD...  runs a command among the cluster's processes and links
#   cluster.sh down DIR            ends it, also one that failed half way; nothing is left but DIR/logs
# Needs root. Several clusters may run at once. Not a cluster to keep anything in, and not its programs (build.sh).
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
usage() { sed -n '4,11s/^# //p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
mkdir -p "$2" && dir=$(cd "$2" && pwd) || exit 2
say() { echo "tests/kubernetes/cluster.sh: $*" >&2; }
# The first process of the namespaces, whose end is the end of all others: said by DIR/init, if it is still ours.
init() {
  local pid
  pid=$(cat "$dir/init" 2>/dev/null) && grep -qzF "$dir" "/proc/$pid/cmdline" 2>/dev/null && echo "$pid"
}
inside() {
  local pid
  pid=$(init) || { say "no cluster runs in $dir: start one with \`cluster.sh up $dir\`"; return 1; }
  nsenter --target "$pid" --mount --net --pid -- "$@"
}

up() {
  local programs number pid outside
  [ "$(id -u)" = 0 ] || { say "starting a cluster needs root, for its namespaces"; exit 1; }
  if init >/dev/null; then say "a cluster runs in $dir already"; exit 1; fi
  programs=$("$here/build.sh") || exit 1
  mkdir -p "$dir/logs"
  trap 'say "not started; what was said is in $dir/logs"; down; exit 1' ERR INT TERM
  set -E
  # A link between this machine and the cluster; whoever makes it has its number.
  for number in $(seq 250) none; do ip link add "bwkube$number" type veth peer name "bwkube$number-" 2>"$dir/logs/link" && break; done
  [ "$number" != none ] || { say "no link could be made: $(cat "$dir/logs/link")"; false; }
  echo "$number" >"$dir/number"
  for controller in /sys/fs/cgroup/*/cgroup.procs /sys/fs/cgroup/cgroup.procs; do
    [ ! -e "$controller" ] || mkdir -p "${controller%/*}/busbw-kubernetes-$number"
  done
  setsid unshare --pid --fork --kill-child --mount --mount-proc --net --propagation private \
    "$here/inside.sh" "$dir" "$programs" "$number" "$@" </dev/null >"$dir/logs/inside" 2>&1 &
  outside=$!
  for _ in $(seq 50); do
    pid=$(pgrep -P "$outside") && break
    sleep 0.1
  done
  echo "$pid" >"$dir/init"
  ip link set "bwkube$number-" netns "$pid"
  # What is meant for the cluster never leaves this machine, also when the link is gone.
  ip route add unreachable "10.78.$number.0/30" metric 4000
  ip addr add "10.78.$number.1/30" dev "bwkube$number"
  ip link set "bwkube$number" up
  # It says `ready` when a pod can run.
  for _ in $(seq 3600); do
    [ ! -e "$dir/ready" ] || break
    kill -0 "$outside" 2>/dev/null || { say "$(tail -n 3 "$dir/logs/inside")"; false; }
    sleep 0.1
  done
  [ -e "$dir/ready" ] || { say "not ready in six minutes: $(tail -n 3 "$dir/logs/inside")"; false; }
  trap - ERR INT TERM
}

down() {
  local pid number controller
  trap - ERR INT TERM
  set +E
  if pid=$(init); then
    kill -9 "$pid"
    # The namespaces' other processes end before it does.
    for _ in $(seq 300); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    if kill -0 "$pid" 2>/dev/null; then say "process $pid has not ended in 30 s"; exit 1; fi
  fi
  if number=$(cat "$dir/number" 2>/dev/null); then
    ip link del "bwkube$number" 2>/dev/null
    ip route del unreachable "10.78.$number.0/30" metric 4000 2>/dev/null
    for controller in /sys/fs/cgroup/*/ /sys/fs/cgroup/; do
      controller=$controller/busbw-kubernetes-$number
      [ ! -d "$controller" ] || find "$controller" -depth -type d -exec rmdir {} +
    done
  fi
  # Nothing is mounted here: mounts were in the namespace that has ended.
  find "$dir" -mindepth 1 -maxdepth 1 ! -name logs -exec rm -rf --one-file-system {} +
}

case $1 in
  up) case "${3-}" in "" | --no-dns) up "${@:3}" ;; *) usage ;; esac ;;
  down) down ;;
  load) inside ctr --address "$dir/containerd.sock" --namespace k8s.io images import "$(realpath "${3:?}")" ;;
  inside) inside "${@:3}" ;;
  *) usage ;;
esac
