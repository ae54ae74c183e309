"""Whether what `busbw watch --once --json` says on stdin is right: straggler_judge.py FAULT PID_OF_RANK_1 (tests/gpu/stragglers.sh)."""
import json
import sys

fault, pid = sys.argv[1], int(sys.argv[2])
view = json.load(sys.stdin)


def of(one):
    return view["processes"][one["peer"]]["pid"]


named = sorted((of(one), one["reason"]["kind"]) for one in view["stragglers"])
stopped = sorted({of(one) for one in view["interruptions"]})
paths = [(one["path"]["from"], one["path"]["to"]) for one in view["slow_paths"]]
compared = sum(group["compared"] for group in view["groups"])
expected = {
    "none": ([], [], []),
    "compute": ([(pid, "compute")], [], []),
    "host": ([(pid, "host")], [], []),
    "core": ([(pid, "core")], [], []),
    "stopped": ([], [pid], []),
    "paced": ([], [], [(1, 0)]),
}[fault]
right = (named, stopped, paths) == expected and compared > 0


def rank(one):
    return "rank 1" if one == pid else "rank 0"


said = [f"{rank(one)} {why}" for one, why in named] + [f"{rank(one)} stood still" for one in stopped]
said += [f"path {a} to {b}" for a, b in paths]
print(f"{fault:8} {'right' if right else 'WRONG'}  {', '.join(said) or 'nobody'} ({compared} calls compared)", flush=True)
if not right:
    keys = ("state", "stragglers", "interruptions", "slow_paths", "paths", "findings", "groups")
    print("         " + json.dumps({key: view[key] for key in keys})[:3000], flush=True)
sys.exit(not right)
