//! Generates the C bindings of the contract in `wit/` (its types and the canonical ABI) with wit-bindgen.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::{Resolve, WorldId};

/// The world this guest implements.
const WORLD: &str = "guest";

pub(crate) fn resolve(wit: &Path) -> Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    let package = resolve.push_path(wit).context("the contract in wit/ does not parse")?.0;
    let world = resolve.select_world(&[package], Some(WORLD))?;
    Ok((resolve, world))
}

/// Writes `guest.h`, `guest.c` and `guest_component_type.o`.
pub(crate) fn generate(resolve: &mut Resolve, world: WorldId, out: &Path) -> Result<()> {
    let mut files = Files::default();
    wit_bindgen_c::Opts::default().build().generate(resolve, world, &mut files)?;
    for (name, content) in files.iter() {
        fs::write(out.join(name), content)?;
    }
    Ok(())
}
