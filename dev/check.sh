#!/bin/sh
# make check: what to run after each change. Format, clippy, and the unit tests of the crates that changed since the last commit
# (SINCE=REF: since that one), on both databases, without the tests that take ten seconds or more (.config/nextest.toml).
set -eu
. "$(dirname "$0")/lib.sh"

sh "$ROOT/dev/setup.sh" test
cd "$ROOT"
say "format"
cargo fmt --all --check

changed=$(git diff --name-only "${SINCE:-HEAD}" && git ls-files --others --exclude-standard)
packages=$(printf '%s\n' "$changed" | sed -n 's#^host/\([a-z-]*\)/.*#belvedere-\1#p' | sed 's/^belvedere-server$/belvedere/' | sort -u | tr '\n' ' ')
if [ -z "$packages" ]; then
    say "no crate has changed"
    exit 0
fi

options=
for package in $packages; do options="$options --package $package"; done
# As in dev/test.sh: a compiler that also lints.
export RUSTC_WORKSPACE_WRAPPER=clippy-driver
export CLIPPY_ARGS="--deny__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__"
say "clippy and unit tests of $packages"
# shellcheck disable=SC2086 # one word per option
tests/support/postgres.sh run cargo nextest run --profile check $options --lib --bins --no-fail-fast --no-tests pass
