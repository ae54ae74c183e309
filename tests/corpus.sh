#!/usr/bin/env bash
# What is read in, and said of, a collection of public logs and topologies that is not part of this repository: the
# committed tables hold it. Takes about a minute.
#   tests/corpus.sh DIR   the folder with nccl_tests, nccl_debug, osu, topo_xml and smi_topo
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -ne 1 ] || [ ! -d "$1/nccl_tests" ]; then
  echo "tests/corpus.sh: name the folder with nccl_tests, nccl_debug, osu, topo_xml and smi_topo" >&2
  exit 2
fi
BUSBW_CORPUS=$(realpath "$1")
export BUSBW_CORPUS
cargo test --release -p busbw --test it corpus
cargo test --release -p busbw-library-logs --test failure_corpus
cargo test --release -p busbw-hardware --test it topology
