#!/bin/sh
# make test: everything that CI checks, cheap checks first.
set -eu
. "$(dirname "$0")/lib.sh"

sh "$ROOT/dev/setup.sh" test
cd "$ROOT"

say "dashboard: types, format, unit tests"
sh dev/dashboard.sh test
say "format"
cargo fmt --all --check
(cd plugins && cargo fmt --all --check)
say "clippy and build"
# clippy-driver is a compiler that also lints. `cargo clippy` would compile all dependencies a second time, only to check.
# CLIPPY_ARGS is how `cargo clippy` itself passes arguments on.
export RUSTC_WORKSPACE_WRAPPER=clippy-driver
export CLIPPY_ARGS="--deny__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__"
cargo build --workspace --all-targets --quiet
(cd plugins && cargo clippy --workspace --all-targets --quiet --locked -- --deny warnings)
say "documentation links, shell scripts"
sh dev/rules.sh
say "cold build of the Lua guest"
sh dev/cold.sh
say "plugins, and their unit tests"
sh dev/plugins.sh
(cd plugins && cargo test --workspace --quiet --locked)
node --test plugins/itchio/test/
say "unit and integration tests, on SQLite and PostgreSQL"
tests/support/postgres.sh run cargo nextest run --workspace --no-fail-fast
say "documentation examples"
cargo test --workspace --doc --quiet
say "network tests with a real PLC, PDS and Jetstream, on SQLite and PostgreSQL"
tests/support/postgres.sh run cargo test --workspace --test network -- --show-output
say "browser tests of the dashboard on the same network, the main stories on both databases"
cargo build --quiet
tests/support/postgres.sh run node --test tests/browser/browser.test.mjs
