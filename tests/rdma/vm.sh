#!/usr/bin/env bash
# A small virtual machine with soft RoCE, for tests of RDMA on machines without: Debian's kernel under QEMU's emulation, with rdma_rxe
# (RC, UC, UD queue pairs over any interface), veth, netem and tbf. Some 20 s a boot. Says nothing of hardware: packets go one by one.
#   vm.sh build                   makes kernel, modules and base system, once, in a cache; prints its folder
#   vm.sh run SCRIPT FILE...      boots, runs SCRIPT (sh) with FILEs in /w beside it, and prints what it prints; its exit code is the
#                                 script's, 124 after LIMIT (300) s. Programs among the FILEs get their libraries.
#   vm.sh pair SCRIPT FILE...     boots two of them, two hosts joined by LINKS (2) links; each runs SCRIPT, with its number (0, 1) in VM.
#                                 Link L is the interface dL with the RDMA device rxeL, 10.0.L.1 in VM 0 and 10.0.L.2 in VM 1, and
#                                 `meet` waits in the one for the other. Prints what both print, `0| ` or `1| ` before each line; the
#                                 exit code is the higher one. VMS (2): with more, all are on one network, whose switch is a bridge in
#                                 VM 0: 10.0.0.1 to 10.0.0.VMS on d0, rxe0. In VM 0 its port pV leads to VM V. No `meet` then.
# The links are Unix sockets in a temporary folder: nothing listens on this machine. CPUS and MEMORY are for one virtual machine.
# Needs root, once, for packages. Not the tests (tests/rdma.sh).
set -euo pipefail
work= codes=()
cache=${BUSBW_RDMA_CACHE:-${XDG_CACHE_HOME:-/var/cache}/busbw-rdma}
limit=${LIMIT:-300}
# What the virtual machine loads, with what these depend on. rdma_rxe needs crc32_generic, which nothing names.
modules=(crc32_generic configfs ipv6 veth bridge ib_uverbs rdma_ucm rdma_rxe sch_netem sch_tbf sch_htb cls_u32 dummy virtio_pci virtio_net nf_tables)
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
  # What is in it is told by its name: two versions of this file share a cache.
  folder=$cache/$version-$({ echo "${modules[@]}" "${packages[@]}"; declare -f base put; } | cksum | cut -d ' ' -f 1)
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

# initrd SCRIPT FILE... to $work/initrd, with the kernel's folder in $folder.
initrd() {
  local script=$1 file
  shift
  # Not in its own subshell's exit code alone: `build` says why it failed.
  folder=$(build) || exit $?
  mkdir -p "$work/root/w"
  cp "$script" "$work/root/w/script"
  for file in "$@"; do
    if [ -x "$file" ] && head -c 4 "$file" | grep -q ELF; then put "$file" "$work/root/w/$(basename "$file")" "$work/root"; else cp -r "$file" "$work/root/w/"; fi
  done
  (cd "$work/root" && find . | cpio -o -H newc --quiet) | gzip -1 >"$work/files.gz"
  cat "$folder/base.gz" "$work/files.gz" >"$work/initrd"
}

# machine CPUS MEMORY WORDS OUT OPTION...: boots one, with WORDS on the kernel's command line, which the shell of `/init` has as variables.
# Its clock is the processor's, as on hardware: the kernel would choose the emulated HPET, whose every look leaves the virtual machine.
machine() {
  local cpus=$1 memory=$2 words=$3 out=$4
  shift 4
  exec timeout -k 5 "$limit" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -m "${MEMORY:-$memory}" -smp "${CPUS:-$cpus}" -nographic -no-reboot \
    -kernel "$folder/vmlinuz" -initrd "$work/initrd" -append "console=ttyS0 quiet panic=1 loglevel=3 tsc=reliable clocksource=tsc $words" "$@" </dev/null >"$out" 2>&1
}

# printed OUT: what the script printed.
printed() {
  # SeaBIOS, the kernel's last line and what moves a cursor are not of the script.
  tr -d '\r' <"$1" | sed 's/\x1b\[[0-9;?]*[a-zA-Z]//g; s/\x1bc//g; /^@@exit /d; /^SeaBIOS (version/d; /^Booting from ROM/d; /reboot: Power down$/d'
}

# ended CODE OUT WHICH: the exit code, of the script where the virtual machine itself ended well.
ended() {
  local code=$1
  if [ "$code" != 0 ]; then
    say "virtual machine$3 ended with $code"
    return "$code"
  fi
  code=$(tr -d '\r' <"$2" | sed -n 's/^@@exit \([0-9]*\)$/\1/p' | tail -n 1)
  [ -n "$code" ] || say "virtual machine$3 ended before its script"
  return "${code:-1}"
}

run() {
  local folder code=0
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  initrd "$@"
  (machine 2 3000 "" "$work/out" -net none) || code=$?
  printed "$work/out"
  code_of=0
  ended "$code" "$work/out" "" || code_of=$?
  exit "$code_of"
}

