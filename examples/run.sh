#!/bin/sh
# Starts an example app with its page: sh examples/run.sh microblog|links|events [PORT]. Installs what is missing and builds first.
set -eu
EXAMPLES=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../dev/lib.sh
. "$EXAMPLES/../dev/lib.sh"

name=${1:-}
case $name in
microblog | links | events) ;;
*) fail "usage: sh examples/run.sh microblog|links|events [PORT]" ;;
esac
sh "$ROOT/dev/setup.sh" build
cd "$ROOT"
sh dev/dashboard.sh
cargo build --release --package belvedere
cargo build --release --package belvedere-standins --bin belvedere-network
BELVEDERE_BIN=$CARGO_TARGET_DIR/release exec node examples/run.mjs "$@"
