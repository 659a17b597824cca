#!/bin/sh
# Build plugins: those of plugins/ and tests/plugins/, or the named ones.
#   sh dev/plugins.sh [NAME...]
# Writes $CARGO_TARGET_DIR/plugins/NAME/{manifest.json,plugin.wasm}. Idempotent, and quick when nothing changed.
set -eu
. "$(dirname "$0")/lib.sh"
. "$ROOT/dev/wasm_rust.sh"

OUT=$CARGO_TARGET_DIR/plugins
# Other flags and another compiler than the server's.
RUST_TARGET_DIR=$CARGO_TARGET_DIR/plugins-rust
JS_TOOLS=$CACHE/js

# folder NAME: the plugin's folder.
folder() {
    for parent in plugins tests/plugins; do
        if [ -f "$ROOT/$parent/$1/manifest.json" ]; then
            printf '%s\n' "$ROOT/$parent/$1"
            return 0
        fi
    done
    fail "there is no plugin $1: neither plugins/$1/manifest.json nor tests/plugins/$1/manifest.json exists"
}

all_plugins() {
    for manifest in "$ROOT"/plugins/*/manifest.json "$ROOT"/tests/plugins/*/manifest.json; do
        [ ! -f "$manifest" ] || basename "$(dirname "$manifest")"
    done
}

# inputs FOLDER: a hash of everything that the plugin is made of.
inputs() {
    {
        rustc --version
        find "$1" "$ROOT/wit/plugin" "$ROOT/plugins/sdk" "$ROOT/plugin-pack" "$ROOT/plugins/Cargo.toml" \
            "$ROOT/plugins/Cargo.lock" "$ROOT/dev/plugins.sh" "$ROOT/dev/wasm_rust.sh" \
            -name node_modules -prune -o -type f -print | LC_ALL=C sort | while read -r file; do
            sha256sum "$file"
        done
    } | sha256sum | cut -d ' ' -f 1
}

# pack MODULE OUT: make a component of a module.
pack() {
    (cd "$ROOT" && cargo build --quiet --package belvedere-plugin-pack)
    "$CARGO_TARGET_DIR/debug/belvedere-plugin-pack" "$1" "$2"
}

# build_rust NAME...: compile the plugins together.
build_rust() {
    wasm_rust
    say "compiling plugins: $*"
    packages=
    for name in "$@"; do packages="$packages --package plugin-$name"; done
    # shellcheck disable=SC2086 # one word per option
    (cd "$ROOT/plugins" && CARGO_TARGET_DIR=$RUST_TARGET_DIR wasm_cargo build --quiet --release --locked $packages) ||
        fail "a plugin does not compile"
}

# finish NAME FOLDER MODULE: write what belongs to the plugin, last the mark that it is complete.
finish() {
    mkdir -p "$OUT/$1"
    rm -f "$OUT/$1/.inputs"
    pack "$3" "$OUT/$1/plugin.wasm"
    cp "$2/manifest.json" "$OUT/$1/manifest.json"
    inputs "$2" >"$OUT/$1/.inputs"
}

rust=
js=
# shellcheck disable=SC2046 # one word per plugin
[ $# -gt 0 ] || set -- $(all_plugins)
for name in "$@"; do
    from=$(folder "$name")
    [ "$(cat "$OUT/$name/.inputs" 2>/dev/null)" != "$(inputs "$from")" ] || continue
    if [ -f "$from/Cargo.toml" ]; then rust="$rust $name"
    elif [ -f "$from/package.json" ]; then js="$js $name"
    else fail "$from has neither Cargo.toml nor package.json"
    fi
done
if [ -n "$rust" ]; then
    # shellcheck disable=SC2086 # one word per plugin
    build_rust $rust
    for name in $rust; do
        module=plugin_$(printf %s "$name" | tr - _).wasm
        finish "$name" "$(folder "$name")" "$RUST_TARGET_DIR/wasm32-unknown-unknown/release/$module"
    done
fi
