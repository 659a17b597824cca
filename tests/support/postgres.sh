#!/usr/bin/env bash
# A private PostgreSQL for tests: in a new directory, on a free loopback port, without durability.
#
#   postgres.sh run COMMAND…   start one, run COMMAND with BELVEDERE_TEST_POSTGRES_URL set, stop and remove it
#                              POSTGRES_OPTIONS: more options of the server, as `-c shared_buffers=2GB`
#                              MIGRATE_WITH: a belvedere binary; it makes databases that the tests copy, so that not
#                              each of them runs all migrations (tests/standins/database.rs)
#   postgres.sh shared         start one that test processes of this checkout share (or find it running), and print
#                              its URL and the file to lock (shared) while using it. It stops and removes
#                              itself a minute after the last lock is released.
#   postgres.sh server DIR     start one in the new directory DIR, for a test that restarts or replicates it; prints
#                              its URL
#   postgres.sh replica DIR URL [NAME=VALUE…]
#                              start a streaming replica of the server at URL, with more settings; prints its URL
#   postgres.sh signal DIR NAME, again DIR, promote DIR, remove DIR
#                              send a signal to all of its processes; start it after it has ended; end its recovery; stop
#                              it and remove the directory
#
# As root the server runs as the user `postgres` (PostgreSQL refuses to run as root).
set -euo pipefail

fail() { echo "postgres.sh: $*" >&2; exit 3; }

