#!/bin/sh
# make bench: measures requests and events per CPU-second, and bare baselines in the same run to compare with. Arguments
# are passed to the load test: [sqlite|postgres|all] [--records N] [--seconds N].
set -eu
. "$(dirname "$0")/lib.sh"

sh "$ROOT/dev/setup.sh" test
cd "$ROOT"
sh dev/dashboard.sh
tests/support/postgres.sh run cargo bench --package belvedere --bench load -- "$@"
