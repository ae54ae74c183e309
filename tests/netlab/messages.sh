# Messages over the bed (tests/netlab/bed.sh): the programs, and how they are run at both ends.
# Not what is measured or judged.
# PAIR=PROGRAM, BUSBW=PROGRAM and REFERENCE=LIBRARY stand for the programs; those that are not given are built.
pair=${PAIR:-} busbw=${BUSBW:-} reference=${REFERENCE:-}
if [ -z "$pair" ] || [ -z "$busbw" ] || [ -z "$reference" ]; then
  # Together with busbw: alone, the plugin would be built again with other features of its dependencies.
  cargo build --release --quiet -p busbw -p nccl-plugin-busbw -p reference-net --lib --bins --example pair || exit 1
  built=$(realpath "${CARGO_TARGET_DIR:-target}")/release
  pair=${pair:-$built/examples/pair} busbw=${busbw:-$built/busbw} reference=${reference:-$built/libreference_net.so}
fi

# addresses SIDE: those of its paths, for sockets that are pinned one to a path.
addresses() { seq -f "10.77.$1.1%g" -s, "$paths"; }
# choose NETWORK: sets `plugin`, options of pair and busbw, and `variables`. NETWORK is `busbw`, `socket` (NCCL's own way,
# one socket) or `socket:THREADSxSOCKETS`.
choose() {
  local shape=${1#socket:}
  plugin=() variables=(BUSBW_NET=sockets)
  [ "$1" = busbw ] && return
  plugin=(--net "$reference")
  [ "$1" = socket ] || variables+=("NCCL_SOCKET_NTHREADS=${shape%x*}" "NCCL_NSOCKS_PERTHREAD=${shape#*x}")
}
# talk NETWORK [option...]: messages from a to b; exit code of either end, 0 if both are.
talk() {
  local address=10.77.2.1:4444 listens code plugin variables
  choose "$1"
  shift
  inside b env "${variables[@]}" REFERENCE_NET_BIND="$(addresses 2)" timeout -k 1 55 "$pair" "${plugin[@]}" listen $address >"$work/listens" 2>&1 &
  listens=$!
  inside a env "${variables[@]}" REFERENCE_NET_BIND="$(addresses 1)" timeout -k 1 55 "$pair" "${plugin[@]}" connect $address "$@" >"$work/out" 2>"$work/err"
  code=$?
  wait $listens && return $code
  return $((code ? code : $?))
}
# reduce ITERATIONS: an all_reduce of 16 MiB between a and b by `--backend net`; as `talk` otherwise.
reduce() {
  local other code command=("$busbw" all_reduce --backend net -b 16M -e 16M -n "$1" -w 1 -c 1 --batches 1)
  local ranks=(WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.77.1.1 MASTER_PORT=4444 BUSBW_NO_RECORD=1 BUSBW_NET=sockets)
  inside b unshare --uts sh -c 'hostname host-b; exec "$@"' b env "${ranks[@]}" RANK=1 timeout -k 1 55 "${command[@]}" >"$work/listens" 2>&1 &
  other=$!
  inside a unshare --uts sh -c 'hostname host-a; exec "$@"' a env "${ranks[@]}" RANK=0 timeout -k 1 55 "${command[@]}" >"$work/table" 2>"$work/err"
  code=$?
  # As the program of `talk` says it.
  awk '$1 == 16777216 {print "size", $1, "wrong", $9 + $13}' "$work/table" >"$work/out"
  wait $other && return $code
  return $((code ? code : $?))
}
# incast SENDERS [option...]: messages over busbw's network from as many processes on a to as many on b; what sender N
# prints goes to $work/outN. The exit code is 0 if all are.
incast() {
  local number code=0 pids=() senders=$1
  shift
  for number in $(seq "$senders"); do
    BUSBW_NET=sockets inside b timeout -k 1 50 "$pair" listen 10.77.2.1:$((5000 + number)) >"$work/listens" 2>&1 &
    pids+=($!)
    BUSBW_NET=sockets inside a timeout -k 1 50 "$pair" connect 10.77.2.1:$((5000 + number)) "$@" >"$work/out$number" 2>"$work/err" &
    pids+=($!)
  done
  for number in "${pids[@]}"; do wait "$number" || code=$?; done
  return $code
}
# soon SECONDS: waits so long from the first bytes on, before something is done to the bed. Of all paths: by chance (1 of
# 100) none of 16 connections takes the first.
soon() {
  local begun tries
  begun=$(all_carried)
  for tries in $(seq 100); do
    [ "$(($(all_carried) - begun))" -gt 100000 ] && break
    sleep 0.05
  done
  sleep "$1"
}