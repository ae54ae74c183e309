# Part of tools/release.sh: what is checked of the artefacts. Every check can fail.
# Not how they are made (make.sh).
# shellcheck shell=bash disable=SC2154 # The variables are tools/release.sh's.

# Seconds that any one run may take.
limit=60

# What `binary` for processor $1 says of itself: machine, versions, libraries, symbols, paths,
# pages. Sets `highest`, the highest version of glibc that it asks for.
inspect() {
    local machine newer needed pages
    machine=$(LC_ALL=C readelf -hW "$binary" | sed -n 's/^ *Machine: *//p')
    case $1/$machine in
    x86_64/*X86-64 | aarch64/AArch64) ;;
    *) fail "$binary is for $machine" ;;
    esac
    # Names sort after numbers, so that GLIBC_PRIVATE and GLIBC_ABI_... fail as well.
    highest=$(readelf -VW "$binary" | grep -o 'GLIBC_[0-9A-Za-z_.]*' | sort -Vu | tail -n 1 || true)
    [ -n "$highest" ] || fail "$binary asks for no version of glibc: is it linked dynamically?"
    newer=$(printf '%s\n' "GLIBC_$glibc" "$highest" | sort -V | tail -n 1)
    [ "$newer" = "GLIBC_$glibc" ] || fail "$binary asks for $highest; GLIBC_$glibc is the most"
    needed=$(LC_ALL=C readelf -dW "$binary" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    needed=$(grep -vxE 'lib(c|m|dl|pthread|rt)\.so\.[0-9]|ld-linux-.*' <<<"$needed" || true)
    [ -z "$needed" ] || fail "$binary needs libraries that a machine may lack: $needed"
    if readelf -SW "$binary" | grep -E '\.(symtab|debug_info|debug_line) '; then
        fail "$binary is not stripped"
    fi
    if grep -rlaF -e "$cargo_home/registry" -e "$root/crates" "$binary" "$work/wheel-$1/content"; then
        fail "that holds paths of this machine"
    fi
    # Kernels of aarch64 may have pages of 64 KiB, and load nothing that is laid out for less.
    pages=$(readelf -lW "$binary" | awk '$1 == "LOAD" { print $NF }' | sort -u)
    [ "$1" = x86_64 ] || [ "$pages" = 0x10000 ] || fail "$binary is laid out for pages of $pages"
    echo "$machine, $highest at most, stripped, pages of $pages"
}

# Runs every collective with the program `"$@"`: exit code 0, every row there, no element wrong.
# Then a bit is flipped on purpose: unless that is found, the rest proves nothing.
collectives() {
    local names name table rc
    # A barrier moves nothing; other commands measure something else than their name.
    names=$(timeout $limit "$@" --help | sed -n 's/^  \([a-z_]*\)  *Measure \1 *$/\1/p' | grep -vx barrier)
    [ "$(wc -w <<<"$names")" -eq 11 ] || fail "eleven collectives were expected, not: $names"
    for name in $names; do
        rc=0
        table=$(timeout $limit "$@" "$name" -g 2 -b 8 -e 64K 2>"$work/stderr") || rc=$?
        # Wrong elements are the last column of either half. In place, three verify nothing.
        awk -v name="$name" '
            BEGIN { in_place = name ~ /^(alltoall|alltoallv|sendrecv)$/ ? "N/A" : "0" }
            /^ *[0-9]/ { rows++; if ($(NF - 4) != "0" || $NF != in_place) bad++ }
            END { exit rows != 14 || bad }' <<<"$table" || rc="$rc, and rows are missing or wrong"
        [ "$rc" = 0 ] || fail "$* $name: exit code $rc"$'\n'"$table"$'\n'"$(cat "$work/stderr")"
        printf '%s ' "$name"
    done
    rc=0
    timeout $limit "$@" all_reduce -g 2 -b 48 -e 48 --batches 1 \
        --fault rank=1,phase=timed,row=0,do=corrupt:0 >"$work/stdout" 2>"$work/stderr" || rc=$?
    [ $rc -eq 7 ] || fail "$*: a flipped bit gave exit code $rc, not 7: $(cat "$work/stderr")"
    printf '\nno element wrong; a flipped bit is found\n'
}

# One run of the program `"$@"`.
small_run() {
    timeout $limit "$@" --version
    timeout $limit "$@" all_reduce -g 2 -b 8 -e 64K >"$work/stdout" 2>"$work/stderr" ||
        fail "$* all_reduce: exit code $?"$'\n'"$(cat "$work/stdout" "$work/stderr")"
    grep '^# Out of bounds values : 0 OK' "$work/stdout"
}

# Installs the wheel for processor $1 as pip does there, and runs the command `busbw` with the words
# that follow before it.
wheel_runs() {
    local arch=$1 to=$work/installed-$1
    shift
    rm -rf "$to"
    if [ "$arch" = x86_64 ]; then
        python3 -m venv "$to"
        "$to/bin/pip" install --quiet --no-index "$wheel"
    else
        python3 -m pip install --quiet --no-index --target "$to" --only-binary=:all: \
            --platform "manylinux_${glibc/./_}_$arch" "$wheel"
    fi
    cmp "$to/bin/busbw" "$binary" || fail "pip installed something else than $binary"
    small_run "$@" "$to/bin/busbw"
}

# `pip install .` as a user does it in a checkout: in a fresh virtual environment, with the compiler's own linker.
source_installs() {
    local to=$work/installed-source
    rm -rf "$to"
    python3 -m venv "$to"
    env -u RUSTFLAGS "$to/bin/pip" install --quiet "$root" || fail "pip install . in a checkout"
    small_run "$to/bin/busbw"
}

# Unpacks the archive as a user does below a prefix: the command runs, a bash completes, man has pages.
archive_holds() {
    local to=$work/unpacked
    rm -rf "$to"
    mkdir -p "$to"
    tar -xzf "$archive" -C "$to" --strip-components 1
    small_run "$to/bin/busbw"
    [ -s "$to/share/zsh/site-functions/_busbw" ] && [ -s "$to/share/fish/vendor_completions.d/busbw.fish" ] &&
        [ -s "$to/share/man/man1/busbw.1" ] && [ -s "$to/share/man/man1/busbw-all_reduce.1" ] ||
        fail "$archive lacks completions or manual pages"
    tests/completions.sh "$to/bin/busbw"
}

# Makes the root of an old system for Debian architecture $1 in folder $2, the oldest that can be
# had: bionic has glibc 2.27, bullseye 2.31. Sets `old`, the glibc, empty if none can be had.
# Ubuntu's keys come with younger Debian releases than this one.
old_root() {
    local suite keys=$work/ubuntu-keys quiet=(--quiet --variant=extract) options
    old=
    for suite in bionic bullseye; do
        rm -rf "$2"
        # As released: security fixes are no older, and no mirror has all of them for ever.
        # shellcheck disable=SC2016 # mmdebstrap's shell expands $1.
        options=("${quiet[@]}" --architectures="$1" --include=libc6
            --setup-hook='sed -i "/security\|updates/d" "$1/etc/apt/sources.list"')
        if [ $suite = bionic ]; then
            [ -d "$keys" ] ||
                timeout 120 mmdebstrap "${quiet[@]}" --include=ubuntu-archive-keyring trixie "$keys" ||
                continue
            options+=(--keyring="$keys/usr/share/keyrings")
        fi
        if timeout 120 mmdebstrap "${options[@]}" $suite "$2"; then
            old=$(basename "$2"/lib/*-linux-gnu/libc-2.*.so .so)
            old=${old#libc-}
            return
        fi
        echo "$suite cannot be had for $1"
    done
}

# Runs the binary for processor $1, Debian's $2, in the root of an old system; sets `old`.
old_glibc() {
    local folder=$work/old-$2
    old=
    if ! "$elsewhere" true; then
        waive "running the $1 binary with an old glibc: there are no user namespaces here"
        return
    fi
    old_root "$2" "$folder"
    if [ -z "$old" ]; then
        waive "running the $1 binary with an old glibc: neither bionic nor bullseye can be had"
        return
    fi
    cp "$binary" "$folder/busbw"
    echo "glibc $old"
    small_run "$elsewhere" --root "$folder" /busbw
}

# Unit and property tests of what computes, on a processor that has everything, and those of the
# kernels also on one that has no arithmetic of half precision.
aarch64_tests() {
    local tests=(cargo-zigbuild test --release --locked --target "aarch64-unknown-linux-gnu.$glibc")
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64-static
    passed() {
        timeout 900 "${tests[@]}" "$@" >"$work/tests.log" 2>&1 || {
            cat "$work/tests.log" >&2
            fail "tests for aarch64 on $QEMU_CPU"
        }
        grep -E '^test result: ok. [1-9]' "$work/tests.log" || fail "no test ran on $QEMU_CPU"
    }
    local -x QEMU_CPU=max
    passed -p busbw-shm -p busbw-core -p busbw-stats -p busbw-library-logs -p busbw-hardware -p nccl-plugin-abi \
        --lib --tests
    QEMU_CPU=cortex-a57
    passed -p busbw-shm --lib kernel
}
