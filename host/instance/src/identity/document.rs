//! Parses DID documents.

use serde_json::Value;
use url::Url;

use super::IdentityError;
use belvedere_protocol::atproto::{Did, Handle};
use belvedere_protocol::crypto::{Algorithm, PublicKey};

/// Services that are kept of one document. The PLC directory accepts ten.
const MAX_SERVICES: usize = 16;

/// Bytes of a service's fragment.
const MAX_FRAGMENT: usize = 64;

/// Fragment, without `#`, and origin of a service; `None` for an endpoint that is not an origin.
type Service = (Box<str>, Option<Box<str>>);

/// The parts of a DID document that the server uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DidDocument {
    did: Did,
    pds: Option<String>,
    services: Box<[Service]>,
    handle: Option<String>,
    signing_key: Option<PublicKey>,
    labeler: Option<String>,
    label_key: Option<PublicKey>,
    space_key: Option<PublicKey>,
}

impl DidDocument {
    /// Parses a document. A missing or malformed part is `None` and does not invalidate the others.
    ///
    /// # Errors
    /// [`IdentityError::Invalid`] when its `id` is not `did`.
    pub fn parse(did: &Did, document: &Value) -> Result<Self, IdentityError> {
        if document.get("id").and_then(Value::as_str) != Some(did.as_str()) {
            return Err(IdentityError::Invalid("its id is not the DID"));
        }
        Ok(Self {
            pds: service(did, document, "atproto_pds", "AtprotoPersonalDataServer"),
            services: services(did, document),
            handle: handle(document),
            signing_key: key(did, document, "atproto"),
            labeler: service(did, document, "atproto_labeler", "AtprotoLabeler"),
            label_key: key(did, document, "atproto_label"),
            space_key: key(did, document, "atproto_space"),
            did: did.clone(),
        })
    }

    pub fn did(&self) -> &Did {
        &self.did
    }

    /// Origin of the PDS, without a trailing slash.
    pub fn pds(&self) -> Option<&str> {
        self.pds.as_deref()
    }

    /// Origin of the service with this fragment (`#name`), without a trailing slash.
    pub fn endpoint(&self, fragment: &str) -> Option<&str> {
        let (_, origin) = self.service(fragment)?;
        origin.as_deref()
    }

    /// Whether there is a service with this fragment (`#name`), whatever its endpoint is.
    pub fn has_service(&self, fragment: &str) -> bool {
        self.service(fragment).is_some()
    }

    fn service(&self, fragment: &str) -> Option<&Service> {
        let name = fragment.strip_prefix('#')?;
        self.services.iter().find(|(known, _)| **known == *name)
    }

    /// The first `at://` name of `alsoKnownAs` that is a valid handle, lower case. Unverified: the handle may not resolve
    /// to this DID.
    pub fn handle(&self) -> Option<&str> {
        self.handle.as_deref()
    }

    /// The key of the `#atproto` verification method.
    pub fn signing_key(&self) -> Option<&PublicKey> {
        self.signing_key.as_ref()
    }

    /// Origin of the account's labeler, without a trailing slash.
    pub fn labeler(&self) -> Option<&str> {
        self.labeler.as_deref()
    }

    /// The key of the `#atproto_label` verification method, which signs the account's labels.
    pub fn label_key(&self) -> Option<&PublicKey> {
        self.label_key.as_ref()
    }

    /// The key of the `#atproto_space` verification method, which signs credentials for the spaces of this authority.
    pub fn space_key(&self) -> Option<&PublicKey> {
        self.space_key.as_ref()
    }
}

/// The entries of a list whose id is `#fragment`, relative or with the DID before it.
fn entries<'a>(
    did: &'a Did,
    document: &'a Value,
    list: &str,
    fragment: &'a str,
) -> impl Iterator<Item = &'a Value> {
    let entries = document.get(list).and_then(Value::as_array).into_iter().flatten();
    entries.filter(move |entry| {
        let id = entry.get("id").and_then(Value::as_str).unwrap_or_default();
        let id = id.strip_prefix(did.as_str()).unwrap_or(id);
        id.strip_prefix('#') == Some(fragment)
    })
}

/// Bytes of a host name (RFC 1035 §2.3.4). The URL parser allows more, which no database index takes.
const MAX_HOST_BYTES: usize = 253;

/// The endpoint of a service; `None` unless it is an http or https origin without path, query or credentials.
fn service(did: &Did, document: &Value, fragment: &str, kind: &str) -> Option<String> {
    origin_of(entries(did, document, "service", fragment).find(|entry| entry["type"] == kind)?)
}

