#!/usr/bin/env python3
"""busbw's net plugin under a real NCCL, against NCCL's own sockets: launches in turns, medians, and ranges.
Not a test: it needs two GPUs of one host, which pose as two nodes, so that the network is the host's loopback.

    bench/net_plugin.py --busbw busbw [--gpus 2] [--rounds 5] [--setting NAME…] [--sizes 8 256M 2] [--count 5]

busbw and NCCL's default run with no setting at all. `reference` is busbw's plugin that does as NCCL's sockets do: where it is
not within 10 % of NCCL's own, ratios against it on other machines do not count. 4x4 is four threads and four sockets each.
"""

import argparse
import os
import statistics
import subprocess
import sys

THREADS = {"NCCL_SOCKET_NTHREADS": "4", "NCCL_NSOCKS_PERTHREAD": "4"}
SETTINGS = {
    "socket": ([], {}),
    "busbw": (["--net", "busbw"], {}),
    "reference": (["--net", "busbw", "--reference", "socket"], {}),
    "socket 4x4": ([], THREADS),
    "reference 4x4": (["--net", "busbw", "--reference", "socket:4x4"], {}),
}


def row_words(sizes, count):
    """Sizes from, to and by a factor; so many operations at a time, three times."""
    first, last, factor = sizes
    times = ["--batches", "3", "--row-time", "0.25", "-n", str(count), "-w", str(max(2, count // 4))]
    return ["-b", first, "-e", last, "-f", factor, *times, "--no-record"]


def launch(busbw, gpus, words, variables):
    """Microseconds by size, out of place; every element was checked."""
    command = [busbw, "all_reduce", "-g", str(gpus), "--virtual-nodes", "2", *words]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=180)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    rows = [line.split() for line in done.stdout.splitlines() if line[:1] == " " and line.split()[0].isdigit()]
    return {int(row[0]): float(row[5]) for row in rows}, done.stderr.strip().splitlines()[-1]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--busbw", required=True)
    options.add_argument("--gpus", type=int, default=2)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--sizes", nargs=3, metavar=("FROM", "TO", "FACTOR"), default=["8", "256M", "2"])
    options.add_argument("--count", type=int, default=5, help="operations at a time")
    options.add_argument("--setting", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    options = options.parse_args()
    times = {name: {} for name in options.setting}
    for _ in range(options.rounds):
        for name in options.setting:
            words, variables = SETTINGS[name]
            words = [*row_words(options.sizes, options.count), *words]
            found, said = launch(options.busbw, options.gpus, words, variables)
            print(f"# {name}: {said}", flush=True)
            for size, time in found.items():
                times[name].setdefault(size, []).append(time)
    print("us, the median of", options.rounds, "launches (range)")
    print("|", " | ".join(["bytes", *times, "socket / busbw"]), "|")
    print("|", "---|" * (len(times) + 2))
    for size in next(iter(times.values())):
        middle = {name: statistics.median(times[name][size]) for name in times}
        cells = [f"{middle[name]:.1f} ({min(times[name][size]):.1f} to {max(times[name][size]):.1f})" for name in times]
        ratio = f"{middle['socket'] / middle['busbw']:.2f}" if {"socket", "busbw"} <= set(times) else ""
        print("|", " | ".join([str(size), *cells, ratio]), "|")


main()
