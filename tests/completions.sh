#!/usr/bin/env bash
# Completions and manual pages as a shell and man take them: tests/completions.sh [BUSBW]
# A bash with a terminal of its own gets the file and is typed at. zsh and fish read theirs where they are installed.
set -euo pipefail
root=$(realpath "$(dirname "$0")/..")
busbw=$(realpath "${1:-$root/target/release/busbw}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$busbw" "$work/bin/busbw"
export PATH=$work/bin:$PATH

busbw completions bash >"$work/busbw.bash"
python3 - "$work/busbw.bash" <<'PYTHON'
import os, pty, re, select, sys, time

pid, terminal = pty.fork()
if pid == 0:
    os.environ.update(PS1="$ ", TERM="dumb", INPUTRC="/dev/null")
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])

def typed(keys, until):
    """What the terminal shows after these keys; waits until `until` is there."""
    os.write(terminal, keys.encode())
    shown, end = "", time.monotonic() + 30
    while not re.search(until, shown):
        if time.monotonic() > end:
            sys.exit(f"FAILED   {keys!r}: no {until!r} in {shown!r}")
        if select.select([terminal], [], [], 0.2)[0]:
            shown += os.read(terminal, 65536).decode(errors="replace")
    return shown

typed(f"source {sys.argv[1]}; echo rea''dy\r", "ready")
for keys, until in [
    ("busbw all_red\t", "busbw all_reduce "),
    ("busbw all_\t\t", r"all_gather +all_reduce|all_reduce +all_gather"),
    ("busbw tran\t", "busbw transports "),
    ("busbw all_reduce --preci\t", "--precision "),
    ("busbw explain --machi\t", "--machine "),
    ("busbw all_reduce --backend n\t\t", r"nccl +net|net +nccl"),
    ("busbw completions f\t", "completions fish "),
]:
    typed(keys, until)
    # Ctrl-U and a word of its own: the next line begins on a clean prompt.
    typed("\x15echo cle''an\r", "clean")
    print(f"ok       bash: {keys!r}")
PYTHON

for shell in zsh fish; do
  busbw completions $shell >"$work/busbw.$shell"
  [ -s "$work/busbw.$shell" ]
  if command -v $shell >/dev/null; then
    $shell -n "$work/busbw.$shell"
    echo "ok       $shell: it reads its file"
  else
    echo "waived   $shell: it is not installed"
  fi
done

busbw man --all "$work/man1" >/dev/null
pages=$(find "$work/man1" -name '*.1' | wc -l)
[ "$pages" -ge 30 ]
for page in "$work"/man1/*.1; do
  if command -v groff >/dev/null; then
    wrong=$(groff -Kutf8 -man -Tutf8 -P-cbou -ww "$page" 2>&1 >"$page.txt")
    [ -z "$wrong" ] || { echo "FAILED   $page: $wrong" && exit 1; }
  fi
done
if command -v groff >/dev/null; then
  grep -q 'minbytes' "$work/man1/busbw-all_reduce.1.txt"
  echo "ok       man: $pages pages, no warning of groff"
else
  echo "waived   man: $pages pages written, groff is not installed"
fi
