#!/usr/bin/env python3
"""NCCL's own abort, over busbw's net plugin, in the middle of collectives: two ranks on one GPU, each a host of its own.
Not busbw's own runs: NCCL is called directly, so that a process lives on after its communicator was aborted.

    tests/gpu/net_abort.py PLUGIN [--cycles 20] [--seed 1] [--nccl libnccl.so.2] [--size 64]

A cycle: a communicator, an all_reduce whose every element is checked, then a queue of all_reduces in the middle of which
one rank or both abort; buffers are freed, and the next cycle begins in the same processes. Last of all rank 1 is killed in
the middle: rank 0 must hear of it within 60 s, abort, and end in peace. Exit 1 when anything else happened.
"""

import argparse
import ctypes
import glob
import multiprocessing
import os
import random
import signal
import sys
import time

FLOAT, SUM, IN_PROGRESS, ELEMENT = 7, 0, 7, 4
P = ctypes.c_void_p


class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


def load(nccl, cuda):
    nccl, cuda = ctypes.CDLL(nccl), ctypes.CDLL(cuda)
    nccl.ncclGetErrorString.restype = ctypes.c_char_p
    nccl.ncclCommInitRank.argtypes = [P, ctypes.c_int, Id, ctypes.c_int]
    nccl.ncclAllReduce.argtypes = [P, P, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, P, P]
    nccl.ncclCommAbort.argtypes = [P]
    nccl.ncclCommGetAsyncError.argtypes = [P, P]
    cuda.cuMemAlloc_v2.argtypes = [P, ctypes.c_size_t]
    cuda.cuMemFree_v2.argtypes = [P]
    cuda.cuMemcpyHtoD_v2.argtypes = [P, P, ctypes.c_size_t]
    cuda.cuMemcpyDtoH_v2.argtypes = [P, P, ctypes.c_size_t]
    cuda.cuStreamCreate.argtypes = [P, ctypes.c_uint]
    cuda.cuStreamDestroy_v2.argtypes = [P]
    cuda.cuStreamSynchronize.argtypes = [P]
    cuda.cuStreamQuery.argtypes = [P]
    return nccl, cuda


def done(code, what):
    if code:
        raise RuntimeError(f"{what}: {code}")


def pattern(value):
    return (ctypes.c_float * 4096)(*[value(i) for i in range(4096)])


