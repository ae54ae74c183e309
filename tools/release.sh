#!/usr/bin/env bash
# Makes what a release consists of, and checks it: for x86-64 and aarch64 Linux a binary that runs
# with any glibc from 2.17 on, and a Python wheel of the same bytes. Needs cargo, python3 and apt;
# installs what else it needs. docs/release.md says how, and holds what it printed last.
#
# usage: tools/release.sh [--quick] [--debian-rust]
#
#   --quick         x86-64 only, by the profile "quick", which does not optimise: build, look into the
#                   file, install the wheel, the archive and the checkout, run them
#   --debian-rust   aarch64 with the compiler and standard library of Debian's packages, unpacked
#                   below target/, also where rustup has that standard library
#   --help          this text
#
# The artefacts go to dist/. Exit codes: 0 made, every check passed; 1 failed; 2 usage; 3 made, but a
# check was waived: its reason is the last thing printed; 5 not possible here.
set -euo pipefail

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; }
quick=
debian_rust=
for word in "$@"; do
    case $word in
    --quick) quick=1 ;;
    --debian-rust) debian_rust=1 ;;
    --help)
        usage
        exit 0
        ;;
    *)
        echo "tools/release.sh: unknown word $word" >&2
        usage >&2
        exit 2
        ;;
    esac
done

# What is released is made by the profile "dist" of Cargo.toml.
profile=dist
[ -z "$quick" ] || profile=quick

# The oldest glibc that Rust supports. Newer ones would give busbw nothing.
glibc=2.17
root=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
work=$target/release-work
dist=$root/dist
elsewhere=$root/tools/elsewhere.sh
cd "$root"

step() { printf '\n== %4d s  %s\n' "$SECONDS" "$*"; }
fail() {
    printf 'tools/release.sh: FAILED: %s\n' "$*" >&2
    exit 1
}
waived=()
waive() {
    waived+=("waived: $*")
    echo "waived: $*"
}
# shellcheck source-path=SCRIPTDIR source=release/make.sh
. "$root/tools/release/make.sh"
# shellcheck source-path=SCRIPTDIR source=release/check.sh
. "$root/tools/release/check.sh"

step "tools"
prepare
# Before the check of an old glibc, which needs it too.
[ -n "$quick" ] || need qemu-aarch64-static qemu-user-static mmdebstrap mmdebstrap
report=("busbw $version of commit $commit, with $("${RUSTC:-rustc}" --version)")
note() { report+=("${1##*/}: $(stat -c %s "$1") bytes${2:+, $2}"); }

step "x86-64: build"
build x86_64
inspect x86_64
step "x86-64: the wheel, installed"
wheel_runs x86_64
step "x86-64: the archive, with completions and manual pages"
pack x86_64
archive_holds
note "$archive"
step "pip install . in a fresh virtual environment"
source_installs
if [ -n "$quick" ]; then
    note "$binary" "highest $highest"
    note "$wheel"
else
    step "x86-64: every collective"
    collectives "$binary"
    step "x86-64: an old glibc"
    old_glibc x86_64 amd64
    step "x86-64: start time"
    took=$(python3 tools/release/start_time.py "$binary")
    note "$binary" "highest $highest, ${old:+runs on glibc $old, }$took"
    note "$wheel"

    step "aarch64: standard library, qemu, C library"
    need /usr/aarch64-linux-gnu/lib/libc.so.6 libc6-arm64-cross
    export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu
    aarch64_std
    step "aarch64: build"
    build aarch64
    inspect aarch64
    pack aarch64
    note "$archive"
    qemu-aarch64-static "$binary" --version
    old=
    took=
    if "$elsewhere" "$binary" --version >/dev/null; then
        step "aarch64: the wheel, installed"
        wheel_runs aarch64 "$elsewhere"
        step "aarch64: every collective"
        collectives "$elsewhere" "$binary"
        step "aarch64: an old glibc"
        old_glibc aarch64 arm64
        step "aarch64: start time"
        took=$("$elsewhere" python3 tools/release/start_time.py "$binary")
    else
        waive "running the aarch64 binary: this kernel starts no aarch64 programs in a namespace of our own; register qemu-aarch64 with binfmt_misc"
    fi
    note "$binary" "highest $highest${old:+, runs on glibc $old}${took:+, $took (emulated by qemu)}"
    note "$wheel"
    step "aarch64: unit and property tests of what computes, emulated"
    aarch64_tests
fi

(cd "$dist" && sha256sum -- * >SHA256SUMS)
step "done: in dist/"
printf '%s\n' "${report[@]}"
if [ ${#waived[@]} -gt 0 ]; then
    printf '%s\n' "${waived[@]}"
    exit 3
fi
