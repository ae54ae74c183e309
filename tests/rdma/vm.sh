#!/usr/bin/env bash
# A small virtual machine with soft RoCE, for tests of RDMA on machines without: Debian's kernel under QEMU's emulation, with rdma_rxe
# (RC, UC, UD queue pairs over any interface), veth, netem and tbf. Some 20 s a boot. Says nothing of hardware: packets go one by one.
#   vm.sh build                   makes kernel, modules and base system, once, in a cache; prints its folder
#   vm.sh run SCRIPT FILE...      boots, runs SCRIPT (sh) with FILEs in /w beside it, and prints what it prints; its exit code is the
#                                 script's, 124 after LIMIT (300) s. Programs among the FILEs get their libraries.
# Needs root, once, for packages. Not the tests (tests/rdma.sh).
set -euo pipefail
cache=${BUSBW_RDMA_CACHE:-${XDG_CACHE_HOME:-/var/cache}/busbw-rdma}
limit=${LIMIT:-300}
# What the virtual machine loads, with what these depend on. rdma_rxe needs crc32_generic, which nothing names.
modules=(crc32_generic configfs ipv6 veth ib_uverbs rdma_ucm rdma_rxe sch_netem sch_tbf sch_htb cls_u32 dummy virtio_net nf_tables)
packages=(qemu-system-x86 ibverbs-utils dash busybox-static rdma-core ibverbs-providers librdmacm1 perftest iproute2 kmod cpio)

say() { echo "tests/rdma/vm.sh: $*" >&2; }

