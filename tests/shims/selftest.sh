#!/bin/sh
# Builds the shims and their self-test into DIR and runs it, in under five minutes: selftest.sh DIR
set -eu
out=${1:?usage: selftest.sh DIR}
here=$(cd "$(dirname "$0")" && pwd)
"$here/build.sh" "$out"
out=$(cd "$out" && pwd)
g++ -std=c++17 -O1 -g1 -Wall -Wextra -Werror "$here"/selftest*.cc -o "$out/selftest" \
    -L"$out" -l:libcuda.so.1 -l:libnccl.so.2 -ldl -lpthread -Wl,-rpath,"$out"
exec timeout 300 "$out/selftest"
