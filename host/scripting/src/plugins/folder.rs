//! Reads the plugins of `PLUGIN_DIR`: each folder in it that has a `manifest.json`.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::manifest;
use super::package::{MAX_MODULE, ManifestFile, Package};

/// A folder with a manifest.
#[derive(Debug)]
pub struct FoundPlugin {
    /// The manifest's id; the folder's name if the manifest can't be read.
    pub id: String,
    /// Or why it can't be used.
    pub package: Result<Package, String>,
}

/// Reads all plugins, sorted by folder. Empty when the folder does not exist.
///
/// # Errors
/// When the folder exists and can't be listed.
pub fn read(folder: &Path) -> io::Result<Vec<FoundPlugin>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut folders = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>()?;
    folders.retain(|path| path.join("manifest.json").exists());
    folders.sort();
    let mut found: Vec<FoundPlugin> = Vec::new();
    for path in folders {
        let mut plugin = read_one(&path);
        if found.iter().any(|other| other.id == plugin.id) {
            plugin = FoundPlugin {
                id: folder_name(&path),
                package: Err(format!("another folder has the plugin {:?} already", plugin.id)),
            };
        }
        found.push(plugin);
    }
    Ok(found)
}

fn folder_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Reads one plugin.
pub fn read_one(folder: &Path) -> FoundPlugin {
    let manifest = read_file(&folder.join("manifest.json"), manifest::MAX_BYTES)
        .and_then(|bytes| ManifestFile::read(&bytes).map_err(|error| error.to_string()));
    match manifest {
        Err(error) => FoundPlugin { id: folder_name(folder), package: Err(error) },
        Ok(file) => {
            let (id, path) = (file.manifest.id.clone(), folder.join(&file.manifest.wasm_file));
            let package = read_file(&path, MAX_MODULE).map(|module| Package::new(file, module.into()));
            FoundPlugin { id, package }
        }
    }
}

/// Reads a file of at most `max_bytes`.
fn read_file(path: &Path, max_bytes: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(max_bytes as u64 + 1).read_to_end(&mut bytes));
    let name = folder_name(path);
    match read {
        Err(error) => Err(format!("{name} can't be read: {error}")),
        Ok(length) if length > max_bytes => Err(format!("{name} is larger than {max_bytes} bytes")),
        Ok(_) => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const MANIFEST: &str = r#"{"id":"a","name":"A","version":"1.0.0","api_version":"1"}"#;

    #[test]
    fn each_folder_with_a_manifest_is_a_plugin() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(&folder.path().join("absent")).unwrap().len(), 0);
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("1/manifest.json", MANIFEST);
        write("1/plugin.wasm", "module");
        write("2/manifest.json", "{");
        write("3/manifest.json", &MANIFEST.replace("\"a\"", "\"c\""));
        write("4/manifest.json", MANIFEST);
        write("5/readme.txt", "no plugin");
        write("file", "no folder");
        fs::write(folder.path().join("big.wasm"), vec![0; 11]).unwrap();
        let found = read(folder.path()).unwrap();
        let seen: Vec<(&str, &str)> = found
            .iter()
            .map(|plugin| (plugin.id.as_str(), plugin.package.as_ref().map_or_else(String::as_str, |_| "")))
            .collect();
        assert_eq!(seen[0], ("a", ""));
        assert_eq!(seen[1].0, "2");
        assert!(seen[2].0 == "c" && seen[2].1.contains("plugin.wasm can't be read"), "{seen:?}");
        assert!(seen[3].0 == "4" && seen[3].1.contains("another folder"), "{seen:?}");
        assert_eq!(seen.len(), 4);
        assert!(read_file(&folder.path().join("big.wasm"), 10).unwrap_err().contains("larger than 10"));
        assert!(read_file(&folder.path().join("big.wasm"), 11).is_ok());
    }
}
