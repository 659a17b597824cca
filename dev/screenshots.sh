#!/bin/sh
# make screenshots: takes the pictures of docs/screenshots again, with the browser and the network of the browser tests.
set -eu
. "$(dirname "$0")/lib.sh"

sh "$ROOT/dev/setup.sh" test
sh "$ROOT/dev/browser.sh"
cd "$ROOT"
sh dev/dashboard.sh
cargo build --workspace
BROWSER_SCREENSHOTS="$ROOT/docs/screenshots" node --test --test-name-pattern='every page is accessible and fits: [a-z]*, 1440 px' \
    tests/browser/pages.test.mjs
