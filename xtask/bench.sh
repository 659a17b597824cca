#!/bin/sh
# make bench: requests and events per CPU-second, beside bare baselines measured in the same run. Arguments go to the
# driver: `sh xtask/bench.sh --help`.
set -eu
. "$(dirname "$0")/lib.sh"

sh "$ROOT/xtask/setup.sh" test
cd "$ROOT"
cargo bench --package belvedere --bench load -- "$@"
