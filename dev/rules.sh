#!/bin/sh
# Checks that make test and make lint share: links in the documentation, and the shell scripts.
set -eu
. "$(dirname "$0")/lib.sh"

apt_install shellcheck
cd "$ROOT"
# The workspace's lints make broken links errors.
cargo doc --workspace --no-deps --document-private-items --quiet
(cd dev && shellcheck -x ./*.sh ../tests/support/*.sh ../examples/run.sh ../.ci/run)
