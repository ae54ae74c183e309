#!/usr/bin/env python3
"""busbw's net plugin under a real NCCL, against NCCL's own sockets: launches in turns, medians, and ranges.
Not a test: it needs two GPUs of one host, which pose as two nodes, or one whose ranks peers/net_one_gpu.c runs side by side;
either way the network is the host's loopback.

    bench/net_plugin.py --busbw busbw [--reference libreference_net.so] [--gpus 2] [--rounds 5] [--time S] [--setting NAME…] [--sizes 8 256M 2] [--count 5]
    bench/net_plugin.py --busbw busbw --one-gpu net_one_gpu --nccl libnccl.so.2 [--ranks 2] …

busbw and NCCL's default run with no setting at all. `reference` is bench/reference-net, a plugin that does as NCCL's sockets do
(`cargo build --release -p reference-net`): where it is not within 10 % of NCCL's own, ratios against it on other machines do not
count. 4x4 is four threads and four sockets each. With fewer GPUs than asked for it names what it waives and ends with 5.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time


def threads(number, sockets):
    return {"NCCL_SOCKET_NTHREADS": str(number), "NCCL_NSOCKS_PERTHREAD": str(sockets)}


# Whose network (NCCL's own, busbw's, or the reference), and variables, which NCCL's own and the reference read alike.
SETTINGS = {"socket": ("nccl", {}), "busbw": ("busbw", {}), "before": ("before", {}), "reference": ("reference", {})}
for shape in [(1, 4), (4, 1), (4, 4)]:
    for label, network in [("socket", "nccl"), ("reference", "reference")]:
        SETTINGS[f"{label} {shape[0]}x{shape[1]}"] = (network, threads(*shape))


def run(command, variables):
    done = subprocess.run(["timeout", "180", *command], env={**os.environ, **variables}, capture_output=True, text=True)
    if done.returncode == 5:
        print(f"waived   {' '.join(command)}: {done.stderr.strip()}")
        sys.exit(5)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done


def library(options, network):
    """The plugin's file, where it is not the one that busbw carries."""
    return {"reference": options.reference, "before": options.before}.get(network)


def on_gpus(options, network, variables):
    """Microseconds by size, out of place; every element was checked."""
    command = [options.busbw, "all_reduce", "--backend", "nccl", "-g", str(options.gpus), "--virtual-nodes", "2", "--no-record"]
    first, last, factor = options.sizes
    command += ["-b", first, "-e", last, "-f", factor, "--batches", "3", "--row-time", "0.25"]
    command += ["-n", str(options.count), "-w", str(max(2, options.count // 4))]
    if network != "nccl":
        command += ["--net", library(options, network) or "busbw"]
    done = run(command, variables)
    print(*(f"# {line}" for line in done.stderr.splitlines() if "transports set up" in line), sep="\n", flush=True)
    rows = [line.split() for line in done.stdout.splitlines() if line[:1] == " " and line.split()[0].isdigit()]
    return {int(row[0]): float(row[5]) for row in rows}


def on_one_gpu(options, network, variables):
    """The same by ranks that share a GPU without taking turns; every element was checked."""
    plugin = library(options, network)
    if network == "busbw":
        plugin = run([options.busbw, "plugin", "path"], {}).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(options.ranks):
            os.mkdir(f"{folder}/{rank}")
            shutil.copy(options.nccl, f"{folder}/{rank}/libnccl.so.2")
            if network != "nccl":
                shutil.copy(plugin, f"{folder}/{rank}/plugin.so")
        command = [options.one_gpu, folder, str(options.ranks), *options.sizes, str(options.count), "400"]
        rows = [line.split() for line in run(command, variables).stdout.splitlines() if line[:1].isdigit()]
    return {int(size): float(time) for size, time in rows}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--busbw", required=True)
    options.add_argument("--gpus", type=int, default=2)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--time", type=float, default=3600, help="seconds after which no further round begins")
    options.add_argument("--sizes", nargs=3, metavar=("FROM", "TO", "FACTOR"), default=["8", "256M", "2"])
    options.add_argument("--count", type=int, default=5, help="operations at a time")
    options.add_argument("--one-gpu", metavar="PROGRAM", help="peers/net_one_gpu.c, built")
    options.add_argument("--nccl", help="NCCL's library, for --one-gpu")
    options.add_argument("--ranks", type=int, default=2, help="that share the GPU")
    options.add_argument("--reference", metavar="LIBRARY", help="reference-net's libreference_net.so, for the settings of that name")
    options.add_argument("--before", metavar="LIBRARY", help="an earlier libnccl-net-busbw.so, for the setting of that name")
    options.add_argument("--setting", nargs="+", choices=SETTINGS)
    parser, options = options, options.parse_args()
    needs_it = {name for name, (network, _) in SETTINGS.items() if network == "reference"}
    options.setting = options.setting or [
        name for name in SETTINGS if (options.reference or name not in needs_it) and (options.before or name != "before")
    ]
    if not options.before and "before" in options.setting:
        parser.error("the setting before needs --before LIBRARY")
    if not options.reference and needs_it & set(options.setting):
        parser.error("settings with the reference need --reference LIBRARY")
    times = {name: {} for name in options.setting}
    end, rounds = time.monotonic() + options.time, 0
    while rounds < options.rounds and time.monotonic() < end:
        rounds += 1
        for name in options.setting:
            found = (on_one_gpu if options.one_gpu else on_gpus)(options, *SETTINGS[name])
            for size, taken in found.items():
                times[name].setdefault(size, []).append(taken)
    print("us, the median of", rounds, "launches (range)")
    print("|", " | ".join(["bytes", *times, "socket / busbw", "best of NCCL's own / busbw", "before / busbw"]), "|")
    print("|", "---|" * (len(times) + 4))
    for size in next(iter(times.values())):
        middle = {name: statistics.median(times[name][size]) for name in times}
        cells = [f"{middle[name]:.1f} ({min(times[name][size]):.1f} to {max(times[name][size]):.1f})" for name in times]
        own = {name: middle[name] for name in times if SETTINGS[name][0] == "nccl"}
        best = min(own, key=own.get, default=None)
        ratio = f"{own['socket'] / middle['busbw']:.2f}" if {"socket", "busbw"} <= set(times) else ""
        of_best = f"{own[best] / middle['busbw']:.2f} ({best})" if best and "busbw" in times else ""
        of_before = f"{middle['before'] / middle['busbw']:.3f}" if {"before", "busbw"} <= set(times) else ""
        print("|", " | ".join([str(size), *cells, ratio, of_best, of_before]), "|")


main()
