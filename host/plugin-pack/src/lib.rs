//! Makes a component of a plugin's WebAssembly module, for `belvedere plugin pack` and for `dev/plugins.sh`, which builds
//! plugins before there is a server.

use anyhow::{Context as _, Result, bail, ensure};
use wit_component::ComponentEncoder;

/// The first bytes of every WebAssembly file.
const MAGIC: &[u8] = b"\0asm";
/// The version field of a core module. Components have other values there.
const MODULE_VERSION: [u8; 4] = [1, 0, 0, 0];
/// The custom section in which a bindings generator describes the module's world.
const WORLD_SECTION: &[u8] = b"component-type";

/// Encodes a core module as a component. Returns a component as it is.
///
/// # Errors
/// When `module` is no WebAssembly, does not say which world it implements, or does not implement it.
pub fn pack(module: &[u8]) -> Result<Vec<u8>> {
    let Some(version) = module.strip_prefix(MAGIC).and_then(|rest| rest.get(..4)) else {
        bail!("this is no WebAssembly file")
    };
    if version != MODULE_VERSION {
        return Ok(module.to_vec());
    }
    ensure!(
        module.windows(WORLD_SECTION.len()).any(|bytes| bytes == WORLD_SECTION),
        "the module does not say which world it implements: compile it with bindings of wit/plugin (docs/plugins.md)"
    );
    let encoder = ComponentEncoder::default().validate(true).module(module);
    let component = encoder.and_then(|mut encoder| encoder.encode());
    component.context("the module does not implement its world")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_returned_as_it_is() {
        let component = b"\0asm\x0d\0\x01\0";
        assert_eq!(pack(component).unwrap(), component);
    }

    #[test]
    fn other_files_are_refused() {
        for (bytes, expected) in [
            (&b""[..], "no WebAssembly"),
            (b"\0asm", "no WebAssembly"),
            (b"#!/bin/sh", "no WebAssembly"),
            (b"\0asm\x01\0\0\0", "which world"),
            (b"\0asm\x01\0\0\0component-type", "does not implement"),
        ] {
            let error = format!("{:#}", pack(bytes).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}
