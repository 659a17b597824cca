#!/bin/sh
# make lint: clippy, links of the documentation, shellcheck where it is installed, and the dependency rules of deny.toml.
set -eu
. "$(dirname "$0")/lib.sh"

sh "$ROOT/xtask/setup.sh" build
cargo_tool cargo-deny deny
cd "$ROOT"
cargo clippy --workspace --all-targets -- --deny warnings
# Broken links are errors by the workspace's lints.
cargo doc --package belvedere --no-deps --document-private-items --quiet
if command -v shellcheck >/dev/null 2>&1; then (cd xtask && shellcheck -x ./*.sh); fi
# The advisory database is a git repository: it is checked where the network allows it, not here.
cargo deny --workspace check bans licenses sources
