#!/usr/bin/env python3
"""Finds private words (words.txt) in every tracked text file: as words, and as parts of names in any case.

Not a spelling check. Exempt are the files and lines that must name such a word: the glossary's table of words
that are not used, keys of old files that are still read, and the inside of the multipath transport.
"""

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
# Real output of others is theirs.
EXEMPT = re.compile(
    r"^(GLOSSARY\.md$|tests/tree/words\.(txt|py)$|fuzz/corpus/|.*\.(lock|snap|ptx|xml)$|.*/assets/charts\.js$)"
)
# Visitor is a pattern's name, and serde's.
VISITOR = re.compile(r"^crates/(core/src/pattern|ffi/kernels)/|^crates/logs/src/(import/wrapped|flight_recorder|flight_recorder/pickle|flight_recorder/pickle/values)\.rs$")
# A key of older files that readers still take, and the documents that say so.
OLD_KEY = re.compile(r'alias = "|`culprit[^`]*`')
PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def main() -> int:
    lines = (HERE / "words.txt").read_text().splitlines()
    words = {line.strip() for line in lines if line.strip() and not line.startswith("#")}
    tracked = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout
    found = looked_at = 0
    for name in tracked.splitlines():
        if EXEMPT.match(name) or not Path(name).is_file():
            continue
        try:
            text = Path(name).read_text()
        except UnicodeDecodeError:
            continue
        looked_at += 1
        for part in PART.findall(name):
            if part.lower() in words:
                found += 1
                print(f"{name}: the file's name holds '{part}'")
        for number, line in enumerate(text.splitlines(), 1):
            if OLD_KEY.search(line):
                continue
            for part in PART.findall(line):
                if part.lower() in words and not (part.lower() == "visitor" and VISITOR.match(name)):
                    found += 1
                    print(f"{name}:{number}: '{part}': {line.strip()[:120]}")
    if looked_at < 100:
        print(f"only {looked_at} files were looked at: run it in the repository", file=sys.stderr)
        return 1
    print(f"words: {found} private words in {looked_at} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
