#!/bin/sh
# make fuzz: every target of fuzz/ for FUZZ_SECONDS (default 30). libFuzzer needs compiler flags that only a nightly
# compiler takes, or a stable one that is told to (RUSTC_BOOTSTRAP).
set -eu
. "$(dirname "$0")/lib.sh"

sh "$ROOT/dev/setup.sh" build
cargo_tool cargo-fuzz fuzz
cd "$ROOT"
export RUSTC_BOOTSTRAP=1
# Its own target directory: the flags would make the normal one compile everything again.
CARGO_TARGET_DIR=$CACHE/fuzz
# The versions that we ship.
cp Cargo.lock fuzz/Cargo.lock
for target in $(cargo fuzz list); do
    say "fuzz target $target"
    # Without a sanitizer: the code is safe Rust, what is looked for are panics.
    # This one asks a real PostgreSQL as well.
    if [ "$target" = script_sql ]; then run="tests/support/postgres.sh run"; else run=; fi
    $run cargo fuzz run --sanitizer none "$target" -- -max_total_time="${FUZZ_SECONDS:-30}"
done
