# Figures of many runs: sourced by `tests/kubernetes.sh --bars`. Each line is a figure and the bar; the last word is `ok` or
# `FAILED`. BARS names those that are wanted (first rows, hundred, slow, killed, expired), all unless given. Hours on a
# machine of two processors. Not what each change is tested with (cases.sh).
# shellcheck disable=SC2086

bars=${BARS:-first hundred slow killed expired}
wanted() { [[ " $bars " == *" $1 "* ]]; }
bar() { # NAME GOT WANTED: equal, or it failed
  if [ "$2" = "$3" ]; then echo "$1: $2 ok"; else
    echo "$1: $2, not $3 FAILED"
    failed=1
  fi
}

if wanted first; then
  times=()
  for _ in $(seq 20); do
    begun=$(date +%s%N)
    launched all_reduce $small $net >"$work/out" 2>"$work/err" &
    running=$!
    until_line "$work/out" ' float ' 60
    times+=($((($(date +%s%N) - begun) / 1000000)))
    wait $running
  done
  mapfile -t times < <(printf '%s\n' "${times[@]}" | sort -n)
  echo "command to first row, 4 pods, ms: median ${times[10]}, worst ${times[19]} of 20 (bar 15000)"
  [ "${times[10]}" -le 15000 ] || failed=1
fi
if wanted hundred; then
  good=0
  for _ in $(seq 100); do launched all_reduce $small $net >"$work/out" 2>"$work/err" && good=$((good + 1)); done
  bar "runs that ended well" "$good of 100" "100 of 100"
  bar "objects left" "$(gone least 30 | wc -w)" 0
  bar "containers' processes left" "$(tests/kubernetes/cluster.sh inside "$cluster" pgrep -cx busbw)" 0
fi
if wanted slow; then
  # Small messages over slow links, so that processors are not measured.
  few="-b 256K -e 256K -n 3 --within 3m"
  named=0 blamed=0
  echo 200mbit >"$cluster/rate"
  for count in $(seq 20); do
    # Each pod in its turn, the first one too.
    echo "$((count % 4)) 40mbit" >"$cluster/slow"
    launched check $net $few >"$work/out" 2>"$work/err"
    [ $? = 1 ] && grep -q "not fit:.*node1/$((count % 4))" "$work/err" && named=$((named + 1))
    rm "$cluster/slow"
    for _ in 1 2; do launched check $net $few >"$work/out" 2>"$work/err" || blamed=$((blamed + 1)); done
    echo "  after $count: $named named, $blamed of $((2 * count)) without a fault blamed"
  done
  rm "$cluster/rate"
  bar "slow pods that were named" "$named of 20" "20 of 20"
  bar "checks without a fault that blame" "$blamed of 40" "0 of 40"
fi
# Until DEADLINE and what the cluster needs beyond it, after the client has gone: `outlived NAME FUNCTION`.
outlived() {
  local well=0 count
  for count in $(seq 20); do
    "$2"
    gone least 90 >"$work/left" && well=$((well + 1))
    [ ! -s "$work/left" ] || admin --namespace least delete jobs --all >"$work/made" 2>&1
  done
  bar "$1" "$well of 20" "20 of 20"
}
killed() {
  endlessly --deadline 20s --ttl 1s
  kill -9 "$(client "$running")"
  wait "$running" 2>/dev/null
}
expired() {
  sed "s/token: .*/token: \"$(tests/kubernetes/token.sh "$cluster" least least 20)\"}}/" "$cluster/least.conf" >"$work/short.conf"
  CONF=$work/short.conf endlessly --deadline 40s --ttl 1s
  wait "$running"
}
wanted killed && outlived "gone by their deadline after the client was killed" killed
wanted expired && outlived "gone by their deadline after the token has expired" expired
