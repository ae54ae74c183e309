# What the scripts in the virtual machines check with (sh, sourced): one line a check, `ok: NAME`; the first that fails prints
# `FAILED: NAME`, why and the output, and ends the script. Not the checks (alone.sh, two.sh).

cp busbw /bin/busbw
export BUSBW_NO_RECORD=1 TMPDIR=/tmp
out=/tmp/out err=/tmp/err

failed() { # NAME WHY
  echo "FAILED: $1: $2"
  sed 's/^/  stdout: /' "$out"
  # Of a progress line the last state.
  sed 's/.*\r//; s/^/  stderr: /' "$err"
  exit 1
}

# On a line of its own: the kernel's messages share the console.
ok() { printf '\nok: %s\n' "$1"; }

# ran COMMAND...: runs it, at most 90 s, or what `longest` says; its code in $code.
longest=90
ran() {
  code=0
  timeout -s KILL "$longest" "$@" >"$out" 2>"$err" </dev/null || code=$?
}

# ends NAME CODE: how the command that ran ended.
ends() { [ "$code" = "$2" ] || failed "$1" "exit $code, not $2"; }

# says NAME PATTERN: something on either stream fits.
says() { cat "$out" "$err" | grep -Eq -- "$2" || failed "$1" "nothing says: $2"; }

# rows NAME COUNT: so many rows, and none with wrong data.
rows() {
  count=$(grep -cE '^ +[0-9]+ +[a-z]+[0-9]+ .* 0$' "$out")
  all=$(grep -cE '^ +[0-9]+ +[a-z]+[0-9]+ ' "$out")
  [ "$count" = "$2" ] && [ "$all" = "$2" ] || failed "$1" "$count rows of $all have no wrong data, not $2"
}

# verified NAME ROWS COMMAND...: it ends with 0 and so many verified rows.
verified() {
  name=$1 wanted=$2
  shift 2
  ran "$@"
  ends "$name" 0
  rows "$name" "$wanted"
  ok "$name"
}

# refuses NAME CODE PATTERN COMMAND...: it ends with the code and says so.
refuses() {
  name=$1 wanted=$2 pattern=$3
  shift 3
  ran "$@"
  ends "$name" "$wanted"
  says "$name" "$pattern"
  ok "$name"
}
