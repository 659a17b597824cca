#!/bin/sh
# Install what the browser tests (tests/browser) need: Debian's Chromium, and npm packages, which are linked into
# tests/browser/node_modules. They live under ~/.cache/belvedere/browser, in a folder named after the lock file, so that
# other clones and later runs reuse them. Also installs the test network.
set -eu
. "$(dirname "$0")/lib.sh"

sh "$ROOT/dev/network.sh"
cd "$ROOT/tests/browser"
key=$(sha256sum <package-lock.json | cut -c1-16)
store=$CACHE/browser/$key
if [ ! -f "$store/READY" ]; then
    say "installing the browser tests' npm packages into $store"
    staging=$store.$$
    mkdir -p "$staging"
    cp package.json package-lock.json "$staging/"
    if ! (cd "$staging" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >npm.log 2>&1); then
        tail -50 "$staging/npm.log" >&2
        rm -rf "$staging"
        fail "npm ci failed in tests/browser"
    fi
    touch "$staging/READY"
    # Two runs may race. The first to rename wins; both results are the same.
    mv -T "$staging" "$store" 2>/dev/null || rm -rf "$staging"
fi
if [ "$(readlink node_modules 2>/dev/null || true)" != "$store/node_modules" ]; then
    rm -rf node_modules
    ln -s "$store/node_modules" node_modules
fi
