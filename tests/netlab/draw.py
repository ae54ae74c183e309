#!/usr/bin/env python3
"""Cases of tests/netlab/cases.sh, one a line: the named ones (no argument), or one drawn from each seed (FIRST COUNT).

Not how they are run. A line has tabs between its fields, which are FIELDS.
"""

import random
import sys

FIELDS = "case links burst_kB last_hop fault fault_link fault_value from to bytes open senders connections seconds mtu offload"
# Messages open at a time, as pair has it.
OPEN = 8
# Rate in Mb/s and queue in ms, of four links.
EVEN = "1000:8,1000:8,1000:8,1000:8"
NAMED = [
    # A bucket of 128 kB; nothing else than MTUs limits what one packet of the kernel carries (offload).
    f"even|{EVEN}|128|-|none|-|-|-|-|1048576|8|1|1|4|9000|on",
    "quarter|250:8,1000:8,1000:8,1000:8|128|-|none|-|-|-|-|1048576|8|1|1|4|9000|on",
    f"loss|{EVEN}|128|-|loss|1|0.01|-|-|1048576|8|1|1|4|9000|off",
    # The same, and seed 0 below, at a quarter and a third of the rates: as many packets as two processors move.
    "slow-loss|250:8,250:8,250:8,250:8|32|-|loss|1|0.01|-|-|1048576|8|1|1|4|9000|off",
    "slow-0|71:12,82:11,42:10,10:16,29:8|16|-|loss|5|0.004|-|-|262144|8|1|2|5|1500|off",
    f"blackhole|{EVEN}|128|-|blackhole|1|-|1|4|1048576|8|1|1|7|9000|on",
    f"down|{EVEN}|128|-|down|2|-|1|4|1048576|8|1|1|7|9000|on",
    f"incast|{EVEN}|128|1000:8|none|-|-|-|-|1048576|8|4|1|4|9000|on",
]


def drawn(seed: int) -> str:
    """The case of a seed. Every third has a fault, each kind in turn."""
    draw = random.Random(seed)
    while True:
        rates = [draw.randint(20, 250) for _ in range(draw.randint(2, 6))]
        if sum(rates) <= 1000:
            break
    queues = [draw.randint(4, 16) for _ in rates]
    connections = draw.randint(1, 3)
    seconds = draw.randint(3, 6)
    mtu = draw.choice((1500, 9000))
    fault, link, value, begin, end, offload = "none", "-", "-", "-", "-", "on"
    if seed % 3 == 0:
        fault = ("loss", "blackhole", "slow")[seed // 3 % 3]
        link = draw.randint(1, len(rates))
        if fault == "loss":
            value, offload = draw.randint(2, 10) / 1000, "off"
        elif fault == "blackhole":
            begin = 1
            end = round(begin + draw.uniform(1, 2), 1)
        else:
            value = draw.randint(4, 10)
            rates[link - 1] = round(rates[link - 1] / value, 1)
    while True:
        size = 1 << draw.randint(16, 22)
        # What is open is at most a quarter of all: else it would be the last messages that are measured.
        if OPEN * size * connections * 8 <= sum(rates) * 1e6 * seconds / 4:
            break
    links = ",".join(f"{rate:g}:{queue}" for rate, queue in zip(rates, queues))
    fields = [seed, links, 16, "-", fault, link, value, begin, end, size, OPEN, 1, connections, seconds, mtu, offload]
    return "|".join(str(field) for field in fields)


def main() -> None:
    lines = NAMED
    if len(sys.argv) == 3:
        first, count = int(sys.argv[1]), int(sys.argv[2])
        lines = [drawn(seed) for seed in range(first, first + count)]
    for line in lines:
        assert line.count("|") + 1 == len(FIELDS.split())
        print(line.replace("|", "\t"))


if __name__ == "__main__":
    main()
