#!/bin/sh
# Install the npm packages of the test network (tests/network), link them into tests/network/node_modules, and install
# the browser that its tests drive.
#
# The packages live under ~/.cache/belvedere/network, in a folder named after the lock file and the node that built
# them, so other clones and later runs reuse them: better-sqlite3 is compiled from source (about two minutes of
# CPU), the rest is only unpacked. Downloads come from the npm registry only.
#   sh dev/network.sh [system]
# system: only the Debian packages, for which a user may be asked.
set -eu
. "$(dirname "$0")/lib.sh"

need node "Node.js 20 or newer is needed for the test network (Debian: nodejs npm)"
need npm "npm is needed for the test network (Debian: npm)"
# The headless shell is the same browser without windows, which older Debians have no package of.
(apt_install chromium-headless-shell) || apt_install chromium
# better-sqlite3 is compiled from source.
command -v g++ >/dev/null 2>&1 || apt_install g++
node_major=$(node -p 'process.versions.node.split(".")[0]')
[ "$node_major" -ge 20 ] || fail "node $(node --version) is too old for the test network: 20 or newer is needed"

cd "$ROOT/tests/network"
key=$( (cat package-lock.json; node -p 'process.versions.modules + process.arch') | sha256sum | cut -c1-16)
store=$CACHE/network/$key

installed() { [ -f "$store/READY" ]; }

if ! installed; then
    # Point node-gyp at installed headers of node: by default it would download them.
    prefix=$(dirname "$(dirname "$(node -p 'fs.realpathSync(process.execPath)')")")
    if [ ! -f "$prefix/include/node/node.h" ]; then
        apt_install libnode-dev
        prefix=/usr
    fi
fi
[ "${1:-}" != system ] || exit 0

if ! installed; then
    say "installing the test network's npm packages into $store (two minutes the first time)"
    staging=$store.$$
    mkdir -p "$staging"
    cp package.json package-lock.json "$staging/"
    # Print npm's output only if it fails.
    if ! (cd "$staging" && npm_config_nodedir=$prefix npm ci --no-audit --no-fund --loglevel=error >npm.log 2>&1); then
        tail -50 "$staging/npm.log" >&2
        rm -rf "$staging"
        fail "npm ci failed in tests/network"
    fi
    touch "$staging/READY"
    mkdir -p "$CACHE/network"
    # Two runs may race. The first to rename wins; both results are the same.
    mv -T "$staging" "$store" 2>/dev/null || rm -rf "$staging"
fi

if [ "$(readlink node_modules 2>/dev/null || true)" != "$store/node_modules" ]; then
    rm -rf node_modules
    ln -s "$store/node_modules" node_modules
fi
