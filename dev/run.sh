#!/bin/sh
# make run: installs what is missing, builds, and starts the server. Arguments are passed to the server.
set -eu
. "$(dirname "$0")/lib.sh"

sh "$ROOT/dev/setup.sh" build
cd "$ROOT"
sh dev/dashboard.sh
cargo build --release --package belvedere
exec "$CARGO_TARGET_DIR/release/belvedere" "$@"