pair() {
  local folder link vm code worst=0 vms=${VMS:-2} options waited
  local -a pids=() links=()
  # Links of VM 0 to the others: LINKS to one, or one to each.
  if [ "$vms" = 2 ]; then
    for ((link = 0; link < ${LINKS:-2}; link++)); do links[link]=1; done
  else
    for ((vm = 1; vm < vms; vm++)); do links[vm]=$vm; done
  fi
  work=$(mktemp -d)
  # Both end with this script, however it ends.
  trap 'kill "${pids[@]}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  { if [ "$vms" = 2 ]; then joined; else switched; fi; cat "$1"; } >"$work/script"
  shift
  initrd "$work/script" "$@"
  for ((vm = 0; vm < vms; vm++)); do
    options=(-nic none)
    for link in "${!links[@]}"; do
      if [ "$vm" = 0 ]; then
        options+=(-netdev "stream,id=n$link,server=on,addr.type=unix,addr.path=$work/link$link")
      elif [ "${links[link]}" = "$vm" ]; then
        # Who connects finds the socket or ends.
        for ((waited = 0; waited < 300; waited++)); do
          [ ! -S "$work/link$link" ] || break
          sleep 0.1
        done
        options+=(-netdev "stream,id=n$link,server=off,addr.type=unix,addr.path=$work/link$link")
      else
        continue
      fi
      options+=(-device "virtio-net-pci,netdev=n$link,mac=52:54:00:00:0$link:0$vm,romfile=")
    done
    machine 1 1500 "VM=$vm VMS=$vms LINKS=${#links[@]}" "$work/out$vm" "${options[@]}" &
    pids[vm]=$!
  done
  for vm in "${!pids[@]}"; do
    code=0
    wait "${pids[vm]}" || code=$?
    codes[vm]=$code
  done
  pids=()
  for vm in "${!codes[@]}"; do
    printed "$work/out$vm" | sed "s/^/$vm| /"
    code=0
    ended "${codes[vm]}" "$work/out$vm" " $vm" || code=$?
    [ "$code" -le "$worst" ] || worst=$code
  done
  exit "$worst"
}

# joined: what each of two virtual machines does before its script.
joined() {
  cat <<'JOINED'
hostname "vm$VM"
link=0
while [ "$link" -lt "$LINKS" ]; do
  # The kernel numbers interfaces as it finds them; the address tells which is which.
  for path in /sys/class/net/*; do
    [ "$(cat "$path/address")" != "52:54:00:00:0$link:0$VM" ] || ip link set "$(basename "$path")" name "d$link"
  done
  ip addr add "10.0.$link.$((VM + 1))/24" dev "d$link"
  ip link set "d$link" up
  rdma link add "rxe$link" type rxe netdev "d$link"
  link=$((link + 1))
done
# How often each has come to `meet`, told again and again: a single message may be lost with its connection.
mkdir -p /tmp/meet
echo 0 >/tmp/meet/mine
echo 0 >/tmp/meet/theirs
(while true; do nc -l -p 999 -w 5 >/tmp/meet/new 2>/dev/null; ! grep -q '^[0-9]' /tmp/meet/new || mv /tmp/meet/new /tmp/meet/theirs; done) &
(while true; do nc -w 2 "10.0.0.$((2 - VM))" 999 </tmp/meet/mine >/dev/null 2>&1; sleep 0.5; done) &
# The other one may not have heard of the last one yet.
trap 'sleep 5' EXIT
met=0
# Waits until the other one comes here too, at most $1 (120) s.
meet() {
  met=$((met + 1))
  echo "$met" >/tmp/meet/said && mv /tmp/meet/said /tmp/meet/mine
  tries=0
  until [ "$(cat /tmp/meet/theirs)" -ge "$met" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt "$((${1:-120} * 5))" ] || { echo "the other virtual machine did not come"; return 1; }
    sleep 0.2
  done
}
meet || exit 1
JOINED
}

# switched: what each of several virtual machines does before its script.
switched() {
  cat <<'SWITCHED'
hostname "vm$VM"
[ "$VM" != 0 ] || { ip link add d0 type bridge && ip link set d0 address 52:54:00:00:00:00; }
for path in /sys/class/net/*; do
  case $(cat "$path/address") in
    52:54:00:00:00:00) ;;
    52:54:00:00:0?:00)
      port=p$(cut -d : -f 5 "$path/address" | cut -c 2)
      ip link set "$(basename "$path")" name "$port" master d0
      ip link set "$port" up
      ;;
    52:54:00:00:0?:0?) ip link set "$(basename "$path")" name d0 ;;
  esac
done
ip addr add "10.0.0.$((VM + 1))/24" dev d0
ip link set d0 up
rdma link add rxe0 type rxe netdev d0
SWITCHED
}

case ${1:-} in
  build) build ;;
  run) shift && run "$@" ;;
  pair) shift && pair "$@" ;;
  *) sed -n '4,14s/^# //p' "$0" >&2 && exit 2 ;;
esac
