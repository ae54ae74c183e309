# The tests that need a GPU, a function each; tests/gpu.sh runs them. They end with the first command
# that fails. $gpus is how many GPUs there are, $few at most 4 of them.

# wants CODE COMMAND…: the command ends with that exit code; its output is in out and err.
wants() {
    local code=$1 got=0
    shift
    "$@" >out 2>err || got=$?
    [ "$got" = "$code" ] || { echo "exit $got instead of $code: $*"; cat out err; return 1; }
}
# rows: how many rows of the last table are right and complete.
rows() { grep -cE '^ +[0-9]+ +[0-9]+ ' out; }
right() { grep -q '^# Out of bounds values : 0 OK' out; }
said() { grep -qE -e "$1" err || { echo "stderr does not say: $1"; cat err; return 1; }; }
# nccl_code: the version of NCCL that the last table was measured with, such as 22809.
nccl_code() { sed -n 's/.*nccl-library=\([0-9]*\).*/\1/p' out; }
# facts EXPRESSION: a Python expression over lines, the record's objects, is true.
facts() {
    python3 -c 'import json, sys
lines = [json.loads(line) for line in open("record.jsonl")]
rows = [line for line in lines if line["kind"] == "row"]
library = [line for line in lines if line["kind"] == "library"]
value = eval(sys.argv[1])
assert value, sys.argv[1]' "$1"
}

