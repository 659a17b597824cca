//! Builds the Lua guest from source, and a second one that also counts instructions by line, for profiles. Each step is a
//! module: `bindings` and `glue` generate C from the contract, `lua` finds Lua's own sources, `patches` changes them, `unit`
//! joins all C into one translation unit, `clang` compiles it, and `component` encodes a component that imports nothing but the contract.

#![expect(clippy::disallowed_methods, reason = "cargo gives a build script its arguments in the environment")]
#![expect(clippy::print_stdout, reason = "a build script sends its instructions to cargo on stdout")]

mod bindings;
mod clang;
mod component;
mod gathered;
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
    let runtime = c.join("runtime");
    let clang = clang::Clang::find(vec![runtime.clone(), c.clone(), lua.clone(), out.clone()])?;
    let shared = shared_objects(&clang, &runtime, &out)?;
    for (name, variable, profiled) in
        [("guest", "BELVEDERE_GUEST_HASH", false), ("profiled_guest", "BELVEDERE_PROFILED_GUEST_HASH", true)]
    {
        let patched = out.join(name);
        fs::create_dir_all(&patched)?;
        if profiled {
            patches::patch_profiled(&lua, &patched)?;
        } else {
            patches::patch(&lua, &patched)?;
        }
        let folders =
            unit::Folders { lua: &lua, ours: &c, prelude: &prelude, patched: &patched, out: &out, profiled };
        let unit = unit::write(&folders)?;
        let component = component::encode(&fs::read(build(&clang, &out, &unit, &shared)?)?)?;
        fs::write(out.join(format!("{name}.wasm")), &component)?;
        println!("cargo::rustc-env={variable}={}", component::hash(&component));
    }
    Ok(())
}

/// Compiles and links a unit. Returns the path of the core module.
fn build(clang: &clang::Clang, out: &Path, unit: &Path, shared: &[PathBuf]) -> Result<PathBuf> {
    let object = unit.with_extension("o");
    clang.compile(unit, &object)?;
    let module = unit.with_extension("wasm");
    let first = [out.join("guest_component_type.o"), object];
    clang.link(&[&first[..], shared].concat(), &module)?;
    Ok(module)
}

/// Compiles what both guests have: the bindings, and the C runtime.
fn shared_objects(clang: &clang::Clang, runtime: &Path, out: &Path) -> Result<Vec<PathBuf>> {
    let bindings = out.join("guest.o");
    clang.compile(&out.join("guest.c"), &bindings)?;
    let mut objects = vec![bindings];
    for name in RUNTIME {
        let object = out.join(format!("runtime_{name}.o"));
        clang.compile_runtime(&runtime.join(name), &object)?;
        objects.push(object);
    }
    let tag = out.join("tag.o");
    clang.compile_runtime(&runtime.join("tag.S"), &tag)?;
    objects.push(tag);
    Ok(objects)
}
