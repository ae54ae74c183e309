#!/usr/bin/env python3
"""Whether two tables are laid out alike: every byte but the digits of measurements, which stay as wide.

Not whether their figures agree: bench/nccl_tests.py measures that.
"""

import re
import sys

NUMBER = r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?"
ROW = re.compile(r"^\s+\d+\s+\d+\s+\w+\s")


def masked(line):
    if ROW.match(line):
        # A column's width stays, whatever its digits: blanks in front of a number belong to it.
        return re.sub(rf" *{NUMBER}", lambda found: "9" * len(found.group()), line)
    # The number of a process may have a digit more on one side, and then a blank less before it.
    line = re.sub(r"Pid +\d+", lambda found: "Pid".ljust(len(found.group()), "_"), line)
    line = re.sub(rf"{NUMBER} +[KMG]?B\b", "9 B", line)
    return re.sub(NUMBER, "9", line)


def main():
    ours, theirs = (open(path, encoding="utf-8").read().splitlines() for path in sys.argv[1:3])
    for at in range(max(len(ours), len(theirs))):
        mine = masked(ours[at]) if at < len(ours) else "(no line)"
        other = masked(theirs[at]) if at < len(theirs) else "(no line)"
        if mine != other:
            print(f"line {at + 1}:\n  ours   {ours[at] if at < len(ours) else mine}")
            print(f"  theirs {theirs[at] if at < len(theirs) else other}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
