"""Of tests/rdma/loss.sh's lines on stdin a table: the share of the rate that loss leaves, medians, beside `busbw plan loss`.
usage: loss.py BUSBW. Not a judgement: exit code 1 only where there are no lines."""

import json
import re
import statistics
import subprocess
import sys

# As loss.sh sends: bytes of a packet's payload.
MTU = 1024


def expected(busbw, lost, rate_mbytes, trip_ms):
    """The share of the rate. The rate that a lossless run delivered is in it, so that headers are: a packet takes as long."""
    packet_us = MTU / rate_mbytes
    # busbw adds 82 bytes of headers and gaps to a packet; the rate is chosen so that one takes as long as here.
    gbps = (MTU + 82) * 8 / packet_us / 1e3
    words = ["plan", "loss", "--rate", f"{gbps:.9f}G", "--mtu", str(MTU), "--drop", f"{lost}%", "--round-trip", f"{max(trip_ms, 0.001) * 1e3:.3f}us", "--json"]
    answer = json.loads(subprocess.run([busbw, *words], capture_output=True, text=True, check=True).stdout)
    return next(row["goodput"] for row in answer["rows"] if row["recovery"] == "go-back-n")


def main():
    lines = [re.sub(r"^[01]\| ", "", line).split() for line in sys.stdin]
    rdma = {}
    for line in lines:
        if line[:1] == ["go-back-N"]:
            _, _, depth, _, lost, _, speed, _, trip = line
            rdma.setdefault((int(depth), float(lost)), []).append((float(speed), float(trip)))
    if not rdma:
        sys.exit("no lines of loss.sh")
    print("| packets in flight | lost | MB/s | of the lossless rate | `plan loss` | difference |\n|---|---|---|---|---|---|")
    for (depth, lost), runs in sorted(rdma.items()):
        speed = statistics.median(run[0] for run in runs)
        whole = statistics.median(run[0] for run in rdma[depth, 0.0])
        trip = statistics.median(run[1] for run in rdma[depth, 0.0])
        share = speed / whole
        if lost == 0:
            print(f"| {trip * 1e3 * whole / MTU:.0f} ({trip:.1f} ms) | 0 | {speed:.2f} | | | |")
            continue
        said = expected(sys.argv[1], lost, whole, trip)
        print(f"| | {lost} % | {speed:.2f} | {share:.3f} | {said:.3f} | {(share / said - 1) * 100:+.0f} % |")


main()
