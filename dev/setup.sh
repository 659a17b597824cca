#!/bin/sh
# Install the tools that a task needs. Idempotent, and quick when nothing is missing.
#   sh dev/setup.sh build|test
# build: the compilers of the server and the Lua guest. test: those, PostgreSQL and nextest (dev/browser.sh has the rest).
set -eu
. "$(dirname "$0")/lib.sh"

# The first clang that emits the WebAssembly exception encoding of the guest.
CLANG_OLDEST=20
# The version that is installed. The figures in docs/performance.md were measured with it.
CLANG_WANTED=22

clang_major() { "$1" --version 2>/dev/null | sed -n 's/.*clang version \([0-9]*\).*/\1/p' | head -n 1; }

setup_build() {
    need cargo "Rust is needed: https://rustup.rs (version $(rust_wanted) or newer)"
    have=$(cargo --version | sed 's/cargo \([0-9]*\.[0-9]*\).*/\1/')
    [ -n "$have" ] || fail "cargo does not run: rustup has no toolchain for this HOME (rustup default stable)"
    [ "$(printf '%s\n%s\n' "$(rust_wanted)" "$have" | sort -V | head -n 1)" = "$(rust_wanted)" ] ||
        fail "Rust $have is too old: $(rust_wanted) or newer is needed (rustup update stable)"
    command -v cc >/dev/null 2>&1 || apt_install gcc libc6-dev

    # WASM_CC may name another clang, of which only the version is checked.
    if [ -n "${WASM_CC:-}" ]; then
        major=$(clang_major "$WASM_CC")
        [ -n "$major" ] || fail "WASM_CC=$WASM_CC is not a clang"
        [ "$major" -ge $CLANG_OLDEST ] || fail "WASM_CC=$WASM_CC is clang $major, which can't compile the Lua guest: \
$CLANG_OLDEST or newer is needed. Unset it to have clang-$CLANG_WANTED installed"
    elif ! { command -v clang-$CLANG_WANTED && command -v wasm-ld-$CLANG_WANTED && wasm_runtime; } >/dev/null 2>&1; then
        if ! apt_has clang-$CLANG_WANTED; then
            fail "the Lua guest needs clang $CLANG_OLDEST or newer$(old_clang), and this system's package lists have no \
clang-$CLANG_WANTED. Add LLVM's packages (https://apt.llvm.org), then: \
apt-get install clang-$CLANG_WANTED lld-$CLANG_WANTED libclang-rt-$CLANG_WANTED-dev-wasm32 wasi-libc; \
or name another clang in WASM_CC"
        fi
        apt_install clang-$CLANG_WANTED lld-$CLANG_WANTED libclang-rt-$CLANG_WANTED-dev-wasm32
    fi
    [ -d /usr/include/wasm32-wasi ] || apt_install wasi-libc
    renew_sqlite
}

# renew_sqlite: SQLite's options are in .cargo/config.toml, and Cargo keeps what it has compiled with others.
renew_sqlite() {
    options=$(sed -n 's/^LIBSQLITE3_FLAGS = //p' "$ROOT/.cargo/config.toml")
    compiled_with=$CARGO_TARGET_DIR/.sqlite-options
    [ "$(cat "$compiled_with" 2>/dev/null)" != "$options" ] || return 0
    if [ -d "$CARGO_TARGET_DIR" ]; then
        say "SQLite's options have changed: it is compiled again"
        (cd "$ROOT" && cargo clean --quiet --package libsqlite3-sys && cargo clean --quiet --release --package libsqlite3-sys)
    fi
    mkdir -p "$CARGO_TARGET_DIR"
    printf '%s\n' "$options" >"$compiled_with"
}

wasm_runtime() { find /usr/lib/llvm-$CLANG_WANTED/lib/clang -name 'libclang_rt.builtins*.a' -path '*wasm32*' | grep -q .; }

old_clang() {
    major=$(clang_major clang)
    [ -z "$major" ] || printf ' (the clang here is %s)' "$major"
}

rust_wanted() { sed -n 's/^rust-version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml"; }

setup_test() {
    setup_build
    if ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then
        # The tests create their own clusters, so keep the package from creating one.
        if [ "$(id -u)" = 0 ] && [ ! -e /etc/postgresql-common/createcluster.conf ]; then
            mkdir -p /etc/postgresql-common
            echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
        fi
        if apt_has postgresql-15; then apt_install postgresql-15; else apt_install postgresql; fi
    fi
    sh "$ROOT/dev/network.sh" system
    cargo_tool cargo-nextest nextest
}

case ${1:-} in
build) setup_build ;;
test) setup_test ;;
*) fail "usage: dev/setup.sh build|test" ;;
esac
