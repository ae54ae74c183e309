#!/usr/bin/env bash
# busbw's launcher on a real Kubernetes cluster: runs of four pods, what goes wrong with words for it, and manifests of
# every kind judged by the API server. Each check is one line, `ok` or `FAILED`, and their names must be those of
# tests/kubernetes.txt: a check that vanished fails. Where no cluster can be had in time, everything is `waived`, with the reason.
#   tests/kubernetes.sh [BUSBW]          some five minutes; needs root and Go; the cluster's programs are built once
#   tests/kubernetes.sh --bars [BUSBW]   what takes hours: a hundred runs, slow pods, clients that are killed
#   tests/kubernetes.sh --operators [BUSBW]   runs under mpi-operator and the controller of JobSets, which are built once
#   tests/kubernetes.sh --within S …     how long building the cluster's programs may take; 900 s
set -uo pipefail
cd "$(dirname "$0")/.."
bars= operators= within=900 program=
while [ $# -gt 0 ]; do
  case $1 in
    --bars) bars=yes ;;
    --operators) operators=yes ;;
    --within) within=${2:?} && shift ;;
    -*) sed -n '5,8s/^# //p' "$0" >&2 && exit 2 ;;
    *) program=$1 ;;
  esac
  shift
done
work=$(mktemp -d)
cluster=$work/cluster
seen=$work/seen
: >"$seen"
failed=0
waive_all() { # REASON
  echo "waived  everything: $1"
  exit 0
}
cleanup() {
  local pid
  for pid in $(jobs -p); do kill "$pid" 2>/dev/null; done
  [ ! -d "$cluster" ] || tests/kubernetes/cluster.sh down "$cluster"
  [ ! -d "$work/second" ] || tests/kubernetes/cluster.sh down "$work/second"
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

[ "$(id -u)" = 0 ] || waive_all "namespaces and containers need root"
command -v go >/dev/null || tests/kubernetes/build.sh --check >/dev/null 2>&1 ||
  waive_all "there is no Go toolchain to build the cluster's programs with"
unshare --pid --fork --mount --net true 2>"$work/why" || waive_all "no namespaces: $(tail -n 1 "$work/why")"
programs=$(timeout "$within" tests/kubernetes/build.sh 2>"$work/build")
case $? in
  0) ;;
  124) waive_all "the cluster's programs are not built within $within s" ;;
  *)
    tail -n 5 "$work/build"
    exit 1
    ;;
esac
if [ -z "$program" ]; then
  cargo build --release --quiet --package busbw || exit 1
  program=${CARGO_TARGET_DIR:-target}/release/busbw
fi
# As releases are.
cp "$program" "$work/busbw" && strip "$work/busbw" && program=$work/busbw
tests/kubernetes/cluster.sh up "$cluster" || exit 1
image=localhost/busbw:test
tools/image.sh --name "$image" "$program" "$work/image.tar" &&
  tests/kubernetes/cluster.sh load "$cluster" "$work/image.tar" >/dev/null || exit 1
export BUSBW_NO_RECORD=1
admin() { "$programs/bin/kubectl" --kubeconfig "$cluster/admin.conf" "$@"; }

# shellcheck source=tests/kubernetes/judge.sh
. tests/kubernetes/judge.sh
allow "$cluster"
if [ -n "$bars" ]; then
  # shellcheck source=tests/kubernetes/bars.sh
  . tests/kubernetes/bars.sh
  exit $failed
fi
if [ -n "$operators" ]; then
  # shellcheck source=tests/kubernetes/operators.sh
  . tests/kubernetes/operators.sh
  echo "$(wc -l <"$seen") run, in $SECONDS s"
  exit $failed
fi
# shellcheck source=tests/kubernetes/shapes.sh
. tests/kubernetes/shapes.sh
# shellcheck source=tests/kubernetes/cases.sh
. tests/kubernetes/cases.sh
# shellcheck source=tests/kubernetes/init.sh
. tests/kubernetes/init.sh
# shellcheck source=tests/kubernetes/by_hand.sh
. tests/kubernetes/by_hand.sh

# Every name that is expected, and no other.
while read -r name; do
  grep -qxF "$name" "$seen" || verdict FAILED "$name" "expected, but not run"
done < <(grep -v '^#' tests/kubernetes.txt)
while read -r name; do
  grep -qxF "$name" tests/kubernetes.txt || verdict FAILED "$name" "not in tests/kubernetes.txt"
done < <(sort -u "$seen")
echo "$(wc -l <"$seen") run, in $SECONDS s"
exit $failed
