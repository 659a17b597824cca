#!/bin/sh
# The part of make test that needs the processors and no clock. dev/test.sh runs it at low priority beside the tests, which
# wait half of the time.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

# First, because the others wait for the lock of the target directory, and the tests' own build with them.
say "cold build of the Lua guest"
sh dev/cold.sh
say "documentation links, shell scripts"
sh dev/rules.sh
say "clippy and unit tests of the plugins"
(cd plugins && cargo clippy --workspace --all-targets --quiet --locked -- --deny warnings)
(cd plugins && cargo test --workspace --quiet --locked)
node --test plugins/itchio/test/
say "documentation examples"
cargo test --workspace --doc --quiet
