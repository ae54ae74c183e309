#!/usr/bin/env python3
"""How often `busbw pairs` names who is slow, and nobody else: real runs, with a fault planted in each or none.
Not a test: it takes minutes. Seeds draw the rank that is slow; runs with and without faults take turns. Of two ranks a slow
one is the level (docs/pairs.md), so that faults are waived there; with fewer GPUs than ranks it ends with 5.

    bench/pairs.py --busbw target/release/busbw -- --backend host -g 8 -e 1M
    bench/pairs.py --busbw target/release/busbw --seeds 50 --time 600 -- -g 4
"""

import argparse
import json
import random
import subprocess
import time


def runs_of(ranks):
    """Of each kind: options for a seed, and who is to be named."""

    def healthy(_):
        return [], None

    def link(draw):
        a, b = draw.sample(range(ranks), 2)
        fault = f"rank={a},do=slow:1.25,peer={b}"
        return ["--only", "bw", "--fault", fault], {"is": "link", "between": sorted([a, b])}

    def bandwidth(draw):
        rank = draw.randrange(ranks)
        return ["--only", "bw", "--fault", f"rank={rank},do=slow:1.25"], {"is": "rank", "rank": rank}

    def latency(draw):
        rank = draw.randrange(ranks)
        return ["--only", "latency", "--fault", f"rank={rank},do=slow:5us"], {"is": "rank", "rank": rank}

    return {
        "healthy": healthy,
        "a link 20 % slower": link,
        "a rank 20 % slower": bandwidth,
        "a rank 5 us slower": latency,
    }


def verdicts(busbw, words):
    """The verdict of each matrix of a run, and how long the run took."""
    begun = time.monotonic()
    ran = subprocess.run([busbw, "pairs", "--json", "--no-record", *words], capture_output=True, text=True, timeout=300)
    if ran.returncode == 5:
        print(f"waived   busbw pairs {' '.join(words)}: {ran.stderr.strip()}")
        raise SystemExit(5)
    if ran.returncode:
        raise SystemExit(f"{words}: exit code {ran.returncode}: {ran.stderr[-2000:]}")
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    return [line["pairs"]["verdict"] for line in lines if line["kind"] == "row"], time.monotonic() - begun


def named(verdict):
    """Who is named in a verdict and how slow in percent, each with whom it cannot be told from."""
    return [
        ([finding["subject"], *finding.get("alternatives", [])], round(finding["slower-percent"], 1))
        for finding in verdict["findings"]
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busbw", default="target/release/busbw")
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--time", type=float, default=3600, help="seconds after which no further seed begins")
    parser.add_argument("--kinds", default="", help="only kinds that contain this word")
    parser.add_argument("words", nargs="+", help="-g RANKS and other options of busbw pairs")
    options = parser.parse_args()
    ranks = int(options.words[options.words.index("-g") + 1])
    kinds = {name: run for name, run in runs_of(ranks).items() if options.kinds in name}
    for name in [name for name in kinds if ranks == 2 and name != "healthy"]:
        print(f"waived   {name}: of 2 ranks a slow one is the level")
        del kinds[name]
    tally = {name: {"runs": 0, "right": 0, "others": 0, "suspected": 0, "seconds": []} for name in kinds}
    end = time.monotonic() + options.time
    for seed in range(options.first, options.first + options.seeds):
        if time.monotonic() > end:
            break
        for name, run in kinds.items():
            words, wanted = run(random.Random(f"{name} {seed}"))
            found, seconds = verdicts(options.busbw, [*options.words, *words, "--seed", str(seed)])
            count = tally[name]
            count["runs"] += 1
            count["seconds"].append(seconds)
            all_named = [who for verdict in found for who in named(verdict)]
            hits = [who for who in all_named if wanted in who[0]]
            count["right"] += bool(hits) if wanted else not all_named
            count["others"] += len(all_named) > len(hits)
            count["suspected"] += any(verdict["basis"] == "retest" for verdict in found)
            if (wanted and not hits) or len(all_named) > len(hits):
                print(f"# seed {seed}, {name}, planted {wanted}: named {all_named}", flush=True)
    print(f"{'planted':<22} {'runs':>5} {'right':>6} {'named somebody else':>20} {'retested':>9} {'median s':>9}")
    for name, count in tally.items():
        middle = sorted(count["seconds"])[len(count["seconds"]) // 2] if count["seconds"] else float("nan")
        print(f"{name:<22} {count['runs']:>5} {count['right']:>6} {count['others']:>20} {count['suspected']:>9} {middle:>9.2f}")


if __name__ == "__main__":
    main()
