#!/bin/bash
# Releases of NCCL on one GPU, beside each other: tests/gpu/releases.sh BUSBW LIBNCCL…
# Under each library two ranks share the GPU, and every collective is verified: within the node, and as two virtual nodes over
# busbw's net plugin, which the log must name. Exit 1 where one fails. Not speed: ranks that share a GPU wait for each other.
set -u
busbw=$(realpath "${1:?usage: tests/gpu/releases.sh BUSBW LIBNCCL…}")
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BUSBW_NO_RECORD=1 XDG_CACHE_HOME=$work/cache NCCL_MAX_NCHANNELS=2
collectives="all_reduce all_gather broadcast reduce reduce_scatter alltoall alltoallv gather scatter sendrecv hypercube"
failed=0

# told RECORD: NCCL's release and the networks that its log names.
told() {
    python3 -c 'import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
facts = [line for line in lines if line["kind"] == "library"]
names = sorted({name for one in facts for name in (one.get("nccl") or one).get("networks", {})})
rows = [line for line in lines if line["kind"] == "row"]
print(len(rows), "rows, networks", ", ".join(names) or "none named")' "$1"
}

# case WORDS…: one run, verified, with a record.
verified() {
    rm -f "$work/record.jsonl"
    timeout 240 "$busbw" "$@" --record "$work/record.jsonl" >"$work/out" 2>"$work/err" </dev/null &&
        grep -q '^# Out of bounds values : 0 OK' "$work/out"
}

for library in "$@"; do
    for network in within two-nodes; do
        for collective in $collectives; do
            words=("$collective" --nccl "$library" -g 2 --share-gpus -b 1K -e 1M -f 32 -n 2 --batches 1)
            [ $network = within ] || words+=(--virtual-nodes 2 --net busbw)
            if verified "${words[@]}"; then
                code=$(sed -n 's/.*nccl-library=\([0-9]*\).*/\1/p' "$work/out")
                echo "ok      $code $network $collective: $(told "$work/record.jsonl")"
            else
                failed=$((failed + 1))
                echo "FAILED  $library $network $collective"
                tail -n 15 "$work/err" | sed 's/^/        /'
            fi
        done
    done
done
echo "$failed failed"
[ $failed = 0 ]
