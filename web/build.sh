#!/usr/bin/env bash
# Makes the charting library of the report page (crates/report/src/assets/charts.js) from Apache
# ECharts: only the parts that web/entry.js names, as one script, with the licences in front.
# Needs node 18 or newer and npm; builds of busbw itself need neither. docs/report.md.
#
# usage: web/build.sh [--check]
#
#   --check   compares with the committed file and writes none
#   --help    this text
#
# Exit codes: 0 made, or equal; 1 different, or not made; 2 usage.
set -euo pipefail

case ${1:-} in
"") check= ;;
--check) check=1 ;;
--help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"
    exit 0
    ;;
*)
    echo "web/build.sh: unknown word $1" >&2
    exit 2
    ;;
esac

root=$(cd "$(dirname "$0")/.." && pwd)
made=$root/crates/report/src/assets/charts.js
work=${CARGO_TARGET_DIR:-$root/target}/web-work
mkdir -p "$work"
cp "$root"/web/{package.json,package-lock.json,.npmrc,entry.js} "$work"
cd "$work"
npm ci --ignore-scripts --silent

licences() {
    echo "/*"
    echo "Apache ECharts $(node -p 'require("echarts/package.json").version'): Licensed under the Apache License, Version 2.0, whose text is in the"
    echo "file LICENSE of busbw's sources. Parts that the page does not use were left out; nothing else was changed."
    echo
    cat node_modules/echarts/NOTICE
    printf '\n\nIt includes zrender:\n\n'
    cat node_modules/zrender/LICENSE
    printf '\n\nIt includes parts of d3:\n\n'
    cat node_modules/echarts/licenses/LICENSE-d3
    printf '\n\nIt includes tslib:\n\n'
    cat node_modules/tslib/LICENSE.txt
    printf '\n*/\n'
} 
licences | tr -d '\r' >charts.js
node_modules/.bin/esbuild entry.js --bundle --minify --format=iife --global-name=busbwCharts --target=es2020 \
    --legal-comments=none --charset=utf8 --log-level=warning '--define:process.env.NODE_ENV="production"' >>charts.js

if grep -qi '</script' charts.js; then
    echo "web/build.sh: the bundle holds </script, which would end the page's script" >&2
    exit 1
fi
if [ -n "$check" ]; then
    cmp charts.js "$made" || {
        echo "web/build.sh: $made is not what web/ gives; run web/build.sh" >&2
        exit 1
    }
else
    cp charts.js "$made"
fi
echo "charts.js: $(wc -c <charts.js) bytes, $(gzip -9c charts.js | wc -c) compressed"
