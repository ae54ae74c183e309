#!/usr/bin/env python3
"""Fails where top-level modules of a crate use each other in a circle. A folder is one module; tests do not count.

Crates cannot do so: cargo refuses it. Arrows are read from the source text: `use` trees and paths that begin with
`crate`, `super` or `self`, and items that the crate's root re-exports count as their module's.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

TEST_MODULE = re.compile(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:pub\S* )?mod \w+ \{")
USE = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?use\s+([\w:{},*\s]+);", re.M)
PATH = re.compile(r"(?<![\w:$])(?:crate|super|self)(?:::\w+)+")


def without_tests(source: str) -> str:
    """The source with inline test modules and comments blanked; line numbers stay."""
    source = re.sub(r"//[^\n]*", "", source)
    while match := TEST_MODULE.search(source):
        depth, at = 0, match.end() - 1
        while at < len(source):
            depth += {"{": 1, "}": -1}.get(source[at], 0)
            if depth == 0:
                break
            at += 1
        cut = source[match.start() : at + 1]
        source = source[: match.start()] + "\n" * cut.count("\n") + source[at + 1 :]
    return source


def leaves(tree: str, prefix: str = "") -> list[str]:
    """The paths of a use tree."""
    brace = tree.find("{")
    if brace < 0:
        return [prefix + re.sub(r"\s+as\s+\w+", "", tree).strip()]
    head, inner = prefix + tree[:brace].strip(), tree[brace + 1 : tree.rindex("}")]
    depth, part, found = 0, "", []
    for char in inner + ",":
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            if part.strip():
                found += leaves(part.strip(), head)
            part = ""
        else:
            part += char
    return found


def absolute(path: str, module: list[str]) -> list[str] | None:
    """A path from the crate's root; none where it leaves the crate."""
    parts = [part.strip() for part in path.split("::") if part.strip()]
    if parts[:1] == ["crate"]:
        return parts[1:]
    base = list(module)
    if parts[:1] == ["self"]:
        return base + parts[1:]
    if parts[:1] != ["super"]:
        return None
    while parts[:1] == ["super"]:
        base, parts = base[:-1], parts[1:]
    return base + parts


def arrows(crate: Path) -> dict[tuple[str, str], list[str]]:
    """Which top-level module uses which, and where."""
    root = crate / "src"
    modules = {path.stem for path in root.iterdir() if path.stem not in ("lib", "main")}
    exports: dict[str, str] = {}
    if (root / "lib.rs").is_file():
        for match in re.finditer(r"pub(?:\([^)]*\))? use ([^;]+);", (root / "lib.rs").read_text()):
            for leaf in leaves(match.group(1)):
                parts = leaf.split("::")
                if parts[0] in modules:
                    exports[parts[-1]] = parts[0]
    found = defaultdict(list)
    for path in root.rglob("*.rs"):
        relative = path.relative_to(root)
        if path.stem in ("tests", "lib", "main") or "tests" in relative.parts:
            continue
        module = list(relative.with_suffix("").parts)
        source = without_tests(path.read_text())
        uses = [(m.start(), leaf) for m in USE.finditer(source) for leaf in leaves(m.group(1))]
        body = USE.sub(lambda m: "\n" * m.group(0).count("\n"), source)
        uses += [(m.start(), m.group(0)) for m in PATH.finditer(body)]
        for at, used in uses:
            target = absolute(used, module)
            if not target:
                continue
            name = exports.get(target[0], target[0])
            if name in modules and name != module[0]:
                line = source.count("\n", 0, at) + 1
                found[module[0], name].append(f"{path}:{line}: {used}")
    return found


def cycles(edges: set[tuple[str, str]]) -> list[set[str]]:
    """Groups of modules that reach each other."""
    reach: dict[str, set[str]] = defaultdict(set)
    for a, b in edges:
        reach[a].add(b)
    changed = True
    while changed:
        changed = False
        for a in list(reach):
            more = set().union(*(reach.get(b, set()) for b in reach[a])) - reach[a]
            reach[a] |= more
            changed |= bool(more)
    groups = {frozenset(b for b in reach[a] if a in reach.get(b, set())) for a in reach if a in reach[a]}
    return [set(group) for group in groups if group]


def main() -> int:
    crates = sorted(path.parent for path in Path("crates").glob("*/Cargo.toml"))
    if len(crates) < 5:
        print("run it in the repository: there are no crates here", file=sys.stderr)
        return 1
    total = modules = 0
    for crate in crates:
        found = arrows(crate)
        modules += len({name for pair in found for name in pair})
        for group in cycles(set(found)):
            total += 1
            print(f"{crate.name}: a cycle of {', '.join(sorted(group))}")
            for (a, b), places in sorted(found.items()):
                if a in group and b in group:
                    print(f"    {a} -> {b}: {places[0]}")
    print(f"modules: {total} cycles among {modules} top-level modules of {len(crates)} crates")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
