#!/usr/bin/env bash
# Operators of kinds that others define, from Go modules: mpi-operator and the controller of JobSets. Prints the folder that
# holds bin/ and webhooks.yaml, and makes it first where it is not there: some minutes, once. The versions are those whose
# schemas build.sh reads. Not the cluster's own programs (build.sh), and not how they are started (operators.sh).
set -euo pipefail
eval "$(grep -oE '(jobset|mpi_operator)=v[0-9.]+' "$(dirname "$0")/build.sh")"
cache=${XDG_CACHE_HOME:-/var/cache}/busbw-kubernetes
folder=$cache/operators-$mpi_operator-$jobset
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
if [ ! -e "$folder/whole" ]; then
  command -v go >/dev/null || { echo "there is no Go toolchain on PATH: install golang 1.24 or newer" >&2; exit 1; }
  work=$(mktemp -d "$cache/making.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  export GOFLAGS="-trimpath -buildvcs=false" CGO_ENABLED=0
  mkdir -p "$work/out/bin"
  # program MODULE@VERSION PACKAGE: in a copy of the module, with the versions of its own go.mod.
  program() {
    local from
    echo "building $1 $2" >&2
    from=$(cd "$work" && go mod download -json "$1" | sed -nE 's/^\t"Dir": "(.*)",?$/\1/p')
    cp -r "$from" "$work/module"
    chmod -R u+w "$work/module"
    (cd "$work/module" && go build -ldflags "-s -w" -o "$work/out/bin/" "$2") >&2
    rm -rf "$work/module"
  }
  program "github.com/kubeflow/mpi-operator@$mpi_operator" ./cmd/mpi-operator
  program "sigs.k8s.io/jobset@$jobset" .
  cp "$(go env GOMODCACHE)/sigs.k8s.io/jobset@$jobset/config/components/webhook/manifests.yaml" "$work/out/webhooks.yaml"
  chmod u+w "$work/out/webhooks.yaml"
  touch "$work/out/whole"
  rm -rf "$folder"
  mv "$work/out" "$folder"
fi
echo "$folder"
