//! Operations of did:plc (the did:plc method, version 0.1): builds them, signs them, and computes the DID of the first.
//!
//! An update is the last operation with our services and keys put in; everything else of it stays, unknown fields
//! included. Signatures have a low `s`: the directory refuses others.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use data_encoding::BASE32_NOPAD;
use serde_json::{Map, Value, json};

use belvedere_protocol::atproto::Did;
use belvedere_protocol::atproto::record::{InvalidRecord, Unencodable, inspect, to_cbor};
use belvedere_protocol::crypto::{PrivateKey, PublicKey, sha256};

/// Characters of a did:plc after `did:plc:`.
const DID_CHARACTERS: usize = 24;

/// Names in the documents of accounts that are never changed here: their PDS, and their own key.
const OF_THE_ACCOUNT: [&str; 2] = ["atproto_pds", "atproto"];

/// The instance's entries in its DID document.
#[derive(Clone, Debug, Default)]
pub struct Publication {
    /// The endpoint of the services: the origin of the instance.
    pub endpoint: String,
    /// Name (a fragment without `#`) and type of each service.
    pub services: Vec<(String, String)>,
    /// Name and key of each verification method.
    pub keys: Vec<(String, PublicKey)>,
    /// The `#atproto` key; `None` where a PDS holds it.
    pub signing_key: Option<PublicKey>,
    /// Keys, as did:key, that were deleted here and may still be in the document.
    pub removed: Vec<String>,
}

/// An operation with its signature, and the DID that it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct Signed {
    pub did: Did,
    pub operation: Value,
}

/// The reason why an operation can't be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOperation {
    #[error("the last operation of the DID has an unknown form")]
    Last,
    #[error("the DID was deactivated at the PLC directory")]
    Tombstone,
    #[error("the operation can't be encoded: {0}")]
    Encoding(String),
}

impl From<InvalidRecord> for InvalidOperation {
    fn from(error: InvalidRecord) -> Self {
        Self::Encoding(error.to_string())
    }
}

impl From<Unencodable> for InvalidOperation {
    fn from(error: Unencodable) -> Self {
        Self::Encoding(error.to_string())
    }
}

/// The first operation of a new DID, signed with its only rotation key.
///
/// # Errors
/// When it can't be encoded.
pub fn genesis(rotation: &PrivateKey, publication: &Publication) -> Result<Signed, InvalidOperation> {
    let empty = json!({
        "type": "plc_operation",
        "rotationKeys": [rotation.public().to_did_key()],
        "verificationMethods": {},
        "alsoKnownAs": [],
        "services": {},
        "prev": null,
    });
    let operation = sign(rotation, put_in(empty, publication)?)?;
    let digest = sha256(&to_cbor(operation.to_string().as_bytes())??);
    let mut id = BASE32_NOPAD.encode(&digest).to_ascii_lowercase();
    id.truncate(DID_CHARACTERS);
    let did = Did::parse_account(&format!("did:plc:{id}"));
    Ok(Signed { did: did.map_err(|error| InvalidOperation::Encoding(error.to_string()))?, operation })
}

/// The last operation with our services and keys put in, unsigned and without `prev`. `None` when it has them already.
///
/// # Errors
/// When the last operation deactivates the DID or has an unknown form.
pub fn merged(last: &Value, publication: &Publication) -> Result<Option<Value>, InvalidOperation> {
    let unsigned = without_signature(normalized(last)?);
    let merged = put_in(unsigned.clone(), publication)?;
    Ok((merged != unsigned).then_some(merged))
}

/// The operation after `last` that publishes our services and keys; `None` when there is nothing to change.
///
/// # Errors
/// As [`merged`].
pub fn signed_update(
    did: &Did,
    last: &Value,
    rotation: &PrivateKey,
    publication: &Publication,
) -> Result<Option<Signed>, InvalidOperation> {
    let Some(mut operation) = merged(last, publication)? else { return Ok(None) };
    operation["prev"] = inspect(last.to_string().as_bytes())?.cid?.to_string().into();
    Ok(Some(Signed { did: did.clone(), operation: sign(rotation, operation)? }))
}

fn sign(rotation: &PrivateKey, mut operation: Value) -> Result<Value, InvalidOperation> {
    let unsigned = to_cbor(operation.to_string().as_bytes())??;
    operation["sig"] = URL_SAFE_NO_PAD.encode(rotation.sign(&unsigned)).into();
    Ok(operation)
}

fn without_signature(mut operation: Value) -> Value {
    if let Some(fields) = operation.as_object_mut() {
        fields.remove("sig");
    }
    operation
}