/// Every service.
fn services(did: &Did, document: &Value) -> Box<[Service]> {
    let entries = document.get("service").and_then(Value::as_array).into_iter().flatten();
    let named = entries.filter_map(|entry| {
        let id = entry.get("id").and_then(Value::as_str)?;
        let name = id.strip_prefix(did.as_str()).unwrap_or(id).strip_prefix('#')?;
        (name.len() <= MAX_FRAGMENT).then_some(())?;
        Some((name.into(), origin_of(entry).map(Into::into)))
    });
    named.take(MAX_SERVICES).collect()
}

/// The origin of a service's endpoint.
fn origin_of(entry: &Value) -> Option<String> {
    let url = Url::parse(entry.get("serviceEndpoint")?.as_str()?).ok()?;
    let origin_only = matches!(url.scheme(), "http" | "https")
        && url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none()
        && url.host_str().is_some_and(|host| host.len() <= MAX_HOST_BYTES);
    origin_only.then(|| url.origin().ascii_serialization())
}

fn handle(document: &Value) -> Option<String> {
    let names = document.get("alsoKnownAs")?.as_array()?;
    let mut handles = names.iter().filter_map(|name| name.as_str()?.strip_prefix("at://"));
    handles.find(|handle| Handle::try_from(*handle).is_ok()).map(str::to_ascii_lowercase)
}

