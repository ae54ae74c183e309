# Runs on the cluster: what works, and what goes wrong with words for it. Sourced by tests/kubernetes.sh. Not manifests
# that are only judged (shapes.sh), and not what takes hours (bars.sh).
# shellcheck disable=SC2086

run "four pods" 0 4 "" all_reduce $small $net
name="every pod is in the record"
launched all_reduce $small $net --record "$work/record.jsonl" >"$work/out" 2>"$work/err"
hosts=$(grep -oE '"node1/[0-3]"' "$work/record.jsonl" 2>/dev/null | sort -u | wc -l)
if [ "$hosts" = 4 ] && "$program" show "$work/record.jsonl" | grep -q ' float '; then verdict ok "$name"; else
  verdict FAILED "$name" "$hosts hosts"
  tail -n 5 "$work/err"
fi

# Another cluster, that has no DNS.
name="four pods, a cluster without DNS"
if tests/kubernetes/cluster.sh up "$work/second" --no-dns && tests/kubernetes/cluster.sh load "$work/second" "$work/image.tar" >"$work/made"; then
  allow "$work/second"
  CONF=$work/second/least.conf ON=$work/second run "$name" 0 4 "" all_reduce $small $net
  tests/kubernetes/cluster.sh down "$work/second"
else
  verdict FAILED "$name" "no second cluster"
fi

name="two runs at once"
PODS=2 launched all_reduce $small $net >"$work/one" 2>&1 &
one=$!
PODS=2 run "$name" 0 4 "" all_reduce $small $net
wait $one && [ "$(grep -c ' float ' "$work/one")" = 4 ]
[ $? = 0 ] || { verdict FAILED "$name" "the other" && tail -n 3 "$work/one"; }

# What is refused before anything is made.
CONF=$work/none.conf run "no kubeconfig" 5 0 "kubectl" all_reduce $small $net
run "a context that is not there" 5 0 "get-contexts" all_reduce $small $net --context none
IN=none CONF=$cluster/admin.conf run "a namespace that is not there" 5 0 "kubectl create namespace none" all_reduce $small $net
CONF=$cluster/expired.conf run "a token that has expired" 5 0 "have expired" all_reduce $small $net
admin create namespace others >"$work/made" 2>&1
IN=others run "a namespace where this user has no Role" 5 0 "orbidden.*the least Role that suffices" all_reduce $small $net
name="kubectl is not there"
"$program" all_reduce --launcher kubernetes --launcher-command "$work/kubectl" --nodes 2 --image "$image" --yes $small $net >"$work/out" 2>"$work/err"
judge "$name" 5 0 "$work/kubectl" $? "$work"

# Policies of a namespace.
admin create namespace strict >"$work/made" 2>&1
admin label namespace strict pod-security.kubernetes.io/enforce=restricted >"$work/made" 2>&1
IN=strict CONF=$cluster/admin.conf run "PodSecurity: refused" 5 0 "--run-as-user 65532" all_reduce $small $net
IN=strict CONF=$cluster/admin.conf run "PodSecurity: kept" 0 4 "" all_reduce $small $net --run-as-user 65532
admin create namespace little >"$work/made" 2>&1
admin --namespace little create quota few --hard=pods=1 >"$work/made" 2>&1
IN=little CONF=$cluster/admin.conf run "a quota" 5 0 "quota of namespace little is used up|exceeded quota" all_reduce $small $net --wait 8s

# What no waiting helps.
run "unschedulable: GPUs" 5 0 "Insufficient nvidia.com/gpu.*GPUs are short" all_reduce $small --backend net --gpus-per-node 64 --rdma none --wait 5s
run "unschedulable: labels" 5 0 "no node has these labels" all_reduce $small $net --node-selector pool=none --wait 5s
IMAGE=localhost/none:1 run "an image that is not there" 5 0 "has no image: it is not on this node" all_reduce $small $net
run "a queue that admits nobody" 5 0 "is suspended after .*Kueue or another queue" all_reduce $small $net --queue team --wait 8s
CONF=$cluster/admin.conf IN=others run "a ComputeDomain without its driver" 5 0 "a resource claim is not there" all_reduce $small $net --compute-domain --wait 5s

