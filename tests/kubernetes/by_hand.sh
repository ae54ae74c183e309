# Manifests that `--dry-run` prints, applied by hand as people do who commit them: sourced by tests/kubernetes.sh, after
# init.sh. Not whether the API server takes every option (shapes.sh).
# shellcheck disable=SC2086

# committed NAME KIND JOB LOG-TEXT COUNT WORD...: what is printed for KIND, and its Secret, are applied; JOB, a Job that
# appears then, completes, and the first pod's log has so many lines that match.
committed() {
  local name=$1 kind=$2 job=$3 text=$4 count=$5 why='' got index
  shift 5
  : >"$work/out"
  "$program" all_reduce --launcher kubernetes --launcher-command "$programs/bin/kubectl --kubeconfig $cluster/admin.conf" --nodes 2 --share-nodes \
    --image "$image" --image-pull-policy Never --kind "$kind" --dry-run --gpus-per-node 0 --rdma none --backend net "$@" >"$work/yaml" 2>"$work/err" || why=", it is not printed"
  admin --namespace least create secret generic busbw-all-reduce --from-literal=secret=0123456789abcdef0123456789abcdef >"$work/made" 2>>"$work/err" || why+=", no Secret"
  admin --namespace least apply --validate=strict -f "$work/yaml" >"$work/made" 2>>"$work/err" || why+=", it is refused"
  [ "$kind" != cronjob ] || admin --namespace least create job "$job" --from=cronjob/busbw-all-reduce >"$work/made" 2>>"$work/err" || why+=", no Job of it"
  got=$(ended "$job" 200)
  [ "$got" = complete ] || why+=", the Job is $got"
  for index in 0 1; do
    admin --namespace least logs -l "batch.kubernetes.io/job-name=$job,batch.kubernetes.io/job-completion-index=$index" --tail=-1 >>"$work/out" 2>>"$work/err"
  done
  got=$(grep -cE -e "$text" "$work/out")
  [ "$got" = "$count" ] || why+=", $got lines of \"$text\", not $count"
  admin --namespace least delete --ignore-not-found -f "$work/yaml" >"$work/made" 2>&1
  admin --namespace least delete --ignore-not-found "job/$job" secret/busbw-all-reduce >"$work/made" 2>&1
  got=$(gone least 60) || why+=", left: $got"
  if [ -z "$why" ]; then verdict ok "$name"; else
    verdict FAILED "$name" "${why#, }"
    tail -n 5 "$work/err" "$work/out"
  fi
}
committed "by hand: a Job as it is printed" job busbw-all-reduce '"kind":"row"' 4 $small
echo 200mbit >"$cluster/rate"
committed "by hand: a CronJob's check" cronjob nightly '^# EOF|^# fit: no check found a fault' 2 -b 256K -e 256K -n 3
rm "$cluster/rate"