/// An operation of the current form. The first operation of an old DID has another form with the same content.
fn normalized(last: &Value) -> Result<Value, InvalidOperation> {
    let text = |name: &str| last.get(name).and_then(Value::as_str).ok_or(InvalidOperation::Last);
    match text("type")? {
        "plc_operation" => Ok(last.clone()),
        "plc_tombstone" => Err(InvalidOperation::Tombstone),
        "create" => {
            let (signing, recovery) = (text("signingKey")?, text("recoveryKey")?);
            let handle = text("handle")?;
            let handle = handle.strip_prefix("at://").unwrap_or(handle);
            let service = text("service")?;
            let service =
                if service.starts_with("http") { service.to_owned() } else { format!("https://{service}") };
            Ok(json!({
                "type": "plc_operation",
                "rotationKeys": [recovery, signing],
                "verificationMethods": { "atproto": signing },
                "alsoKnownAs": [format!("at://{handle}")],
                "services": { "atproto_pds": { "type": "AtprotoPersonalDataServer", "endpoint": service } },
                "prev": null,
            }))
        }
        _ => Err(InvalidOperation::Last),
    }
}

/// Puts our services and keys in, and takes out those that were ours: services at our endpoint, and deleted keys.
fn put_in(mut operation: Value, publication: &Publication) -> Result<Value, InvalidOperation> {
    let endpoint = publication.endpoint.as_str();
    let services = object(&mut operation, "services")?;
    services.retain(|name, service| {
        let at = service.get("endpoint").and_then(Value::as_str).unwrap_or_default();
        at.trim_end_matches('/') != endpoint
            || OF_THE_ACCOUNT.contains(&name.as_str())
            || publication.services.iter().any(|(ours, _)| ours == name)
    });
    for (name, service_type) in &publication.services {
        if !OF_THE_ACCOUNT.contains(&name.as_str()) {
            services.insert(name.clone(), json!({ "type": service_type, "endpoint": endpoint }));
        }
    }
    let methods = object(&mut operation, "verificationMethods")?;
    methods.retain(|name, key| {
        let key = key.as_str().unwrap_or_default();
        OF_THE_ACCOUNT.contains(&name.as_str()) || publication.removed.iter().all(|removed| removed != key)
    });
    for (name, key) in &publication.keys {
        if !OF_THE_ACCOUNT.contains(&name.as_str()) {
            methods.insert(name.clone(), key.to_did_key().into());
        }
    }
    if let Some(key) = &publication.signing_key {
        methods.insert("atproto".to_owned(), key.to_did_key().into());
    }
    Ok(operation)
}