build() {
  local version folder work image
  if ! dpkg -s "${packages[@]}" >/dev/null 2>&1; then
    [ "$(id -u)" = 0 ] || { say "missing of ${packages[*]}: install them, or run this as root"; exit 5; }
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
  fi
  image=$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
  [ -n "$image" ] || { say "Debian's package lists name no kernel: apt-get update"; exit 5; }
  version=${image#linux-image-}
  folder=$cache/$version
  if [ ! -e "$folder/ready" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' RETURN
    # A folder that apt's own user may write to.
    chmod 755 "$work"
    (cd "$work" && apt-get download -qq "$image" >/dev/null 2>&1 && dpkg -x ./*.deb kernel) || { say "$image cannot be downloaded"; exit 5; }
    base "$work/kernel" "$version" "$work/root"
    mkdir -p "$work/out"
    cp "$work/kernel/boot/vmlinuz-$version" "$work/out/vmlinuz"
    (cd "$work/root" && find . | cpio -o -H newc --quiet) | gzip -1 >"$work/out/base.gz"
    touch "$work/out/ready"
    mkdir -p "$cache" && rm -rf "$folder" && mv "$work/out" "$folder.new$$" && mv -T "$folder.new$$" "$folder"
  fi
  echo "$folder"
}

# base KERNEL VERSION ROOT: the system of the virtual machine.
base() {
  local kernel=$1 version=$2 root=$3 module file
  mkdir -p "$root"/{bin,sbin,lib,etc/libibverbs.d,proc,sys,dev,tmp,w,run,lib/modules/"$version"}
  cp "$(command -v busybox)" "$root/bin/busybox"
  for module in $("$root/bin/busybox" --list | grep -vxE "busybox|sh|ip|tc"); do ln -sf busybox "$root/bin/$module"; done
  # busybox' own shell would take its own ip, which makes no veth and knows no RDMA.
  put "$(command -v dash)" "$root/bin/sh" "$root"
  depmod -b "$kernel" "$version"
  for module in "${modules[@]}"; do
    # Built in is as good.
    modprobe -d "$kernel" -S "$version" --show-depends "$module" 2>/dev/null | sed -n 's/^insmod \([^ ]*\).*/\1/p'
  done | sort -u | while read -r file; do
    mkdir -p "$root/lib/modules/$version/$(dirname "${file#*/"$version"/}")"
    cp "$file" "$root/lib/modules/$version/${file#*/"$version"/}"
  done
  cp "$kernel/lib/modules/$version"/modules.{order,builtin,builtin.modinfo} "$root/lib/modules/$version/" 2>/dev/null || true
  depmod -b "$root" "$version"
  for program in ip rdma tc modprobe ibv_devinfo ib_write_bw ib_write_lat ib_send_bw ib_send_lat ib_read_bw ib_read_lat rping; do
    file=$(command -v "$program" || ls /sbin/"$program" /usr/sbin/"$program" 2>/dev/null | head -n 1) || true
    [ -n "$file" ] && put "$file" "$root/sbin/$program" "$root"
  done
  mkdir -p "$root/usr/lib/x86_64-linux-gnu/libibverbs" "$root/etc/libibverbs.d"
  for file in /usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav*.so; do put "$file" "$root$file" "$root"; done
  put /usr/lib/x86_64-linux-gnu/libibverbs.so.1 "$root/usr/lib/x86_64-linux-gnu/libibverbs.so.1" "$root"
  put /usr/lib/x86_64-linux-gnu/librdmacm.so.1 "$root/usr/lib/x86_64-linux-gnu/librdmacm.so.1" "$root"
  cp /etc/libibverbs.d/rxe.driver "$root/etc/libibverbs.d/"
  [ ! -d /usr/lib/tc ] || { mkdir -p "$root/usr/lib" && cp -r /usr/lib/tc "$root/usr/lib/"; }
  cat >"$root/init" <<'INIT'
#!/bin/sh
export PATH=/sbin:/bin HOME=/tmp TMPDIR=/tmp LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu:/lib/x86_64-linux-gnu
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm; mount -t tmpfs tmpfs /dev/shm; mount -t tmpfs tmpfs /tmp
hostname vm; ip link set lo up; ulimit -l unlimited
for module in $(cat /etc/modules); do modprobe "$module" 2>/dev/null; done
cd /w
sh ./script; code=$?
echo; echo "@@exit $code"
poweroff -f
INIT
  chmod +x "$root/init"
  echo "${modules[*]}" >"$root/etc/modules"
}

# put FILE TO ROOT: a program or library and what it needs.
put() {
  mkdir -p "$(dirname "$2")"
  cp -L "$1" "$2"
  ldd "$1" 2>/dev/null | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p; s/^\t\(\/[^ ]*\) .*/\1/p' | while read -r file; do
    mkdir -p "$3$(dirname "$file")"
    [ -e "$3$file" ] || cp -L "$file" "$3$file"
  done
}

run() {
  local script=$1 folder work file code
  shift
  folder=$(build)
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$work/root/w"
  cp "$script" "$work/root/w/script"
  for file in "$@"; do
    if [ -x "$file" ] && head -c 4 "$file" | grep -q ELF; then put "$file" "$work/root/w/$(basename "$file")" "$work/root"; else cp -r "$file" "$work/root/w/"; fi
  done
  (cd "$work/root" && find . | cpio -o -H newc --quiet) | gzip -1 >"$work/files.gz"
  cat "$folder/base.gz" "$work/files.gz" >"$work/initrd"
  code=0
  timeout "$limit" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -m "${MEMORY:-3000}" -smp "${CPUS:-2}" -nographic -no-reboot -net none \
    -kernel "$folder/vmlinuz" -initrd "$work/initrd" -append "console=ttyS0 quiet panic=1 loglevel=3" </dev/null >"$work/out" 2>&1 || code=$?
  tr -d '\r' <"$work/out" | sed -n '/^@@exit /!p' | sed 's/\x1b\[[0-9;?]*[a-zA-Z]//g; s/\x1bc//g'
  if [ "$code" != 0 ]; then
    say "the virtual machine ended with $code"
    exit "$code"
  fi
  code=$(tr -d '\r' <"$work/out" | sed -n 's/^@@exit \([0-9]*\)$/\1/p' | tail -n 1)
  exit "${code:-1}"
}

case ${1:-} in
  build) build ;;
  run) shift && run "$@" ;;
  *) sed -n '4,7s/^# //p' "$0" >&2 && exit 2 ;;
esac
