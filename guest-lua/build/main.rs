//! Builds the Lua guest from source. Each step is a module: `bindings` and `glue` generate C from the contract, `lua`
//! finds Lua's own sources, `patches` changes them, `unit` joins all C into one translation unit, `clang` compiles it, and
//! `component` encodes a component that imports nothing but the contract.

#![expect(clippy::disallowed_methods, reason = "cargo gives a build script its arguments in the environment")]
#![expect(clippy::print_stdout, reason = "a build script sends its instructions to cargo on stdout")]

mod bindings;
mod clang;
mod component;
mod glue;
mod lua;
mod patches;
mod unit;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// C files that are compiled separately, not as part of the unit.
const RUNTIME: [&str; 3] = ["sjlj.c", "memory.c", "libc.c"];

fn main() -> Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").context("CARGO_MANIFEST_DIR is not set")?);
    let out = PathBuf::from(env::var_os("OUT_DIR").context("OUT_DIR is not set")?);
    let (wit, c, prelude) = (here.join("../wit"), here.join("c"), here.join("prelude"));
    for folder in [&wit, &c, &prelude] {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-env-changed=WASM_CC");

    let (mut resolve, world) = bindings::resolve(&wit)?;
    bindings::generate(&mut resolve, world, &out)?;
    fs::write(out.join("glue.c"), glue::generate(&resolve, world)?)?;
    let lua = lua::sources(&here.join(".."), &out)?;
    patches::patch(&lua, &out)?;
    let unit = unit::write(&unit::Folders { lua: &lua, ours: &c, prelude: &prelude, out: &out })?;

    let component = component::encode(&fs::read(build(&out, &c, lua, &unit)?)?)?;
    fs::write(out.join("guest.wasm"), &component)?;
    println!("cargo::rustc-env=BELVEDERE_GUEST_HASH={}", component::hash(&component));
    Ok(())
}

/// Compiles and links. Returns the path of the core module.
fn build(out: &Path, c: &Path, lua: PathBuf, unit: &Path) -> Result<PathBuf> {
    let runtime = c.join("runtime");
    let clang = clang::Clang::find(vec![runtime.clone(), c.to_owned(), lua, out.to_owned()])?;
    let mut objects = vec![out.join("guest_component_type.o")];
    for source in [unit, &out.join("guest.c")] {
        let object = source.with_extension("o");
        clang.compile(source, &object)?;
        objects.push(object);
    }
    for name in RUNTIME {
        let object = out.join(format!("runtime_{name}.o"));
        clang.compile_runtime(&runtime.join(name), &object)?;
        objects.push(object);
    }
    let tag = out.join("tag.o");
    clang.compile_runtime(&runtime.join("tag.S"), &tag)?;
    objects.push(tag);
    let module = out.join("core.wasm");
    clang.link(&objects, &module)?;
    Ok(module)
}
