//! Keeps a compiled component on disk. Loading it takes milliseconds, compiling it seconds.
//!
//! The file's name holds the engine's fingerprint, so that a new build or another machine makes its own. Loading maps
//! machine code that is then run, so a file is used only when no other user could have written it and its checksum
//! matches.

use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use wasmtime::component::Component;
use wasmtime::{Engine, Result};

use belvedere_base::files;

/// Bytes of a file that are read and hashed at once: machine code has up to hundreds of megabytes.
const CHUNK: usize = 64 << 10;

/// The file of one component for one engine.
#[derive(Clone, Debug)]
pub struct CompiledFile {
    path: PathBuf,
    /// The content's name, for the log.
    what: &'static str,
}

impl CompiledFile {
    /// `name` identifies the component, with a hash of its bytes.
    pub fn new(folder: &Path, name: &str, engine: &Engine, what: &'static str) -> Self {
        let mut fingerprint = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut fingerprint);
        Self { path: folder.join(format!("{name}-{:016x}.cwasm", fingerprint.finish())), what }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is a file, with its checksum, that no other user could have written. Only loading it shows whether it is
    /// whole.
    pub fn is_there(&self) -> bool {
        is_private(&self.path).unwrap_or(false)
    }

    /// Loads the component; `None` when it has to be compiled. A file that is there and unusable is logged.
    pub fn load(&self, engine: &Engine) -> Option<Component> {
        let (path, what) = (self.path.display(), self.what);
        match is_trusted(&self.path) {
            Ok(true) => match map_file(engine, &self.path) {
                Ok(component) => return Some(component),
                Err(error) => tracing::warn!(%path, %error, what, "cached machine code is unusable"),
            },
            Ok(false) => tracing::warn!(%path, what, "cached machine code is damaged or writable by others"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(%path, %error, what, "cached machine code can't be read"),
        }
        None
    }

    /// Writes the machine code and its checksum, each atomically, and readable by this user only.
    ///
    /// # Errors
    /// When the folder can't be written.
    pub fn save(&self, artifact: &[u8]) -> io::Result<()> {
        save(&self.path, artifact)
    }

    /// Writes machine code that this process has just made, and loads it. When the cache can't be written, it is loaded
    /// from memory, and the next start compiles again.
    ///
    /// # Errors
    /// When wasmtime does not accept it.
    pub fn keep(&self, engine: &Engine, artifact: &[u8]) -> Result<Component> {
        match self.save(artifact) {
            Ok(()) => map_file(engine, &self.path),
            Err(error) => {
                let (path, what) = (self.path.display(), self.what);
                tracing::warn!(%path, %error, what, "machine code can't be written to the cache");
                load_from_memory(engine, artifact)
            }
        }
    }
}

/// The file with the checksum, beside the machine code.
fn checksum_path(path: &Path) -> PathBuf {
    path.with_extension("sha256")
}

fn save(path: &Path, artifact: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        files::create_private_folder(folder)?;
    }
    files::replace(path, artifact)?;
    files::replace(&checksum_path(path), hex::encode(Sha256::digest(artifact)).as_bytes())
}

/// Whether only this user or root could have written the file and its checksum.
fn is_private(path: &Path) -> io::Result<bool> {
    let own = fs::metadata("/proc/self")?.uid();
    let private = |found: &Metadata| found.mode() & 0o022 == 0 && (found.uid() == own || found.uid() == 0);
    let folder = path.parent().unwrap_or(Path::new("."));
    let files = [path, folder, &checksum_path(path)];
    files.into_iter().try_fold(true, |all, file| Ok(private(&fs::metadata(file)?) && all))
}

/// Whether the file matches its checksum, and only this user or root could have written it.
fn is_trusted(path: &Path) -> io::Result<bool> {
    Ok(is_private(path)? && fs::read_to_string(checksum_path(path))? == sha256_of(path)?)
}

/// The SHA-256 of a file, in hex.
fn sha256_of(path: &Path) -> io::Result<String> {
    let (mut file, mut hash, mut chunk) = (fs::File::open(path)?, Sha256::new(), vec![0; CHUNK]);
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hex::encode(hash.finalize())),
            read => hash.update(&chunk[..read]),
        }
    }
}

/// Maps a file that [`is_trusted`] accepted, or that this process just wrote.
#[expect(
    unsafe_code,
    reason = "wasmtime trusts the machine code in the file; is_trusted checked who could write it and its checksum"
)]
fn map_file(engine: &Engine, path: &Path) -> Result<Component> {
    unsafe { Component::deserialize_file(engine, path) }
}

/// Loads machine code that was just made, when it can't be written to the cache.
#[expect(unsafe_code, reason = "the bytes were made by this process a moment ago")]
fn load_from_memory(engine: &Engine, artifact: &[u8]) -> Result<Component> {
    unsafe { Component::deserialize(engine, artifact) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_a_whole_and_private_file_is_trusted() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let path = folder.path().join("cache").join("guest.cwasm");
        assert_eq!(is_trusted(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        save(&path, b"machine code").unwrap();
        fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(is_trusted(&path).unwrap());

        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
        assert!(!is_trusted(&path).unwrap());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!is_trusted(&path).unwrap());
        fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();

        fs::write(&path, b"machine coda").unwrap();
        assert!(!is_trusted(&path).unwrap());
        let file = CompiledFile { path, what: "a test" };
        assert!(file.is_there(), "its content is read when it is loaded");
        fs::remove_file(checksum_path(file.path())).unwrap();
        assert!(!file.is_there());
    }

    #[test]
    fn a_file_of_many_chunks_has_the_checksum_of_all_of_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let (path, code) = (folder.path().join("guest.cwasm"), b"machine code".repeat(CHUNK / 4));
        save(&path, &code).unwrap();
        assert!(is_trusted(&path).unwrap());
    }
}
