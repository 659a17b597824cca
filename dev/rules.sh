#!/bin/sh
# What make test and make lint both check beside the code itself: links of the documentation, the shell scripts, and the
# dependency rules of deny.toml that need no network.
set -eu
. "$(dirname "$0")/lib.sh"

# It works for some seconds: to make it fast would cost minutes.
cargo_tool cargo-deny deny --debug
apt_install shellcheck
cd "$ROOT"
# Broken links are errors by the workspace's lints.
cargo doc --package belvedere --no-deps --document-private-items --quiet
(cd dev && shellcheck -x ./*.sh ../tests/support/*.sh ../.ci/run)
cargo deny --workspace --log-level error check bans licenses sources
