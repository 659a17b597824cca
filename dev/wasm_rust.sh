# Shared by the scripts that compile Rust for wasm32-unknown-unknown: finds or installs its standard library.
# shellcheck shell=sh

WASM_TARGET=wasm32-unknown-unknown
# How long rustup may try: where it can't reach its server it hangs.
RUSTUP_SECONDS=60
# Where Debian's compiler is unpacked, if it is needed.
DEBIAN_RUST=$CACHE/rust-wasm
# The oldest Rust that compiles the plugins (rust-version in plugins/Cargo.toml).
DEBIAN_RUST_OLDEST=1.88

# has_wasm_std: whether the toolchain has the standard library.
has_wasm_std() { ls "$(rustc --print sysroot)/lib/rustlib/$WASM_TARGET"/lib/libstd-*.rlib >/dev/null 2>&1; }

# wasm_rust: finds the standard library, or installs it. Defines how wasm_cargo runs.
wasm_rust() {
    WASM_RUST=toolchain
    has_wasm_std && return 0
    if command -v rustup >/dev/null 2>&1; then
        say "installing the standard library for $WASM_TARGET, with: rustup target add"
        if timeout "$RUSTUP_SECONDS" rustup target add "$WASM_TARGET" >/dev/null 2>&1 && has_wasm_std; then
            return 0
        fi
        say "rustup can't install it here"
    fi
    debian_rust
    WASM_RUST=debian
}

# debian_rust: unpacks Debian's compiler for WebAssembly with the sources of its standard library into a private folder.
# Nothing is installed in the system.
debian_rust() {
    [ ! -f "$DEBIAN_RUST/complete" ] || return 0
    apt_has rustc-web || fail "Rust's standard library for $WASM_TARGET is needed: rustup target add $WASM_TARGET"
    version=$(apt-cache show rustc-web | sed -n 's/^Version: \([0-9]*\.[0-9]*\).*/\1/p' | sort -V | tail -n 1)
    [ "$(printf '%s\n%s\n' "$DEBIAN_RUST_OLDEST" "$version" | sort -V | head -n 1)" = "$DEBIAN_RUST_OLDEST" ] ||
        fail "Debian's rustc-web $version is too old, and rustup can't install the standard library for $WASM_TARGET"
    say "unpacking Debian's Rust $version for WebAssembly into $DEBIAN_RUST (110 MB of packages, once)"
    rm -rf "$DEBIAN_RUST"
    mkdir -p "$DEBIAN_RUST/packages"
    (
        cd "$DEBIAN_RUST/packages" || exit 1
        # apt's own user can't write here, which it warns about.
        apt-get download rustc-web "libstd-rust-web-$version" libstd-rust-web-dev rust-web-src >log 2>&1 ||
            { tail -5 log >&2; fail "apt-get could not download Debian's Rust for WebAssembly"; }
        for package in ./*.deb; do dpkg -x "$package" "$DEBIAN_RUST"; done
    )
    rm -rf "$DEBIAN_RUST/packages"
    touch "$DEBIAN_RUST/complete"
}

# wasm_cargo COMMAND OPTION...: cargo for the target. Call wasm_rust before.
wasm_cargo() {
    command=$1
    shift
    if [ "$WASM_RUST" = toolchain ]; then
        cargo "$command" --target "$WASM_TARGET" "$@"
        return
    fi
    libraries=$DEBIAN_RUST/usr/lib
    for folder in "$libraries"/*-linux-gnu; do libraries=$libraries:$folder; done
    # Debian's package has no compiled standard library for this target, so cargo compiles it from source, which only an
    # unstable option does. The linker is the one of the Lua guest (dev/setup.sh).
    linker=$(wasm_linker) || exit 1
    LD_LIBRARY_PATH=$libraries RUSTC=$DEBIAN_RUST/usr/bin/rustc RUSTC_BOOTSTRAP=1 \
        CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$linker \
        cargo "$command" --target "$WASM_TARGET" -Zbuild-std=std,panic_abort "$@"
}

wasm_linker() {
    for linker in wasm-ld-22 wasm-ld; do
        if command -v $linker; then return 0; fi
    done
    fail "wasm-ld is needed: sh dev/setup.sh build"
}
