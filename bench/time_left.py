#!/usr/bin/env python3
"""How true the time left is that a run shows on a terminal.

    bench/time_left.py COMMAND...

Runs the command in a terminal of its own, reads what its progress line says is left, and compares it with what was left.
Bar: within 25 % from a third of the run on. "at least" is no estimate, and is counted apart.
"""
import os, pty, re, select, statistics, sys, time

LEFT = re.compile(r"(at least )?((?:\d+:)*\d+)( s)? left,")


def seconds(text):
    total = 0
    for part in text.split(":"):
        total = total * 60 + int(part)
    return total


def main(command):
    if not command:
        sys.exit(__doc__)
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.environ["COLUMNS"] = "120"
        os.execvp(command[0], command)
    began, said, silent, last = time.monotonic(), [], 0.0, 0.0
    while True:
        select.select([terminal], [], [], 1.0)
        try:
            text = os.read(terminal, 65536).decode(errors="replace")
        except OSError:
            break
        now = time.monotonic() - began
        silent, last = max(silent, now - last), now
        found = LEFT.findall(text)
        if found:
            least, left, _ = found[-1]
            said.append((now, seconds(left), bool(least)))
    status = os.waitpid(child, 0)[1]
    took = time.monotonic() - began
    late = [(now, left) for now, left, least in said if now > took / 3 and not least]
    bounds = sum(1 for now, _, least in said if now > took / 3 and least)
    # The line has whole seconds: the last few say nothing.
    ratios = [left / (took - now) for now, left in late if took - now > 8]
    print(f"{' '.join(command)}: {took:.1f} s, exit {os.waitstatus_to_exitcode(status)}")
    print(f"longest time without a new line: {silent:.1f} s")
    if not ratios:
        sys.exit("no estimate after the first third: nothing was compared")
    within = sum(1 for ratio in ratios if abs(ratio - 1) <= 0.25) / len(ratios)
    print(
        f"{len(ratios)} estimates after the first third ({bounds} lower bounds): median {statistics.median(ratios):.2f} of the truth, "
        f"{min(ratios):.2f} to {max(ratios):.2f}, {within:.0%} within 25 %"
    )


main(sys.argv[1:])