bin=${BELVEDERE_POSTGRES_BIN:-}
if [ -z "$bin" ]; then
    for candidate in /usr/lib/postgresql/*/bin /usr/local/pgsql/bin "$(pg_config --bindir 2>/dev/null || true)"; do
        if [ -x "$candidate/initdb" ]; then bin=$candidate; fi
    done
fi
if [ ! -x "$bin/initdb" ]; then
    fail "PostgreSQL 15 or newer is needed for the tests: apt-get install postgresql-15, or name the folder of initdb in BELVEDERE_POSTGRES_BIN"
fi

user=
if [ "$(id -u)" = 0 ]; then
    user=postgres
    id "$user" >/dev/null 2>&1 || user=nobody
fi

# Many small databases are faster in memory than on a disk.
tmp=${TMPDIR:-/tmp}
if [ -z "${TMPDIR:-}" ] && [ -d /dev/shm ] && [ -w /dev/shm ]; then tmp=/dev/shm; fi

# Runs a command as the server's user, in a directory that this user can access.
as_server() {
    cd /
    if [ -n "$user" ]; then
        setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups -- "$@"
    else
        "$@"
    fi
}

own() { if [ -n "$user" ]; then chown "$user" "$@"; fi; }

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Creates and starts a server in the directory $1; writes its URL to $1/url.
start() {
    local dir=$1
    mkdir -p "$dir/data"
    chmod 700 "$dir/data"
    own "$dir" "$dir/data"
    # A collation other than C, so that tests fail when a comparison lacks COLLATE "C".
    local options=(--pgdata="$dir/data" --username=belvedere --auth=trust --encoding=UTF8 --no-sync --no-instructions)
    (as_server "$bin/initdb" "${options[@]}" --locale=C.UTF-8 --locale-provider=icu --icu-locale=en >"$dir/initdb.log" 2>&1) ||
        (rm -rf "$dir/data"/*; as_server "$bin/initdb" "${options[@]}" --locale=C.UTF-8 >>"$dir/initdb.log" 2>&1) ||
        { cat "$dir/initdb.log" >&2; fail "initdb failed"; }
    # No connection needs a password, except to one database, for the tests of passwords.
    sed -i '1i host password_only all 127.0.0.1/32 scram-sha-256' "$dir/data/pg_hba.conf"
    launch "$dir"
}

# Starts the server whose data are in the directory $1, on a free port, with the further settings NAME=VALUE.
launch() {
    local dir=$1 port settings=
    shift
    for setting in "$@"; do settings="$settings -c $setting"; done
    # Another process may take the port before the server starts: then try again.
    for _ in 1 2 3; do
        port=$(free_port)
        echo "-p $port -k $dir -c listen_addresses=127.0.0.1 -c fsync=off -c synchronous_commit=off \
            -c full_page_writes=off -c max_connections=300 -c shared_buffers=64MB -c autovacuum=off $settings ${POSTGRES_OPTIONS:-}" >"$dir/options"
        if launch_again "$dir"; then
            echo "postgres://belvedere@127.0.0.1:$port/postgres" >"$dir/url"
            return
        fi
    done
    cat "$dir/initdb.log" "$dir/data/server.log" >&2 || true
    fail "the server did not start"
}

launch_again() {
    (as_server "$bin/pg_ctl" --pgdata="$1/data" --log="$1/data/server.log" --wait --timeout=30 --silent start \
        -o "$(cat "$1/options")" >>"$1/initdb.log" 2>&1 9>&- </dev/null)
}

# Starts a replica of the server at the URL $2 in the directory $1.
replicate() {
    local dir=$1 primary=$2
    shift 2
    mkdir -p "$dir"
    own "$dir"
    (as_server "$bin/pg_basebackup" --dbname="$primary" --pgdata="$dir/data" --write-recovery-conf --wal-method=stream \
        --checkpoint=fast --no-sync >"$dir/initdb.log" 2>&1) || { cat "$dir/initdb.log" >&2; fail "pg_basebackup failed"; }
    launch "$dir" "$@"
}

# Sends the signal $2 to the server in the directory $1: first to the process that starts others.
send_signal() {
    local main
    main=$(head -n 1 "$1/data/postmaster.pid")
    # Some of them may have ended.
    kill "-$2" "$main"
    for process in $(ps -o pid= --ppid "$main"); do kill "-$2" "$process" 2>/dev/null || true; done
}

stop() {
    (as_server "$bin/pg_ctl" --pgdata="$1/data" --mode=immediate --wait --silent stop >/dev/null 2>&1) || true
    rm -rf "$1"
}

# Waits until the server in the directory $1, which was killed, has ended. The process may stay in the table of processes for
# a while, and PostgreSQL would take it for another server.
await_end() {
    local main
    [ -f "$1/data/postmaster.pid" ] || return 0
    main=$(head -n 1 "$1/data/postmaster.pid")
    while kill -0 "$main" 2>/dev/null && [ "$(ps -o stat= -p "$main" | cut -c1)" != Z ]; do sleep 0.05; done
    rm -f "$1/data/postmaster.pid" "$1"/.s.PGSQL.*.lock
}

alive() {
    [ -f "$1/url" ] && (as_server "$bin/pg_ctl" --pgdata="$1/data" status >/dev/null 2>&1)
}

case ${1:-} in
run)
    shift
    dir=$(mktemp -d "$tmp/belvedere-pg.XXXXXX")
    trap 'stop "$dir"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    start "$dir"
    url=$(cat "$dir/url")
    if [ -n "${MIGRATE_WITH:-}" ]; then
        templates=$(mktemp -d "$tmp/belvedere-templates.XXXXXX")
        trap 'stop "$dir"; rm -rf "$templates"' EXIT
        (as_server "$bin/psql" --quiet --dbname="$url" --command='CREATE DATABASE migrated')
        for template in "${url%/*}/migrated" "sqlite://$templates/migrated.db"; do
            DATABASE_URL=$template "$MIGRATE_WITH" migrate >"$templates/log" 2>&1 || { cat "$templates/log" >&2; fail "the migrations failed"; }
        done
        export BELVEDERE_TEST_POSTGRES_TEMPLATE=migrated BELVEDERE_TEST_SQLITE_TEMPLATE=$templates/migrated.db
    fi
    BELVEDERE_TEST_POSTGRES_URL=$url "$@"
    ;;
shared)
    # One per user and checkout.
    checkout=$(cd "$(dirname "$0")/../.." && pwd)
    base=$tmp/belvedere-pg-$(id -u)-$(echo "$checkout" | cksum | cut -d' ' -f1)
    mkdir -p "$base"
    chmod 711 "$base"
    exec 9>"$base/lock"
    flock 9
    touch "$base/users"
    dir=$base/server
    if ! alive "$dir"; then
        rm -rf "$dir"
        mkdir "$dir"
        start "$dir"
        # The watchdog takes the lock before it stops the server, so no test process is given a stopping server.
        (
            exec >/dev/null 2>&1 </dev/null 9>&-
            trap '' HUP INT
            idle=0
            while sleep 5; do
                alive "$dir" || exit 0
                if flock --nonblock --exclusive "$base/users" true; then idle=$((idle + 1)); else idle=0; fi
                if [ "$idle" -ge 12 ]; then
                    exec 8>"$base/lock"
                    flock 8
                    if flock --nonblock --exclusive "$base/users" true; then
                        stop "$dir"
                        exit 0
                    fi
                    exec 8>&-
                    idle=0
                fi
            done
        ) &
        disown
    fi
    cat "$dir/url"
    echo "$base/users"
    ;;
server)
    start "$2"
    cat "$2/url"
    ;;
replica)
    replicate "${@:2}"
    cat "$2/url"
    ;;
signal)
    send_signal "$2" "$3"
    ;;
again)
    await_end "$2"
    launch_again "$2" || fail "the server did not start again"
    ;;
promote)
    as_server "$bin/pg_ctl" --pgdata="$2/data" --wait --silent promote
    ;;
remove)
    # A stopped process could not end.
    send_signal "$2" CONT 2>/dev/null || true
    stop "$2"
    ;;
*)
    echo "usage: postgres.sh run COMMAND… | postgres.sh shared | postgres.sh server|replica|signal|again|promote|remove DIR …" >&2
    exit 2
    ;;
esac
