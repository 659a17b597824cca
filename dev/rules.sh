#!/bin/sh
# Checks that make test and make lint share: links in the documentation, the shell scripts, and the dependency rules of
# deny.toml that need no network.
set -eu
. "$(dirname "$0")/lib.sh"

# A debug build: cargo-deny runs for seconds, while an optimised build would take minutes.
cargo_tool cargo-deny deny --debug
apt_install shellcheck
cd "$ROOT"
# The workspace's lints make broken links errors.
cargo doc --package belvedere --no-deps --document-private-items --quiet
(cd dev && shellcheck -x ./*.sh ../tests/support/*.sh ../.ci/run)
cargo deny --workspace --log-level error check bans licenses sources
