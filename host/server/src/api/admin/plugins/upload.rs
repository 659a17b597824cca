//! The two forms of a plugin in a request: a URL in JSON, or the files themselves (`multipart/form-data`).

use std::convert::Infallible;

use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use multer::Multipart;
use schemars::JsonSchema;
use serde::Deserialize;

use belvedere_scripting::plugins::install::{Origin, Terms};
use belvedere_scripting::plugins::manifest;
use belvedere_scripting::plugins::{MAX_MODULE, manifest_id};
use belvedere_web::http::{Error, Request, limits, nul};

/// Bytes of an upload: both files, and a megabyte for the other fields and the boundaries.
pub const MAX_BYTES: usize = MAX_MODULE + manifest::MAX_BYTES + limits::JSON_BODY;

/// The same as `multipart/form-data` with `manifest` and `module` instead of `url`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct PluginOrigin {
    url: String,
    sha256: Option<String>,
    accepted_capabilities: Option<Vec<String>>,
}

/// A body of neither form.
#[derive(Debug)]
pub(super) struct Unreadable {
    /// The manifest's id, if it could be read.
    pub(super) id: Option<String>,
    pub(super) error: Error,
}

impl From<Error> for Unreadable {
    fn from(error: Error) -> Self {
        Self { id: None, error }
    }
}

/// Reads a body of either form.
///
/// # Errors
/// 400 for a body of neither form, 413 for JSON that is too large.
pub(super) async fn read(request: &Request) -> Result<(Origin, Terms), Unreadable> {
    let kind = request.header(CONTENT_TYPE.as_str()).unwrap_or_default();
    if kind.trim_start().to_ascii_lowercase().starts_with("multipart/") {
        let boundary = multer::parse_boundary(kind).map_err(malformed)?;
        return parts(request.body.clone(), boundary).await;
    }
    if request.body.len() > limits::JSON_BODY {
        let text = format!("the request body is larger than {} bytes", limits::JSON_BODY);
        return Err(Error::new(StatusCode::PAYLOAD_TOO_LARGE, text).into());
    }
    if nul::in_json(&request.body) {
        return Err(nul::refused("the request body").into());
    }
    let PluginOrigin { url, sha256, accepted_capabilities: accepted } = request.json()?;
    Ok((Origin::Url(url), Terms { sha256, accepted }))
}

fn malformed(error: multer::Error) -> Error {
    Error::bad_request(format!("invalid multipart/form-data: {error}"))
}

async fn parts(body: Bytes, boundary: String) -> Result<(Origin, Terms), Unreadable> {
    let mut manifest = None;
    let read = read_parts(body, boundary, &mut manifest).await;
    read.map_err(|error| Unreadable { id: manifest.as_deref().and_then(manifest_id), error })
}

/// Leaves the manifest in `manifest` as soon as it is read.
async fn read_parts(
    body: Bytes,
    boundary: String,
    manifest: &mut Option<Bytes>,
) -> Result<(Origin, Terms), Error> {
    let body = futures_util::stream::once(async move { Ok::<_, Infallible>(body) });
    let mut multipart = Multipart::new(body, boundary);
    let (mut module, mut sha256, mut accepted) = (None, None, None);
    while let Some(field) = multipart.next_field().await.map_err(malformed)? {
        let name = field.name().unwrap_or_default().to_owned();
        let is_known = matches!(&*name, "manifest" | "module" | "sha256" | "accepted_capabilities");
        let bytes = field.bytes().await.map_err(malformed)?;
        if !is_known {
            continue;
        }
        let is_second = match &*name {
            "manifest" => manifest.replace(bytes).is_some(),
            "module" => module.replace(bytes).is_some(),
            "sha256" => sha256.replace(text(&name, &bytes)?).is_some(),
            _ => {
                let list = serde_json::from_str::<Vec<String>>(&text(&name, &bytes)?);
                let list = list.map_err(|error| {
                    Error::bad_request(format!(
                        "accepted_capabilities must be a JSON array of texts: {error}"
                    ))
                })?;
                accepted.replace(list).is_some()
            }
        };
        if is_second {
            return Err(Error::bad_request(format!("the part {name} is there twice")));
        }
    }
    let missing = |name: &str| Error::bad_request(format!("the part {name} is missing"));
    let manifest = manifest.clone().ok_or_else(|| missing("manifest"))?;
    let module = module.ok_or_else(|| missing("module"))?;
    if module.len() > MAX_MODULE {
        return Err(Error::bad_request(format!("the module is larger than {MAX_MODULE} bytes")));
    }
    Ok((Origin::Upload { manifest, module }, Terms { sha256, accepted }))
}

