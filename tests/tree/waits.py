#!/usr/bin/env python3
"""The transport's tests wait for events: none sleeps, and none asserts how long something took in real time.

Not deadlines that only end a test that hangs. Exit code 0: no such line; 1: those that are printed.
"""

import re
import sys
from pathlib import Path

CRATES = ["multipath", "multipath-sim", "nccl-plugin-busbw"]
SLEEP = re.compile(r"\bthread::sleep\b|\blibc::(u|nano)?sleep\b|\bsleep\(Duration")
ASSERTED = re.compile(r"elapsed\(\)(\.as_\w+\(\))? *[<>]|assert.*\belapsed\(\)")


def main() -> int:
    found = looked_at = 0
    for crate in CRATES:
        folder = Path("crates") / crate
        for path in sorted([*folder.glob("src/**/*.rs"), *folder.glob("tests/**/*.rs")]):
            looked_at += 1
            is_test = "tests" in path.parts or path.name == "tests.rs"
            for number, line in enumerate(path.read_text().splitlines(), 1):
                is_test = is_test or line == "#[cfg(test)]"
                if SLEEP.search(line) or is_test and ASSERTED.search(line):
                    found += 1
                    print(f"{path}:{number}: waits for time, and not for an event: {line.strip()}")
    if looked_at < 100:
        print(f"only {looked_at} files were looked at: run it in the repository", file=sys.stderr)
        return 1
    print(f"waits: {found} in {looked_at} files of the transport")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
