# Runs under the operators that others wrote: MPIJobs by mpi-operator, a JobSet by its controller and webhooks. Sourced by
# `tests/kubernetes.sh --operators`; not in every run of the tests, since building the operators takes minutes.
# shellcheck disable=SC2086

operators=$(tests/kubernetes/build_operators.sh) || exit 1
mpi_image=localhost/mpi/busbw:test
tools/image.sh --mpi openmpi --name "$mpi_image" "$program" "$work/mpi.tar" &&
  tests/kubernetes/cluster.sh load "$cluster" "$work/mpi.tar" >/dev/null || exit 1
# What the Role says of MPIJobs: create and delete, no more.
admin --namespace least create role mpijobs --verb=create,delete --resource=mpijobs.kubeflow.org >"$work/made" 2>&1
admin --namespace least create rolebinding mpijobs --role=mpijobs --serviceaccount=least:least >"$work/made" 2>&1
mpi() { # NAME CODE ROWS TEXT COMMAND WORD...
  IMAGE=$mpi_image PODS=${PODS:-3} run "${@:1:5}" --kind mpijob "${@:6}"
}

mpi "mpijob: nobody makes its pods" 5 0 "no pod was made for MPIJob.*mpi-operator does not run" all_reduce $small $net --wait 8s
tests/kubernetes/cluster.sh inside "$cluster" "$operators/bin/mpi-operator" --kubeConfig "$cluster/admin.conf" --lock-namespace default \
  >"$cluster/logs/mpi-operator" 2>&1 &
mpi "mpijob: all_reduce over net" 0 4 "" all_reduce $small $net
mpi "mpijob: all_reduce over MPI" 0 4 "" all_reduce $small --gpus-per-node 0 --backend mpi
PODS=2 mpi "mpijob: messages over MPI" 0 0 "" latency -b 8 -e 64 -f 2 -n 20 --gpus-per-node 0 --backend mpi
name="mpijob: messages over MPI, rows"
got=$(grep -cE '^ +(8|16|32|64) +int8 .* 0$' "$work/out")
if [ "$got" = 4 ]; then verdict ok "$name"; else verdict FAILED "$name" "$got rows, not 4"; fi

name="mpijob: a worker's program is killed in mid-run"
IMAGE=$mpi_image PODS=3 endlessly --kind mpijob
victim=$(tests/kubernetes/cluster.sh inside "$cluster" sh -c 'cd /proc && for pid in $(pgrep -x busbw); do grep -qz "^OMPI_COMM_WORLD_RANK=2\$" $pid/environ && echo $pid; done')
tests/kubernetes/cluster.sh inside "$cluster" kill -9 $victim
wait "$running"
judge "$name" 6 1+ "rank 2" $? "$work"
name="mpijob: it is deleted in mid-run"
IMAGE=$mpi_image PODS=3 endlessly --kind mpijob
admin --namespace least delete mpijobs --all --wait=false >"$work/made" 2>&1
wait "$running"
judge "$name" 6 1+ "deleted by somebody else" $? "$work"
name="mpijob: Ctrl-C"
IMAGE=$mpi_image PODS=3 endlessly --kind mpijob
kill -INT "$(client "$running")"
wait "$running"
judge "$name" 130 1+ "" $? "$work"
name="mpijob: the client is killed"
IMAGE=$mpi_image PODS=3 endlessly --kind mpijob --deadline 20s --ttl 1s
kill -9 "$(client "$running")"
wait "$running" 2>/dev/null
left=
# Pods that have ended stay with their MPIJob, and hold nothing.
for _ in $(seq 300); do
  left=$(admin --namespace least get pods --field-selector 'status.phase!=Failed,status.phase!=Succeeded' -o name)
  [ -n "$left" ] || break
  sleep 0.2
done
if [ -z "$left" ]; then verdict ok "$name"; else verdict FAILED "$name" "left: $left"; fi
admin --namespace least delete mpijobs --all >"$work/made" 2>&1
gone least 30 >"$work/left" || verdict FAILED "$name" "left: $(cat "$work/left")"

# The controller of JobSets does nothing without its webhooks, which the API server calls by name: here by address.
mkdir -p "$cluster/jobset/k8s-webhook-server/serving-certs"
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=jobset -addext subjectAltName=IP:10.244.0.1 \
  -keyout "$cluster/jobset/k8s-webhook-server/serving-certs/tls.key" -out "$cluster/jobset/k8s-webhook-server/serving-certs/tls.crt" 2>"$work/made"
cat >"$cluster/jobset/config.yaml" <<'YAML'
apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
YAML
tests/kubernetes/cluster.sh inside "$cluster" env TMPDIR="$cluster/jobset" KUBECONFIG="$cluster/admin.conf" "$operators/bin/jobset" --config "$cluster/jobset/config.yaml" \
  >"$cluster/logs/jobset" 2>&1 &
admin create --dry-run=client -o json -f "$operators/webhooks.yaml" | python3 -c '
import base64, json, sys
bundle = base64.b64encode(open(sys.argv[1], "rb").read()).decode()
text, decoder = sys.stdin.read(), json.JSONDecoder()
while text.strip():
    one, end = decoder.raw_decode(text.strip())
    text = text.strip()[end:]
    for hook in (hook for item in one.get("items", [one]) for hook in item["webhooks"]):
        path = hook["clientConfig"]["service"]["path"]
        hook["clientConfig"] = {"url": "https://10.244.0.1:9443" + path, "caBundle": bundle}
    print(json.dumps(one))' "$cluster/jobset/k8s-webhook-server/serving-certs/tls.crt" >"$work/webhooks.json"
until_line "$cluster/logs/jobset" 'Serving webhook server' 60
admin apply -f "$work/webhooks.json" >"$work/made" 2>&1
# shellcheck source=tests/kubernetes/by_hand.sh
. tests/kubernetes/by_hand.sh
committed "jobset: as it is printed" jobset busbw-all-reduce-nodes-0 ' float ' 4 $small
