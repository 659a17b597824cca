#!/bin/sh
# make fuzz: every target for FUZZ_SECONDS (default 30). Needs a nightly-only flag, which RUSTC_BOOTSTRAP allows on
# the stable compiler.
set -eu
. "$(dirname "$0")/lib.sh"

sh "$ROOT/xtask/setup.sh" build
cargo_tool cargo-fuzz fuzz
cd "$ROOT"
export RUSTC_BOOTSTRAP=1
for target in $(cargo fuzz list); do
    say "fuzz target $target"
    cargo fuzz run --sanitizer none "$target" -- -max_total_time="${FUZZ_SECONDS:-30}"
done