doctor() {
    wants 0 "$busbw" doctor -g "$gpus" || wants 1 "$busbw" doctor -g "$gpus"
    grep -q 'NVIDIA driver: ' out
    "$busbw" doctor --json >doctor.json || [ $? = 1 ]
    python3 -c 'import json; assert json.load(open("doctor.json"))["findings"]'
}
first_run() {
    wants 0 "$busbw" all_reduce_perf -b 8 -e 1G -f 2 -g 1
    right; [ "$(rows)" = 28 ]
    wants 0 "$busbw" all_reduce -b 8 -e 64M -f 8
    right; [ "$(grep -c '^#  Rank' out)" = "$gpus" ]
}
# some COLLECTIVE OPTIONS…: on a few GPUs by threads, on a single one by two ranks that share it.
some() {
    if [ "$gpus" -gt 1 ]; then
        "$busbw" "$1_perf" -t "$few" "${@:2}"
    else
        NCCL_MAX_NCHANNELS=2 "$busbw" "$1" -g 2 --share-gpus -n 4 --batches 1 "${@:2}"
    fi
}
every_type_and_operator() {
    wants 0 some all_reduce -b 4K -e 1M -f 16 -d all -o all
    right; [ "$(rows)" = 216 ]
    wants 0 some reduce_scatter -b 4K -e 1M -f 256 -d all -o all
    right
}
host_and_gpu_agree() {
    for who in host-fills host-verifies; do
        wants 0 some all_reduce -b 1000 -e 1M -f 1000 -d all -o all --proof $who
        right; [ "$(rows)" = 144 ]
    done
}
# Before 2.29 NCCL leaves the last elements of what it scales on one rank as they were (src/device/onerank.cu:
# floor of elements over blocks), and it has no kernel there for types of 8 bits.
one_rank() {
    wants 0 "$busbw" all_reduce_perf -b 1M -e 1M -g 1 -d all -o all
    right; [ "$(grep -c "lacks the type" out)" = 4 ]
    local code=7
    [ "$(nccl_code)" -lt 22900 ] || code=0
    wants $code "$busbw" all_reduce_perf -b 1000000 -e 1000000 -g 1 -d float -o mulsum
    [ $code = 0 ] || said 'wrong data: .* rank 0 found 0xa5a5a5a5 .* in element 249984'
}
corrupt_element() {
    wants 7 "$busbw" all_reduce_perf -b 1M -e 1M -t "$few" --fault rank=0,phase=timed,do=corrupt:12345
    said 'wrong data: .* rank 0 .* in element 12345'
    wants 7 "$busbw" all_gather -b 1M -e 1M -g "$few" --fault rank=$((few - 1)),phase=verify,do=corrupt:777
    said "rank $((few - 1)) .* in element 777 .check 1."
}
shared_gpu() {
    export NCCL_MAX_NCHANNELS=2
    for collective in all_reduce all_gather alltoall sendrecv; do
        wants 0 "$busbw" $collective -g $((gpus + 1)) --share-gpus -b 1K -e 64K -f 8 -n 2 --batches 1
        right; said 'measures no hardware'
    done
}
network_is_named() {
    export NCCL_MAX_NCHANNELS=2
    wants 0 "$busbw" all_reduce -g $((gpus + 1)) --share-gpus -b 1K -e 64K -f 8 -n 2 --batches 1 --record record.jsonl
    facts 'any(t["transport"]["kind"] == "NET" and t["transport"]["plugin"] == "Socket" for l in library for t in l["transports"])'
}
too_many_gpus() {
    wants 5 "$busbw" all_reduce_perf -g 99
    said 'Invalid number of GPUs: 99 requested but only '
    NCCL_TESTS_DEVICE=$gpus wants 5 "$busbw" all_reduce_perf -g 1
}
full_gpu() {
    python3 - <<'P' &
import ctypes, time
cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0)
context, pointer = ctypes.c_void_p(), ctypes.c_void_p()
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
free, total = ctypes.c_size_t(), ctypes.c_size_t()
cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(free.value - (2 << 30))) == 0
open("full", "w").close()
time.sleep(60)
P
    local holder=$!
    for _ in $(seq 200); do [ -e full ] && break; sleep 0.1; done
    [ -e full ]
    wants 5 "$busbw" all_reduce_perf -b 4G -e 4G -g 1 || { kill $holder; return 1; }
    kill $holder
    said 'GPU 0 .*MiB'
}
another_nccl() {
    python3 -c 'import nvidia.nccl' || { echo "no NCCL among Python's packages"; return 1; }
    local wheel
    wheel=$(python3 -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])')/lib/libnccl.so.2
    wants 0 "$busbw" all_reduce_perf -b 8 -e 64 -f 8 -g 1 --nccl "$wheel"
    local wanted
    wanted=$(python3 -c 'import ctypes, sys; v = ctypes.c_int(); ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(v)); print(v.value)' "$wheel")
    grep -q "nccl-library=$wanted" out
    wants 5 "$busbw" all_reduce_perf -g 1 --backend nccl --nccl /nowhere/libnccl.so.2
    said /nowhere/libnccl.so.2
}
own_debug_settings() {
    NCCL_DEBUG=INFO wants 0 "$busbw" all_reduce_perf -b 8 -e 64 -f 8 -g 1 --record record.jsonl
    ! grep -q 'NCCL INFO' out
    grep -q 'NCCL INFO' err
    facts 'not library'
}
options() {
    for option in "-G 3" "-R 1" "-I 1 -K 2" "-m 4" "-z 1" "-z 2" "-z 3" "-C 1" "-y 1" "-u 3" "-x 1" "-M 1" "-T 30" "-S 1" "-N 2" "-c 5" "-a 0" "-p 1" "-w 0"; do
        wants 0 "$busbw" all_reduce_perf -b 8 -e 1M -f 64 -t "$few" $option
        right
    done
    wants 0 "$busbw" all_reduce_perf -b 8 -e 64 -f 8 -t "$few" -R 2 -D 1
    said '-D 1 is waived: '
}
multicast_stays_off() {
    export NCCL_NVLS_ENABLE=0
    # Without job control a shell starts what runs in the background deaf to Ctrl-C.
    set -m
    "$busbw" all_reduce -b 64M -e 64M -N 0 >out 2>err &
    local running=$! ok=1 rank
    sleep 4
    for rank in $(pgrep -P $running); do
        tr '\0' '\n' <"/proc/$rank/environ" | grep -qx NCCL_NVLS_ENABLE=0 || ok=0
    done
    [ -n "$(pgrep -P $running)" ] || ok=0
    kill -INT $running
    wait $running || true
    [ $ok = 1 ]
}
every_collective() {
    for collective in all_reduce all_gather reduce_scatter broadcast reduce alltoall alltoallv gather scatter sendrecv hypercube; do
        wants 0 "$busbw" ${collective}_perf -b 1000 -e 1M -f 32 -t "$few" -d all
        right
        wants 0 "$busbw" ${collective}_perf -b 1000 -e 1M -f 1000 -t 1 -g "$few" -u 1
        right
        wants 0 "$busbw" $collective -b 1000 -e 1M -f 1000 -g "$few" -r all --batches 1
        right
    done
}
transports_are_named() {
    wants 0 "$busbw" all_reduce -b 1M -e 1M -g 2 --record record.jsonl
    facts 'len(library) == 2 and all(t["transport"]["kind"] == "P2P" for l in library for t in l["transports"])'
    NCCL_P2P_DISABLE=1 wants 0 "$busbw" all_reduce -b 1M -e 1M -g 2 --record record.jsonl
    facts 'all(t["transport"]["kind"] == "SHM" for l in library for t in l["transports"])'
}
algorithms_are_named() {
    wants 0 "$busbw" all_reduce -b 8 -e 256M -f 32 -g "$few" --batches 1 --record record.jsonl
    facts 'all(r["out_of_place"]["algorithm"] for r in rows)'
    facts 'all(0 < r["out_of_place"]["predicted_us"] < 1e6 for r in rows)'
    NCCL_ALGO=Ring NCCL_PROTO=Simple wants 0 "$busbw" all_reduce -b 1K -e 1K -g 2 --record record.jsonl
    facts 'rows[0]["out_of_place"]["algorithm"].startswith("RING SIMPLE")'
}
registration() {
    for option in "-R 1" "-R 2" "-R 2 -x 2"; do
        wants 0 "$busbw" all_reduce_perf -b 8 -e 16M -f 64 -t "$few" $option
        right
        wants 0 "$busbw" all_gather -b 1K -e 16M -f 64 -g "$few" --batches 1 $option
        right
        wants 0 "$busbw" all_reduce_perf -b 8 -e 16M -f 64 -g "$few" $option
        right
    done
}
graphs() {
    for collective in all_reduce all_gather reduce_scatter broadcast alltoall sendrecv; do
        for layout in "$collective -g 2 -G 7 --batches 2" "${collective}_perf -t 2 -g 1 -G 1" "${collective}_perf -t 1 -g 2 -G 7"; do
            echo "$layout"
            wants 0 timeout 20 "$busbw" $layout -b 1K -e 1M -f 32
            right
        done
    done
}
split() {
    NCCL_TESTS_SPLIT="MOD 2" wants 0 "$busbw" all_reduce -b 1K -e 64K -f 8 -g "$few" --batches 1 --record record.jsonl
    right
    facts 'len({r["group"] for r in rows}) == 2'
    NCCL_TESTS_SPLIT_MASK=1 wants 0 "$busbw" all_gather_perf -b 1K -e 64K -f 8 -t "$few"
    right
    NCCL_TESTS_SPLIT="MOD 2" wants 2 "$busbw" all_reduce_perf -g 2
    NCCL_TESTS_MIN_BW=100000 wants 7 "$busbw" all_reduce_perf -b 1M -e 1M -t 2
}
lost_rank() {
    for phase in start warmup timed verify; do
        wants 6 "$busbw" all_reduce -b 1K -e 1K -g 2 --fault rank=1,phase=$phase,do=kill
        said 'rank 1 \(process [0-9]+ on .*\) was killed by signal 9'
    done
    ! pgrep -f "^$busbw __rank" >/dev/null
}
stopped_rank() {
    wants 6 "$busbw" all_reduce -b 1K -e 1K -g 2 --fault rank=0,phase=timed,do=stop
    said 'has been stopped for'
}
timeout_() {
    wants 4 "$busbw" all_reduce -b 1K -e 1K -g 2 -T 2 --fault rank=1,phase=timed,do=stop
    said 'rank 1 .* did not arrive within 2 s'
}
interrupt() {
    set -m
    "$busbw" all_reduce -b 1M -e 1M -g 2 -N 0 --record record.jsonl >out 2>err &
    local running=$! code=0 ranks
    sleep 5
    # Not by name: tests beside this one have ranks, too.
    ranks=$(pgrep -P $running)
    kill -INT $running
    wait $running || code=$?
    [ $code = 130 ]
    facts 'len(rows) > 3 and lines[-1]["kind"] == "end"'
    for rank in $ranks; do [ ! -e "/proc/$rank" ]; done
}
counters() {
    wants 0 "$busbw" all_reduce -b 16M -e 256M -f 16 -g "$few" -n 20 --batches 1 --record record.jsonl
    # Every rank sends at least 2(n−1)/n of the size in each timed operation of both placements; what NVLink
    # counted is no less, and no more than all that ran (warm-up, checks and the prediction's pass) could send.
    python3 - "$few" <<'P'
import json, sys
lines = [json.loads(line) for line in open("record.jsonl")]
ranks = int(sys.argv[1])
print("one reading:", lines[0]["counted"]["reading_us"], "us")
for row in (line for line in lines if line["kind"] == "row"):
    sent = {c["device"]: c["grown"].get("nvlink_tx_bytes", 0) for c in row["counters"] if c["kind"] == "gpu"}
    assert len(sent) == ranks, row["counters"]
    timed = 2 * 20 * row["size"] * 2 * (ranks - 1) / ranks
    print(row["size"], {gpu: round(bytes / timed, 2) for gpu, bytes in sent.items()}, "of the timed operations' bytes")
    assert all(timed <= bytes <= 3 * timed for bytes in sent.values()), (timed, sent)
P
    said 'counters: NVLink moved'
}
launched_by_mpirun() {
    command -v mpirun >/dev/null || { echo "no mpirun on this machine"; return 1; }
    wants 0 mpirun --allow-run-as-root --oversubscribe -np "$few" "$busbw" all_reduce -b 1K -e 16M -f 16 -g 1 --batches 1
    right; [ "$(grep -c '^#  Rank' out)" = "$few" ]; [ "$(rows)" = 4 ]
    wants 0 mpirun --allow-run-as-root --oversubscribe -np 1 "$busbw" all_reduce_perf -b 1K -e 16M -f 16 -t "$few" -g 1
    right; [ "$(grep -c '^#  Rank' out)" = "$few" ]
}
launched_by_torchrun() {
    command -v torchrun >/dev/null || { echo "no torchrun on this machine"; return 1; }
    wants 0 torchrun --no-python --nproc-per-node "$few" "$busbw" all_reduce -b 1K -e 16M -f 16 -g 1 --batches 1
    right; [ "$(grep -c '^#  Rank' out)" = "$few" ]; [ "$(rows)" = 4 ]
}
same_layout() {
    local all=0 same=0 line
    while read -r line; do
        all=$((all + 1))
        set -- $line
        "$busbw" "$@" -t 2 -g 1 >ours.txt 2>ours.err || { echo "ours: $line"; cat ours.err; continue; }
        "$theirs/$1" "${@:2}" -t 2 -g 1 >theirs.txt 2>theirs.err || { echo "theirs: $line"; cat theirs.err; continue; }
        if python3 "$here/same_layout.py" ours.txt theirs.txt; then same=$((same + 1)); else echo "differs: $line"; fi
    done <"$here/commands.txt"
    echo "$same of $all tables are alike"
    [ $same = $all ]
}
net_abort() {
    wants 0 python3 "$here/net_abort.py" "$("$busbw" plugin path)" --cycles 6 --limit 150
    cat out
}
# of_mpi RANKS OPTIONS…: busbw under the mpirun of MPI_CUDA; where there are fewer GPUs, ranks share one.
of_mpi() {
    PATH=$MPI_CUDA/bin:$PATH LD_LIBRARY_PATH=$MPI_CUDA/lib:${LD_LIBRARY_PATH:-} OPAL_PREFIX=$MPI_CUDA \
        "$MPI_CUDA/bin/mpirun" --allow-run-as-root --oversubscribe -n "$1" "$busbw" "${@:2}"
}
mpi_messages_in_gpu_memory() {
    local where test
    for where in gpu gpu,host host,gpu; do
        for test in latency bw bibw; do
            wants 0 of_mpi 2 $test --backend mpi --buffers $where -b 1 -e 16M -f 16 -n 5 -w 1 --batches 1 -c 1 --record record.jsonl
            right; facts 'len(rows) == 7 and all(row["out_of_place"]["wrong"] == 0 for row in rows)'
            rm record.jsonl
        done
    done
    wants 0 of_mpi 4 mbw_mr --backend mpi --buffers gpu -b 1 -e 1M -f 32 -n 5 -w 1 --batches 1 -c 1
    right
    wants 0 of_mpi 2 osu_latency -c -m 1:64K -i 20 -x 2 D H
    grep -q '^# OSU MPI-CUDA Latency Test' out; grep -qE '^65536 .*Pass' out
    wants 7 of_mpi 2 bw --backend mpi --buffers gpu -b 8 -e 1M -f 64 -n 5 --batches 1 -c 1 --fault rank=1,phase=timed,row=1,do=corrupt:0
}
mpi_collectives_in_gpu_memory() {
    local collective ranks
    for collective in all_reduce all_gather reduce_scatter broadcast reduce alltoall alltoallv gather scatter sendrecv hypercube; do
        for ranks in 2 4; do
            wants 0 of_mpi $ranks $collective --backend mpi --buffers gpu -d float -b 64 -e 1M -f 100 -n 2 -w 1 --batches 1 -c 1 --record record.jsonl
            right; [ "$(rows)" = 3 ]
            facts 'all(row["out_of_place"]["wrong"] == 0 and (row.get("in_place") or {}).get("wrong") in (0, None) for row in rows)'
            # In place has MPI_Sendrecv none, and what is wrong with the other the row says (docs/mpi.md).
            case $collective in
            sendrecv) facts 'all(row.get("in_place") is None for row in rows)' ;;
            reduce_scatter) facts 'all((row.get("in_place") is None) == any("open-mpi/ompi#13883" in note for note in row.get("notes", [])) for row in rows)' ;;
            *) facts 'all(row.get("in_place") for row in rows)' ;;
            esac
            rm record.jsonl
        done
    done
    wants 7 of_mpi 2 all_reduce --backend mpi --buffers gpu -b 8 -e 64 -f 2 -n 5 --batches 1 --fault rank=1,phase=timed,row=1,do=corrupt:1
}
