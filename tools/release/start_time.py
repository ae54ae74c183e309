"""How long a program takes to say its version, and to print its first row. Part of tools/release.sh.

usage: start_time.py PROGRAM
"""
import statistics
import subprocess
import sys
import time

LAUNCHES = 21


def milliseconds(words, wanted):
    """From the start of `words` to the first line that is `wanted`."""
    start = time.perf_counter()
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    took = next((time.perf_counter() - start for line in child.stdout if wanted(line)), None)
    child.stdout.read()
    if child.wait(60) != 0 or took is None:
        sys.exit(f"{' '.join(words)}: exit code {child.returncode}, or no such line")
    return 1e3 * took


def median(words, wanted):
    return statistics.median(milliseconds(words, wanted) for _ in range(LAUNCHES))


program = sys.argv[1]
version = median([program, "--version"], lambda line: True)
row = [program, "all_reduce_perf", *"-b 8 -e 64K -f 2 -g 2 --backend host".split()]
first_row = median(row, lambda line: line.strip()[:1].isdigit())
print(f"start {version:.1f} ms, first row {first_row:.1f} ms (medians of {LAUNCHES})")