fn object<'a>(operation: &'a mut Value, name: &str) -> Result<&'a mut Map<String, Value>, InvalidOperation> {
    operation.get_mut(name).and_then(Value::as_object_mut).ok_or(InvalidOperation::Last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_base::random::Random;
    use belvedere_protocol::crypto::{Algorithm, HighS};

    fn key(algorithm: Algorithm, seed: u64) -> PrivateKey {
        PrivateKey::generate(algorithm, &Random::seeded(seed))
    }

    fn publication() -> Publication {
        Publication {
            endpoint: "https://index.example".to_owned(),
            services: vec![("bsky_appview".to_owned(), "BskyAppView".to_owned())],
            keys: vec![("extra".to_owned(), key(Algorithm::Es256, 2).public())],
            signing_key: Some(key(Algorithm::Es256, 3).public()),
            removed: Vec::new(),
        }
    }

    fn is_signed(operation: &Value, key: &PublicKey) -> bool {
        let signature = URL_SAFE_NO_PAD.decode(operation["sig"].as_str().unwrap()).unwrap();
        let unsigned = without_signature(operation.clone());
        let bytes = to_cbor(unsigned.to_string().as_bytes()).unwrap().unwrap();
        key.verify(&bytes, &signature, HighS::Refuse).is_ok()
    }

    #[test]
    fn every_signature_has_a_low_s() {
        for algorithm in [Algorithm::Es256, Algorithm::Es256k] {
            for seed in 0..200 {
                let rotation = key(algorithm, seed);
                let Signed { did, operation } = genesis(&rotation, &publication()).unwrap();
                assert!(is_signed(&operation, &rotation.public()), "{algorithm:?} {seed}");
                let more = Publication { keys: Vec::new(), services: Vec::new(), ..publication() };
                let update = signed_update(&did, &operation, &rotation, &more).unwrap().unwrap();
                assert!(is_signed(&update.operation, &rotation.public()), "{algorithm:?} {seed}");
            }
        }
    }

    #[test]
    fn the_did_is_the_hash_of_the_signed_genesis() {
        let Signed { did, operation } = genesis(&key(Algorithm::Es256, 1), &publication()).unwrap();
        assert_eq!(did.as_str().len(), "did:plc:".len() + DID_CHARACTERS);
        let cid = inspect(operation.to_string().as_bytes()).unwrap().cid.unwrap();
        let digest = &cid.to_bytes()[4..];
        // The first 15 bytes of the digest that the CID contains.
        let expected = BASE32_NOPAD.encode(&digest[..15]).to_ascii_lowercase();
        assert_eq!(did.as_str(), format!("did:plc:{expected}"));
        assert_eq!(operation["prev"], Value::Null);
        assert_eq!(
            operation["services"],
            json!({ "bsky_appview": { "type": "BskyAppView", "endpoint": "https://index.example" } })
        );
        assert_eq!(
            operation["verificationMethods"]["atproto"],
            key(Algorithm::Es256, 3).public().to_did_key()
        );
        // The same keys and services give the same DID: a registration that was interrupted can be repeated.
        assert_eq!(genesis(&key(Algorithm::Es256, 1), &publication()).unwrap().did, did);
    }

    #[test]
    fn an_update_keeps_what_is_not_ours() {
        let (rotation, old) = (key(Algorithm::Es256, 1), key(Algorithm::Es256, 9).public().to_did_key());
        let last = json!({
            "type": "plc_operation",
            "rotationKeys": ["did:key:zA", "did:key:zB"],
            "verificationMethods": { "atproto": "did:key:zAccount", "foreign": "did:key:zF", "old": old },
            "alsoKnownAs": ["at://alice.example", "https://alice.example"],
            "services": {
                "atproto_pds": { "type": "AtprotoPersonalDataServer", "endpoint": "https://index.example" },
                "atproto_labeler": { "type": "AtprotoLabeler", "endpoint": "https://labels.example", "x": [1] },
                "gone": { "type": "Old", "endpoint": "https://index.example/" },
            },
            "prev": "bafyreib",
            "unknown": { "deep": [null, 1] },
            "sig": "abc",
        });
        // The entries of an attached account, whose key and PDS are never touched.
        let ours = Publication {
            signing_key: None,
            removed: vec![old],
            services: vec![
                ("svc".to_owned(), "Svc".to_owned()),
                ("atproto_pds".to_owned(), "Takeover".to_owned()),
            ],
            keys: vec![
                ("extra".to_owned(), key(Algorithm::Es256, 2).public()),
                ("atproto".to_owned(), key(Algorithm::Es256, 2).public()),
            ],
            ..publication()
        };
        let did = Did::try_from("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa").unwrap();
        let update = signed_update(&did, &last, &rotation, &ours).unwrap().unwrap().operation;
        for kept in ["rotationKeys", "alsoKnownAs", "unknown", "type"] {
            assert_eq!(update[kept], last[kept], "{kept}");
        }
        assert_eq!(
            update["services"],
            json!({
                "atproto_pds": last["services"]["atproto_pds"],
                "atproto_labeler": last["services"]["atproto_labeler"],
                "svc": { "type": "Svc", "endpoint": "https://index.example" },
            })
        );
        let extra = key(Algorithm::Es256, 2).public().to_did_key();
        assert_eq!(
            update["verificationMethods"],
            json!({ "atproto": "did:key:zAccount", "foreign": "did:key:zF", "extra": extra })
        );
        let cid = inspect(last.to_string().as_bytes()).unwrap().cid.unwrap();
        assert_eq!(update["prev"], cid.to_string());
        // Entries that are published already are not published again.
        assert_eq!(signed_update(&did, &update, &rotation, &ours), Ok(None));
    }

    #[test]
    fn old_and_broken_last_operations_are_told_apart() {
        let create = json!({ "type": "create", "signingKey": "did:key:zS", "recoveryKey": "did:key:zR",
            "handle": "alice.example", "service": "pds.example", "prev": null, "sig": "abc" });
        let ours = Publication { signing_key: None, ..publication() };
        let update = merged(&create, &ours).unwrap().unwrap();
        assert_eq!(update["rotationKeys"], json!(["did:key:zR", "did:key:zS"]));
        assert_eq!(update["alsoKnownAs"], json!(["at://alice.example"]));
        assert_eq!(update["verificationMethods"]["atproto"], "did:key:zS");
        assert_eq!(update["services"]["atproto_pds"]["endpoint"], "https://pds.example");
        let tombstone = json!({ "type": "plc_tombstone", "prev": "bafyreib", "sig": "abc" });
        assert_eq!(merged(&tombstone, &ours), Err(InvalidOperation::Tombstone));
        for broken in [
            json!({}),
            json!([]),
            json!({ "type": "other" }),
            json!({ "type": "plc_operation" }),
            json!({ "type": "plc_operation", "services": [], "verificationMethods": {} }),
            json!({ "type": "create", "signingKey": 7 }),
        ] {
            assert_eq!(merged(&broken, &ours), Err(InvalidOperation::Last), "{broken}");
        }
    }
}