fn text(name: &str, bytes: &[u8]) -> Result<String, Error> {
    if nul::in_json(bytes) {
        return Err(nul::refused(&format!("the part {name}")));
    }
    let text = std::str::from_utf8(bytes);
    text.map(|text| text.trim().to_owned())
        .map_err(|_| Error::bad_request(format!("the part {name} is not UTF-8")))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(fields: &[(&str, &[u8])]) -> Result<(Origin, Terms), String> {
        let mut body = Vec::new();
        for (name, value) in fields {
            body.extend(format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n").bytes());
            body.extend(*value);
            body.extend(b"\r\n");
        }
        body.extend(b"--x--\r\n");
        parts(body.into(), "x".to_owned()).await.map_err(|broken| broken.error.error.into_owned())
    }

    const FILES: [(&str, &[u8]); 2] = [("manifest", b"{}"), ("module", b"\0asm\xff")];

    #[tokio::test]
    async fn the_parts_of_an_upload_are_read() {
        let more: [(&str, &[u8]); 3] =
            [("sha256", b"AB\n"), ("accepted_capabilities", br#"["kv:use"]"#), ("else", b"\xff")];
        let (origin, terms) = read(&[&FILES[..], &more].concat()).await.unwrap();
        let Origin::Upload { manifest, module } = origin else { panic!("it is an upload") };
        assert_eq!((&*manifest, &*module), (FILES[0].1, FILES[1].1));
        assert_eq!((terms.sha256.as_deref(), terms.accepted), (Some("AB"), Some(vec!["kv:use".to_owned()])));
    }

    #[tokio::test]
    async fn incomplete_and_broken_uploads_are_refused() {
        let with = |name, value: &'static [u8]| [&FILES[..], &[(name, value)]].concat();
        for (fields, text) in [
            (vec![], "manifest is missing"),
            (FILES[..1].to_vec(), "module is missing"),
            (with("module", b""), "module is there twice"),
            (with("sha256", b"\xff"), "sha256 is not UTF-8"),
            (with("sha256", b"\0"), "NUL"),
            (with("accepted_capabilities", b"kv:use"), "JSON array"),
            (with("accepted_capabilities", b"[1]"), "JSON array"),
            (with("accepted_capabilities", br#"["\u0000"]"#), "NUL"),
        ] {
            let error = read(&fields).await.unwrap_err();
            assert!(error.contains(text), "{error}");
        }
        assert!(parts(Bytes::from_static(b"--x\r\nbroken"), "x".to_owned()).await.is_err());
        let manifest = br#"{"id":"known","name":"N","version":"1.0.0","api_version":"1"}"#;
        let head = b"--x\r\nContent-Disposition: form-data; name=\"manifest\"\r\n\r\n";
        let truncated = [&head[..], manifest, b"\r\n--x\r\nContent-"].concat();
        let broken = parts(truncated.into(), "x".to_owned()).await.unwrap_err();
        assert_eq!(broken.id.as_deref(), Some("known"));
        let large = vec![0; MAX_MODULE + 1];
        let error = read(&[("manifest", b"{}"), ("module", &large)]).await.unwrap_err();
        assert!(error.contains("larger"), "{error}");
    }
}
