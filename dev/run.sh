#!/bin/sh
# make run: from a bare machine to a running server. Arguments go to the server.
set -eu
. "$(dirname "$0")/lib.sh"

sh "$ROOT/dev/setup.sh" build
cd "$ROOT"
cargo build --release --package belvedere
exec "$CARGO_TARGET_DIR/release/belvedere" "$@"
