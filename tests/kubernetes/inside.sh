#!/usr/bin/env bash
# The cluster's processes: the first one of its namespaces, started by cluster.sh. When it ends, they all do.
# Not for use by hand: it takes the mount and network namespaces that it runs in for its own.
#   inside.sh DIR PROGRAMS NUMBER [--no-dns]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$1 programs=$2 number=$3 names=${4:-dns}
# Pods' addresses, the bridge's being where the API server, the kubelet and CoreDNS are; services' addresses, of which
# the first is the API server's, and the only one that is served: headless services need no proxy.
bridge=10.244.0.1 pods=10.244.0.0/24 services=10.96.0.0/24 service=10.96.0.1 outside=10.78.$number.2
PATH=$programs/bin:/usr/sbin:/sbin:$PATH
cd "$dir"
declare -A started
start() { # NAME WORD...
  local name=$1
  shift
  "$@" >"logs/$name" 2>&1 &
  started[$!]=$name
}
# until SECONDS WHAT WORD...: waits for a command to do.
until_done() {
  local seconds=$1 what=$2
  shift 2
  for _ in $(seq $((seconds * 10))); do
    "$@" >logs/waiting 2>&1 && return
    sleep 0.1
  done
  echo "$what: not in $seconds s: $(tail -n 1 logs/waiting)" >&2
  exit 1
}

# What daemons keep in places of the machine's own: here nobody else sees it.
mkdir -p run lib-kubelet lib-cni containers etcd containerd
for place in /run/netns:run /var/lib/kubelet:lib-kubelet /var/lib/cni:lib-cni /var/log/containers:containers; do
  mkdir -p "${place%:*}" && mount --bind "$dir/${place#*:}" "${place%:*}"
done
# The kubelet wants to share mounts with containers.
mount --make-rshared /

until_done 10 "the link to this machine" ip link show "bwkube$number-"
ip link set lo up
ip link add pods type bridge
ip addr add "$bridge/24" dev pods
ip addr add "$outside/30" dev "bwkube$number-"
ip link set pods up
ip link set "bwkube$number-" up
sysctl -qw net.ipv4.ip_forward=1
nft add table ip services
nft "add chain ip services api { type nat hook prerouting priority dstnat; }"
nft "add rule ip services api ip daddr $service tcp dport 443 redirect to :6443"

