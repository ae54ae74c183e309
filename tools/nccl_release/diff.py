"""What a person reads on release day: the difference between two releases' folders. Not how they were read (facts.py)."""

import tables


def text(old, new):
    """The difference as lines, by area; "same" where there is none."""
    before, after = tables.read(old), tables.read(new)
    lines = [f"# NCCL {old} -> {new}"]
    lines += section("parameters", parameters(before["parameters"], after["parameters"]))
    lines += section("functions", sets(before["functions"], after["functions"]))
    lines += section("plugin interfaces", sets(before["plugins"], after["plugins"]))
    lines += section("structures", structures(before["structures"], after["structures"]))
    lines += section("messages", sets(before["messages"], after["messages"]))
    return "\n".join(lines)


def section(name, lines):
    """A heading with the number of changes, and them."""
    return ["", f"## {name}: {len(lines) if lines else 'same'}"] + lines


def parameters(before, after):
    """Names that came and went, and defaults that changed."""
    old, new = ({row[0]: row[1:] for row in rows} for rows in (before, after))
    lines = [f"+ {name} = {new[name][0]} ({new[name][1]})" for name in sorted(new.keys() - old.keys())]
    lines += [f"- {name}" for name in sorted(old.keys() - new.keys())]
    for name in sorted(old.keys() & new.keys()):
        if old[name][0] != new[name][0]:
            lines.append(f"~ {name}: {old[name][0]} -> {new[name][0]}")
        elif old[name][1] != new[name][1]:
            lines.append(f"~ {name}: read by {old[name][1]} -> {new[name][1]}")
    return lines


def structures(before, after):
    """Fields that came, went or moved; a structure that came or went is one line."""

    def by_structure(rows):
        found = {}
        for structure, offset, size, field in rows:
            found.setdefault(structure, {})[field] = (offset, size)
        return found

    old, new = by_structure(before), by_structure(after)
    lines = [f"+ {name}, {new[name]['-'][1]} bytes" for name in sorted(new.keys() - old.keys())]
    lines += [f"- {name}" for name in sorted(old.keys() - new.keys())]
    for name in sorted(old.keys() & new.keys()):
        fields = dict.fromkeys([*old[name], *new[name]])
        for field in fields:
            was, now = (side[name].get(field) for side in (old, new))
            whole = f"{name}.{field}" if field != "-" else f"{name}, bytes"
            if was != now:
                lines.append(f"~ {whole}: {place(field, was)} -> {place(field, now)}")
    return lines


def place(field, found):
    """Where a field is."""
    if found is None:
        return "absent"
    return found[1] if field == "-" else f"{found[1]} bytes at {found[0]}"


def sets(before, after):
    """Rows that came and went."""
    old, new = set(before), set(after)
    return ["+ " + " ".join(row) for row in sorted(new - old)] + ["- " + " ".join(row) for row in sorted(old - new)]
