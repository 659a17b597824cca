#!/bin/sh
# make lint: the checks of make test that run no code, the rules for dependencies (deny.toml), and the advisories, which
# need the network.
set -eu
. "$(dirname "$0")/lib.sh"

sh "$ROOT/dev/setup.sh" build
cd "$ROOT"
cargo clippy --workspace --all-targets -- --deny warnings
(cd plugins && cargo clippy --workspace --all-targets --locked -- --deny warnings)
sh dev/rules.sh
# A mutant that fits no source tests nothing.
python3 dev/mutants.py check
# A debug build: cargo-deny runs for seconds, while building it takes minutes, also without optimisation.
cargo_tool cargo-deny deny --debug
cargo deny --workspace --log-level error check bans licenses sources
# The advisory database is a git repository, which not every machine can fetch. An older copy is better than none. Without
# any copy, tests/integration/dependencies.rs still checks the advisories that it lists.
databases=${CARGO_HOME:-$HOME/.cargo}/advisory-dbs
if timeout 120 cargo deny --workspace fetch db >/dev/null 2>&1; then
    cargo deny --workspace check advisories
elif find "$databases" -name 'RUSTSEC-*' 2>/dev/null | grep -q .; then
    say "the advisory database can't be fetched: checking with the copy in $databases, which may be old"
    cargo deny --workspace --offline check advisories
else
    say "NOT CHECKED: advisories. The database (https://github.com/RustSec/advisory-db) can't be fetched here"
fi
