#!/usr/bin/env python3
"""A random small fabric as a flow file (docs/fabric.md): hosts hN, leaves lN, spines sN, flows and failures of a seed.

Not how it is run (bed.py). Usage: draw.py SEED >FILE
"""

import random
import sys

# Mb/s: of a host's link and of a link between switches. Two processors move all of this without being what is measured.
HOST_RATES = (100, 100, 100, 75, 50)
SPINE_RATES = (100, 100, 75, 60, 50, 40)
# Of a TCP segment over Ethernet with IP 20 B, TCP 20 B and timestamps 12 B: what tbf counts has 14 B of Ethernet, too.
PAYLOAD, WIRE = 1448, 1514


def drawn(seed: int) -> str:
    draw = random.Random(seed)
    hosts, leaves, spines = draw.randint(4, 16), draw.randint(2, 4), draw.randint(2, 4)
    leaf_of = [host % leaves for host in range(hosts)]
    rates = {}
    for host in range(hosts):
        rates[f"h{host}", f"l{leaf_of[host]}"] = draw.choice(HOST_RATES)
    for leaf in range(leaves):
        for spine in range(spines):
            rates[f"l{leaf}", f"s{spine}"] = draw.choice(SPINE_RATES)
    flows = []
    for number in range(draw.randint(4, 16)):
        source, to = draw.sample(range(hosts), 2)
        # Few stay below one leaf: those share no path with others.
        if leaf_of[source] == leaf_of[to] and draw.random() < 0.8:
            to = draw.choice([host for host in range(hosts) if leaf_of[host] != leaf_of[source]])
        flows.append(
            {
                "name": f"f{number}",
                "bytes": draw.randint(40, 160) * 100_000,
                "source": source,
                "to": to,
                "spine": draw.randrange(spines),
                "start_us": draw.choice((0, 0, 0, draw.randint(1, 20) * 100_000)),
            }
        )

    def path(flow: dict, spine: int) -> list[str]:
        a, b = leaf_of[flow["source"]], leaf_of[flow["to"]]
        nodes = [f"h{flow['source']}", f"l{a}"]
        if a != b:
            nodes += [f"s{spine}", f"l{b}"]
        nodes.append(f"h{flow['to']}")
        return [f"{one}>{next}" for one, next in zip(nodes, nodes[1:])]

    out = [f"# tests/fabric/draw.py {seed}: {hosts} hosts, {leaves} leaves, {spines} spines"]
    out += ["[packet]", f"payload = {PAYLOAD}", f"wire = {WIRE}"]
    for (one, other), rate in rates.items():
        for name in (f"{one}>{other}", f"{other}>{one}"):
            out += ["[[links]]", f'name = "{name}"', f"rate = {rate / 1000}"]
    for flow in flows:
        out += ["[[flows]]", f'name = "{flow["name"]}"', f"bytes = {flow['bytes']}", f"path = {path(flow, flow['spine'])}"]
        out += [f"start_us = {flow['start_us']}"] if flow["start_us"] else []
    # In turn: nothing, a link slower, a link gone whose flows move to another spine, both.
    kind, changes = seed % 4, []
    crossing = [flow for flow in flows if leaf_of[flow["source"]] != leaf_of[flow["to"]]] or flows
    if kind in (1, 3):
        slower = draw.choice(crossing)
        link = draw.choice(path(slower, slower["spine"])).split(">")
        rate = next(rates[key] for key in (tuple(link), tuple(reversed(link))) if key in rates)
        at = draw.randint(10, 40) * 100_000
        share = draw.choice((0.25, 0.5, 0.5))
        for name in (f"{link[0]}>{link[1]}", f"{link[1]}>{link[0]}"):
            changes += ["[[changes]]", f"at_us = {at}", f'link = "{name}"', f"rate = {rate * share / 1000}"]
    if kind in (2, 3):
        lost = draw.choice(crossing)
        leaf, spine = draw.choice((leaf_of[lost["source"]], leaf_of[lost["to"]])), lost["spine"]
        instead = draw.choice([other for other in range(spines) if other != spine])
        at = draw.randint(10, 40) * 100_000
        for name in (f"l{leaf}>s{spine}", f"s{spine}>l{leaf}"):
            changes += ["[[changes]]", f"at_us = {at}", f'link = "{name}"', "rate = 0"]
        for flow in flows:
            if flow["spine"] == spine and leaf in (leaf_of[flow["source"]], leaf_of[flow["to"]]) and flow in crossing:
                changes += ["[[changes]]", f"at_us = {at}", f'flow = "{flow["name"]}"', f"path = {path(flow, instead)}"]
    return "\n".join(out + changes) + "\n"


if __name__ == "__main__":
    sys.stdout.write(drawn(int(sys.argv[1])))