class Rank:
    """One rank's GPU memory, stream and communicator; lives through many cycles."""

    def __init__(self, options, rank, pipe):
        self.nccl, self.cuda = load(options.nccl, options.cuda)
        self.rank, self.pipe, self.size = rank, pipe, options.size
        done(self.cuda.cuInit(0), "cuInit")
        context = P()
        done(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "cuDevicePrimaryCtxRetain")
        done(self.cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")

    def begin(self):
        unique = Id()
        if self.rank == 0:
            done(self.nccl.ncclGetUniqueId(ctypes.byref(unique)), "ncclGetUniqueId")
            self.pipe.send_bytes(bytes(unique))
        else:
            unique = Id.from_buffer_copy(self.pipe.recv_bytes())
        self.stream, self.comm, self.memory = P(), P(), P()
        done(self.cuda.cuStreamCreate(ctypes.byref(self.stream), 1), "cuStreamCreate")
        done(self.cuda.cuMemAlloc_v2(ctypes.byref(self.memory), self.size), "cuMemAlloc")
        done(self.nccl.ncclCommInitRank(ctypes.byref(self.comm), 2, unique, self.rank), "ncclCommInitRank")

    def all_reduce(self):
        count = self.size // ELEMENT
        done(
            self.nccl.ncclAllReduce(self.memory, self.memory, count, FLOAT, SUM, self.comm, self.stream),
            "ncclAllReduce",
        )

    def verified(self):
        count = self.size // ELEMENT
        times = count // 4096
        mine = bytearray(bytes(pattern(lambda i: i % 1021 + self.rank)) * times)
        place = (ctypes.c_char * self.size).from_buffer(mine)
        done(self.cuda.cuMemcpyHtoD_v2(self.memory, place, self.size), "cuMemcpyHtoD")
        self.all_reduce()
        done(self.cuda.cuStreamSynchronize(self.stream), "cuStreamSynchronize")
        done(self.cuda.cuMemcpyDtoH_v2(place, self.memory, self.size), "cuMemcpyDtoH")
        if mine != bytes(pattern(lambda i: 2 * (i % 1021) + 1)) * times:
            raise RuntimeError("an all_reduce's elements are wrong")

    def error(self):
        found = ctypes.c_int()
        done(self.nccl.ncclCommGetAsyncError(self.comm, ctypes.byref(found)), "ncclCommGetAsyncError")
        return found.value

    def abort(self):
        began = time.monotonic()
        done(self.nccl.ncclCommAbort(self.comm), "ncclCommAbort")
        done(self.cuda.cuStreamDestroy_v2(self.stream), "cuStreamDestroy")
        done(self.cuda.cuMemFree_v2(self.memory), "cuMemFree")
        return time.monotonic() - began

    def busy(self):
        """The stream has work: an abort now is one in the middle."""
        return self.cuda.cuStreamQuery(self.stream) != 0

    def until_error(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.error()
            if found not in (0, IN_PROGRESS):
                return self.nccl.ncclGetErrorString(found).decode()
            time.sleep(0.01)
        return None


def run(options, rank, pipe, report):
    os.environ.update(NCCL_HOSTID=f"rank{rank}", NCCL_NET_PLUGIN=options.plugin)
    os.environ.setdefault("NCCL_MAX_NCHANNELS", "2")
    chance, me, middle = random.Random(options.seed), None, 0
    try:
        me = Rank(options, rank, pipe)
        for cycle in range(options.cycles):
            me.begin()
            me.verified()
            who, wait, lag = chance.choice(["0", "1", "both"]), chance.uniform(0, 0.3), chance.uniform(0, 2)
            for _ in range(50):
                me.all_reduce()
            time.sleep(wait)
            if who not in ("both", str(rank)):
                # The other one aborts first; this one hears of it, or aborts later by itself.
                me.until_error(lag)
            middle += me.busy()
            took = me.abort()
            if took > 60:
                raise RuntimeError(f"cycle {cycle}: ncclCommAbort took {took:.0f} s")
        me.begin()
        me.verified()
        pipe.send_bytes(b"ready")
        pipe.recv_bytes()
        for _ in range(50):
            me.all_reduce()
        if rank == 1:
            time.sleep(0.1)
            report.send((rank, middle, "about to be killed"))
            os.kill(os.getpid(), signal.SIGKILL)
        began = time.monotonic()
        said = me.until_error(60)
        heard = time.monotonic() - began
        if said is None:
            raise RuntimeError("60 s after rank 1 was killed NCCL says of no error")
        took = me.abort()
        report.send((rank, middle, f"heard of it after {heard:.1f} s ({said}), aborted in {took:.1f} s"))
    except Exception as error:
        report.send((rank, middle, f"FAILED: {error}"))
        sys.exit(1)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("plugin")
    options.add_argument("--cycles", type=int, default=20)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--nccl")
    options.add_argument("--cuda", default="libcuda.so.1")
    options.add_argument("--size", type=int, default=64, help="MiB of each all_reduce")
    options.add_argument("--limit", type=int, default=150, help="seconds for everything")
    options = options.parse_args()
    options.size <<= 20
    wheels = [path for folder in sys.path for path in glob.glob(f"{folder}/nvidia/nccl/lib/libnccl.so.2")]
    options.nccl = options.nccl or next(iter(wheels), "libnccl.so.2")
    spawn = multiprocessing.get_context("spawn")
    pipes, (hear, report) = spawn.Pipe(), spawn.Pipe(duplex=False)
    ranks = [spawn.Process(target=run, args=(options, rank, pipes[rank], report)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    end = time.monotonic() + options.limit
    for rank in ranks:
        rank.join(max(0, end - time.monotonic()))
    codes = [rank.exitcode for rank in ranks]
    for rank in ranks:
        if rank.exitcode is None:
            rank.kill()
    while hear.poll():
        rank, middle, what = hear.recv()
        print(f"rank {rank}: {options.cycles} cycles, {middle} aborts in the middle; {what}")
    print(f"seed {options.seed}: exit codes {codes[0]} and {codes[1]} (wanted: 0 and -9)")
    sys.exit(codes != [0, -signal.SIGKILL])


if __name__ == "__main__":
    main()