# In mid-run. busbw caps sizes by the pod's limit: one in which its own pages have no room.
run "killed for memory" 6 0 "was killed for memory at its limit of 6Mi: give more with --pod-memory" all_reduce -b 8 -e 64M -f 8 -n 5 --batches 1 $net --pod-memory 6Mi
run "a deadline" 4 1+ "at its deadline of 20 s" all_reduce $net $endless --deadline 20s
# A pod's processes are among the cluster's: found by the variable that tells its index.
of_pod() { # INDEX
  tests/kubernetes/cluster.sh inside "$cluster" sh -c \
    'cd /proc && for pid in $(pgrep -x busbw); do grep -qz "^JOB_COMPLETION_INDEX=$0\$" $pid/environ && echo $pid; done' "$1"
}
name="a pod's program is killed in mid-run"
endlessly
tests/kubernetes/cluster.sh inside "$cluster" kill -9 $(of_pod 2)
wait "$running"
judge "$name" 6 1+ "rank 2|pod 2" $? "$work"
name="a pod is deleted in mid-run"
endlessly
admin --namespace least delete pod -l batch.kubernetes.io/job-completion-index=2 >"$work/made" 2>&1
wait "$running"
judge "$name" 6 1+ "rank 2|pod 2" $? "$work"

name="Ctrl-C"
endlessly
kill -INT "$(client "$running")"
wait "$running"
judge "$name" 130 1+ "" $? "$work"

name="a token that expires in mid-run"
token=$(tests/kubernetes/token.sh "$cluster" least least 20)
sed "s/token: .*/token: \"$token\"}}/" "$cluster/least.conf" >"$work/short.conf"
CONF=$work/short.conf endlessly --deadline 40s --ttl 1s
wait "$running"
# It cannot delete anything any more: the cluster does.
code=$?
left=$(gone least 90) || verdict FAILED "$name" "left: $left"
judge "$name" 5 1+ "credentials of this context are refused or have expired.*until their deadline" $code "$work"

name="the client is killed"
endlessly --deadline 20s --ttl 1s
kill -9 "$(client "$running")"
wait "$running" 2>/dev/null
left=$(gone least 60)
if [ -z "$left" ]; then verdict ok "$name"; else verdict FAILED "$name" "left: $left"; fi

name="the API server stops answering"
endlessly --deadline 60s --ttl 1s
api=$(tests/kubernetes/cluster.sh inside "$cluster" pgrep -x kube-apiserver)
tests/kubernetes/cluster.sh inside "$cluster" kill -STOP "$api"
wait "$running"
code=$?
tests/kubernetes/cluster.sh inside "$cluster" kill -CONT "$api"
left=$(gone least 90) || verdict FAILED "$name" "left: $left"
judge "$name" 4 1+ "the API server has not answered for 3[0-9] s" $code "$work"

name="a node is lost in mid-run"
endlessly --deadline 5m --ttl 1s
of_node() { tests/kubernetes/cluster.sh inside "$cluster" sh -c 'kill '"$1"' $(pgrep -x kubelet) $(pgrep -x containerd) $(pgrep -x busbw)'; }
of_node -STOP
wait "$running"
code=$?
of_node -CONT
judge "$name" 6 1+ "pods do not end on node1: a node that is lost" $code "$work"

# A pod whose link is slow, and links that are all alike.
echo 200mbit >"$cluster/rate"
# Small messages, so that processors are not measured, and time enough for a machine that is busy.
# The table of a check has one line of the collective.
few="-b 256K -e 256K -n 3 --within 3m"
run "check: links that are alike" 0 1 "" check $net $few
echo "2 40mbit" >"$cluster/slow"
run "check: a slow pod is named" 1 1 "not fit:.*node1/2" check $net $few
rm "$cluster/rate" "$cluster/slow"
