#!/bin/sh
# make test: everything that CI checks, cheap checks first. What waits for a clock or a server shares the processors with what does not.
set -eu
. "$(dirname "$0")/lib.sh"

# beside COMMAND...: run it while the script goes on; `finish` prints what it wrote, and fails as it does.
beside() {
    log=$(mktemp)
    "$@" >"$log" 2>&1 &
    other=$!
    # shellcheck disable=SC2064 # this log and this process
    trap "kill $other 2>/dev/null; rm -f $log" EXIT
}
finish() {
    code=0
    wait "$other" || code=$?
    cat "$log" >&2
    rm -f "$log"
    trap - EXIT
    return "$code"
}

sh "$ROOT/dev/setup.sh" test
cd "$ROOT"
say "the test network and the browser: installing what is missing, while the rest is built"
beside sh dev/browser.sh

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
say "plugins"
sh dev/plugins.sh
finish

beside nice -n 19 sh dev/checks.sh
say "unit and integration tests, on SQLite and PostgreSQL; beside them the cold build, documentation and plugins"
passed=0
MIGRATE_WITH=$CARGO_TARGET_DIR/debug/belvedere tests/support/postgres.sh run cargo nextest run --workspace --no-fail-fast || passed=$?
finish
[ "$passed" = 0 ] || exit "$passed"

say "load tests with few records, on both databases: they still run"
for database in sqlite postgres; do
    tests/support/postgres.sh run cargo test --workspace --quiet --bench load -- "$database" --records 10000 --seconds 1 || passed=$?
done
say "network tests with a real PLC, PDS and Jetstream, on SQLite and PostgreSQL"
tests/support/postgres.sh run cargo test --workspace --test network -- --show-output || passed=$?
say "example apps, each with a server and its stand-in network"
node --test --test-reporter=spec examples/*/test.mjs || passed=$?
# Not beside the network tests: pages wait for at most half a minute for what many networks on two cores may take longer for.
# A file's stories wait for a person's typing and for restarts, so three files keep two cores busy.
say "browser tests of the dashboard on the real network, the main stories on both databases"
MIGRATE_WITH=$CARGO_TARGET_DIR/debug/belvedere tests/support/postgres.sh run node --test --test-reporter=spec --test-concurrency=3 tests/browser/*.test.mjs || passed=$?
exit "$passed"
