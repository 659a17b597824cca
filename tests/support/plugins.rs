//! Plugins that were built from `plugins/` and `tests/plugins/` (dev/plugins.sh), and their files on a server.

use std::path::Path;

use belvedere_protocol::crypto::sha256;
use belvedere_standins::files::{File, FileServer};
use belvedere_standins::http_client;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;

use super::instance::{Answer, Instance};

/// The files of a plugin.
#[derive(Clone, Debug)]
pub struct PluginFiles {
    pub manifest: String,
    pub module: Vec<u8>,
}

impl PluginFiles {
    /// The files as they were built. Panics when they were not.
    pub fn built(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("plugins").join(name);
        let read = |file: &str| {
            let path = folder.join(file);
            std::fs::read(&path)
                .unwrap_or_else(|error| panic!("{}: {error}; run: sh dev/plugins.sh {name}", path.display()))
        };
        let manifest = String::from_utf8(read("manifest.json")).expect("a manifest is text");
        Self { manifest, module: read("plugin.wasm") }
    }

    /// The plugin `adaptable` with other fields in its manifest, which the module has too. Null removes a field.
    pub fn adaptable(change: &Value) -> Self {
        let built = Self::built("adaptable");
        let room = built.manifest.len();
        let mut manifest: Value = serde_json::from_str(&built.manifest).expect("a manifest is JSON");
        let fields = manifest.as_object_mut().expect("an object");
        fields.remove("room");
        for (name, value) in change.as_object().expect("an object") {
            fields.insert(name.clone(), value.clone());
            if value.is_null() {
                fields.remove(name);
            }
        }
        let manifest = format!("{:room$}", manifest.to_string());
        assert_eq!(manifest.len(), room, "the manifest has no room for {change}");
        let mut module = built.module;
        let at =
            memchr::memmem::find(&module, built.manifest.as_bytes()).expect("the module has its manifest");
        module[at..at + room].copy_from_slice(manifest.as_bytes());
        Self { manifest, module }
    }

    /// The same module with other fields in the manifest.
    #[must_use]
    pub fn lying(&self, change: &Value) -> Self {
        let mut manifest: Value = serde_json::from_str(&self.manifest).expect("a manifest is JSON");
        for (name, value) in change.as_object().expect("an object") {
            manifest[name] = value.clone();
        }
        Self { manifest: manifest.to_string(), module: self.module.clone() }
    }

    pub fn sha256(&self) -> String {
        hex::encode(sha256(&self.module))
    }

    /// The hash of the manifest.
    pub fn manifest_sha256(&self) -> String {
        hex::encode(sha256(self.manifest.as_bytes()))
    }

    /// Publishes both files in a folder of the server, a path that begins with a slash. Returns the folder's URL.
    pub fn publish(&self, server: &FileServer, folder: &str) -> String {
        server.put(&format!("{folder}/manifest.json"), File::Whole(self.manifest.clone().into()));
        server.put(&format!("{folder}/plugin.wasm"), File::Whole(self.module.clone()));
        server.url(folder)
    }

    /// Writes both files into a folder of the machine, and creates it.
    pub fn write(&self, folder: &Path) {
        std::fs::create_dir_all(folder).expect("the folder can be created");
        std::fs::write(folder.join("manifest.json"), &self.manifest).expect("the file can be written");
        std::fs::write(folder.join("plugin.wasm"), &self.module).expect("the file can be written");
    }

    /// Sends both files to a path of the server, with more parts.
    pub async fn upload(&self, server: &Instance, path: &str, more: &[(&str, &[u8])]) -> Answer {
        let files = [("manifest", self.manifest.as_bytes()), ("module", &self.module[..])];
        upload(server, path, &[&files[..], more].concat()).await
    }
}

/// Sends a form with the operator's admin key.
pub async fn upload(server: &Instance, path: &str, parts: &[(&str, &[u8])]) -> Answer {
    const BOUNDARY: &str = "a-boundary-of-the-tests";
    let mut body = Vec::new();
    for (name, value) in parts {
        let head = format!("--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n");
        body.extend([head.as_bytes(), value, b"\r\n"].concat());
    }
    body.extend(format!("--{BOUNDARY}--\r\n").bytes());
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header("host", server.address.to_string())
        .header("authorization", format!("Bearer {}", server.admin_key))
        .header("content-type", format!("multipart/form-data; boundary={BOUNDARY}"))
        .body(Full::new(Bytes::from(body)))
        .expect("a request");
    let mut connection = http_client::connect(server.address).await.expect("the server accepts");
    let (head, body) = connection.send_request(request).await.expect("the server responds").into_parts();
    let bytes = body.collect().await.expect("a whole response").to_bytes();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Answer {
        status: head.status,
        headers: head.headers,
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
        text,
    }
}
