#!/usr/bin/env bash
# What holds for the tree as text: no cycle among the modules of a crate, no private word (tests/tree/words.txt), no sleep
# in the transport's tests; pictures are what is drawn of their data.
# Takes seconds, builds nothing. Not style: rustfmt and clippy look at that.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=0
python3 tests/tree/modules.py || failed=1
python3 tests/tree/words.py || failed=1
python3 tests/tree/waits.py || failed=1
python3 bench/multipath_figures.py --check || failed=1
exit "$failed"
