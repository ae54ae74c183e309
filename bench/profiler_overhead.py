#!/usr/bin/env python3
"""What busbw's profiler costs NCCL: launches with and without it in turns, and the ratio of their times with its 95 % interval.
Not a test, and not the profiler's own cost on a processor, which `cargo bench -p nccl-profiler-busbw` measures.

    bench/profiler_overhead.py --busbw busbw [--profiler LIBRARY …] [--rounds 30] [--time S] -- all_reduce -g 4 -b 8 -e 256M -f 8

The profiler is the one that BUSBW carries unless libraries are named: each of them runs in every round, and the first is what the exit
code is about. peers/profiler_probe.c is one that does nothing, by which the part is known that is NCCL's own. Ratios are of times out of place; the mean of a size is
geometric, over the pairs of launches; the interval is Student's, of the logarithms. Exit code 0 where the bar is
met, 1 where it is missed, 2 where a launch fails, 5 where busbw lacks GPUs.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

# Student's t, two-sided 95 %, by degrees of freedom; between two of them the larger value is taken.
T = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 7: 2.36, 9: 2.26, 14: 2.14, 19: 2.09, 29: 2.05}


def interval(logarithms):
    """The lower end, the middle and the upper end of a ratio, of logarithms of one launch each."""
    mean = statistics.fmean(logarithms)
    if len(logarithms) < 2:
        return 0, math.exp(mean), math.inf
    t = T[max(freedom for freedom in T if freedom < len(logarithms))]
    half = t * statistics.stdev(logarithms) / math.sqrt(len(logarithms))
    return math.exp(mean - half), math.exp(mean), math.exp(mean + half)


def judged(pairs, beside=lambda size: ""):
    """Prints the ratios of pairs, logarithms by size, each with what stands beside it, and whether the bar is met: the exit code."""
    highest = 0
    for size in sorted(pairs[0]):
        low, middle, high = interval([pair[size] for pair in pairs])
        highest = max(highest, middle)
        print(f"{size:>10} B  {middle:.3f} ({low:.3f} to {high:.3f}){beside(size)}")
    low, middle, high = interval([statistics.fmean(pair.values()) for pair in pairs])
    met = high <= 1.02 and highest <= 1.10
    print(f"all sizes   {middle:.3f} ({low:.3f} to {high:.3f})")
    print(f"{'met' if met else 'MISSED'}   upper end of all sizes at most 1.02: {high:.3f}; no size above 1.10: {highest:.3f}")
    return 0 if met else 1


def times(busbw, words, variables, folder):
    """Microseconds out of place, by bytes."""
    record = os.path.join(folder, "record.jsonl")
    done = subprocess.run([busbw, *words, "--record", record], env={**os.environ, **variables}, capture_output=True, text=True, timeout=300)
    if done.returncode:
        print(f"{'waived' if done.returncode == 5 else 'FAILED'}   {' '.join(words)}: exit code {done.returncode}: {done.stderr[-2000:]}")
        sys.exit(5 if done.returncode == 5 else 2)
    with open(record) as lines:
        rows = [row for row in map(json.loads, lines) if row["kind"] == "row"]
    os.remove(record)
    return {row["size"]: row["out_of_place"]["time_us"] for row in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busbw", required=True)
    parser.add_argument("--profiler", action="append", help="libnccl-profiler-busbw.so, or another; may be repeated")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--time", type=float, default=3600, help="seconds after which no further pair begins")
    parser.add_argument("words", nargs="+", help="a collective of busbw and its options")
    options = parser.parse_args()
    profilers = options.profiler or [
        subprocess.run([options.busbw, "plugin", "path", "profiler"], capture_output=True, text=True, check=True).stdout.strip()
    ]
    found, rounds, end = {one: [] for one in profilers}, 0, time.monotonic() + options.time
    with tempfile.TemporaryDirectory() as folder:
        plain = {"BUSBW_NO_RECORD": "1"}
        watched = {
            one: plain | {"NCCL_PROFILER_PLUGIN": one, "BUSBW_WATCH_DIR": os.path.join(folder, f"watch{number}")}
            for number, one in enumerate(profilers)
        }
        while rounds < options.rounds and time.monotonic() < end:
            # Who goes first changes, so that warm GPUs favour nobody.
            order = [None, *profilers]
            order = order[rounds % len(order) :] + order[: rounds % len(order)]
            took = {one: times(options.busbw, options.words, watched.get(one, plain), folder) for one in order}
            rounds += 1
            without = took.pop(None)
            for one, own in took.items():
                found[one].append({size: math.log(own[size] / without[size]) for size in own if without.get(size) and own[size]})
        for one in profilers if os.environ.get("BUSBW_WATCH") not in ("off", "0") else []:
            if "busbw" in os.path.basename(one) and not os.path.isdir(watched[one]["BUSBW_WATCH_DIR"]):
                print(f"FAILED   {one} wrote nothing: NCCL did not load it")
                return 2
    codes = []
    for one, pairs in found.items():
        print(f"with {os.path.basename(one)} / without, {rounds} launches a side in turns: {' '.join(options.words)}")
        codes.append(judged(pairs))
    return codes[0]


if __name__ == "__main__":
    sys.exit(main())
