#!/bin/sh
# Builds the shim libraries into a folder: tests/shims/build.sh DIR
# What they imitate, and the BUSBW_SHIM_* that plant faults: README.md beside this file.
set -eu
out=${1:?usage: build.sh DIR}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out/rocm" "$out/nccl-2.18" "$out/nccl-2.27" "$out/nccl-2.32" "$out/objects"
out=$(cd "$out" && pwd)
flags="-std=c++17 -O2 -g1 -fPIC -fvisibility=hidden -Wall -Wextra -Werror"

# Compiles $1.cc, with the further flags, into the object $2; only what changed.
compile() {
    source=$here/$1.cc object=$out/objects/$2.o
    shift 2
    newest=$(ls -t "$here"/*.h "$source" | head -n 1)
    if [ ! -e "$object" ] || [ "$newest" -nt "$object" ]; then
        # shellcheck disable=SC2086
        g++ $flags "$@" -c "$source" -o "$object"
    fi
}
# Links the objects $3… into the library $1 with the soname $2.
link() {
    library=$1 soname=$2
    shift 2
    g++ -shared -Wl,-soname,"$soname" -Wl,-Bsymbolic -Wl,--exclude-libs,ALL \
        -o "$library.new" "$@" -ldl -lpthread
    mv "$library.new" "$library"
    unversioned=${library%.so.*}.so
    ln -sf "$(basename "$library")" "$unversioned"
}
objects() { for name in "$@"; do printf '%s/objects/%s.o ' "$out" "$name"; done; }

machine="device memory stream capture module"
for name in $machine cuda cuda_errors; do compile "$name" "$name"; done
kernels=
if [ -e "$here/kernels_host.cc" ]; then
    kernels=kernels_host
    newest=$(ls -t "$here"/*.h "$here/kernels_host.cc" "$here"/../../crates/ffi/kernels/*.*[uh] | head -n 1)
    # The flags are those that the kernels ask for.
    [ "$out/objects/kernels_host.o" -nt "$newest" ] ||
        g++ -std=c++17 -O2 -fPIC -fvisibility=hidden -fno-strict-aliasing -ffp-contract=off \
            -c "$here/kernels_host.cc" -o "$out/objects/kernels_host.o"
fi
# shellcheck disable=SC2046,SC2086
link "$out/libcuda.so.1" libcuda.so.1 $(objects $machine cuda cuda_errors $kernels)

collectives="communicator call call_config collective reduction room log config tuning"
for name in $collectives; do compile "$name" "$name"; done
for version in 23203 22809 22703 21805; do compile nccl "nccl-$version" -DSHIM_NCCL_VERSION=$version; done
# shellcheck disable=SC2046,SC2086
{
    link "$out/libnccl.so.2" libnccl.so.2 $(objects $collectives nccl-22809)
    link "$out/nccl-2.32/libnccl.so.2" libnccl.so.2 $(objects $collectives nccl-23203)
    link "$out/nccl-2.27/libnccl.so.2" libnccl.so.2 $(objects $collectives nccl-22703)
    link "$out/nccl-2.18/libnccl.so.2" libnccl.so.2 $(objects $collectives nccl-21805)
}

for name in nvml nvml_state; do compile "$name" "$name"; done
# shellcheck disable=SC2046
link "$out/libnvidia-ml.so.1" libnvidia-ml.so.1 $(objects nvml nvml_state)

compile hip hip
compile nccl nccl-rccl -DSHIM_NCCL_VERSION=22203 -DSHIM_ROCM
compile communicator communicator-rccl -DSHIM_ROCM
# shellcheck disable=SC2046,SC2086
{
    link "$out/rocm/libamdhip64.so.6" libamdhip64.so.6 $(objects $machine hip)
    link "$out/rocm/librccl.so.1" librccl.so.1 \
        $(objects communicator-rccl call call_config collective reduction room log config tuning nccl-rccl)
}

for name in verbs verbs_adapter verbs_wire verbs_gpu; do compile "$name" "$name"; done
# shellcheck disable=SC2046
link "$out/libibverbs.so.1" libibverbs.so.1 $(objects verbs verbs_adapter verbs_wire verbs_gpu)
compile sysfs sysfs
g++ -shared -Wl,--exclude-libs,ALL -o "$out/libsysfs-shim.so.new" "$out/objects/sysfs.o" -ldl
mv "$out/libsysfs-shim.so.new" "$out/libsysfs-shim.so"

# A net plugin of its own, which imitates nobody's: the file is what NCCL makes of "shim".
compile net net
g++ -shared -Wl,-Bsymbolic -Wl,--exclude-libs,ALL -o "$out/libnccl-net-shim.so.new" "$out/objects/net.o" -lpthread
mv "$out/libnccl-net-shim.so.new" "$out/libnccl-net-shim.so"
