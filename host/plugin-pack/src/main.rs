//! `belvedere-plugin-pack MODULE OUT`: writes the component of a module.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

fn main() -> Result<()> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [module, out] = paths.as_slice() else { bail!("usage: belvedere-plugin-pack MODULE OUT") };
    let bytes = std::fs::read(module).with_context(|| format!("{}", module.display()))?;
    let component = belvedere_plugin_pack::pack(&bytes).with_context(|| format!("{}", module.display()))?;
    std::fs::write(out, component).with_context(|| format!("{}", out.display()))
}
