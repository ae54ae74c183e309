#!/bin/bash
# busbw check on hosts that are network namespaces (tests/check/bed.sh), over the net backend and a stand-in for ssh: each
# fault is planted on a host that the seed draws, and has to be named; without one nobody is. Needs root, ip and tc.
#
#   tests/check.sh target/release/busbw [TIMES [HEALTHY [PART…]]]    counts of each kind; exit 1 where one misses, 3 where
#   this machine has no namespaces or no C compiler
#
# PART is faults, healthy or rails (several networks); all of them where none is named. BUSBW_CHECK_HOSTS (4) hosts at
# BUSBW_CHECK_MBIT (250) Mb/s: processors move the bytes, and with many hosts on two of them lower rates are the links' own.
# BUSBW_CHECK_WITHIN (60s) is the time of a check, in seconds: links of lower rates need more of it.
# CI runs the faults and a healthy check once; 20 and 200 times are by hand, their output is tests/check.txt.
# BUSBW_CHECK_KEEP names a folder that exists, for the records of checks that miss; a check that keeps them launches the
# collective four times.
set -u
program=$(realpath "$1")
times=${2:-1}
healthy=${3:-2}
parts=" ${*:4} "
[ "$parts" = "  " ] && parts=" faults healthy rails "
for part in $parts; do
  case $part in faults | healthy | rails) ;; *) echo "check.sh: $part is no part: faults, healthy or rails" >&2; exit 2 ;; esac
done
has() { case $parts in *" $1 "*) ;; *) return 1 ;; esac; }
cd "$(dirname "$0")/.." || exit 2
. tests/check/bed.sh
count=${BUSBW_CHECK_HOSTS:-4} mbit=${BUSBW_CHECK_MBIT:-250}
bed "$count" "$mbit" || { echo "waived: no namespaces: $(tail -n 1 "$work/why")"; exit 3; }
export BUSBW_NO_RECORD=1 XDG_CACHE_HOME=$work/cache
# Two releases of a library that is no NCCL but says that it is one: a check reads the version alone.
libraries() {
  local version
  for version in 2.27.3+cuda12.9 2.28.9+cuda13.0; do
    mkdir -p "$work/nccl-$version"
    printf 'const char version[] = "NCCL version %s"; const char *ncclGetVersion(void) { return version; }\nvoid ncclCommInitRank(void) {}\n' "$version" |
      cc -shared -fPIC -Wl,-soname,libnccl.so.2 -x c - -o "$work/nccl-$version/libnccl.so.2" || return 1
  done
}
libraries || { echo "waived: there is no C compiler"; exit 3; }

plain() { # every host has the newer library
  local host
  for host in $(seq "$count"); do
    printf 'LD_LIBRARY_PATH=%s' "$work/nccl-2.28.9+cuda13.0" >"$work/environment-$host"
    rm -f "$work/before-$host"
  done
}

within=${BUSBW_CHECK_WITHIN:-60s}
[[ $within =~ ^[0-9]+s$ ]] || { echo "check.sh: BUSBW_CHECK_WITHIN=$within is no number of seconds, such as 150s" >&2; exit 2; }
check() { # OPTIONS...
  local keep=()
  [ -z "${BUSBW_CHECK_KEEP:-}" ] || { rm -rf "$work/record"; keep=(--record "$work/record"); }
  at 1 timeout $((${within%s} + 90)) "$program" check --within $within --backend net --launcher ssh --launcher-command "$work/ssh" \
    -H "$(everywhere)" -b 1M -e 1M "$@" "${keep[@]}" --json >"$work/out" 2>"$work/err"
  code=$?
}

# What a check says: `seconds decision`, then `check verdict measured subject` a line.
said() {
  python3 - "$work/out" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
print(f"{report['took_s']:.1f} {report['decision']}")
for line in report["lines"]:
    subject = line.get("subject", {})
    who = subject.get("host") or subject.get("rank") or subject.get("from", "-")
    print(line["check"], line["verdict"], line["measured"], who, "|", line["text"])
PYTHON
}

