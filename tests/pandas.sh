#!/usr/bin/env bash
# The lines of docs/pandas.md on what `busbw import --json` gives: tests/pandas.sh [BUSBW]
# Installs pandas into a folder of its own.
set -euo pipefail
root=$(realpath "$(dirname "$0")/..")
busbw=$(realpath "${1:-$root/target/release/busbw}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip install --quiet --target "$work/packages" pandas 2>/dev/null ||
    python3 -m pip install --quiet --break-system-packages --target "$work/packages" pandas
cd "$work"
BUSBW_NO_RECORD=1 "$busbw" all_reduce --backend fake -g 4 -b 1K -e 4K --record own.jsonl >/dev/null
"$busbw" import own.jsonl "$root"/crates/busbw/tests/explain/*.txt --json >runs.jsonl
sed -n '/^```python$/,/^```$/p' "$root/docs/pandas.md" | sed '1d;$d' >lines.py
[ "$(wc -l <lines.py)" = 3 ]
cat >>lines.py <<'PYTHON'
wanted = sum(len(run["rows"]) for run in runs)
assert len(rows) == wanted > 100, (len(rows), wanted)
own = rows[rows["run.ranks.value"] == 4]
assert sorted(own["size"]) == [1024, 2048, 4096], own
assert (own["out_of_place.busbw"] > 0).all() and own["out_of_place.wrong"].eq(0).all()
assert (own["run.test.collective.value"] == "all_reduce").all()
median = rows.groupby(["run.test.collective.value", "size"])["out_of_place.busbw"].median()
assert abs(median["all_reduce", 17179869184] - 447.885) < 0.5, median
print(f"{len(rows)} rows of {len(runs)} runs in a DataFrame of pandas {pandas.__version__}")
PYTHON
PYTHONPATH=$work/packages python3 lines.py
