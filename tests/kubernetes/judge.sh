# How runs on the cluster are started and judged: sourced by tests/kubernetes.sh. Not which runs (cases.sh, shapes.sh, bars.sh).

verdict() { # ok|FAILED NAME [DETAIL]
  printf '%-7s %s%s\n' "$1" "$2" "${3:+: $3}"
  echo "$2" >>"$seen"
  [ "$1" = FAILED ] && failed=1
  return 0
}
# The Role that busbw prints, for the user of least.conf. `allow CLUSTER [NAMESPACE]`
allow() {
  "$program" all_reduce --launcher kubernetes --kind role --dry-run 2>"$work/err" |
    "$programs/bin/kubectl" --kubeconfig "$1/admin.conf" --namespace "${2:-least}" apply -f - >"$work/out" 2>>"$work/err" || {
    cat "$work/err"
    exit 1
  }
}
# A run in the cluster. Variables say otherwise: CONF (whose kubeconfig), PODS, IMAGE, IN (the namespace).
launched() { # COMMAND WORD...
  local command=$1
  shift
  # Ctrl-C is heeded also where this is a background job.
  env --default-signal=INT "$program" "$command" --launcher kubernetes \
    --launcher-command "$programs/bin/kubectl --kubeconfig ${CONF:-$cluster/least.conf}" \
    --nodes "${PODS:-4}" --share-nodes --image "${IMAGE:-$image}" --image-pull-policy Never --yes ${IN:+--namespace "$IN"} "$@"
}
# Without GPUs, over sockets; short.
net="--gpus-per-node 0 --backend net"
small="-b 8 -e 64 -f 2 -n 5 --batches 1"
endless="-N 0 -b 8 -e 8 -n 5"
# Seconds after which a run is taken to hang: a busy machine is slow.
limit=200
# What is there of runs: NAMESPACE [CLUSTER]. What Kubernetes itself puts into a namespace is no run's.
objects() {
  "$programs/bin/kubectl" --kubeconfig "${2:-$cluster}/admin.conf" --namespace "${1:-least}" get \
    jobs,cronjobs,services,secrets,pods,configmaps,computedomains,jobsets,mpijobs -o name 2>/dev/null |
    grep -v '^configmap/kube-root-ca.crt$\|^service/kubernetes$'
}
# Until nothing is left, at most SECONDS: NAMESPACE SECONDS [CLUSTER]; what is left otherwise.
gone() {
  local _
  for _ in $(seq $(($2 * 5))); do
    [ -n "$(objects "$1" "${3-}")" ] || return 0
    sleep 0.2
  done
  objects "$1" "${3-}" | tr '\n' ' '
  return 1
}
# Until the Job has ended: complete or failed. `ended NAME SECONDS`
ended() {
  local _ said
  for _ in $(seq $(($2 * 2))); do
    said=$(admin --namespace least get job "$1" -o 'jsonpath={.status.conditions[*].type}')
    case " $said " in
      *" Complete "*) echo complete && return ;;
      *" Failed "*) echo failed && return ;;
    esac
    sleep 0.5
  done
  echo "neither in $2 s"
}
# judge NAME CODE ROWS TEXT GOT FOLDER [NAMESPACE [CLUSTER]]: the exit code is CODE, there are so many rows (or, as 1+, at
# least so many), TEXT (an extended regular expression) is on stderr, and nothing is left.
judge() {
  local name=$1 code=$2 rows=$3 text=$4 got=$5 folder=$6 why='' left have
  have=$(grep -c ' float ' "$folder/out")
  [ "$got" = "$code" ] || why="exit code $got, not $code"
  case $rows in
    *+) [ "$have" -ge "${rows%+}" ] || why+=", $have rows, not $rows" ;;
    *) [ "$have" = "$rows" ] || why+=", $have rows, not $rows" ;;
  esac
  [ -z "$text" ] || grep -aqE -e "$text" "$folder/err" || why+=", stderr lacks: $text"
  left=$(gone "${7:-least}" 30 "${8-}") || why+=", left: $left"
  if [ -z "$why" ]; then verdict ok "$name"; else
    verdict FAILED "$name" "${why#, }"
    tail -n 5 "$folder/err"
  fi
}
# run NAME CODE ROWS TEXT COMMAND WORD...
run() {
  timeout "$limit" bash -c 'launched "$@"' - "${@:5}" >"$work/out" 2>"$work/err"
  judge "${@:1:4}" $? "$work" "${IN-}" "${ON-}"
}
# Waits until a file has a line that matches: FILE EXPRESSION SECONDS.
until_line() {
  local _
  for _ in $(seq $(($3 * 10))); do
    grep -aqE -e "$2" "$1" 2>/dev/null && return
    sleep 0.1
  done
  return 1
}
# A run that goes on until it is told otherwise, its first row seen: $running is its process. `endlessly WORD...`
endlessly() {
  launched all_reduce $net $endless "$@" >"$work/out" 2>"$work/err" &
  running=$!
  until_line "$work/out" ' float ' 100
}
# busbw itself, of a function in the background: the process below the shell that runs it.
client() { pgrep -P "$1" -f "$program" || echo "$1"; }
export -f launched
export program programs cluster image PODS IMAGE CONF IN
