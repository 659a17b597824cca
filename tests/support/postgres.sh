#!/usr/bin/env bash
# A private PostgreSQL for tests: in a new directory, on a free loopback port, without durability.
#
#   postgres.sh run COMMAND…   start one, run COMMAND with BELVEDERE_TEST_POSTGRES_URL set, stop and remove it
#                              POSTGRES_OPTIONS: more options of the server, as `-c shared_buffers=2GB`
#   postgres.sh shared         start one that test processes of this checkout share (or find it running), and print
#                              its URL and the file to lock (shared) while using it. It stops and removes
#                              itself a minute after the last lock is released.
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
    local dir=$1 port
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
    # Another process may take the port before the server starts: then try again.
    for _ in 1 2 3; do
        port=$(free_port)
        if (as_server "$bin/pg_ctl" --pgdata="$dir/data" --log="$dir/data/server.log" --wait --timeout=30 --silent start \
            -o "-p $port -k $dir -c listen_addresses=127.0.0.1 -c fsync=off -c synchronous_commit=off \
                -c full_page_writes=off -c max_connections=300 -c shared_buffers=64MB -c autovacuum=off ${POSTGRES_OPTIONS:-}" \
            >>"$dir/initdb.log" 2>&1 9>&- </dev/null); then
            echo "postgres://belvedere@127.0.0.1:$port/postgres" >"$dir/url"
            return
        fi
    done
    cat "$dir/initdb.log" "$dir/data/server.log" >&2 || true
    fail "the server did not start"
}

stop() {
    (as_server "$bin/pg_ctl" --pgdata="$1/data" --mode=immediate --wait --silent stop >/dev/null 2>&1) || true
    rm -rf "$1"
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
    BELVEDERE_TEST_POSTGRES_URL=$(cat "$dir/url") "$@"
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
*)
    echo "usage: postgres.sh run COMMAND… | postgres.sh shared" >&2
    exit 2
    ;;
esac
