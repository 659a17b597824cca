#!/bin/sh
# make fuzz: runs every target of fuzz/ for FUZZ_SECONDS (default 30). libFuzzer needs unstable compiler flags, which
# RUSTC_BOOTSTRAP enables on a stable compiler.
set -eu
. "$(dirname "$0")/lib.sh"

sh "$ROOT/dev/setup.sh" build
cargo_tool cargo-fuzz fuzz
cd "$ROOT"
export RUSTC_BOOTSTRAP=1
# A separate target directory: in the normal one the flags would make every build compile everything again.
CARGO_TARGET_DIR=$CACHE/fuzz
# Fuzz the dependency versions that are shipped.
cp Cargo.lock fuzz/Cargo.lock
for target in $(cargo fuzz list); do
    say "fuzz target $target"
    # Without a sanitizer: the code is safe Rust, so the targets look for panics.
    # script_sql also uses a real PostgreSQL.
    if [ "$target" = script_sql ]; then run="tests/support/postgres.sh run"; else run=; fi
    $run cargo fuzz run --sanitizer none "$target" -- -max_total_time="${FUZZ_SECONDS:-30}"
done
