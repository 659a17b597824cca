# Shared by the scripts in this folder: paths, messages, and installing Debian packages and cargo tools.
# shellcheck shell=sh

# shellcheck disable=SC2034 # the scripts that read this use it
ROOT=$(cd "$(dirname "$0")/.." && pwd)
CACHE=${BELVEDERE_CACHE:-$HOME/.cache/belvedere}
# All clones share one target directory, so that the dependencies are compiled once (wasmtime alone takes minutes).
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$CACHE/target}
export CARGO_TARGET_DIR

say() { printf '==> %s\n' "$*" >&2; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# need COMMAND MESSAGE
need() { command -v "$1" >/dev/null 2>&1 || fail "$2"; }

# as_root COMMAND...: run a command as root.
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# may_install WHAT COMMAND: a user who is not root must confirm before the system is changed; YES=1 confirms in advance.
may_install() {
    if [ "$(id -u)" = 0 ]; then
        say "$1, with: $2"
        return 0
    fi
    command -v sudo >/dev/null 2>&1 || fail "not root and no sudo: run as root: $2"
    say "$1, with: sudo $2"
    [ "${YES:-}" != 1 ] || return 0
    [ -t 0 ] || fail "can't ask for confirmation without a terminal: run it yourself, or start again with YES=1"
    printf 'Continue? [y/N] ' >&2
    read -r answer
    case $answer in [yY]*) ;; *) fail "nothing was installed" ;; esac
}

# apt_install PACKAGE...: install the Debian packages that are missing, and print their names.
apt_install() {
    missing=
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null 2>&1 ||
        fail "this system has no apt-get: install the equivalents of:$missing"
    may_install "installing Debian packages:$missing" "apt-get install --no-install-recommends$missing"
    log=$(mktemp)
    # shellcheck disable=SC2086 # one word per package
    if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing >"$log" 2>&1; then
        # The usual reason is an empty or old package list: update it and try again.
        # shellcheck disable=SC2086
        if ! { as_root apt-get update && as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
            tail -20 "$log" >&2
            rm -f "$log"
            fail "apt-get could not install:$missing"
        fi
    fi
    rm -f "$log"
}

# apt_has PACKAGE: whether the package lists have it. Updates the lists once if they don't.
apt_has() {
    command -v apt-cache >/dev/null 2>&1 || return 1
    apt-cache show "$1" >/dev/null 2>&1 && return 0
    may_install "looking for $1 in new package lists" "apt-get update"
    as_root apt-get update >/dev/null 2>&1 || true
    apt-cache show "$1" >/dev/null 2>&1
}

# Cargo subcommands that these scripts install go here instead of the user's ~/.cargo/bin.
PATH=$PATH:$CACHE/tools/bin
export PATH

# cargo_tool CRATE SUBCOMMAND [OPTION...]: install a cargo subcommand from source unless it is installed.
cargo_tool() {
    crate=$1
    cargo "$2" --version >/dev/null 2>&1 && return 0
    shift 2
    say "installing $crate with cargo (some minutes, once)"
    CARGO_TARGET_DIR=$CACHE/tools/target cargo install --locked --quiet --root "$CACHE/tools" "$@" "$crate" ||
        fail "cargo install $crate failed"
    rm -rf "$CACHE/tools/target"
}