declare -A right=() wrong=() runs=() longest=()
judge() { # KIND SEED WANTED-CHECK WANTED-HOST: nobody else may be named, and the exit code is 1
  local kind=$1 seed=$2 text named others ok=
  text=$(said) || { echo "# $kind, seed $seed: exit code $code: $(tail -n 2 "$work/err")"; text="99 none"; }
  runs[$kind]=$((${runs[$kind]:-0} + 1))
  longest[$kind]=$(printf '%s\n' "${longest[$kind]:-0}" "${text%% *}" | sort -g | tail -n 1)
  named=$(awk '$2 == "fail" {print $1, $4}' <<<"$text")
  others=$(grep -vx "$3 $4" <<<"$named" | grep -c .)
  if [ -z "$3" ]; then
    [ "$code" = 0 ] && [ -z "$named" ] && ok=yes
  else
    [ "$code" = 1 ] && grep -qx "$3 $4" <<<"$named" && ok=yes
  fi
  [ -n "$ok" ] && right[$kind]=$((${right[$kind]:-0} + 1))
  [ "$others" = 0 ] || wrong[$kind]=$((${wrong[$kind]:-0} + 1))
  if [ -z "$ok" ] || [ "$others" != 0 ]; then
    echo "# $kind, seed $seed: wanted '$3 $4', exit code $code:"
    sed 's/^/#   /' <<<"$text"
    [ -z "${BUSBW_CHECK_KEEP:-}" ] || cp -r "$work/record" "$BUSBW_CHECK_KEEP/${kind// /-}-$seed" 2>/dev/null
  fi
}

# The first launch copies the program to every host; a host's first check must not wait for that.
plain
check --only doctor
[ "$code" = 0 ] || { echo "the first check ended with $code: $(tail -n 2 "$work/err")"; exit 1; }
rounds=$times
has faults || rounds=0
has healthy || healthy=0
has rails || times=0
kinds=("a slow link" "a slow rank" "a wrong MTU" "a missing library" "another NCCL" "a low memlock")
for seed in $(seq "$rounds"); do
  host=$((seed * 7 % count + 1))
  for kind in "${kinds[@]}"; do
    plain
    what=settings
    case $kind in
      "a slow link") what=pairs; rate "$host" $((mbit / 2)); check ;;
      "a slow rank") what=pairs; check --fault "rank=$((host - 1)),do=slow:2" ;;
      "a wrong MTU") ip -n "$tag$host" link set eth0 mtu 1500; check ;;
      "a missing library") : >"$work/environment-$host"; check ;;
      "another NCCL") printf 'LD_LIBRARY_PATH=%s' "$work/nccl-2.27.3+cuda12.9" >"$work/environment-$host"; check ;;
      "a low memlock")
        # Root may lock what it likes: on every host the capability is gone, and on one the limit is low.
        for each in $(seq "$count"); do
          limit=unlimited
          [ "$each" = "$host" ] && limit=64
          printf '%s\n' bash -c "ulimit -l $limit; exec setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock \"\$@\"" bash >"$work/before-$each"
        done
        check
        ;;
    esac
    judge "$kind" "$seed" "$what" "n$host"
    rate "$host" "$mbit"
    ip -n "$tag$host" link set eth0 mtu 9000
  done
done
plain
for seed in $(seq "$healthy"); do
  check
  judge "no fault" "$seed" "" ""
done
# Two more networks of the same rate, of which one is slow beyond the hosts' own shapers.
# Each network has launches of its own: on a busy machine a minute is short for them.
within=120s
rail rail0 1 250
rail rail1 2 250
for seed in $(seq "$times"); do
  check --only transports
  judge "rails alike" "$seed" "" ""
  slow=$((seed % 2))
  rail_rate "rail$slow" 100
  check --only transports
  judge "a slow rail" "$seed" transports "-"
  grep -q "socket:rail$slow reaches" "$work/out" || { echo "# a slow rail, seed $seed: rail$slow is not named"; wrong["a slow rail"]=$((${wrong["a slow rail"]:-0} + 1)); }
  rail_rate "rail$slow" 250
done
kinds+=("a slow rail")
status=0
echo "$count hosts, --within ${BUSBW_CHECK_WITHIN:-60s} (rails: 120s), net backend over veth at $mbit Mb/s, $(nproc) processors"
for kind in "${kinds[@]}" "no fault" "rails alike"; do
  [ -n "${runs[$kind]:-}" ] || continue
  wanted=named
  [ "$kind" = "no fault" ] || [ "$kind" = "rails alike" ] && wanted="nobody named"
  echo "$kind: $wanted ${right[$kind]:-0} of ${runs[$kind]}, others named in ${wrong[$kind]:-0}, longest ${longest[$kind]} s"
  [ "${right[$kind]:-0}" = "${runs[$kind]}" ] && [ "${wrong[$kind]:-0}" = 0 ] || status=1
  allowed=$(awk -v s="${BUSBW_CHECK_WITHIN:-60s}" 'BEGIN {print s + 0.5}')
  case $kind in *rail*) allowed=120.5 ;; esac
  awk -v s="${longest[$kind]}" -v most=$allowed 'BEGIN {exit !(s > most)}' && status=1
done
exit $status
