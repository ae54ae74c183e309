# Part of tools/release.sh: tools, the standard library for aarch64, and the builds.
# Not what is checked of them (check.sh).
# shellcheck shell=bash disable=SC2154 # The variables are tools/release.sh's.

python_tools=(maturin==1.16.0 cargo-zigbuild==0.24.0 ziglang==0.17.0)

# Installs Debian packages where a command or a file is missing: COMMAND PACKAGE ...
need() {
    local missing=()
    while [ $# -gt 0 ]; do
        command -v "$1" >/dev/null || [ -e "$1" ] || missing+=("$2")
        shift 2
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        echo "tools/release.sh: only root can install packages; first: apt-get install ${missing[*]}" >&2
        exit 5
    fi
    echo "installing ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >"$work/apt.log"
}

# Everything that both builds need; sets `version`, `commit` and `cargo_home`.
prepare() {
    if ! command -v cargo >/dev/null; then
        echo "tools/release.sh: there is no Rust toolchain on PATH: install one (1.95 or newer)" >&2
        exit 5
    fi
    if [ "$(uname -m)" != x86_64 ]; then
        echo "tools/release.sh: releases are made on x86-64, not on $(uname -m)" >&2
        exit 5
    fi
    mkdir -p "$work" "$dist"
    rm -rf "${dist:?}"/*
    need cc gcc readelf binutils git git
    local venv=$work/python
    if [ "$(cat "$venv/made" 2>/dev/null)" != "${python_tools[*]}" ]; then
        rm -rf "$venv"
        python3 -c 'import ensurepip' 2>/dev/null || need ensurepip python3-venv
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet "${python_tools[@]}"
        echo "${python_tools[*]}" >"$venv/made"
    fi
    PATH=$venv/bin:$PATH

    cargo fetch --locked --quiet
    local programs
    read -r version programs < <(cargo metadata --format-version 1 --no-deps --locked | python3 -c '
import json, sys
packages = json.load(sys.stdin)["packages"]
print(next(p["version"] for p in packages if p["name"] == "busbw"),
      ",".join(t["name"] for p in packages for t in p["targets"] if "bin" in t["kind"]))')
    [ "$programs" = busbw ] || fail "one program was expected, busbw, not: $programs"
    commit=$(git rev-parse --short HEAD)
    [ -z "$(git status --porcelain)" ] || commit+=" with changes"

    # No path of this machine in the artefacts, and the same bytes wherever the checkout lies.
    cargo_home=${CARGO_HOME:-$HOME/.cargo}
    RUSTFLAGS="--remap-path-prefix=$root=busbw"
    local sources
    for sources in "$cargo_home"/registry/src/*; do
        RUSTFLAGS+=" --remap-path-prefix=$sources=crates"
    done
    unset CARGO_ENCODED_RUSTFLAGS
    export RUSTFLAGS CARGO_TARGET_DIR=$target
    export CARGO_TERM_COLOR=never PIP_DISABLE_PIP_VERSION_CHECK=1 BUSBW_NO_RECORD=1
}

# Builds the wheel for processor $1 and takes the binary out of it: they are the same bytes. Sets
# `binary` and `wheel`.
build() {
    local wheels=$work/wheel-$1 tag=manylinux_${glibc/./_}
    rm -rf "$wheels"
    maturin build --profile "$profile" --locked --zig --target "$1-unknown-linux-gnu" \
        --compatibility "$tag" --out "$wheels" >"$work/build.log" 2>&1 || {
        cat "$work/build.log" >&2
        fail "the build for $1"
    }
    wheel=$(echo "$wheels"/*.whl)
    [[ $wheel == *"${tag}_$1.whl" ]] || fail "the wheel is not for ${tag}_$1: $wheel"
    python3 -m zipfile -e "$wheel" "$wheels/content"
    cp "$wheel" "$dist/"
    wheel=$dist/${wheel##*/}
    binary=$dist/busbw-$version-$1-linux-gnu
    install -m 755 "$wheels/content/busbw-$version.data/scripts/busbw" "$binary"
}

# Packs the binary for processor $1 with its completions and manual pages, where shells and man look below a prefix such
# as /usr/local. The x86-64 program writes them: they are the same for both. Sets `archive`.
pack() {
    local name=busbw-$version-$1-linux-gnu
    local tree=$work/$name writer=$dist/busbw-$version-x86_64-linux-gnu
    rm -rf "$tree"
    mkdir -p "$tree"/bin "$tree"/share/{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d,doc/busbw}
    install -m 755 "$binary" "$tree/bin/busbw"
    "$writer" completions bash >"$tree/share/bash-completion/completions/busbw"
    "$writer" completions zsh >"$tree/share/zsh/site-functions/_busbw"
    "$writer" completions fish >"$tree/share/fish/vendor_completions.d/busbw.fish"
    "$writer" man --all "$tree/share/man/man1" >/dev/null
    cp README.md LICENSE CHANGELOG.md "$tree/share/doc/busbw/"
    archive=$dist/$name.tar.gz
    tar -C "$work" --owner 0 --group 0 --sort name --mtime "$(git log -1 --format=%cI)" -cf - "$name" | gzip -n9 >"$archive"
}

# Whether the compiler in use has a standard library for aarch64.
has_aarch64_std() {
    compgen -G "$("${RUSTC:-rustc}" --print target-libdir --target aarch64-unknown-linux-gnu)/libstd-*.rlib" >/dev/null
}

# A standard library for aarch64: what is there, or rustup's, or Debian's with the compiler it fits.
aarch64_std() {
    if [ -z "$debian_rust" ]; then
        if has_aarch64_std; then return; fi
        if command -v rustup >/dev/null && rustup target add aarch64-unknown-linux-gnu && has_aarch64_std; then
            return
        fi
        echo "rustup has no standard library for aarch64 here: taking Debian's packages"
    fi
    local unpacked=$work/debian-rust
    [ -x "$unpacked/rustc" ] || unpack_debian_rust "$unpacked"
    export RUSTC=$unpacked/rustc
    has_aarch64_std || fail "Debian's packages hold no standard library for aarch64"
    report+=("aarch64 with $("$RUSTC" --version)")
}

# Debian's rustc and its standard libraries for both processors in folder $1, not installed. Package
# lists of our own know of arm64, so that this machine's need not.
unpack_debian_rust() {
    local apt=$work/apt driver llvm package
    local options=(-qq -o "Dir::State=$apt/state" -o Dir::State::status=/var/lib/dpkg/status
        -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root
        -o APT::Architectures::=amd64 -o APT::Architectures::=arm64)
    rm -rf "$apt" "$1"
    mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$apt/packages"
    apt-get "${options[@]}" update
    depends() { apt-cache "${options[@]}" depends "$1" | sed -n "s/^ *Depends: \($2.*\)/\1/p"; }
    driver=$(depends libstd-rust-web-dev libstd-rust-web)
    llvm=$(depends "$driver" libllvm)
    (cd "$apt/packages" && apt-get "${options[@]}" download \
        rustc-web "$driver" "$llvm" libstd-rust-web-dev libstd-rust-web-dev:arm64)
    for package in "$apt"/packages/*.deb; do dpkg-deb -x "$package" "$1"; done
    rm -rf "$apt"
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q "$@"\n' \
        "$1/usr/lib/x86_64-linux-gnu" "$1/usr/bin/rustc" >"$1/rustc"
    chmod +x "$1/rustc"
}
