#!/usr/bin/env python3
"""How long `busbw explain` takes over the flight-recorder dumps of a job of TP8 x PP8 x DP16 ranks that hangs.

    python3 bench/hang_dumps.py target/release/busbw [--calls 28 2000] [--frames 9] [--times 5]

Dumps are made here, as PyTorch 2.10 writes them (pickle, a file a rank; JSON with --json): every rank has called its
tensor, pipeline and data-parallel communicators in turns, and one rank did not make its group's last call. Printed are
bytes, wall and processor seconds of each run, and whether the verdict names that rank. Exit 1 where one does not.
"""
import argparse
import json
import os
import pathlib
import pickle
import resource
import subprocess
import sys
import tempfile
import time

TP, PP, DP = 8, 8, 16
ABSENT = 324
NOW = 1_795_477_277_000_000_000


def groups(rank):
    """The communicators of a rank: name, members."""
    tp, pp, dp = rank % TP, rank // TP % PP, rank // (TP * PP)
    return [
        (f"tp{rank // TP}", [rank // TP * TP + one for one in range(TP)]),
        (f"pp{dp}.{tp}", [dp * TP * PP + one * TP + tp for one in range(PP)]),
        (f"dp{pp}.{tp}", [one * TP * PP + pp * TP + tp for one in range(DP)]),
    ]


def dump(rank, calls, frames):
    """A rank's dump: `calls` of each kind in turns; the last one, of tensor parallelism, hangs in the absent rank's group."""
    mine = groups(rank)
    numbers = [0, 0, 0]
    entries = []
    hangs = ABSENT in mine[0][1]
    frame = [{"name": f"function{n}", "filename": "/opt/python3.11/site-packages/torch/nn/modules/module.py", "line": 1000 + n}
             for n in range(frames)]
    for number in range(calls):
        last = number + 1 == calls
        kind = 0 if last else number % 3
        if last and rank == ABSENT:
            break
        numbers[kind] += 1
        at = NOW + number * 1_000_000 + rank * 1000
        name, _ = mine[kind]
        entries.append({
            "frames": frame, "record_id": number, "pg_id": kind, "process_group": (name, name),
            "collective_seq_id": numbers[kind], "p2p_seq_id": 0, "op_id": numbers[kind],
            "profiling_name": "nccl:all_reduce", "time_created_ns": at,
            "input_sizes": [[1048576]], "input_dtypes": ["BFloat16"],
            "output_sizes": [[1048576]], "output_dtypes": ["BFloat16"],
            "state": "started" if last and hangs else "completed",
            "time_discovered_started_ns": at + 10_000,
            "time_discovered_completed_ns": None if last and hangs else at + 500_000,
            "retired": not (last and hangs), "timeout_ms": 600_000, "is_p2p": False,
        })
    config = {name: {"name": name, "desc": name, "ranks": str(ranks)} for name, ranks in mine}
    return {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries}


def timed(busbw, folder):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    done = subprocess.run([busbw, "explain", folder, "--json"], capture_output=True, text=True)
    wall = time.monotonic() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    try:
        verdict = json.loads(done.stdout)
    except ValueError:
        sys.exit(f"no JSON: {done.stdout[:200]} {done.stderr[:500]}")
    return wall, cpu, json.dumps(verdict)


def main():
    asks = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asks.add_argument("busbw")
    asks.add_argument("--calls", type=int, nargs="+", default=[28, 2000])
    asks.add_argument("--frames", type=int, default=9, help="of the stack of each call")
    asks.add_argument("--times", type=int, default=5)
    asks.add_argument("--json", action="store_true", help="JSON instead of pickle")
    asked = asks.parse_args()
    missed = 0
    for calls in asked.calls:
        with tempfile.TemporaryDirectory() as folder:
            for rank in range(TP * PP * DP):
                path = pathlib.Path(folder, f"fr_trace_rank_{rank}")
                made = dump(rank, calls, asked.frames)
                if asked.json:
                    path.write_text(json.dumps(made))
                else:
                    path.write_bytes(pickle.dumps(made, protocol=2))
            size = sum(one.stat().st_size for one in pathlib.Path(folder).iterdir())
            runs = [timed(asked.busbw, folder) for _ in range(asked.times)]
            named = sum(f"Rank {ABSENT} did not call" in text for _, _, text in runs)
            missed += asked.times - named
            wall = sorted(one[0] for one in runs)
            cpu = sorted(one[1] for one in runs)
            print(f"{TP * PP * DP} dumps of {calls} calls, {size / 1e6:.0f} MB of {'JSON' if asked.json else 'pickles'}: "
                  f"{wall[len(wall) // 2]:.2f} s ({wall[0]:.2f} to {wall[-1]:.2f}), "
                  f"{cpu[len(cpu) // 2]:.2f} s of processors; rank {ABSENT} named {named} of {asked.times}", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    sys.exit(main())
