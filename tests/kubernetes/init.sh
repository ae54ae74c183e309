# `busbw check` as init container of a job of three pods, as docs/check.md has it: sourced by tests/kubernetes.sh. Not a
# check from outside (cases.sh).

# The manifest of docs/check.md for three pods without GPUs, with busbw as the job.
# Not the document's own lines: its images are not there, and a container of busbw's image has no shell.
gang() { # NAME
  cat <<YAML
apiVersion: v1
kind: Service
metadata: {name: $1}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {batch.kubernetes.io/job-name: $1}
---
apiVersion: v1
kind: Secret
metadata: {name: $1}
stringData: {key: 0123456789abcdef0123456789abcdef}
---
apiVersion: batch/v1
kind: Job
metadata: {name: $1}
spec:
  completionMode: Indexed
  completions: 3
  parallelism: 3
  backoffLimit: 0
  template:
    spec:
      subdomain: $1
      restartPolicy: Never
      volumes:
      - {name: busbw, emptyDir: {}}
      - {name: shm, emptyDir: {medium: Memory}}
      initContainers:
      - name: copy
        image: $image
        imagePullPolicy: Never
        args: [copy-to, /busbw]
        volumeMounts: [{name: busbw, mountPath: /busbw}]
      - name: check
        image: &image $image
        imagePullPolicy: Never
        command: [/busbw/busbw, check, --within, 3m, --backend, net, -b, 256K, -e, 256K, -n, "3"]
        env: &job
        - {name: BUSBW_PODS, value: "3"}
        - {name: MASTER_ADDR, value: $1-0.$1}
        - {name: MASTER_PORT, value: "29500"}
        - name: BUSBW_JOB_SECRET
          valueFrom: {secretKeyRef: {name: $1, key: key}}
        - name: BUSBW_HOST
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        volumeMounts: &mounts
        - {name: busbw, mountPath: /busbw}
        - {name: shm, mountPath: /dev/shm}
      containers:
      - name: train
        image: *image
        imagePullPolicy: Never
        command: [/busbw/busbw, all_reduce, --backend, net, -b, "8", -e, "64", -f, "2", -n, "5", --batches, "1"]
        env: *job
        volumeMounts: *mounts
YAML
}
# What pod INDEX says of a container: `about NAME INDEX initContainerStatuses|containerStatuses FIELD`
about() {
  local select="batch.kubernetes.io/job-name=$1,batch.kubernetes.io/job-completion-index=$2"
  admin --namespace least get pods -l "$select" -o "jsonpath={.items[0].status.$3[-1:].state.terminated.$4}" 2>>"$work/err"
}
# init NAME JOB ENDS CODE TEXT: a check of a gang before its job. Every pod's check has the exit code and the verdict; of a
# Job that fails the controller deletes the pods that have not ended yet, so that at least one has it.
init() {
  local name=$1 job=$2 ends=$3 code=$4 text=$5 why='' seen_pods=0 index got said
  : >"$work/err"
  gang "$job" | admin --namespace least apply -f - >"$work/made" 2>"$work/err" || why=", it is refused"
  got=$(ended "$job" 200)
  [ "$got" = "$ends" ] || why+=", the Job is $got"
  for index in 0 1 2; do
    [ -n "$(admin --namespace least get pods -l "batch.kubernetes.io/job-name=$job,batch.kubernetes.io/job-completion-index=$index" -o name)" ] || continue
    seen_pods=$((seen_pods + 1))
    got=$(about "$job" $index initContainerStatuses exitCode)
    said=$(about "$job" $index initContainerStatuses message)
    [ "$got" = "$code" ] || why+=", the check of pod $index ended with ${got:-nothing}"
    grep -qE -e "$text" <<<"$said" || why+=", pod $index says: ${said:-nothing}"
    # Nothing of a job starts that must not.
    [ "$code" = 0 ] || [ -z "$(about "$job" $index containerStatuses exitCode)" ] || why+=", pod $index has started its job"
  done
  [ "$seen_pods" = 3 ] || { [ "$code" != 0 ] && [ "$seen_pods" -ge 1 ]; } || why+=", $seen_pods pods are there"
  if [ "$code" = 0 ] && ! admin --namespace least logs "job/$job" -c train 2>/dev/null | grep -q ' float '; then
    # The first pod has the table, and `logs job/` takes any.
    for index in 0 1 2; do
      admin --namespace least logs -l "batch.kubernetes.io/job-name=$job,batch.kubernetes.io/job-completion-index=$index" -c train --tail=-1
    done >"$work/out" 2>>"$work/err"
    [ "$(grep -c ' float ' "$work/out")" = 4 ] || why+=", the job has $(grep -c ' float ' "$work/out") rows, not 4"
  fi
  admin --namespace least delete job,service,secret "$job" --ignore-not-found >"$work/made" 2>&1
  got=$(gone least 60) || why+=", left: $got"
  if [ -z "$why" ]; then verdict ok "$name"; else
    verdict FAILED "$name" "${why#, }"
    tail -n 5 "$work/err"
  fi
}
echo 200mbit >"$cluster/rate"
init "init container: a healthy gang starts" fit complete 0 'fit: no check found a fault|the job may start'
echo "2 40mbit" >"$cluster/slow"
init "init container: a slow pod keeps its gang from starting" slow failed 1 'not fit:.*-2'
rm "$cluster/rate" "$cluster/slow"
