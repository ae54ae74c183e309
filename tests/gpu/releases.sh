#!/bin/bash
# Releases of NCCL on one GPU, beside each other: tests/gpu/releases.sh BUSBW LIBNCCL…
# Under each library two ranks share the GPU as two nodes, and every collective is verified, over NCCL's sockets and over busbw's net
# plugin, which the log must name. Exit 1 where one fails. Not speed: ranks that share a GPU wait for each other.
set -u
busbw=$(realpath "${1:?usage: tests/gpu/releases.sh BUSBW LIBNCCL…}")
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BUSBW_NO_RECORD=1 XDG_CACHE_HOME=$work/cache NCCL_MAX_NCHANNELS=2
collectives="all_reduce all_gather broadcast reduce reduce_scatter alltoall alltoallv gather scatter sendrecv hypercube"
failed=0

# networks: those that NCCL's log names.
networks() {
    python3 -c 'import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
print(*sorted({name for line in lines if line["kind"] == "library" for name in line.get("networks", {})}))' "$work/record.jsonl"
}

# verified WORDS…: one run, verified, with a record.
verified() {
    rm -f "$work/record.jsonl"
    timeout 240 "$busbw" "$@" --record "$work/record.jsonl" >"$work/out" 2>"$work/err" </dev/null &&
        grep -q '^# Out of bounds values : 0 OK' "$work/out"
}

for library in "$@"; do
    for network in Socket busbw; do
        for collective in $collectives; do
            words=("$collective" --nccl "$library" -g 2 --share-gpus -b 1K -e 1M -f 32 -n 2 --batches 1)
            [ $network = Socket ] || words+=(--net $network)
            if verified "${words[@]}" && [ "$(networks)" = "$network" ]; then
                code=$(sed -n 's/.*nccl-library=\([0-9]*\).*/\1/p' "$work/out")
                echo "ok      NCCL $code over $network: $collective"
            else
                failed=$((failed + 1))
                echo "FAILED  $library over $network: $collective; networks by its log: $(networks)"
                tail -n 15 "$work/err" | sed 's/^/        /'
            fi
        done
    done
done
echo "$failed failed"
[ $failed = 0 ]
