//! Encodes the core module as a component, and checks that it imports nothing but the contract.

use std::fmt::Write;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};
use wit_component::{ComponentEncoder, DecodedWasm};

/// The package that every import must come from.
const PACKAGE: &str = "belvedere:script/";
/// Types that the world itself uses. The component lists them among its imports.
const TYPES: [&str; 4] = ["failure", "raised", "reply", "checked"];

pub(crate) fn encode(module: &[u8]) -> Result<Vec<u8>> {
    let component = ComponentEncoder::default()
        .validate(true)
        .module(module)
        .context("the guest does not fit the contract")?
        .encode()?;
    check_imports(&component)?;
    Ok(component)
}

/// Fails the build when the guest imports anything outside the contract. WASI in particular would give scripts files,
/// clocks and a network.
fn check_imports(component: &[u8]) -> Result<()> {
    let decoded = wit_component::decode(component)?;
    let DecodedWasm::Component(resolve, world) = decoded else { bail!("the guest is not a component") };
    for key in resolve.worlds[world].imports.keys() {
        let name = resolve.name_world_key(key);
        ensure!(name.starts_with(PACKAGE) || TYPES.contains(&name.as_str()), "the guest imports {name}");
    }
    Ok(())
}

/// SHA-256 as hex.
pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a String can't fail
        text
    })
}
