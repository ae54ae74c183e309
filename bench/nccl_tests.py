#!/usr/bin/env python3
"""busbw against nccl-tests on the GPUs of one host: the same NCCL, the same boot, launches in turns.

Not a judgement of NCCL: both sides call the same library, and what differs is the program around it.
Needs Python 3.8, a busbw, and a folder with nccl-tests' *_perf built against the NCCL in use. With fewer GPUs than
asked for it names what it waives and ends with 5.
"""

import argparse
import math
import os
import re
import statistics
import subprocess
import sys
import time

COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall"]
ROW = re.compile(r"^\s+\d+\s+\d+\s+\w+\s")


def rows(text):
    """(size, placement) -> microseconds, from a table of either program."""
    found = {}
    for line in text.splitlines():
        if ROW.match(line):
            words = line.split()
            # Time, two bandwidths and the wrong elements, twice.
            found[int(words[0]), "out"] = float(words[-8])
            found[int(words[0]), "in"] = float(words[-4])
    return found


class Side:
    """One program's way of running a collective."""

    def __init__(self, name, command):
        self.name, self.command = name, command
        self.launches, self.walls = [], []

    def launch(self, collective, words):
        command = self.command(collective) + words.split()
        begun = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        self.walls.append(time.monotonic() - begun)
        if done.returncode:
            sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        self.launches.append(rows(done.stdout))

    def times(self, key):
        return [launch[key] for launch in self.launches if key in launch]

    def forget(self):
        self.launches, self.walls = [], []


def in_turns(sides, rounds, seconds, collective, words):
    for side in sides:
        side.forget()
    end = time.monotonic() + seconds
    for number in range(rounds):
        if number and time.monotonic() > end:
            break
        # Who goes first changes, so that warm GPUs favour nobody.
        for side in sides if number % 2 == 0 else reversed(sides):
            side.launch(collective, words)


def spread(times):
    """What A against A differs by: half the width of the interval that holds the true median in at least 93 of
    100 series, over their median. It reaches from the lowest launch to the highest where there are fewer than
    eight, then leaves out as many of each as it may."""
    times, n = sorted(times), len(times)
    left_out = 0
    while sum(math.comb(n, i) for i in range(left_out + 2)) * 2 <= 9 / 128 * 2**n:
        left_out += 1
    return (times[n - 1 - left_out] - times[left_out]) / 2 / statistics.median(times)


def table(title, theirs, ours, allowed):
    """Prints a table and returns how many points are slower than `allowed` says."""
    print(f"\n## {title}, {len(theirs.launches)} launches a side\n")
    print(f"| size | place | {theirs.name} us | A/A | {ours.name} us | A/A | ratio | |")
    print("|---:|---|---:|---:|---:|---:|---:|---|")
    slower = points = 0
    for key in sorted(theirs.launches[0]):
        a, b = theirs.times(key), ours.times(key)
        if not b or statistics.median(a) == 0:
            continue
        ratio = statistics.median(b) / statistics.median(a)
        limit = 1 + (allowed if allowed is not None else max(spread(a), spread(b)))
        verdict = "slower" if ratio > limit else "faster" if ratio < 2 - limit else "same"
        slower, points = slower + (verdict == "slower"), points + 1
        print(
            f"| {key[0]} | {key[1]} | {statistics.median(a):.2f} | {spread(a):.1%} "
            f"| {statistics.median(b):.2f} | {spread(b):.1%} | {ratio:.3f} | {verdict} |"
        )
    print(f"\nslower at {slower} of {points}")
    return slower


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--busbw", required=True)
    parser.add_argument("--nccl-tests", required=True, help="folder with *_perf")
    parser.add_argument("--gpus", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--time", type=float, default=3600, help="seconds after which a series begins no further round")
    parser.add_argument("--collectives", default=",".join(COLLECTIVES))
    parser.add_argument("--only", default="large,small,latency,wall")
    options = parser.parse_args()
    n, rounds, seconds, only = options.gpus, options.rounds, options.time, options.only.split(",")
    os.environ["BUSBW_NO_RECORD"] = "1"
    layout = ["-t", str(n), "-g", "1"]
    probe = [options.busbw, "all_reduce_perf", *layout, "-b", "8", "-e", "8", "-n", "1", "-w", "0"]
    probed = subprocess.run(probe, capture_output=True, text=True)
    if probed.returncode == 5:
        print(f"waived   {options.only} of {options.collectives}: {probed.stderr.strip()}")
        return 5
    theirs = Side(
        "nccl-tests", lambda c: [os.path.join(options.nccl_tests, c + "_perf"), *layout]
    )
    ours = Side("busbw", lambda c: [options.busbw, c + "_perf", *layout])
    apart = Side("busbw, a process a GPU", lambda c: [options.busbw, c, "-g", str(n), "--batches", "1"])
    print(f"# busbw against nccl-tests, {n} GPUs, launches in turns", flush=True)
    print(subprocess.run([options.busbw, "--version"], capture_output=True, text=True).stdout.strip())
    slower = 0
    for collective in options.collectives.split(","):
        if "large" in only:
            # The largest sizes take most of the time: all of them once, every second one elsewhere.
            words = "-b 64M -e 8G -f 2" if collective == "all_reduce" else "-b 64M -e 4G -f 4"
            in_turns([theirs, ours], rounds, seconds, collective, words + " -c 1")
            slower += table(f"{collective}, {' '.join(layout)}, large", theirs, ours, 0.01)
        if "small" in only:
            in_turns([theirs, ours], rounds, seconds, collective, "-b 8 -e 32M -f 4 -c 1")
            slower += table(f"{collective}, {' '.join(layout)}, small", theirs, ours, None)
    if "latency" in only:
        for graph in ["", " -G 20"]:
            small = "-b 8 -e 256K -f 4 -c 0"
            in_turns([theirs, apart], rounds, seconds, "all_reduce", small + graph)
            title = f"all_reduce{graph}, a process for each GPU against {' '.join(layout)}"
            slower += table(title, theirs, apart, None)
    if "wall" in only:
        in_turns([theirs, ours], min(rounds, 3), seconds, "all_reduce", "-b 8 -e 8G -f 2 -c 1")
        a, b = statistics.median(theirs.walls), statistics.median(ours.walls)
        print("\n## the whole table, 8 B to 8 GiB, -c 1: wall time\n")
        for side in (theirs, ours):
            print(f"{side.name}: {', '.join(f'{wall:.2f}' for wall in side.walls)} s")
        print(f"medians {a:.2f} and {b:.2f} s, ratio {b / a:.3f}")
        slower += b > a
    print(f"\npoints that miss their bar: {slower}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
