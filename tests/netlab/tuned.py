"""What a ladder on the bed named, and how far it ended from the best of what it tried: `tuned.py tune.json [RULE:RAILS]`.

One line: `none` (nothing was named), `named` (what was expected, and no other) or `wrong: what`; `within` 5 % or not; the settings
with the medians of their launches; what it said. Not the ladder (tests/tune_netlab.sh).
"""

import json
import re
import statistics
import sys
from pathlib import Path

RULES = ("slow-path", "slow-paths", "path-collision")
# Launches of a setting before its median counts: those that were compared, not only screened.
LAUNCHES = 5
WITHIN = 1.05


def named(finding: dict) -> str:
    """The rule, and the interfaces that the finding is about."""
    about = re.split(r" (?:carries|share) ", finding["cause"])[0]
    return finding["rule"] + ":" + ",".join(sorted(re.findall(r"rail\d", about)))


def settings(sets: list[dict]) -> str:
    """The settings in a word."""
    return " ".join(f"{one['name']}={one['value']}" for one in sets) or "as it began"


def main() -> None:
    tuned = json.loads(Path(sys.argv[1]).read_text())
    expected = sys.argv[2] if len(sys.argv) > 2 else ""
    findings = [one for one in tuned["before"] if one["rule"] in RULES]
    found = [named(one) for one in findings]
    verdict = "none" if not found else "named" if found == [expected] else "wrong: " + " ".join(found)
    times: dict[str, list[float]] = {}
    for launch in tuned["history"]:
        if launch["failed"] is None:
            times.setdefault(settings(launch["environment"]), []).append(launch["times"][0]["seconds"])
    medians = {name: statistics.median(all) for name, all in times.items() if len(all) >= LAUNCHES}
    end = settings(tuned["outcome"]["environment"])
    beyond = medians[end] / min(medians.values())
    near = "within 5 %" if beyond <= WITHIN else f"{100 * (beyond - 1):.0f} % from the best"
    each = ", ".join(f"{name} {1e3 * seconds:.0f} ms ({len(times[name])})" for name, seconds in medians.items())
    causes = "; ".join(one["cause"] for one in findings)
    print(f"{verdict}; {near}; ends with {end}; {each}" + (f"; {causes}" if causes else ""))


main()
