//! `belvedere plugin pack`: makes a component of the module that a compiler wrote.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;

use super::super::print_line;

pub(super) fn run(module: &Path, out: &Path) -> anyhow::Result<ExitCode> {
    let bytes = fs::read(module).with_context(|| format!("{} can't be read", module.display()))?;
    let component = belvedere_plugin_pack::pack(&bytes).with_context(|| module.display().to_string())?;
    fs::write(out, &component).with_context(|| format!("{} can't be written", out.display()))?;
    print_line(&format_args!("written: {} ({} KiB)", out.display(), component.len().div_ceil(1024)));
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let (module, out) = (folder.path().join("a.wasm"), folder.path().join("b.wasm"));
        assert!(format!("{:#}", run(&module, &out).unwrap_err()).contains("a.wasm can't be read"));
        fs::write(&module, "no module").unwrap();
        let error = format!("{:#}", run(&module, &out).unwrap_err());
        assert!(error.contains("a.wasm") && error.contains("no WebAssembly"), "{error}");
        assert!(!out.exists());
    }
}