fn key(did: &Did, document: &Value, fragment: &str) -> Option<PublicKey> {
    let method = entries(did, document, "verificationMethod", fragment).next()?;
    let text = method.get("publicKeyMultibase")?.as_str()?;
    match method.get("type")?.as_str()? {
        "Multikey" => PublicKey::from_multikey(text).ok(),
        // Formats from before 2023, still in use: the bare point, without a multicodec prefix; the type names the
        // curve.
        "EcdsaSecp256r1VerificationKey2019" => PublicKey::from_multibase(Algorithm::Es256, text).ok(),
        "EcdsaSecp256k1VerificationKey2019" => PublicKey::from_multibase(Algorithm::Es256k, text).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use belvedere_base::random::Random;
    use belvedere_protocol::crypto::PrivateKey;

    fn did() -> Did {
        Did::try_from("did:plc:abc").unwrap()
    }

    fn parse(document: &Value) -> DidDocument {
        DidDocument::parse(&did(), document).unwrap()
    }

    fn full() -> Value {
        json!({
            "@context": ["https://www.w3.org/ns/did/v1"],
            "id": "did:plc:abc",
            "alsoKnownAs": ["https://example.com", "at://Alice.Test", "at://other.test"],
            "verificationMethod": [
                {"id": "did:plc:abc#other", "type": "Multikey", "publicKeyMultibase": "zJunk"},
                {"id": "did:plc:abc#atproto", "type": "Multikey", "controller": "did:plc:abc",
                 "publicKeyMultibase": public_key(Algorithm::Es256k).to_multikey()},
                {"id": "#atproto_label", "type": "Multikey", "controller": "did:plc:abc",
                 "publicKeyMultibase": public_key(Algorithm::Es256).to_multikey()},
                {"id": "#atproto_space", "type": "Multikey", "controller": "did:plc:abc",
                 "publicKeyMultibase": public_key(Algorithm::Es256).to_multikey()}
            ],
            "service": [
                {"id": "#atproto_labeler", "type": "AtprotoLabeler", "serviceEndpoint": "https://labels.test"},
                {"id": "#atproto_pds", "type": "AtprotoPersonalDataServer", "serviceEndpoint": "https://PDS.test:8443/"}
            ]
        })
    }

    fn public_key(algorithm: Algorithm) -> PublicKey {
        PrivateKey::generate(algorithm, &Random::seeded(3)).public()
    }

    #[test]
    fn reads_services_handle_and_keys() {
        let document = parse(&full());
        assert_eq!(document.did(), &did());
        assert_eq!(document.pds(), Some("https://pds.test:8443"));
        assert_eq!(document.handle(), Some("alice.test"));
        assert_eq!(document.signing_key(), Some(&public_key(Algorithm::Es256k)));
        assert_eq!(document.labeler(), Some("https://labels.test"));
        assert_eq!(document.label_key(), Some(&public_key(Algorithm::Es256)));
        assert_eq!(document.space_key(), Some(&public_key(Algorithm::Es256)));
    }

    #[test]
    fn an_account_is_a_labeler_only_by_its_own_entries() {
        let mut document = full();
        document["service"][0]["type"] = "AtprotoPersonalDataServer".into();
        document["verificationMethod"][2]["id"] = "#label".into();
        let document = parse(&document);
        assert_eq!(
            (document.labeler(), document.label_key()),
            (None, None),
            "neither the PDS nor another key"
        );
        assert!(document.pds().is_some() && document.signing_key().is_some());
    }

    #[test]
    fn ids_may_be_relative_or_absolute_but_of_this_did() {
        for (id, found) in [
            ("#atproto_pds", true),
            ("did:plc:abc#atproto_pds", true),
            ("did:plc:xyz#atproto_pds", false),
            ("atproto_pds", false),
            ("did:plc:abcatproto_pds", false),
            ("x#atproto_pds", false),
        ] {
            let mut document = full();
            document["service"][1]["id"] = id.into();
            assert_eq!(parse(&document).pds().is_some(), found, "{id}");
        }
    }

    #[test]
    fn an_endpoint_must_be_a_bare_origin() {
        for endpoint in [
            json!("https://pds.test/path"),
            json!("https://pds.test/?q"),
            json!("https://pds.test/#f"),
            json!("https://u:p@pds.test"),
            json!("ftp://pds.test"),
            json!("pds.test"),
            json!(""),
            json!(7),
            json!({"uri": "https://pds.test"}),
        ] {
            let mut document = full();
            document["service"][1]["serviceEndpoint"] = endpoint.clone();
            assert_eq!(parse(&document).pds(), None, "{endpoint}");
        }
        let mut document = full();
        document["service"][1]["type"] = "Other".into();
        assert_eq!(parse(&document).pds(), None);
    }

    #[test]
    fn reads_keys_of_the_2019_suites() {
        for (algorithm, kind) in [
            (Algorithm::Es256, "EcdsaSecp256r1VerificationKey2019"),
            (Algorithm::Es256k, "EcdsaSecp256k1VerificationKey2019"),
        ] {
            let key = public_key(algorithm);
            let multikey = bs58::decode(&key.to_multikey()[1..]).into_vec().unwrap();
            let bare = format!("z{}", bs58::encode(&multikey[2..]).into_string());
            let mut document = full();
            document["verificationMethod"] =
                json!([{"id": "#atproto", "type": kind, "publicKeyMultibase": bare}]);
            assert_eq!(parse(&document).signing_key(), Some(&key));
            document["verificationMethod"][0]["type"] = "JsonWebKey2020".into();
            assert_eq!(parse(&document).signing_key(), None);
        }
    }

    #[test]
    fn services_are_found_by_their_fragment() {
        let mut document = full();
        document["service"] = json!([
            { "id": "#one", "type": "One", "serviceEndpoint": "https://one.example/" },
            { "id": format!("{}#two", did()), "type": "Two", "serviceEndpoint": "https://two.example" },
            { "id": "#path", "type": "P", "serviceEndpoint": "https://p.example/path" },
            { "id": format!("#{}", "x".repeat(65)), "type": "L", "serviceEndpoint": "https://l.example" },
            { "id": "did:plc:other#three", "type": "Three", "serviceEndpoint": "https://three.example" },
        ]);
        let parsed = parse(&document);
        assert_eq!(parsed.endpoint("#one"), Some("https://one.example"));
        assert_eq!(parsed.endpoint("#two"), Some("https://two.example"));
        for none in ["one", "#", "#path", "#three", "#other"] {
            assert_eq!(parsed.endpoint(none), None, "{none}");
            assert_eq!(parsed.has_service(none), none == "#path", "{none}");
        }
        let many = (0..40).map(|n| json!({ "id": format!("#s{n}"), "serviceEndpoint": "https://s.example" }));
        document["service"] = many.collect();
        assert!(parse(&document).endpoint("#s15").is_some() && parse(&document).endpoint("#s16").is_none());
    }

    #[test]
    fn malformed_parts_are_absent_and_the_document_of_another_did_is_refused() {
        for broken in [
            json!({"id": "did:plc:abc"}),
            json!({"id": "did:plc:abc", "service": 7, "alsoKnownAs": {},
            "verificationMethod": [7, {"id": "#atproto"}]}),
        ] {
            let document = parse(&broken);
            assert_eq!((document.pds(), document.handle(), document.signing_key()), (None, None, None));
        }
        let mut document = full();
        for (names, handle) in [
            (json!(["at://not a handle"]), None),
            (
                json!(["at://not a handle", "https://a.test", 7, "at://Second.test", "at://third.test"]),
                Some("second.test"),
            ),
            (
                json!(["at://", "at://alice.test/path", "at://did:plc:alice", "at://alice.test"]),
                Some("alice.test"),
            ),
        ] {
            document["alsoKnownAs"] = names;
            assert_eq!(parse(&document).handle(), handle, "{document}");
        }
        for other in [json!({"id": "did:plc:xyz"}), json!({}), json!([]), json!({"id": 7})] {
            assert!(DidDocument::parse(&did(), &other).is_err(), "{other}");
        }
    }
}
