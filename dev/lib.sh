# Shared by the scripts in this folder: where things are, how to say something, how to install a Debian package.
# shellcheck shell=sh

# shellcheck disable=SC2034 # the scripts that read this use it
ROOT=$(cd "$(dirname "$0")/.." && pwd)
CACHE=${BELVEDERE_CACHE:-$HOME/.cache/belvedere}
# One target directory for every clone: the dependencies (wasmtime alone is minutes) are compiled once.
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$CACHE/target}
export CARGO_TARGET_DIR

say() { printf '==> %s\n' "$*" >&2; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# need COMMAND MESSAGE
need() { command -v "$1" >/dev/null 2>&1 || fail "$2"; }

# as_root COMMAND...: run it with the rights to install packages.
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# may_install WHAT COMMAND: whoever is not root is asked before anything of the system changes; YES=1 says yes beforehand.
may_install() {
    if [ "$(id -u)" = 0 ]; then
        say "$1, with: $2"
        return 0
    fi
    command -v sudo >/dev/null 2>&1 || fail "not root and no sudo: run as root: $2"
    say "$1, with: sudo $2"
    [ "${YES:-}" != 1 ] || return 0
    [ -t 0 ] || fail "nobody is there to agree: run it yourself, or start again with YES=1"
    printf 'Go on? [y/N] ' >&2
    read -r answer
    case $answer in [yY]*) ;; *) fail "nothing was installed" ;; esac
}

# apt_install PACKAGE...: install Debian packages, saying which; a no-op for those that are there.
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
        # An empty or old package list is the usual reason.
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

# apt_has PACKAGE: whether the package lists know it; they are fetched when they don't.
apt_has() {
    command -v apt-cache >/dev/null 2>&1 || return 1
    apt-cache show "$1" >/dev/null 2>&1 && return 0
    may_install "looking for $1 in new package lists" "apt-get update"
    as_root apt-get update >/dev/null 2>&1 || true
    apt-cache show "$1" >/dev/null 2>&1
}

# Cargo subcommands that we install ourselves stay out of the user's own ~/.cargo/bin.
PATH=$PATH:$CACHE/tools/bin
export PATH

# cargo_tool CRATE SUBCOMMAND [OPTION...]: build the cargo subcommand unless it is there.
cargo_tool() {
    crate=$1
    cargo "$2" --version >/dev/null 2>&1 && return 0
    shift 2
    say "installing $crate with cargo (some minutes, once)"
    CARGO_TARGET_DIR=$CACHE/tools/target cargo install --locked --quiet --root "$CACHE/tools" "$@" "$crate" ||
        fail "cargo install $crate failed"
    rm -rf "$CACHE/tools/target"
}