token() { head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
kubeconfig() { # FILE SERVER TOKEN [NAMESPACE]
  cat >"$1" <<YAML
apiVersion: v1
kind: Config
clusters:
- {name: lab, cluster: {server: "https://$2:6443", tls-server-name: kubernetes.default.svc, certificate-authority: "$dir/api/apiserver.crt"}}
contexts:
- {name: lab, context: {cluster: lab, user: lab, namespace: ${4:-default}}}
current-context: lab
users:
- {name: lab, user: {token: "$3"}}
YAML
  chmod 600 "$1"
}
mkdir -p api users
# Each process has a name that RBAC's default roles are bound to.
identity() { # FILE SERVER USER GROUP
  local token
  token=$(token)
  echo "$token,$3,$3${4:+,\"$4\"}" >>users/tokens
  kubeconfig "$1" "$2" "$token"
}
(
  umask 077
  identity admin.conf "$outside" admin system:masters
  identity users/manager.conf "$bridge" system:kube-controller-manager
  identity users/scheduler.conf "$bridge" system:kube-scheduler
  identity users/kubelet.conf "$bridge" system:node:node1 system:nodes
  identity users/names.conf "$bridge" names
  openssl genrsa -out users/accounts.key 2048 2>logs/openssl
)

start etcd etcd --data-dir etcd --unsafe-no-fsync --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
  --listen-peer-urls http://127.0.0.1:2380 --logger zap
start api kube-apiserver --etcd-servers http://127.0.0.1:2379 --cert-dir api --secure-port 6443 --advertise-address "$bridge" \
  --service-cluster-ip-range "$services" --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction \
  --token-auth-file users/tokens --anonymous-auth=false --service-account-issuer https://kubernetes.default.svc \
  --service-account-key-file users/accounts.key --service-account-signing-key-file users/accounts.key \
  --kubelet-preferred-address-types InternalIP --allow-privileged --profiling=false --endpoint-reconciler-type none \
  --feature-gates MutatingAdmissionPolicy=true --runtime-config admissionregistration.k8s.io/v1beta1=true

cat >containerd.toml <<TOML
version = 2
root = "$dir/containerd/root"
state = "$dir/containerd/state"
[grpc]
  address = "$dir/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "$dir/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  # Without CAP_SYS_RESOURCE runc cannot lower it.
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "$dir/plugins"
  conf_dir = "$dir/cni"
TOML
mkdir -p cni plugins
ln -s /usr/lib/cni/* plugins/
ln -s "$here/links.py" plugins/links
cat >cni/pods.conflist <<JSON
{"cniVersion": "0.3.1", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "$dir/addresses", "ranges": [[{"subnet": "$pods"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "links", "folder": "$dir"}]}
JSON
start containerd containerd --config containerd.toml

admin() { kubectl --kubeconfig admin.conf "$@"; }
until_done 240 "the API server" admin get --raw /readyz
start manager kube-controller-manager --kubeconfig users/manager.conf --service-account-private-key-file users/accounts.key \
  --root-ca-file api/apiserver.crt --leader-elect=false --use-service-account-credentials --secure-port 0
start scheduler kube-scheduler --kubeconfig users/scheduler.conf --leader-elect=false --secure-port 0

# A node's disk is not measured: what is nearly full here must not evict pods.
: >resolv.conf
cat >kubelet.yaml <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $bridge
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /busbw-kubernetes-$number
clusterDNS: [$bridge]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix://$dir/containerd.sock
enforceNodeAllocatable: []
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
failSwapOn: false
healthzPort: 0
imageGCHighThresholdPercent: 100
podLogsDir: $dir/pod-logs
registryPullQPS: 100
resolvConf: $dir/resolv.conf
YAML
start kubelet kubelet --config kubelet.yaml --kubeconfig users/kubelet.conf --root-dir "$dir/kubelet" --cert-dir "$dir/kubelet/pki" \
  --hostname-override node1 --node-ip "$bridge"

if [ "$names" = dns ]; then
  cat >names.conf <<CONF
.:53 {
  bind $bridge
  errors
  kubernetes cluster.local {
    kubeconfig $dir/users/names.conf
    ttl 1
  }
}
CONF
  admin create clusterrole names --verb=list,watch --resource=services,pods,namespaces,nodes,endpointslices.discovery.k8s.io >logs/setup 2>&1
  admin create clusterrolebinding names --clusterrole=names --user=names >>logs/setup 2>&1
  start names coredns -conf names.conf
fi

# One image, which holds a pod's namespaces: it waits.
printf '#include <unistd.h>\nint main(void) { for (;;) pause(); }\n' | gcc -static -Os -x c -o pause -
"$here/../../tools/image.sh" --name localhost/pause:1 pause pause.tar >>logs/setup 2>&1
until_done 120 "containerd" ctr --address containerd.sock --namespace k8s.io images import pause.tar
until_done 120 "the kinds that others define" admin apply --server-side -f "$programs/crds" -f "$here/compute_domain.yaml"
until_done 120 "a queue that admits nobody" admin apply -f "$here/queue.yaml"
until_done 180 "the node" admin wait --for=condition=Ready node/node1 --timeout=0
until_done 120 "the ServiceAccount of the default namespace" admin get serviceaccount default

# Who may no more than the Role says, and who no longer may.
admin create namespace least >>logs/setup 2>&1
until_done 120 "the ServiceAccount of a user" admin apply --namespace least -f "$here/least.yaml"
kubeconfig least.conf "$outside" "$(admin create token least --namespace least --duration 12h)" least
kubeconfig expired.conf "$outside" "$("$here/token.sh" "$dir" least least -60)" least
touch ready
# The first of them that ends is a fault.
wait -n -p ended || true
echo "$dir/logs/${started[$ended]}: this process of the cluster has ended, and the cluster with it" >&2
exit 1
