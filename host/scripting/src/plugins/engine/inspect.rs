//! Reads what a module imports and exports, and refuses what can't be a plugin, before it is compiled.

use wasmparser::{Encoding, Parser, Payload};

use super::{Exports, LoadError, function};
use crate::plugins::limits;

/// The package of the contract.
const PACKAGE: &str = "belvedere:plugin/";

/// The major version of the contract that this server implements.
const VERSION: &str = "1";

/// Interfaces of the contract that do something. The operator's grants decide about most of them.
const CAPABILITIES: [&str; 7] = ["log", "clock", "secrets", "kv", "http", "lookup", "attest"];

/// Interfaces of the contract with types only, for a component that imports them.
const TYPES: [&str; 1] = ["types"];

/// Packages of WASI 0.2 that are answered with nothing inside: no files, arguments or environment.
const WASI: [&str; 5] = ["wasi:cli", "wasi:clocks", "wasi:filesystem", "wasi:io", "wasi:random"];

/// The version of WASI.
const WASI_VERSION: &str = "0.2.";

/// The imports and exports of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surface {
    /// Capabilities, such as `http`.
    pub imports: Vec<&'static str>,
    pub exports: Exports,
    /// Functions of its programs, which have to be compiled.
    pub functions: u32,
}

/// The counts while a module is read.
#[derive(Default)]
struct Counts {
    memories: u32,
    functions: u32,
    depth: usize,
}

/// Reads a module.
///
/// # Errors
/// The first reason why it is not a plugin.
pub(super) fn read(module: &[u8]) -> Result<Surface, LoadError> {
    let refused = |text: String| Err(LoadError::Invalid(text));
    if module.is_empty() {
        return refused("the module is empty".to_owned());
    }
    if module.len() > limits::MODULE_BYTES {
        return refused(format!("the module is larger than {} MiB", limits::MODULE_BYTES >> 20));
    }
    if !Parser::is_core_wasm(module) && !Parser::is_component(module) {
        return refused("the file is not WebAssembly".to_owned());
    }
    if Parser::is_core_wasm(module) {
        return refused(
            "the module is a core module; make a component of it with `belvedere plugin pack`".to_owned(),
        );
    }
    let (mut imports, mut exports, mut describes) = (Vec::new(), Exports::default(), false);
    let mut counts = Counts::default();
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload.map_err(LoadError::damaged)?;
        match payload {
            Payload::ComponentImportSection(section) if counts.depth == 1 => {
                for import in section {
                    let name = import.map_err(LoadError::damaged)?.name.name;
                    imports.extend(capability(name)?);
                }
            }
            Payload::ComponentExportSection(section) if counts.depth == 1 => {
                for export in section {
                    export_of(export.map_err(LoadError::damaged)?.name.name, &mut exports, &mut describes);
                }
            }
            other => counts.add(&other)?,
        }
    }
    if counts.depth > 0 {
        return refused("the module is truncated".to_owned());
    }
    if !describes {
        return refused(format!(
            "the component does not export {PACKAGE}describe@{VERSION}: it belongs to another world"
        ));
    }
    if exports.sync && !exports.linking {
        return refused(format!("the component exports {PACKAGE}sync without {PACKAGE}linking"));
    }
    imports.sort_unstable();
    imports.dedup();
    Ok(Surface { imports, exports, functions: counts.functions })
}

impl Counts {
    fn add(&mut self, payload: &Payload<'_>) -> Result<(), LoadError> {
        match payload {
            Payload::Version { encoding, .. } => {
                self.depth += 1;
                if *encoding == Encoding::Component && self.depth > limits::NESTED_COMPONENTS {
                    let max = limits::NESTED_COMPONENTS;
                    return Err(LoadError::Invalid(format!("components are nested more than {max} deep")));
                }
            }
            Payload::End(_) => self.depth = self.depth.saturating_sub(1),
            Payload::MemorySection(section) => self.memories = self.memories.saturating_add(section.count()),
            Payload::CodeSectionStart { count, .. } => {
                self.functions = self.functions.saturating_add(*count);
            }
            Payload::CodeSectionEntry(body) => function::check(body)?,
            _ => {}
        }
        if self.memories > 1 {
            return Err(LoadError::Invalid("the component has more than one memory".to_owned()));
        }
        if self.functions > limits::FUNCTIONS {
            return Err(LoadError::Invalid(format!(
                "the component has more than {} functions",
                limits::FUNCTIONS
            )));
        }
        Ok(())
    }
}

