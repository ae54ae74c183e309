#!/usr/bin/env bash
# What a release of NCCL has, read from the library of its wheel: parameters with defaults, functions, structures, plugin
# interfaces, log messages; as data in crates/nccl-releases. Not how the program uses it (that crate).
#
# usage: tools/nccl_release.sh VERSION...            download, write the data, print what changed
#        tools/nccl_release.sh --diff OLD NEW        what changed between two releases
#        tools/nccl_release.sh --check               are the program's tables those of the data? (no download)
#        tools/nccl_release.sh --slim sm_90 VERSION  the library with one GPU's code, to carry it somewhere
set -euo pipefail
missing=()
case " $* " in
*" --diff "* | *" --check "* | *" --generate "* | *" -h "* | *" --help "*) ;;
*) for program in gdb objdump; do command -v "$program" > /dev/null || missing+=("$program"); done ;;
esac
if ((${#missing[@]})); then
    echo "nccl_release.sh: needs ${missing[*]}: apt-get install gdb binutils" >&2
    exit 2
fi
exec python3 "$(dirname "$0")/nccl_release" "$@"
