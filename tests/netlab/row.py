#!/usr/bin/env python3
"""What one run over the bed of tests/netlab did, as the measured fields of a row (COLUMNS), from the files that cases.sh left in a folder.

Not the running. `row.py columns` prints their names; `row.py FOLDER SENDERS NET DOWN` prints the fields, with tabs between. NET
is the prefix of the bed's namespaces, DOWN the link that was down, or `-`. The bed's leaves are asked which link each path takes, and what they carried says whether that is so.
"""

import json
import subprocess
import sys
from pathlib import Path

COLUMNS = (
    "goodput_Gbps each_Gbps each_s longest_gap_ms link_bytes_data link_bytes_acks data_links ack_links data_links_fault"
    " ack_links_fault path_MB segments retransmitted paths_lost flows flows_elsewhere"
)


def sent(folder: Path, sender: int) -> tuple[list[tuple[int, float]], float]:
    """Bytes and seconds of each connection, and the longest gap in ms, as pair printed them."""
    each, gap = [], 0.0
    for line in (folder / f"out{sender}").read_text().splitlines():
        words = line.split()
        if words[0] == "size":
            gap = float(words[-2])
        if words[0] == "each":
            each = [(int(pair.split("/")[0]), float(pair.split("/")[1])) for pair in words[2:]]
    return each, gap


def paths(folder: Path, sent: list[int]) -> list[list[dict]]:
    """The paths of each connection, of the statistics of the processes, which know it by its bytes."""
    found = []
    for file in folder.glob("stats.*.json"):
        for connection in json.loads(file.read_text())["connections"]:
            if connection["peer"].startswith("10.77.2."):
                found.append((sum(path["bytes"] for path in connection["paths"]), connection["paths"]))
    assert sorted(sent) == sorted(bytes for bytes, _ in found), f"{sent} sent, {[bytes for bytes, _ in found]} in the statistics"
    ordered = []
    for bytes in sent:
        match = next(one for one in found if one[0] == bytes)
        found.remove(match)
        ordered.append(match[1])
    return ordered


def port(address: str | None) -> int:
    return int(address.rsplit(":", 1)[1]) if address else 0


def asked(net: str, leaf: str, flows: list[tuple[int, int]]) -> list[str]:
    """The link by which a leaf forwards each flow (source port, destination port): as its hash answers now."""
    to, source = ("10.77.2.1", "10.77.1.1") if leaf == "la" else ("10.77.1.1", "10.77.2.1")
    lines = "".join(f"route get {to} from {source} iif host ipproto tcp sport {s} dport {d}\n" for s, d in flows)
    answer = subprocess.run(
        ["ip", "-n", f"{net}-{leaf}", "-o", "-batch", "-"], input=lines, capture_output=True, text=True, check=True
    ).stdout
    links = [line.split(" dev p")[1].split()[0] for line in answer.splitlines() if " dev p" in line]
    assert len(links) == len(flows), f"{leaf} answered {len(links)} of {len(flows)}"
    return links


def carried(folder: Path, leaf: str) -> dict[tuple[int, int], dict[str, int]]:
    """Packets that a leaf forwarded by each link, for each flow."""
    found: dict[tuple[int, int], dict[str, int]] = {}
    for entry in json.loads((folder / f"flows.{leaf}").read_text())["nftables"]:
        for item in entry.get("set", {}).get("elem", []):
            link, source, destination = item["elem"]["val"]["concat"]
            found.setdefault((source, destination), {})[link.removeprefix("p")] = item["elem"]["counter"]["packets"]
    return found


def links(folder: Path, net: str, down: str, flows: list[list[tuple[int, int]]], leaf: str) -> tuple[str, str, int]:
    """The links of each connection's flows, those during a fault that moves them, and how many flows went elsewhere too."""
    known = [flow for connection in flows for flow in connection if all(flow)]
    normal = dict(zip(known, asked(net, leaf, known)))
    moved = {}
    if down != "-":
        subprocess.run(["ip", "-n", f"{net}-la", "link", "set", f"p{down}", "down"], check=True)
        # Until the other leaf has seen it.
        subprocess.run(["sleep", "1.5"], check=True)
        moved = dict(zip(known, asked(net, leaf, known)))
        subprocess.run(["ip", "-n", f"{net}-la", "link", "set", f"p{down}", "up"], check=True)
        subprocess.run(["sleep", "1.5"], check=True)
    seen = carried(folder, leaf)
    elsewhere = sum(
        bool(set(seen.get(flow, {"none": 0})) - {normal[flow], moved.get(flow, normal[flow])}) for flow in known
    )

    def text(answers: dict) -> str:
        return ";".join(",".join(answers.get(flow, "-") for flow in connection) for connection in flows)

    return text(normal), text(moved) if moved else "-", elsewhere


def main() -> None:
    if sys.argv[1:] == ["columns"]:
        print(COLUMNS.replace(" ", "\t"))
        return
    folder, senders, net, down = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    runs = [sent(folder, sender) for sender in range(1, senders + 1)]
    each = [pair for run, _ in runs for pair in run]
    rates = [bytes * 8e-9 / seconds for bytes, seconds in each]
    of_each = paths(folder, [bytes for bytes, _ in each])
    ends = [[(port(path.get("local")), port(path["remote"])) for path in of] for of in of_each]
    data, data_fault, wrong = links(folder, net, down, ends, "la")
    acks, acks_fault, wrong_acks = links(folder, net, down, [[(d, s) for s, d in of] for of in ends], "lb")
    flat = [path for of in of_each for path in of]
    fields = [
        f"{sum(bytes for bytes, _ in each) * 8e-9 / max(seconds for _, seconds in each):.4f}",
        ",".join(f"{rate:.4f}" for rate in rates),
        ",".join(f"{seconds:.3f}" for _, seconds in each),
        f"{max(gap for _, gap in runs):.0f}",
        (folder / "bytes.la").read_text().strip(),
        (folder / "bytes.lb").read_text().strip(),
        data,
        acks,
        data_fault,
        acks_fault,
        ";".join(",".join(f"{path['bytes'] / 1e6:.1f}" for path in of) for of in of_each),
        str(sum(path["segments"] for path in flat)),
        str(sum(path.get("retransmitted", 0) for path in flat)),
        str(sum(path.get("lost", 0) for path in flat)),
        str(2 * sum(all(flow) for of in ends for flow in of)),
        str(wrong + wrong_acks),
    ]
    assert len(fields) == len(COLUMNS.split())
    print("\t".join(fields))


if __name__ == "__main__":
    main()
