#!/bin/sh
# Build plugins: those of plugins/ and tests/plugins/, or the named ones.
#   sh dev/plugins.sh [NAME...]
# Writes $CARGO_TARGET_DIR/plugins/NAME/{manifest.json,plugin.wasm}. Idempotent, and quick when nothing changed.
set -eu
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/wasm_rust.sh"

OUT=$CARGO_TARGET_DIR/plugins
# Other flags and another compiler than the server's.
RUST_TARGET_DIR=$CARGO_TARGET_DIR/plugins-rust
# The tool for plugins in JavaScript; the clones share it. Its version is pinned by the lock file.
JS_TOOLS=$CACHE/js-tools-$(sha256sum "$ROOT/plugins/js-tools/package-lock.json" | cut -c 1-16)

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
        find "$1" "$ROOT/wit/plugin" "$ROOT/plugins/sdk" "$ROOT/host/plugin-pack" "$ROOT/plugins/Cargo.toml" \
            "$ROOT/plugins/Cargo.lock" "$ROOT/Cargo.lock" "$ROOT/plugins/js-tools" "$ROOT/dev/plugins.sh" \
            "$ROOT/dev/wasm_rust.sh" \
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

# js_tools: install the tool for plugins in JavaScript.
js_tools() {
    need node "Node.js 20 or newer is needed for plugins in JavaScript (package nodejs)"
    need npm "npm is needed for plugins in JavaScript"
    [ ! -f "$JS_TOOLS/complete" ] || return 0
    say "installing componentize-js with npm (some 400 MB, once)"
    rm -rf "$JS_TOOLS"
    mkdir -p "$JS_TOOLS"
    cp "$ROOT/plugins/js-tools/package.json" "$ROOT/plugins/js-tools/package-lock.json" "$JS_TOOLS"
    # Not npm ci: it wants the packages of all platforms in the lock file, and the registry has not all of them.
    (cd "$JS_TOOLS" && npm install --no-audit --no-fund --no-save >log 2>&1) ||
        { tail -5 "$JS_TOOLS/log" >&2; fail "npm could not install componentize-js"; }
    touch "$JS_TOOLS/complete"
}

# build_js NAME FOLDER: make a component of a plugin in JavaScript and its world, FOLDER/wit. Without the features of the
# engine that need WASI, the component imports only what the world does.
build_js() {
    js_tools
    say "compiling plugin: $1"
    work=$OUT/$1/build
    rm -rf "$work"
    mkdir -p "$work/wit/deps"
    cp "$2"/wit/*.wit "$work/wit"
    cp -R "$ROOT/wit/plugin" "$work/wit/deps/plugin"
    main=$(sed -n 's/.*"main": *"\([^"]*\)".*/\1/p' "$2/package.json")
    "$JS_TOOLS/node_modules/.bin/componentize-js" "$2/$main" --wit "$work/wit" --world-name plugin \
        --disable stdio random clocks http fetch-event --out "$work/module.wasm" >"$work/log" 2>&1 ||
        { tail -20 "$work/log" >&2; fail "plugin $1 does not compile"; }
}

# finish NAME FOLDER MODULE: write what belongs to the plugin, last the mark that it is complete.
finish() {
    mkdir -p "$OUT/$1"
    rm -f "$OUT/$1/.inputs"
    pack "$3" "$OUT/$1/plugin.wasm"
    cp "$2/manifest.json" "$OUT/$1/manifest.json"
    inputs "$2" >"$OUT/$1/.inputs"
}

# Clones that share the target directory build one after the other.
mkdir -p "$OUT"
exec 9>"$OUT/.lock"
flock 9

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
for name in $js; do
    build_js "$name" "$(folder "$name")"
    finish "$name" "$(folder "$name")" "$OUT/$name/build/module.wasm"
    rm -rf "$OUT/$name/build"
done
