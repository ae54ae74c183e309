#!/usr/bin/env bash
# The report page in a real headless Chromium: quiet, offline, read by mouse, keys and screen readers, dark,
# printed, fed with hostile texts. About a minute.
#   tests/browser.sh           everything; installs what is missing (apt-get for chromium, needs root; npm)
#   tests/browser.sh --quick   without installing; fails where something is missing
#   tests/browser.sh --pictures   no tests: takes the pictures of tests/browser/pictures again
# SCREENSHOTS=DIR keeps a picture of each page, light and dark. CHROMIUM names another browser.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in
"") quick= pictures= ;;
--quick) quick=1 pictures= ;;
--pictures) quick= pictures=1 ;;
*)
  echo "tests/browser.sh: unknown word $1" >&2
  exit 2
  ;;
esac

target=${CARGO_TARGET_DIR:-$PWD/target}
if [ -z "$quick" ]; then
  if [ -z "${CHROMIUM:-}" ] && ! command -v chromium >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
  fi
fi
cargo build --release --quiet
# Beside the build, not in the sources.
work=$target/browser-work
mkdir -p "$work"
cp tests/browser/{package.json,package-lock.json,.npmrc,*.mjs} "$work"
if [ -z "$quick" ] || [ ! -d "$work/node_modules" ]; then
  (cd "$work" && npm ci --ignore-scripts --silent)
fi
for script in crates/report/src/assets/*.js web/entry.js "$work"/*.mjs; do node --check "$script"; done
export BUSBW=${BUSBW:-$target/release/busbw} REPORT_LOGS=$PWD/crates/busbw/tests/explain
pictures_folder=$PWD/tests/browser/pictures
cd "$work"
if [ -n "$pictures" ]; then
  command -v pngquant >/dev/null || apt-get install -y -qq pngquant >/dev/null
  node pictures.mjs "$pictures_folder"
  exec pngquant --force --ext .png --strip 64 "$pictures_folder"/*.png
fi
timeout 300 node --test
