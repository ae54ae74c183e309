#!/usr/bin/env python3
"""Draws docs/plugin.md's figures of simulated congestion from docs/data/multipath_simulated.txt, the output of
`cargo test --release -p busbw-multipath-sim --test datagrams -- --nocapture` (its head says with which seeds).

Not a measurement. `bench/multipath_figures.py` writes the files; `--check` compares them with what is committed: exit code 1
where they differ.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "docs" / "data" / "multipath_simulated.txt"
# Gb/s of the links that are up.
LINKS = {"hashes collide": 80, "one link is dead": 70, "four senders": 80, "incast": 10}
BLUES, ORANGES = ["#9ecae1", "#4292c6", "#08519c"], ["#fdae6b", "#f16913", "#a63603"]
GREY = "#666666"
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 720, 300, 60, 60, 54


def tables(text: str) -> list[list[list[str]]]:
    """The Markdown tables of a text, row by row, without the rule below the head."""
    found, table = [], []
    for line in [*text.splitlines(), ""]:
        # The test runner writes a test's name before its first line.
        line = line[line.find("|") :] if line.startswith("test ") and "|" in line else line
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if set("".join(cells)) != {"-"}:
                table.append(cells)
        elif table:
            found.append(table)
            table = []
    return found


def text(x: float, y: float, words: str, anchor: str = "middle", size: int = 12, colour: str = "#222222") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{words}</text>'
    )


def bars(title: str, unit: str, groups: list, series: list, most: float, mark: float | None = None) -> str:
    """Groups of bars: `groups` is [(name, [value or None for each of the series])], `series` [(name, colour)]. `mark` draws a
    line at a bar that is to be reached."""
    span = HEIGHT - TOP - BOTTOM
    y = lambda value: TOP + span * (1 - min(value, most) / most)  # noqa: E731
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" role="img">',
        f"<title>{title}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        text(LEFT, 20, f"{title}, {unit}", "start", 14),
    ]
    place = LEFT
    for name, colour in series:
        parts.append(f'<rect x="{place}" y="30" width="11" height="11" fill="{colour}"/>')
        parts.append(text(place + 16, 40, name, "start"))
        place += 28 + 6 * len(name)
    for step in range(5):
        value = most * step / 4
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#dddddd"/>'
        )
        parts.append(text(LEFT - 6, y(value) + 4, f"{value:g}", "end", colour=GREY))
    if mark is not None:
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{y(mark):.1f}" y2="{y(mark):.1f}" stroke="#b30000" '
            f'stroke-dasharray="5 4"/>'
        )
    room = (WIDTH - 10 - LEFT) / len(groups)
    wide = min(34.0, room * 0.84 / len(series))
    for number, (name, values) in enumerate(groups):
        begin = LEFT + room * (number + 0.5) - wide * len(series) / 2
        for at, value in enumerate(values):
            if value is None:
                continue
            x = begin + wide * at
            parts.append(
                f'<rect x="{x:.1f}" y="{y(value):.1f}" width="{wide - 2:.1f}" height="{TOP + span - y(value):.1f}" '
                f'fill="{series[at][1]}"/>'
            )
            parts.append(text(x + wide / 2 - 1, y(value) - 3, f"{value:g}", size=9))
        for line, part in enumerate(name.split("\n")):
            parts.append(text(LEFT + room * (number + 0.5), TOP + span + 18 + 15 * line, part))
    return "\n".join([*parts, "</svg>"]) + "\n"


def figures(text_of_data: str) -> dict[str, str]:
    """The files and what is in them."""
    by_head = {tuple(table[0]): table[1:] for table in tables(text_of_data)}
    choices = by_head[("case", "choice", "paths", "Gb/s", "message, p99 us")]
    series = [(("Earliest", str(paths)), f"earliest of {paths}", BLUES[at]) for at, paths in enumerate([16, 64, 256])]
    series += [(("PowerOfTwo", str(paths)), f"two of {paths}", ORANGES[at]) for at, paths in enumerate([16, 64, 256])]
    named = [(name, colour) for _, name, colour in series]
    cases = list(dict.fromkeys(row[0] for row in choices))

    def groups(cases: list, column: int, unit) -> list:
        value = {tuple(row[:3]): round(float(row[column]) / unit(row[0]), 1) for row in choices}
        return [(case, [value.get((case, *key)) for key, _, _ in series]) for case in cases]

    def most(all_groups: list) -> float:
        return max(value for _, values in all_groups for value in values if value is not None)

    rates = groups(cases, 3, lambda case: LINKS[case] / 100)
    # In the incast 16 messages share a link, which takes its time whatever the path.
    late = groups([case for case in cases if case != "incast"], 4, lambda _: 1000)
    incast = by_head[("receiver", "senders", "paths of each", "apart, us", "share", "Jain's index")]
    kinds = list(dict.fromkeys((row[1], row[2]) for row in incast))
    index = {(row[0], row[1], row[2], row[3]): float(row[5]) for row in incast}
    least = lambda host, kind: min(value for key, value in index.items() if key[:3] == (host, *kind))  # noqa: E731
    hosts = [("one host", "to one host", BLUES[2]), ("other clocks", "to hosts with other clocks", ORANGES[0])]
    fair = [
        (f"{senders} senders,\n{paths} paths each", [round(least(host, (senders, paths)), 2) for host, _, _ in hosts])
        for senders, paths in kinds
    ]
    return {
        "docs/multipath_goodput.svg": bars("Goodput by choice of path", "% of the links' rate", rates, named, 100),
        "docs/multipath_late.svg": bars(
            "Messages of 1 MiB, 99th percentile", "ms", late, named, 10 * -(-most(late) // 10)
        ),
        "docs/multipath_fairness.svg": bars(
            "Incast: least of Jain's index", "1: all alike; dashed: the bar", fair,
            [(name, colour) for _, name, colour in hosts], 1.2, 0.9,
        ),
    }


def main() -> int:
    differ = 0
    for name, drawn in figures(DATA.read_text()).items():
        file = ROOT / name
        if sys.argv[1:] != ["--check"]:
            file.write_text(drawn)
        elif not file.is_file() or file.read_text() != drawn:
            print(f"{name} is not what bench/multipath_figures.py draws of {DATA.relative_to(ROOT)}")
            differ = 1
    return differ


if __name__ == "__main__":
    sys.exit(main())
