#!/usr/bin/env bash
# Runs every command of README.md, CONTRIBUTING.md, docs/*.md and of the help that can run without a GPU, as printed:
# tests/documented.sh [BUSBW]. A command that this machine cannot run says what it needs (`# needs GPUs`) and is waived.
# Commands that build this repository are run with the default BUSBW only, target/release/busbw.
set -euo pipefail
root=$(realpath "$(dirname "$0")/..")
busbw=$(realpath "${1:-$root/target/release/busbw}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip install --quiet --target "$work/packages" jsonschema 2>/dev/null ||
  python3 -m pip install --quiet --break-system-packages --target "$work/packages" jsonschema

# What a reader has: busbw on PATH, a history, and the files that the documents name.
mkdir -p "$work"/bin "$work"/cache "$work"/reader
ln -s "$busbw" "$work/bin/busbw"
export BUILDER_HOME=$HOME
export PATH=$work/bin:$PATH PYTHONPATH=$work/packages HOME=$work/home
export XDG_DATA_HOME=$work/home/.local/share XDG_CACHE_HOME=$work/cache
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
unset BUSBW_NO_RECORD
tests=$root/crates/busbw/tests
cd "$work/reader"
run() { busbw all_reduce -g 2 -b 8 -e 4K -n 5 "$@" >/dev/null 2>&1; }
mkdir -p before after nightly/monday nightly/tuesday logs sweep-folder transports-folder docs/data
for launch in 1 2 3 4; do
  for side in before after nightly/monday nightly/tuesday; do
    run --backend fake --record "$side/$launch.jsonl"
  done
  run
done
run --backend fake --record before.jsonl
run --backend fake --record after.jsonl
cp before.jsonl run.jsonl
for nodes in 1 2 4; do
  busbw all_reduce --backend fake -g $((8 * nodes)) -b 1M -e 16M --record "${nodes}node.log" >/dev/null 2>&1
  cp "${nodes}node.log" "${nodes}nodes.log"
done
cp "$tests"/explain/* .
for name in all_reduce.log run.log mine.log table.txt nightly.log logs/8x-h100.log; do
  cp "$tests"/explain/16x-h100-nvlink-8x-400gbps-ib-all-reduce.txt "$name"
done
cp "$tests"/explain/8x-h800-nvlink-all-reduce.txt mine.log
cp "$root"/tests/failed_runs/logs/nccl_healthy.log nccl-debug.log
cp "$tests"/explain/oci-h100-osu_latency-device.txt osu_latency-device.txt
cp "$tests"/explain/oci-h100-osu_latency-host.txt osu_latency-host.txt
cp "$root"/crates/hardware/tests/data/topology/azure_ndv5_crlf.xml topo.xml
cp topo.xml nccl-topo.xml
cp "$root"/docs/data/h200x2-transports.jsonl docs/data/
head -1 docs/data/h200x2-transports.jsonl >transports-folder/result.json
cp transports-folder/result.json sweep-folder/
grep '^{"pairs_schema"' "$root/docs/report.md" >pairs.json
sed -n '/^\[packet\]/,/^```$/{/^```$/!p}' "$root/docs/fabric.md" >flows.toml
printf '#!/bin/sh\nexport NCCL_DEBUG=INFO\n./all_reduce_perf -b 8 -e 8G -f 2 -i 100\n' >job.sh

# A job's files, as the profiler writes them.
cp -r "$tests/watch/healthy" watch-files
cp -r "$tests/watch/late" late
busbw check --backend host -g 2 -b 4K -e 4K --only collective --json >check.json 2>/dev/null || true

# Each block of commands gets a copy of both.
cd "$work"
mv reader as-reader
mv home as-home
export REPOSITORY=$root WORK=$work DEFAULT=$([ -n "${1:-}" ] || echo 1)
python3 "$root/tests/documented/commands.py"
