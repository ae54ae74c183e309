#!/usr/bin/env bash
# Two builds of busbw in turns (ABBA) on this machine: `host` collectives and the start, then `busbw compare`.
# "Slower" is what compare says twice: sizes that are slower are measured once more with as many fresh launches.
#   bench/two_binaries.sh OLD NEW [LAUNCHES]     LAUNCHES a side, 15 if not given
# Exit code: 0 no size is slower twice, 1 some are, 2 usage.
set -euo pipefail
old=${1:-} new=${2:-} launches=${3:-15}
if [ ! -x "$old" ] || [ ! -x "$new" ] || ! [[ $launches =~ ^[1-9][0-9]*$ ]]; then
  sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Launches in turns; each leaves a record in the folder of its side.
measure() {
  local folder=$1 test=$2 round side
  shift 2
  mkdir -p "$folder/old" "$folder/new"
  for round in $(seq "$launches"); do
    for side in $([ $((round % 2)) = 1 ] && echo old new || echo new old); do
      XDG_CACHE_HOME=$work/cache "${!side}" "$test" -g 2 "$@" --batches 3 \
        --record "$folder/$side/$round.jsonl" >/dev/null 2>&1
    done
  done
}

slower=0
for test in all_reduce alltoall broadcast; do
  folder=$work/$test
  # Which algorithms are fastest is measured once, outside of the comparison, and holds for both sides: near a
  # crossover two measurements choose differently, and a size may then differ by a factor.
  XDG_CACHE_HOME=$work/cache "$old" "$test" -g 2 -b 8 -e 32M --no-record >/dev/null 2>&1
  measure "$folder" "$test" -b 8 -e 32M -f 16
  echo "== $test, $launches launches a side"
  "$new" compare "$folder/old" "$folder/new" --fail-below 0.98 && continue
  echo "== $test, once more"
  measure "$folder/again" "$test" -b 8 -e 32M -f 16
  "$new" compare "$folder/again/old" "$folder/again/new" --fail-below 0.98 || slower=1
done

echo "== start: milliseconds of $((2 * launches)) runs that print the version, and of as many that measure one size, in turns"
python3 - "$old" "$new" "$((2 * launches))" <<'PYTHON'
import statistics, subprocess, sys, time
old, new, runs = sys.argv[1], sys.argv[2], int(sys.argv[3])
for words in (["--version"], ["all_reduce_perf", "-b", "8", "-e", "8", "-g", "2", "-n", "1", "--backend", "host", "--no-record"]):
    took = {old: [], new: []}
    for at in range(runs):
        for program in ((old, new) if at % 2 else (new, old)):
            begun = time.monotonic()
            subprocess.run([program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            took[program].append(1000 * (time.monotonic() - begun))
    a, b = statistics.median(took[old]), statistics.median(took[new])
    print(f"{words[0]:16} old {a:6.1f} ms, new {b:6.1f} ms, ratio {b / a:.2f}")
PYTHON
exit $slower
