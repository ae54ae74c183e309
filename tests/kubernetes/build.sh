#!/usr/bin/env bash
# The programs of a Kubernetes cluster of one node, from Go modules, and the schemas of kinds that others define:
# tests/kubernetes/build.sh prints the folder that holds them, bin/ and crds/, and makes it first where it is not there.
# It lies outside the checkout, by version, so that one build serves every run: ten minutes of two processors, once.
#   tests/kubernetes/build.sh           builds what is missing
#   tests/kubernetes/build.sh --check   exit code 1, and nothing built, if something is missing
# Debian's packages that the cluster needs are installed, too. Not the cluster itself (tests/kubernetes/cluster.sh).
set -euo pipefail
kubernetes=v1.34.4 coredns=v1.13.1 jobset=v0.10.1 mpi_operator=v0.6.0
packages="etcd-server containerd runc containernetworking-plugins iproute2 nftables openssl gcc libc6-dev"
# Of this file: raise it where what is built changes and the versions do not.
made=1
cache=${XDG_CACHE_HOME:-/var/cache}/busbw-kubernetes
folder=$cache/$kubernetes-coredns-$coredns-$made
# shellcheck disable=SC2086
installed() { dpkg -s $packages >/dev/null 2>&1; }
if [ -e "$folder/whole" ] && installed; then
  echo "$folder"
  exit 0
fi
if [ "${1-}" = --check ]; then
  echo "$folder or Debian's packages are not there ($packages): tests/kubernetes/build.sh makes and installs them" >&2
  exit 1
fi
mkdir -p "$cache"
# Two runs at once build once.
exec 9>"$cache/lock"
flock 9
if ! installed; then
  {
    apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages
  } >"$cache/apt" 2>&1 || { tail -n 3 "$cache/apt" >&2; exit 1; }
fi
if [ -e "$folder/whole" ]; then
  echo "$folder"
  exit 0
fi
command -v go >/dev/null || { echo "there is no Go toolchain on PATH: install golang 1.24 or newer" >&2; exit 1; }
work=$(mktemp -d "$cache/making.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/programs" "$work/names" "$work/out/bin" "$work/out/crds"
export GOFLAGS="-mod=mod -trimpath -buildvcs=false" CGO_ENABLED=0
# module FIELD PATH@VERSION: one field of what `go mod download` says of it.
module() { (cd "$work" && go mod download -json "$2" | sed -nE "s/^\t\"$1\": \"(.*)\",?\$/\1/p"); }

# Kubernetes' own go.mod takes its staging modules from folders beside it; as a dependency they are modules, v0.34.4.
mod=$(module GoMod "k8s.io/kubernetes@$kubernetes")
staging=v0${kubernetes#v1}
{
  echo "module programs"
  # Its godebug defaults hold only where the main module says them.
  grep -E '^(go|godebug) ' "$mod"
  echo "require k8s.io/kubernetes $kubernetes"
  sed -nE 's/^\t(k8s\.io\/[a-z-]+) v0\.0\.0$/replace \1 => \1 '"$staging"'/p' "$mod"
} >"$work/programs/go.mod"
names=(kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl)
{
  echo "package programs"
  printf 'import _ "k8s.io/kubernetes/cmd/%s"\n' "${names[@]}"
} >"$work/programs/tools.go"
sed -i '1i //go:build tools\n' "$work/programs/tools.go"
version="-s -w -X k8s.io/component-base/version.gitVersion=$kubernetes"
version+=" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=34"
version+=" ${version//component-base\/version/client-go/pkg/version}"
echo "building ${names[*]} $kubernetes" >&2
(cd "$work/programs" && go build -ldflags "$version" -o "$work/out/bin/" "${names[@]/#/k8s.io/kubernetes/cmd/}") >&2

# CoreDNS without the plugins that only clouds need.
cat >"$work/names/main.go" <<'GO'
package main

import (
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"

	"github.com/coredns/coredns/coremain"
)

func main() { coremain.Run() }
GO
printf 'module coredns\ngo 1.24.0\nrequire github.com/coredns/coredns %s\n' "$coredns" >"$work/names/go.mod"
echo "building coredns $coredns" >&2
(cd "$work/names" && go build -ldflags "-s -w" -o "$work/out/bin/coredns" .) >&2

echo "reading the schemas of jobset $jobset and mpi-operator $mpi_operator" >&2
cp "$(module Dir "sigs.k8s.io/jobset@$jobset")"/config/components/crd/bases/*.yaml "$work/out/crds/"
cp "$(module Dir "github.com/kubeflow/mpi-operator@$mpi_operator")/manifests/base/kubeflow.org_mpijobs.yaml" "$work/out/crds/"
chmod -R u+w "$work/out"
touch "$work/out/whole"
rm -rf "$folder"
mv "$work/out" "$folder"
echo "$folder"
