#!/usr/bin/env python3
"""One line for a case: when the simulator says that flows are done, when they were, and the difference.

Not the run (bed.py), and no prediction of its own. Usage: judge.py NAME CASE.toml PREDICTED.json MEASURED.json
CASE is the flow file, PREDICTED what `busbw plan flows CASE --json` printed, MEASURED what bed.py did. With `total` as the
first word it reads lines of this form from stdin and counts.
"""

import json
import statistics
import sys
import tomllib

BAR = 10.0


def difference(predicted: float, measured: float) -> float:
    return (predicted / measured - 1) * 100


def line(name: str, case: str, predicted: str, measured: str) -> str:
    with open(case, "rb") as file:
        case = tomllib.load(file)
    with open(predicted) as file:
        predicted = json.load(file)
    with open(measured) as file:
        measured = json.load(file)
    nodes = {node for link in case["links"] for node in link["name"].split(">")}
    each = []
    for flow in predicted["flows"]:
        start = flow["start_us"] / 1e6
        each.append(difference(flow["arrival_us"] / 1e6 - start, measured["flows"][flow["name"]] - start))
    every = difference(predicted["end_us"] / 1e6, measured["all_s"])
    within = sum(abs(one) <= BAR for one in each)
    failed = "+".join(sorted({{"slow": "slow", "take_away": "lost"}[one["what"]] for one in measured["failures"]})) or "-"
    count = lambda kind: sum(node[0] == kind for node in nodes)
    fields = [
        name, count("h"), count("l"), count("s"), len(each), failed,
        f"{predicted['end_us'] / 1e6:.2f}", f"{measured['all_s']:.2f}", f"{every:+.1f}",
        f"{within}/{len(each)}", f"{statistics.median(map(abs, each)):.1f}", f"{max(each, key=abs):+.1f}",
        measured["segments_sent_again"], f"{measured['busy']:.2f}", f"{measured['late_ms_p99']:.1f}",
    ]  # fmt: skip
    if measured["elsewhere"]:
        raise SystemExit(f"case {name}: links carried what no path crosses: {measured['elsewhere']}")
    return " ".join(f"{field:>{width}}" for field, width in zip(map(str, fields), WIDTHS))


COLUMNS = "case hosts leaves spines flows failed predicted_s measured_s diff_% within median_% worst_% again busy late_ms".split()
WIDTHS = [max(len(column), 6) for column in COLUMNS]
WIDTHS[5] = 9


def total(lines: list[str]) -> str:
    rows = [line.split() for line in lines if line.strip() and line.split()[0].isdigit()]
    of = dict(zip(COLUMNS, zip(*rows)))
    every = [abs(float(one)) for one in of["diff_%"]]
    flows = [tuple(map(int, one.split("/"))) for one in of["within"]]
    return (
        f"time until all flows are done: {sum(one <= BAR for one in every)} of {len(every)} cases within {BAR:.0f} %, "
        f"median {statistics.median(every):.1f} %, worst {max(every):.1f} %\n"
        f"each flow's own time: {sum(one[0] for one in flows)} of {sum(one[1] for one in flows)} within {BAR:.0f} %"
    )


if __name__ == "__main__":
    if sys.argv[1] == "total":
        print(total(sys.stdin.readlines()))
    elif sys.argv[1] == "columns":
        print(" ".join(f"{column:>{width}}" for column, width in zip(COLUMNS, WIDTHS)))
    else:
        print(line(*sys.argv[1:5]))
