//! The two files of a plugin: its manifest and its module.

use bytes::Bytes;

use super::limits;
use super::manifest::{InvalidManifest, Manifest};
use belvedere_protocol::crypto::sha256_hex;
use belvedere_web::http::nul;

/// Largest module in bytes.
pub const MAX_MODULE: usize = limits::MODULE_BYTES;

/// Bytes of the reason why a plugin can't be used. Some of it comes from the plugin.
const MAX_REASON: usize = 500;

/// A reason cut to [`MAX_REASON`].
pub fn shortened(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(MAX_REASON));
    reason
}

/// A manifest and the text that it was read from.
#[derive(Clone, Debug)]
pub struct ManifestFile {
    pub manifest: Manifest,
    pub text: String,
    /// Lower-case hex.
    pub sha256: String,
}

/// The files of a plugin, the module unchecked.
#[derive(Clone, Debug)]
pub struct Package {
    pub manifest: ManifestFile,
    pub module: Bytes,
    /// Lower-case hex.
    pub module_sha256: String,
}

impl ManifestFile {
    /// Reads the bytes of a `manifest.json`.
    ///
    /// # Errors
    /// The first reason why it is none.
    pub fn read(bytes: &[u8]) -> Result<Self, InvalidManifest> {
        let manifest = Manifest::parse(bytes)?;
        // Fields that are ignored are not decoded, so they may hold what the database can't store.
        let text = std::str::from_utf8(bytes).map_err(|_| InvalidManifest("it is not UTF-8".to_owned()))?;
        if nul::in_json(bytes) {
            return Err(InvalidManifest("it holds a NUL character (U+0000)".to_owned()));
        }
        Ok(Self { manifest, sha256: sha256_hex(bytes), text: text.to_owned() })
    }
}

/// The id in the bytes of a manifest; `None` if they are not a usable manifest.
pub fn manifest_id(bytes: &[u8]) -> Option<String> {
    ManifestFile::read(bytes).ok().map(|file| file.manifest.id)
}

impl Package {
    pub fn new(manifest: ManifestFile, module: Bytes) -> Self {
        Self { manifest, module_sha256: sha256_hex(&module), module }
    }

    pub fn id(&self) -> &str {
        &self.manifest.manifest.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_text_without_nul_also_in_fields_that_are_ignored() {
        let start = br#"{"id":"x","name":"X","version":"1.0.0","api_version":"1","more":""#;
        let with = |more: &[u8]| ManifestFile::read(&[start, more, b"\"}"].concat());
        assert_eq!(with(b"fine").unwrap().manifest.id, "x");
        assert!(with(b"\xff").is_err());
        assert!(with(br"\u0000").unwrap_err().0.contains("NUL"));
    }
}
