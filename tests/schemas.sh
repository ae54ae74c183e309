#!/usr/bin/env bash
# What commands write as JSON, held against docs/schemas: tests/schemas.sh [BUSBW]
# Readers must take keys that they do not know; here a key that its schema lacks fails, so that none goes undocumented.
# Installs the validator (Python's jsonschema) into a folder of its own.
set -euo pipefail
root=$(realpath "$(dirname "$0")/..")
busbw=$(realpath "${1:-$root/target/release/busbw}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip install --quiet --target "$work/packages" jsonschema 2>/dev/null ||
  python3 -m pip install --quiet --break-system-packages --target "$work/packages" jsonschema
cases=$root/crates/busbw/tests/explain_cases failed=$root/tests/failed_runs
cd "$work"
export XDG_DATA_HOME=$work/data XDG_CACHE_HOME=$work/cache
unset BUSBW_NO_RECORD

for side in a b; do
  mkdir "$side"
  for launch in 1 2 3 4; do "$busbw" all_reduce --backend host -g 2 -b 8 -e 4K -n 5 --record "$side/$launch.jsonl" >/dev/null 2>&1; done
done
for backend in host fake; do
  for test in "latency" "bw" "barrier" "all_reduce --latency" "alltoall -I -n 3"; do
    # shellcheck disable=SC2086
    "$busbw" $test --backend $backend -g 2 -b 8 -e 4K --record "record-$backend-${test%% *}.jsonl" >/dev/null 2>&1 || true
  done
done
"$busbw" bw --backend net -g 2 -b 8 -e 4K -n 20 --batches 1 --record record-net.jsonl >/dev/null 2>&1
"$busbw" pairs --backend host -g 2 --record record-pairs.jsonl >/dev/null 2>&1
"$busbw" replay "$root"/crates/logs/src/trace/data/nccl_2.27.7_two_ranks.log --backend host -g 2 --batches 1 --record record-replay.jsonl >/dev/null 2>&1
cat record-*.jsonl a/*.jsonl "$root"/crates/busbw/tests/records/*.jsonl >record.out
"$busbw" explain --json "$cases"/*.txt "$cases"/*.md "$failed"/logs/* a/1.jsonl record-*.jsonl "$root"/crates/busbw/tests/records/*.jsonl >explain.out 2>/dev/null || true
# Where what it was given tells of a hang, too, the first line is that verdict.
mv explain.out all.out
grep -v '^{"hang_schema"' all.out >explain.out
grep '^{"hang_schema"' all.out >hang.out
"$busbw" explain --json "$root"/crates/analysis/src/hang/data/never-comes >>hang.out 2>/dev/null || true
"$busbw" import --json "$cases"/*.txt "$cases"/*.md "$root"/crates/busbw/tests/golden/*.json* record-*.jsonl >import.out 2>/dev/null || true
"$busbw" compare a b --json >compare.out
"$busbw" compare a/1.jsonl b/1.jsonl --json >>compare.out
"$busbw" compare a b --fail-below 0.01 --json >>compare.out
"$busbw" compare a/1.jsonl --fail-below-limit 80% --json >>compare.out 2>/dev/null || true
"$busbw" compare "$root"/crates/busbw/tests/explain/8x-h100-nvlink-all2all.txt --machine dgx-h100 --fail-below-limit 80% --json >>compare.out 2>/dev/null || true
"$busbw" compare --with 8x-h200-nvlink "$root"/crates/busbw/tests/explain/*.txt --json >>compare.out 2>/dev/null || true
"$busbw" sweep -x BUSBW_X=1,2 --launches 4 --json --no-record all_reduce -- --backend host -g 2 -b 8 -e 64 -n 3 >sweep.out 2>/dev/null
"$busbw" all_reduce --backend host -g 2 -b 8 -e 64 -n 3 >/dev/null 2>&1
"$busbw" latency --backend host -g 2 -b 8 -e 64 --batches 5 >/dev/null 2>&1
"$busbw" sweep -x BUSBW_X=1,2 --launches 1 all_reduce -- --backend host -g 2 -b 8 -e 64 -n 3 >/dev/null 2>&1
"$busbw" list --json >list.out
"$busbw" list --json --all >>list.out
"$busbw" all_reduce --backend fake -g 4 -b 8 -e 4K -n 5 --record 4.jsonl >/dev/null 2>&1
"$busbw" all_reduce --backend fake -g 8 -b 8 -e 4K -n 5 --record 8.jsonl >/dev/null 2>&1
"$busbw" compare --by nodes 4.jsonl 8.jsonl --json >scaling.out
grep '^{"pairs_schema"' "$root/docs/report.md" >pairs.out
"$busbw" lint --json "$cases"/*.md >lint.out 2>/dev/null || true
"$busbw" doctor --json >doctor.out || true
"$busbw" check --backend host -g 2 -b 4K -e 4K --json >check.out 2>/dev/null
"$busbw" check --backend host -g 2 -b 4K -e 4K --fault rank=1,phase=timed,do=corrupt:3 --json >>check.out 2>/dev/null || true
cat >landscape.json <<'JSON'
{"seed": 3, "launch_noise": 0.01, "batch_noise": 0.02, "variables": {"NCCL_BUFFSIZE": {"8388608": -0.3}, "NCCL_CROSS_NIC": {"1": -0.2}},
 "fails": [{"when": {"NCCL_MAX_NCHANNELS": "32"}, "how": "crash"}]}
JSON
for how in "" --search; do
  # shellcheck disable=SC2086
  BUSBW_FAKE=landscape.json "$busbw" tune $how --backend fake -g 4 -b 1M -e 16M -f 16 --time 60s --yes --json >>tune.out 2>/dev/null
done
for job in healthy late; do "$busbw" watch --once --json "$root/crates/busbw/tests/watch/$job" || true; done >watch.out
for file in "$cases"/*.xml dgx-h100 gb200-nvl72; do "$busbw" topo --json "$file" 2>/dev/null || true; done >topo.out
sed -n '/^\[packet\]/,/^```$/{/^```$/!p}' "$root/docs/fabric.md" >flows.toml
cp "$root"/crates/busbw/tests/explain/16x-h100-nvlink-8x-400gbps-ib-all-reduce.txt two.log
# The same figures as if of twice as many ranks: only the form counts here.
"$busbw" import --json two.log | sed 's/"ranks":{"value":16,/"ranks":{"value":32,/' >four.log
while read -r question; do
  # shellcheck disable=SC2086
  "$busbw" plan $question --json 2>/dev/null || true
done >plan.out <<'QUESTIONS'
--machine dgx-h100 --nodes 2 all_reduce
--machine dgx-h100 --nodes 2 all_reduce --measured 469.67
--machine dgx-h100 --nodes 2 alltoall --measured 5000
--machine mi300x all_reduce
--machine gb200-nvl72 --gpus 8 all_gather --measured 100 --size 1G
lossless --rate 400G --ports 128 --round-trip 9us --buffer 165.2MB
lossless --rate 400G --ports 64 --cable 100m --classes 2 --buffer 165.2MB
loss --rate 400G --round-trip 80us --exposed 14%
collisions --queue-pairs 4 --uplinks 8
collisions --flows 1000 --uplinks 64
incast --senders 8 --rate 400G --round-trip 9us -b 1M --buffer 16MB
incast --senders 17 --rate 400G --round-trip 9us --window none --buffer 165.2MB --cable 100m
clos-2tier all_reduce --gpus 64 -b 1M -e 4M
clos-2tier all_reduce --gpus 64 -b 1G --fail link:leaf --target 90%
multi-plane all_reduce --job tp8,pp8,dp --gpus 2048 -b 1G --fail plane --fail switch:spine --target 80%
multi-plane all_reduce --job tp8,pp8,dp -b 1G
oversubscribed alltoall --job ep64 --fail switch -b 1M -e 2M
flows flows.toml
--from two.log --per-node 8 --nodes 4
QUESTIONS
"$busbw" plan --from two.log --per-node 8 --json >prediction.json
"$busbw" compare prediction.json four.log --json >prediction.out
for name in clos-2tier clos-3tier rail-optimized multi-plane oversubscribed nvl72; do
  "$busbw" plan --example "$name" >"$name.toml"
  "$busbw" topo --json "$name.toml"
done >fabric.out
for name in $("$busbw" schema | cut -d ' ' -f 1); do "$busbw" schema "$name" >"$name.schema"; done

PYTHONPATH=$work/packages python3 - <<'PYTHON'
import copy, glob, json, sys
import jsonschema

def strict(schema):
    """The schema, with every object closed."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(value) if key not in ("enum", "const", "required") else value for key, value in schema.items()}
    if "properties" in schema and "additionalProperties" not in schema:
        closed["additionalProperties"] = False
    return closed

def values(path):
    return [json.loads(line) for line in open(path) if line.strip()]

def of_kind(schema, value):
    """Of a line's alternatives the one of its kind, for an error that tells where it is."""
    for one in schema.get("anyOf", []):
        if one.get("properties", {}).get("kind", {}).get("const") == value.get("kind", ""):
            return {**one, "$defs": schema.get("$defs", {})}
    return schema

failed = False
for path in sorted(glob.glob("*.schema")):
    name = path.removesuffix(".schema")
    schema = strict(json.load(open(path)))
    jsonschema.Draft202012Validator.check_schema(schema)
    read = values(f"{name}.out")
    if not read:
        sys.exit(f"FAILED   {name}: nothing was written")
    errors = []
    for value in read:
        validator = jsonschema.Draft202012Validator(of_kind(schema, value))
        errors += validator.iter_errors(value)
    for error in errors[:10]:
        print(f"FAILED   {name}: {list(error.absolute_path)}: {error.message[:300]}")
    # A validator that accepts everything would prove nothing.
    broken = copy.deepcopy(read[0])
    broken["no_such_key"] = 1
    refuses = not jsonschema.Draft202012Validator(of_kind(schema, broken)).is_valid(broken)
    if errors or not refuses:
        failed = True
    print(f"{'FAILED' if errors or not refuses else 'ok':8} {name}: {len(read)} objects, {len(errors)} errors")
sys.exit(failed)
PYTHON
