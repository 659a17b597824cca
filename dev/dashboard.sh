#!/bin/sh
# Build the dashboard into dashboard/dist, which the server contains, before the server is built.
#   sh dev/dashboard.sh [test]
# test: check its types and format too, and run its unit tests. Idempotent, and quick when nothing changed.
set -eu
. "$(dirname "$0")/lib.sh"

SOURCE=$ROOT/dashboard
# What it was built of; beside the files, so that both are deleted together.
STAMP=$SOURCE/dist/.inputs

# lock_key: a hash of what decides which packages are installed.
lock_key() { (cat "$SOURCE/package-lock.json"; node -p 'process.versions.node + process.arch') | sha256sum | cut -c 1-16; }

# inputs: a hash of everything that the dashboard is made of.
inputs() {
    {
        lock_key
        find "$SOURCE" "$ROOT/dev/dashboard.sh" -name node_modules -prune -o -path "$SOURCE/dist" -prune -o -type f -print |
            LC_ALL=C sort | while read -r file; do
            sha256sum "$file"
        done
    } | sha256sum | cut -d ' ' -f 1
}

# install_packages: download the packages that the lock file names, unless they are here.
install_packages() {
    [ "$(cat "$SOURCE/node_modules/.belvedere-lock" 2>/dev/null)" != "$(lock_key)" ] || return 0
    say "installing the dashboard's npm packages into dashboard/node_modules (a minute, once)"
    log=$(mktemp)
    if ! (cd "$SOURCE" && npm ci --no-audit --no-fund --loglevel=error >"$log" 2>&1); then
        tail -20 "$log" >&2
        rm -f "$log"
        fail "npm ci failed in dashboard/"
    fi
    rm -f "$log"
    lock_key >"$SOURCE/node_modules/.belvedere-lock"
}

# npm_run SCRIPT: run it, and print its output only if it fails.
npm_run() {
    log=$(mktemp)
    if ! (cd "$SOURCE" && npm run "$1" >"$log" 2>&1); then
        tail -50 "$log" >&2
        rm -f "$log"
        fail "npm run $1 failed in dashboard/"
    fi
    rm -f "$log"
}

[ -f "$SOURCE/package.json" ] || exit 0
{ command -v node && command -v npm; } >/dev/null 2>&1 || apt_install nodejs npm
node -e 'const [major, minor] = process.versions.node.split(".").map(Number); process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)' ||
    fail "node $(node --version) is too old for the dashboard: 20.19 or newer is needed"
if [ "$(cat "$STAMP" 2>/dev/null)" != "$(inputs)" ]; then
    install_packages
    say "building the dashboard"
    npm_run build
    inputs >"$STAMP"
fi
case ${1:-} in
'') ;;
test)
    install_packages
    npm_run check
    npm_run test
    ;;
*) fail "usage: dev/dashboard.sh [test]" ;;
esac
