#!/usr/bin/env python3
"""The mpi backend, or host, against OSU's own programs: launches in turns, each twice for A/A, medians of launches.
Not a test: it takes minutes and a quiet machine. OSU is built elsewhere, with the same MPI.

    bench/osu.py --osu FOLDER-WITH-osu_latency --busbw target/release/busbw [--backend host] [--rounds 11] [--launcher 'mpirun …']
"""

import argparse
import json
import math
import os
import shlex
import statistics
import subprocess

TESTS = {"latency": "osu_latency", "bw": "osu_bw"}


def osu(words):
    """Figures by size of one of OSU's tables: us or MB/s."""
    text = subprocess.run(words, check=True, capture_output=True, text=True, timeout=300).stdout
    rows = (line.split() for line in text.splitlines() if line and line[0].isdigit())
    return {int(row[0]): float(row[1]) for row in rows}


def busbw(words):
    """The same of busbw's record, unrounded."""
    text = subprocess.run(words, check=True, capture_output=True, text=True, timeout=300).stdout
    found = {}
    for line in text.splitlines():
        row = json.loads(line)
        if row["kind"] == "row":
            half = row["out_of_place"]
            latency = row["benchmark"] == "latency"
            found[row["size"]] = half["time_us"] if latency else half["algbw"] * 1000
    return found


def spread(launches):
    """Half the interval of the median of launches, by order statistics (95 %), as a share of it."""
    ordered = sorted(launches)
    n = len(ordered)
    low = max(0, math.floor((n - 1.96 * math.sqrt(n)) / 2))
    middle = statistics.median(ordered)
    return (ordered[n - 1 - low] - ordered[low]) / 2 / middle


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--osu", required=True, help="folder of OSU's programs")
    parser.add_argument("--busbw", default="target/release/busbw")
    parser.add_argument("--backend", default="mpi", choices=["mpi", "host"], help="host starts its two ranks itself")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--launcher", default="mpirun --bind-to core -n 2")
    parser.add_argument("--largest", type=int, default=4 << 20)
    options = parser.parse_args()
    os.environ["BUSBW_NO_RECORD"] = "1"
    launcher = shlex.split(options.launcher)
    missed = 0
    for test, program in TESTS.items():
        sizes = ["-m", f"1:{options.largest}"]
        theirs_words = [*launcher, os.path.join(options.osu, program), *sizes]
        # OSU's loops, by OSU's name; the record has more digits than the table.
        ours_words = [options.busbw, program, *sizes, "--backend", options.backend, "--json"]
        if options.backend == "mpi":
            ours_words = [*launcher, *ours_words]
        sides = {"osu": [], "osu again": [], "busbw": [], "busbw again": []}
        for turn in range(options.rounds):
            order = list(sides) if turn % 2 == 0 else list(sides)[::-1]
            for side in order:
                sides[side].append(osu(theirs_words) if side.startswith("osu") else busbw(ours_words))
        unit, smallest = ("us", 0.010) if test == "latency" else ("MB/s", 0.0)
        print(f"{test} ({unit}), medians of {options.rounds} launches a side")
        print(f"{'size':>10} {'osu':>10} {'busbw':>10} {'ratio':>7} {'A/A osu':>8} {'A/A busbw':>9} {'allowed':>8}")
        for size in sides["osu"][0]:
            at = {side: [launch[size] for launch in launches] for side, launches in sides.items()}
            theirs = statistics.median(at["osu"] + at["osu again"])
            ours = statistics.median(at["busbw"] + at["busbw again"])
            same = [
                abs(statistics.median(at[f"{side} again"]) / statistics.median(at[side]) - 1) for side in ("osu", "busbw")
            ]
            noise = max(*same, spread(at["osu"] + at["osu again"]), spread(at["busbw"] + at["busbw again"]))
            allowed = max(0.03, smallest / theirs, noise)
            # The mpi backend is to equal OSU; host, which is another way, is to be no slower.
            slower = ours / theirs - 1 if test == "latency" else theirs / ours - 1
            off = slower > allowed if options.backend == "host" else abs(ours / theirs - 1) > allowed
            missed += off
            print(
                f"{size:>10} {theirs:>10.2f} {ours:>10.2f} {ours / theirs:>7.3f} {same[0]:>8.3f} {same[1]:>9.3f} "
                f"{allowed:>8.3f}{'  beyond' if off else ''}"
            )
    print(f"{missed} sizes beyond what is allowed: 3 %, 10 ns, or what launches of one program differ by")


if __name__ == "__main__":
    main()