/// The capability that an import names; `None` when it needs no grant.
fn capability(import: &str) -> Result<Option<&'static str>, LoadError> {
    let (interface, version) = import.split_once('@').unwrap_or((import, ""));
    if let Some(name) = interface.strip_prefix(PACKAGE) {
        if version.split('.').next() != Some(VERSION) {
            return Err(LoadError::Invalid(format!(
                "the component imports {import}, but this server implements version {VERSION}"
            )));
        }
        if let Some(known) = CAPABILITIES.into_iter().find(|known| *known == name) {
            return Ok(Some(known));
        }
        if TYPES.contains(&name) {
            return Ok(None);
        }
    }
    let package = interface.split('/').next().unwrap_or_default();
    if WASI.contains(&package) && version.starts_with(WASI_VERSION) {
        return Ok(None);
    }
    // The name comes from the module.
    let shown: String = import.chars().take(limits::TEXT_BYTES).collect();
    Err(LoadError::Invalid(format!("the component imports {shown:?}, which plugins do not get")))
}

fn export_of(export: &str, exports: &mut Exports, describes: &mut bool) {
    let Some((name, version)) = export.strip_prefix(PACKAGE).and_then(|rest| rest.split_once('@')) else {
        return;
    };
    if version.split('.').next() != Some(VERSION) {
        return;
    }
    match name {
        "describe" => *describes = true,
        "linking" => exports.linking = true,
        "sync" => exports.sync = true,
        "callable" => exports.callable = true,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use proptest::prelude::*;

    use super::super::PluginEngine;
    use super::*;

    /// A component with imports, a nested component, a module with a memory and functions, and the export of a plugin.
    fn component() -> Vec<u8> {
        let text = r#"(component
            (import "belvedere:plugin/log@1.0.0" (instance))
            (import "belvedere:plugin/kv@1.2.3" (instance))
            (import "belvedere:plugin/types@1.0.0" (instance))
            (import "wasi:cli/environment@0.2.9" (instance))
            (component (import "anything" (instance)))
            (core module $m (memory 1) (func) (func (export "get") (result i32) i32.const 0))
            (core instance $i (instantiate $m))
            (func $get (result u32) (canon lift (core func $i "get")))
            (instance $d (export "get" (func $get)))
            (export "belvedere:plugin/describe@1.0.0" (instance $d))
            (export "belvedere:plugin/linking@1.0.0" (instance $d))
            (export "belvedere:plugin/sync@2.0.0" (instance $d)))"#;
        wat::parse_str(text).unwrap()
    }

    #[tokio::test]
    async fn a_module_is_read_beside_the_runtimes_threads() {
        let functions = "(func (param i32) (loop (br_if 0 (local.get 0))))".repeat(20_000);
        let module = wat::parse_str(format!("(component (core module $m {functions}))")).unwrap();
        let mut reading = Box::pin(PluginEngine::inspect(module));
        assert!((&mut reading).now_or_never().is_none(), "another thread reads it");
        let error = reading.await.unwrap_err().to_string();
        assert!(error.contains("does not export"), "{error}");
    }

    #[test]
    fn imports_and_exports_are_read() {
        let exports = Exports { linking: true, ..Exports::default() };
        assert_eq!(
            read(&component()).unwrap(),
            Surface { imports: vec!["kv", "log"], exports, functions: 2 }
        );
    }

    proptest! {
        #[test]
        fn never_panics_on_damaged_modules(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
            let mut module = component();
            let at = at.index(module.len());
            if cut { module.truncate(at) } else { module[at] = byte }
            let _ = read(&module);
        }

        #[test]
        fn never_panics_on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
            let _ = read(&[b"\0asm\x0d\0\x01\0", bytes.as_slice()].concat());
        }
    }
}
