#!/bin/sh
# make bench: measures requests and events per CPU-second, and bare baselines in the same run to compare with. Arguments
# are passed to the load test: [sqlite|postgres|all] [--records N] [--seconds N].
set -eu
. "$(dirname "$0")/lib.sh"

sh "$ROOT/dev/setup.sh" test
cd "$ROOT"
sh dev/dashboard.sh
# A large index is not kept in memory, and PostgreSQL has the settings of an installation.
if [ "${1:-}" = scale ]; then
    export TMPDIR="${TMPDIR:-/var/tmp}"
    export POSTGRES_OPTIONS="-c shared_buffers=2GB -c effective_cache_size=8GB -c autovacuum=on -c max_wal_size=8GB -c maintenance_work_mem=512MB"
fi
tests/support/postgres.sh run cargo bench --package belvedere --bench load -- "$@"
