"""What the program needs of all releases in one: since when, until when, with which default. Made of the releases' folders,
and of from_source.tsv for what no wheel can tell. Not read from any library (facts.py)."""

import tables

GENERATED = tables.DATA.parent / "src/generated"
FROM_SOURCE = tables.DATA / "from_source.tsv"


class Contradiction(Exception):
    """The source's table and the libraries do not agree."""


def tables_of_history():
    """{file name: (columns, rows)} of every generated table."""
    releases = tables.releases()
    facts = {release: tables.read(release) for release in releases}
    return {
        "releases.tsv": (("release",), [(release,) for release in releases]),
        "parameters.tsv": (("name", "first", "removed", "read_by", "defaults"), parameters(releases, facts)),
        "functions.tsv": (("name", "first", "removed"), functions(releases, facts)),
        "plugins.tsv": (("release", "kind", "versions"), plugins(releases, facts)),
        "structures.tsv": (("structure", "field", "offset", "bytes", "first", "removed"), structures(releases, facts)),
    }


def lifetime(name, releases, present):
    """(first release that has it, first later one that has not): "-" for none. `present` tells of a release."""
    has = [present(release) for release in releases]
    first = has.index(True)
    last = len(has) - 1 - has[::-1].index(True)
    if not all(has[first:last]):
        raise Contradiction(f"{name} came, went and came back: {releases[first]} to {releases[last]}")
    return releases[first], "-" if last == len(has) - 1 else releases[last + 1]


def parameters(releases, facts):
    """Variables: those of the libraries, with what the source says of the time before, between and after."""
    defaults = {release: {row[0]: row[1:] for row in facts[release]["parameters"]} for release in releases}
    source = {
        row[0]: [cell if cell == "-" else cell.split("-")[0] for cell in row[-2:]]
        for row in tables.read_table(FROM_SOURCE)
        if row[0].startswith("NCCL_")
    }
    rows = []
    for name in sorted(set(source).union(*defaults.values())):
        if not any(name in defaults[release] for release in releases):
            rows.append((name, *source[name], "-", "-"))
            continue
        first, removed = lifetime(name, releases, lambda release: name in defaults[release])
        has = [release for release in releases if name in defaults[release]]
        if name in source:
            first = _told(name, "came", releases, first, source[name][0], first == releases[0])
            if removed != "-" or source[name][1] != "-":
                removed = _told(name, "went", releases, removed, source[name][1], False)
        changes = []
        for release in has:
            default = defaults[release][name][0]
            if default != "-" and (not changes or changes[-1][1] != default):
                changes.append((release, default))
        read_by = defaults[has[-1]][name][1]
        rows.append((name, first, removed, read_by, ";".join(f"{release}={value}" for release, value in changes) or "-"))
    return rows


def _told(name, what, releases, seen, told, is_oldest):
    """The release that the source tells, where it lies between the library that shows a change and the one before."""
    if told == "-":
        return seen
    number = tables.order(told)
    at = releases.index(seen) if seen in releases else len(releases)
    before = tables.order(releases[at - 1]) if at else (0,)
    if (is_oldest and number <= tables.order(seen)) or before < number <= (tables.order(seen) if seen != "-" else (999,)):
        return told
    raise Contradiction(f"{name} {what} in {told} by its source, in {seen} by the libraries")


def functions(releases, facts):
    """Public functions."""
    names = {release: {row[0] for row in facts[release]["functions"]} for release in releases}
    every = sorted(set().union(*names.values()))
    return [(name, *lifetime(name, releases, lambda release: name in names[release])) for name in every]


def plugins(releases, facts):
    """Per release and kind of plugin, the versions that it looks for, where they differ from the release before."""
    rows, last = [], {}
    for release in releases:
        kinds = {}
        for kind, version in facts[release]["plugins"]:
            kinds.setdefault(kind, []).append(int(version))
        for kind, versions in sorted(kinds.items()):
            if last.get(kind) != versions:
                rows.append((release, kind, " ".join(map(str, sorted(versions)))))
                last[kind] = versions
    return rows


# The structures whose fields the program fills or reads.
USED = ("ncclConfig_t", "ncclCollConfig_t", "ncclSimInfo_t", "ncclUniqueId")


def structures(releases, facts):
    """Fields of the structures of the public header that the program uses, "-" for the whole."""
    fields = {release: {} for release in releases}
    for release in releases:
        for structure, offset, size, field in facts[release]["structures"]:
            if structure in USED:
                fields[release][structure, field, offset if field != "-" else "0", size] = None
    every = dict.fromkeys(key for release in releases for key in fields[release])
    return [
        (structure, field, offset, size, *lifetime(f"{structure}.{field}", releases, lambda release: key in fields[release]))
        for key in every
        for structure, field, offset, size in [key]
    ]


def generate():
    """Writes the generated tables."""
    GENERATED.mkdir(parents=True, exist_ok=True)
    for name, (columns, rows) in tables_of_history().items():
        tables.write_table(GENERATED / name, columns, rows)


def stale():
    """Names of generated tables that are not what the data give."""
    names = []
    for name, (columns, rows) in tables_of_history().items():
        path = GENERATED / name
        before = path.read_bytes() if path.exists() else b""
        if before != ("\n".join(tables.lines(columns, rows)) + "\n").encode():
            names.append(name)
    return names
