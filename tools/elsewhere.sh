#!/usr/bin/env bash
# Runs a command as if on another machine: aarch64 programs through qemu, files of another root.
#
# usage: tools/elsewhere.sh [--root FOLDER] COMMAND [ARGUMENT...]
#
#   --root FOLDER   FOLDER is the root of the file system, with this machine's /proc and /dev
#
# busbw starts its ranks from its own file, so the kernel itself must know how to start an aarch64
# program: binfmt_misc. It is told so in user and mount namespaces of our own, which need no rights
# and end with the command; nothing is registered machine-wide. That works from Linux 6.7; before, it
# takes a machine where qemu-aarch64 is registered (Debian does so where systemd runs).
# QEMU_LD_PREFIX names the folder of aarch64 libraries; with --root, they are in it.
#
# Exit code: the command's. 2: usage. 5: not possible here.
set -euo pipefail

usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; }
root=
case ${1:-} in
--help) usage && exit 0 ;;
--root) root=${2:?tools/elsewhere.sh: --root wants a folder} && shift 2 ;;
esac
if [ $# -eq 0 ]; then
    usage >&2
    exit 2
fi

if [ -z "${ELSEWHERE_INSIDE:-}" ]; then
    # Which namespaces there are shows only when one tries.
    if ! unshare --user --map-root-user --mount true; then
        echo "tools/elsewhere.sh: this machine allows no user namespaces of our own" >&2
        exit 5
    fi
    ELSEWHERE_INSIDE=1 exec unshare --user --map-root-user --mount "$0" ${root:+--root "$root"} "$@"
fi
unset ELSEWHERE_INSIDE

# A 64-bit little-endian ELF file for machine 183, an executable or a shared object.
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
known=/proc/sys/fs/binfmt_misc
if qemu=$(command -v qemu-aarch64-static) && mount -t binfmt_misc none $known 2>/dev/null; then
    # F: the interpreter is opened now, and is there under another root, too.
    printf '%s' ":qemu-aarch64:M::$magic:$mask:$qemu:F" >$known/register
fi
if [ -n "$root" ]; then
    mkdir -p "$root/proc" "$root/dev"
    mount --rbind /proc "$root/proc"
    mount --rbind /dev "$root/dev"
    unset QEMU_LD_PREFIX
    exec chroot "$root" "$@"
fi
exec "$@"
