#!/bin/sh
# A folder that stands for /sys of a host with an RDMA adapter of two ports: tests/shims/rdma_host.sh FOLDER [GPU]
# GPU is the PCI address of a GPU that is to lie beside the adapter; its own place in /sys stays what it is.
# With LD_PRELOAD=libsysfs-shim.so and BUSBW_SHIM_RDMA=FOLDER programs see it, and libibverbs.so.1 of the shims has its devices.
set -eu
root=${1:?usage: rdma_host.sh FOLDER [GPU]}
gpu=${2:-}
mkdir -p "$root/sys"
root=$(cd "$root" && pwd)

# adapter NAME LAST_BYTE PLACE: a port of 400 Gb/s with an IPv4 address, at this place of the buses.
adapter() {
    at=$root/sys/class/infiniband/$1
    mkdir -p "$at/ports/1/gids" "$at/ports/1/gid_attrs/types" "$root/sys/devices/$3"
    ln -s "$root/sys/devices/$3" "$at/device"
    ln -s /sys/bus/pci "$root/sys/devices/$3/subsystem"
    for fact in class:0x020700 vendor:0x15b3 device:0x1021 subsystem_vendor:0x15b3 subsystem_device:0x0041 \
        "max_link_speed:32.0 GT/s PCIe" max_link_width:16 "current_link_speed:32.0 GT/s PCIe" current_link_width:16; do
        echo "${fact#*:}" >"$root/sys/devices/$3/${fact%%:*}"
    done
    echo "1: CA" >"$at/node_type"
    echo "b83f:d203:0012:340$2" >"$at/node_guid"
    echo "4: ACTIVE" >"$at/ports/1/state"
    echo "5: LinkUp" >"$at/ports/1/phys_state"
    echo "400 Gb/sec (4X NDR)" >"$at/ports/1/rate"
    echo Ethernet >"$at/ports/1/link_layer"
    echo 0x0 >"$at/ports/1/lid"
    echo "0000:0000:0000:0000:0000:ffff:0a00:000$2" >"$at/ports/1/gids/3"
    echo "RoCE v2" >"$at/ports/1/gid_attrs/types/3"
}

# Beside the GPU: in the folder of the same bus.
place=pci0000:15/0000:15:01.0/0000:16:00.0
if [ -n "$gpu" ] && [ -e "/sys/bus/pci/devices/$gpu" ]; then
    place=$(dirname "$(realpath "/sys/bus/pci/devices/$gpu")" | sed 's:^/sys/devices/::')
    mkdir -p "$root/sys/bus/pci/devices" "$root/sys/devices/$place/$gpu"
    ln -s "$root/sys/devices/$place/$gpu" "$root/sys/bus/pci/devices/$gpu"
fi
adapter mlx5_0 1 "$place/0000:17:00.0"
# Its second port, which NCCL merges with the first by itself (NCCL_NET_MERGE_LEVEL=PORT).
adapter mlx5_1 2 "$place/0000:17:00.1"
