"""The data files of a release: one folder each, tab separated, a header line. Not what is in them (facts.py)."""

import re
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "crates/nccl-releases/data"
COLUMNS = {
    "parameters": ("name", "default", "read_by"),
    "functions": ("name",),
    "structures": ("structure", "offset", "bytes", "field"),
    "plugins": ("kind", "version"),
    "messages": ("level", "text"),
}


def order(release):
    """Sorts releases as numbers: 2.9.6 before 2.28.9."""
    return tuple(int(part) for part in release.split("."))


def releases():
    """The releases that have a folder, oldest first."""
    names = (folder.name for folder in DATA.iterdir() if re.fullmatch(r"\d+\.\d+\.\d+", folder.name))
    return sorted(names, key=order)


def write(release, facts):
    """Writes the folder of a release."""
    folder = DATA / release
    folder.mkdir(parents=True, exist_ok=True)
    for name, columns in COLUMNS.items():
        write_table(folder / f"{name}.tsv", columns, facts[name])


def write_table(path, columns, rows):
    """Writes a table."""
    path.write_text("\n".join(lines(columns, rows)) + "\n")


def lines(columns, rows):
    """The lines of a table; tabs, line ends and backslashes of a cell are escaped."""
    return ["\t".join(columns)] + ["\t".join(_escaped(str(cell)) for cell in row) for row in rows]


def read(release):
    """The facts of a release, cells as text."""
    return {name: read_table(DATA / release / f"{name}.tsv") for name in COLUMNS}


def read_table(path):
    """The rows of a table without its header line."""
    return [tuple(line.split("\t")) for line in Path(path).read_text().splitlines()[1:]]


def _escaped(cell):
    return cell.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r").replace("\x1b", "\\e")
