#!/bin/bash
# busbw watch -H over OpenSSH: two hosts that are sshd with a mount namespace each, with the files of two ranks of a job on each.
#   tests/watch_ssh.sh BUSBW    exit 1 where the view is not that of the same files here, 3 where there is no sshd, no root or no
#                               mount namespace
# Not a stand-in for ssh, and not a running job (crates/busbw/tests/it/watch.rs has both).
set -u
busbw=$(realpath "${1:?usage: watch_ssh.sh BUSBW}")
cd "$(dirname "$0")/.." || exit 2
job=$(realpath crates/busbw/tests/watch/late)
sshd=$(command -v sshd || ls /usr/sbin/sshd 2>/dev/null)
[ -n "$sshd" ] && command -v ssh ssh-keygen >/dev/null || { echo "waived: no sshd and ssh here"; exit 3; }
[ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null || { echo "waived: no mount namespaces: not root"; exit 3; }
work=$(mktemp -d)
daemons=()
# end PID…: a daemon and its sessions.
end() { local pid; for pid in "$@"; do kill $(pgrep -P "$pid") "$pid" 2>/dev/null; done; }
trap 'end "${daemons[@]}"; rm -rf "$work"' EXIT
mkdir -p /run/sshd "$work/files" "$work/a" "$work/b"
cp "$job"/h0.[01].jsonl "$work/a" && cp "$job"/h0.[23].jsonl "$work/b" || exit 1
ssh-keygen -q -t ed25519 -N '' -f "$work/key" && ssh-keygen -q -t ed25519 -N '' -f "$work/host" || exit 1
for host in a b; do
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  printf '%s\n' "Port $port" "ListenAddress 127.0.0.1" "HostKey $work/host" "AuthorizedKeysFile $work/key.pub" \
    "PasswordAuthentication no" "StrictModes no" "PidFile none" "UsePAM no" >"$work/$host.conf"
  printf '%s\n' "Host $host" "HostName 127.0.0.1" "Port $port" "User root" "IdentityFile $work/key" "StrictHostKeyChecking no" \
    "UserKnownHostsFile /dev/null" "LogLevel ERROR" >>"$work/config"
  unshare --mount bash -c "mount --bind '$work/$host' '$work/files' && exec '$sshd' -D -f '$work/$host.conf' -E '$work/$host.log'" &
  daemons+=($!)
done
over_ssh=(-H a,b --launcher-command "ssh -F $work/config" "$work/files")
for _ in $(seq 50); do
  ssh -F "$work/config" a true 2>/dev/null && ssh -F "$work/config" b true 2>/dev/null && break
  sleep 0.2
done
for host in a b; do
  ssh -F "$work/config" "$host" true 2>"$work/err" || { echo "waived: nobody can log in to an sshd of ours here: $(tail -n 1 "$work/err" "$work/$host.log" 2>&1 | tail -n 1)"; exit 3; }
done

failed=0
verdict() { if [ "$1" = 0 ]; then echo "ok      $2"; else echo "FAILED  $2"; failed=1; fi; }
"$busbw" watch --once --json "$job" >"$work/here.json"
timeout 30 "$busbw" watch --once --json "${over_ssh[@]}" >"$work/there.json" 2>"$work/err"
[ $? = 1 ] && python3 - "$work/here.json" "$work/there.json" <<'P'
import json, sys
views = [json.load(open(name)) for name in sys.argv[1:]]
for view in views:
    for process in view["processes"]:
        process.pop("file", None)
assert views[0]["state"] == "late" and len(views[0]["processes"]) == 4 and views[0] == views[1]
P
verdict $? "four ranks on two hosts: the same view as of their files here, and who is late"
timeout 60 "$busbw" watch --json --last 100000 "${over_ssh[@]}" >"$work/views" 2>"$work/err" &
watching=$!
for _ in $(seq 50); do [ -s "$work/views" ] && break; sleep 0.2; done
end "${daemons[1]}"
for _ in $(seq 50); do grep -q 'b: nothing more comes' "$work/err" && break; sleep 0.2; done
before=$(wc -l <"$work/views")
sleep 3
# timeout hands the signal on.
kill -INT $watching
wait $watching
code=$?
grep -q 'b: nothing more comes: ssh to b, where it ran, ended with exit code 255' "$work/err" && [ "$(wc -l <"$work/views")" -gt "$before" ] && [ $code = 130 ]
verdict $? "ssh to one host ends: it is said, and the view goes on (exit $code after Ctrl-C)"
[ $failed = 0 ] || cat "$work/err"
exit $failed
