# Manifests of every kind, judged by the API server with the schemas of those who define the kinds: sourced by
# tests/kubernetes.sh. Not runs (cases.sh).

everything="--gpus-per-node 8 --rdma rdma/hca_shared_devices_a,nvidia.com/hostdev:8 --pod-networks default/rail-0 --host-network
  --node-selector pool=gpus --toleration nvidia.com/gpu:NoSchedule --toleration dedicated=bench:NoExecute --image-pull-secret pull
  --service-account bench --priority-class low --queue team --env NCCL_DEBUG=WARN --env NCCL_IB_HCA=mlx5 --shm 8Gi --pod-memory 64Gi
  --pod-cpu 16 --run-as-user 65532 --deadline 10m --ttl 1m"
# shape NAME KIND WORD...: `--dry-run` prints what the API server would take, every field known to it.
shape() {
  local name=$1 kind=$2
  shift 2
  if "$program" all_reduce --launcher kubernetes --launcher-command "$programs/bin/kubectl --kubeconfig $cluster/admin.conf" --nodes 2 --image "$image" --kind "$kind" \
    --dry-run "$@" -b 8 -e 1M >"$work/out" 2>"$work/err" && [ -s "$work/out" ] &&
    admin apply --dry-run=server --validate=strict -f "$work/out" >"$work/applied" 2>"$work/err" &&
    ! grep -q Warning "$work/err"; then
    verdict ok "$name" "$(wc -l <"$work/applied") objects"
  else
    verdict FAILED "$name"
    tail -n 5 "$work/err" "$work/applied"
  fi
}
for kind in job mpijob jobset cronjob; do
  shape "$kind: the least" "$kind" --gpus-per-node 0 --rdma none
  # shellcheck disable=SC2086
  shape "$kind: every option" "$kind" $everything
done
shape "job: a ComputeDomain" job --gpus-per-node 4 --rdma none --compute-domain
shape "role" role

# What the nodes offer is found: a node's status can say anything.
admin patch node node1 --subresource=status --type=merge -p '{"status": {"capacity": {"nvidia.com/gpu": "8", "rdma/hca_shared_devices_a": "63"},
  "allocatable": {"nvidia.com/gpu": "8", "rdma/hca_shared_devices_a": "63"}}}' >"$work/patched" 2>&1
name="GPUs and RDMA devices are read from the nodes"
"$program" all_reduce --launcher kubernetes --launcher-command "$programs/bin/kubectl --kubeconfig $cluster/admin.conf" --nodes 1 --image "$image" --dry-run \
  >"$work/out" 2>"$work/err"
if grep -qE 'nvidia.com/gpu: "?8"?$' "$work/out" && grep -qE 'rdma/hca_shared_devices_a: "?1"?$' "$work/out" && grep -q IPC_LOCK "$work/out"; then
  verdict ok "$name"
else
  verdict FAILED "$name"
  tail -n 5 "$work/patched" "$work/err"
fi
