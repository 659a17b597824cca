#!/bin/sh
# make bench: requests and events per CPU-second, beside bare baselines measured in the same run. Arguments go to the
# driver: [sqlite|postgres|all] [--records N] [--seconds N].
set -eu
. "$(dirname "$0")/lib.sh"

sh "$ROOT/dev/setup.sh" test
cd "$ROOT"
tests/support/postgres.sh run cargo bench --package belvedere --bench load -- "$@"
