#!/usr/bin/env python3
"""What busbw's profiler costs NCCL while it is on: one job, in which NCCL's RAS switches it on and off in turns (NCCL 2.31 and newer).
Not the cost of a profiler that is loaded and off, which launches with and without it show (profiler_overhead.py), and not of recording
times: after a switch NCCL 2.31 and 2.32 give wrong ones, which the plugin does not record.

    NCCL_PROFILER_PLUGIN=$(busbw plugin path profiler) BUSBW_WATCH=standby torchrun --nproc-per-node 2 bench/profiler_switched.py [--time S] [--one-gpu]

A block is all sizes once with the profiler in one state, the median of some batches of all_reduce for each; the next block has the
other state, and two blocks make a pair, whose order changes. The mean of a size's ratio is geometric, over pairs; the interval is
Student's, of the logarithms. Exit code 0 where the bar is met, 1 where it is missed, 2 where RAS does not take the mask (rank 0's; torchrun makes 1 of it).
"""

import argparse
import ctypes
import math
import os
import socket
import statistics
import sys
import time

from profiler_overhead import judged

# Collectives, sends and receives, kernels' channels: what busbw's profiler asks for by default (nccl_profiler.h, ncclProfileColl…).
ON, OFF = 0x46, 0
SIZES = [8 << (3 * step) for step in range(9)]


def loaded_nccl():
    """The version of the NCCL that this process has loaded; torch.cuda.nccl.version() is that of its build."""
    version = ctypes.c_int()
    try:
        asked = ctypes.CDLL(None).ncclGetVersion  # of a library that was loaded before PyTorch's (LD_PRELOAD)
    except AttributeError:
        with open("/proc/self/maps") as maps:
            asked = ctypes.CDLL(next(line.split()[-1] for line in maps if "libnccl.so" in line)).ncclGetVersion
    asked(ctypes.byref(version))
    return version.value


def switch(address, mask):
    """Has RAS set what all processes of the job tell their profilers; false where it says no."""
    host, port = address.rsplit(":", 1)
    try:
        stream = socket.create_connection((host, int(port)), timeout=20)
    except OSError as why:
        print(f"FAILED   RAS at {address} does not answer: {why}", flush=True)
        return False
    with stream:
        lines = stream.makefile("rw", newline="\n")
        for ask, answer in [("CLIENT PROTOCOL 2", "SERVER PROTOCOL"), (f"CONTROL PROFILER_MASK 0x{mask:x}", "OK")]:
            lines.write(ask + "\n")
            lines.flush()
            said = lines.readline().strip()
            if not said.startswith(answer):
                print(f"FAILED   RAS at {address} answers {ask!r} with {said!r}", flush=True)
                return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time", type=float, default=120, help="seconds after which no further pair begins")
    parser.add_argument("--one-gpu", action="store_true", help="all ranks share the first GPU (under CUDA MPS)")
    options = parser.parse_args()
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    if options.one_gpu:
        os.environ["NCCL_HOSTID"] = f"host{rank}"
    import torch
    import torch.distributed as dist

    device = torch.device("cuda", 0 if options.one_gpu else local)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    buffers = {size: torch.ones(size // 4, device=device) for size in SIZES}
    flag = torch.zeros(1, device=device)

    def agreed(value):
        """Rank 0's value, on all ranks."""
        flag.fill_(float(value))
        dist.broadcast(flag, 0)
        return flag.item() != 0

    def block(mask):
        """Microseconds a call, by size; None where RAS says no."""
        taken = True
        if rank == 0:
            taken = switch(os.environ.get("NCCL_RAS_ADDR", "localhost:28028"), mask)
            time.sleep(0.1)  # RAS answers before the other processes have the mask
        if not agreed(taken):
            return None
        found = {}
        for size, buffer in buffers.items():
            count = max(4, min(1000, (256 << 20) // size))
            times = []
            for _ in range(5):
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                dist.all_reduce(buffer)
                begin.record()
                for _ in range(count):
                    dist.all_reduce(buffer)
                end.record()
                end.synchronize()
                times.append(begin.elapsed_time(end) * 1e3 / count)
            buffer.fill_(1)
            found[size] = statistics.median(times)
        return found

    pairs, last = [], time.monotonic() + options.time
    block(OFF)
    while agreed(time.monotonic() < last):
        order = [ON, OFF] if len(pairs) % 2 else [OFF, ON]
        found = {mask: block(mask) for mask in order}
        if None in found.values():
            sys.exit(2)
        pairs.append(found)
    if rank == 0:
        switch(os.environ.get("NCCL_RAS_ADDR", "localhost:28028"), OFF)
    dist.barrier()
    dist.destroy_process_group()
    if rank:
        return 0
    version = loaded_nccl()
    print(f"# all_reduce of {os.environ['WORLD_SIZE']} ranks, {torch.cuda.get_device_name()}, NCCL {version}; rank 0's times", flush=True)
    print(f"with / without the profiler, {len(pairs)} pairs of blocks in turns")
    without = lambda size: f"  {statistics.median(pair[OFF][size] for pair in pairs):.2f} us without"
    return judged([{size: math.log(pair[ON][size] / pair[OFF][size]) for size in SIZES} for pair in pairs], without)


if __name__ == "__main__":
    sys.exit(main())
