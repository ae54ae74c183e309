#!/usr/bin/env bash
# Runs miri and ThreadSanitizer, both or the one named, where a nightly toolchain has them; prints
# "waived: reason" for one that cannot run. What they see and what not: docs/model_check.md.
# Exit code 0: nothing found. 1: something was found, or all was waived. 2: usage.
set -euo pipefail
cd "$(dirname "$0")/.."

checks=("$@")
[ ${#checks[@]} -gt 0 ] || checks=(miri tsan)
toolchain=${NIGHTLY:-nightly}
target=${CARGO_TARGET_DIR:-target}
triple=$(rustc -vV | sed -n 's/^host: //p')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ran=0
bad=0

# Runs a command within SECONDS; its output is shown if it fails.
quietly() {
    local seconds=$1 log=$work/log rc=0
    shift
    timeout "$seconds" "$@" >"$log" 2>&1 || rc=$?
    if [ $rc -ne 0 ]; then
        tail -n 100 "$log" >&2
        echo "FAILED with exit code $rc: $*" >&2
        bad=1
    fi
    return $rc
}

# Makes sure of a component of the nightly toolchain; otherwise says why not.
component() {
    if ! cargo "+$toolchain" --version >/dev/null 2>&1; then
        echo "there is no toolchain '$toolchain'"
    elif ! rustup component list --installed --toolchain "$toolchain" 2>/dev/null | grep -q "^$1" &&
        ! rustup component add "$1" --toolchain "$toolchain" >/dev/null 2>&1; then
        echo "the toolchain '$toolchain' has no $1, and it cannot be fetched"
    fi
}

check_miri() {
    local why
    why=$(component miri)
    [ -n "$why" ] || why=$(component rust-src)
    if [ -n "$why" ]; then
        echo "miri: waived: $why"
        return 0
    fi
    ran=1
    # rustix passes a null pointer to futex as an integer; that is no news.
    export MIRIFLAGS="${MIRIFLAGS:-} -Zmiri-permissive-provenance"
    local miri=(env "CARGO_TARGET_DIR=$target/miri" cargo "+$toolchain" miri test --locked
        -p busbw-shm)
    if quietly 600 "${miri[@]}" --test it collectives::every_way_once; then
        echo "miri: every collective, way and placement on 2 and 3 ranks: nothing found"
    fi
    if quietly 600 "${miri[@]}" --test it collectives::messages_stay_until_taken; then
        echo "miri: slots that are reused while some ranks run ahead: nothing found"
    fi
    if quietly 600 "${miri[@]}" --test it messages::every_way_once; then
        echo "miri: messages in slots, lent, and copied by both ends: nothing found"
    fi
    if quietly 300 "${miri[@]}" --lib shm:: -- --skip nobody_overtakes; then
        echo "miri: waits that end early: nothing found"
    fi
}

check_tsan() {
    local why
    why=$(component rust-src)
    if [ -n "$why" ]; then
        echo "tsan: waived: $why"
        return 0
    fi
    ran=1
    local tsan=(env "CARGO_TARGET_DIR=$target/tsan" "RUSTFLAGS=-Zsanitizer=thread"
        cargo "+$toolchain")
    local with=(--locked --release -Zbuild-std --target "$triple")
    # One test at a time: memory that one test unmaps may be the next one's, and TSan does not see
    # our system calls, so that tests side by side would seem to race.
    if quietly 900 "${tsan[@]}" test "${with[@]}" -p busbw-shm --test it collectives:: -- \
        --test-threads=1; then
        echo "tsan: the collectives' tests, ranks as threads: nothing found"
    fi
    if quietly 900 "${tsan[@]}" test "${with[@]}" -p busbw-shm --test it messages:: -- \
        --test-threads=1; then
        echo "tsan: the messages' tests, ranks as threads: nothing found"
    fi
    quietly 900 "${tsan[@]}" build "${with[@]}" --bin busbw || return 0
    local program=$target/tsan/$triple/release/busbw collective options
    echo 'race:shm/src/algorithm/direct.rs' >"$work/in_place"
    for collective in all_reduce reduce broadcast reduce_scatter all_gather gather scatter \
        hypercube alltoall alltoallv sendrecv; do
        options="exitcode=66"
        case $collective in
        # In place these race by definition. Out of place they are among the tests above, where
        # nothing is suppressed.
        alltoall | alltoallv | sendrecv) options+=":suppressions=$work/in_place" ;;
        esac
        if quietly 120 env BUSBW_NO_RECORD=1 "TSAN_OPTIONS=$options" "$program" "$collective" \
            -t 4 -g 1 -b 8 -e 1M -f 8 --batches 1; then
            if grep -q 'ThreadSanitizer' "$work/log"; then
                cat "$work/log" >&2
                bad=1
            else
                echo "tsan: busbw $collective -t 4: nothing found"
            fi
        fi
    done
}

for check in "${checks[@]}"; do
    case $check in
    miri) check_miri ;;
    tsan) check_tsan ;;
    *)
        echo "usage: tests/sanitize.sh [miri] [tsan]" >&2
        exit 2
        ;;
    esac
done
if [ $ran -eq 0 ]; then
    echo "tests/sanitize.sh: everything was waived, so nothing is known" >&2
    exit 1
fi
exit $bad
