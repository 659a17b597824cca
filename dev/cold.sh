#!/bin/sh
# The cold check of make test: builds the Lua guest with an empty CARGO_HOME and an empty target directory, as a fresh
# machine does. The caches of a developer's machine can hide that the first `make run` fails.
set -eu
. "$(dirname "$0")/lib.sh"

# It takes one to three minutes; the timeout keeps a build that hangs from blocking the rest of the tests.
COLD_SECONDS=900

cold=$(mktemp -d)
trap 'rm -rf "$cold"' EXIT
cd "$ROOT"
# The result is deleted, so it is built without optimisation.
if ! CARGO_HOME=$cold/home CARGO_TARGET_DIR=$cold/target \
    CARGO_PROFILE_DEV_DEBUG=false CARGO_PROFILE_DEV_BUILD_OVERRIDE_OPT_LEVEL=0 \
    timeout "$COLD_SECONDS" cargo build --locked --quiet --package belvedere-guest-lua; then
    fail "belvedere-guest-lua does not build with an empty CARGO_HOME and target directory: a fresh machine can't build it either"
fi
