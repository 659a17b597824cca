//! Signs records and verifies these signatures. A signature attests that the instance has seen the record in one repo
//! (lua-runtime.md §12).
//!
//! A signature covers the CID of the record's canonical DAG-CBOR, without its `signatures` and with a `$sig` that binds
//! it to the repo. So a signature is valid only for that record in that repo, however the record's JSON is formatted.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Value, json};

use crate::config;
use crate::keys::instance::{self, InstanceKeyError};
use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::atproto::record::{InvalidRecord, Unencodable, inspect};
use belvedere_protocol::crypto::{Algorithm, HighS, PrivateKey, PublicKey, SealingKey};
use belvedere_storage::store::Db;

/// The key's name in the table of instance keys.
const NAME: &str = "attestation";

/// `$bytes` of the data model: base64, written without padding and read with or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The key, and the key id and `$type` that signatures contain.
#[derive(Debug)]
pub struct Attestation {
    key: PrivateKey,
    key_id: String,
    sig_type: String,
}

/// The reason why a value can't be signed.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Unsignable {
    #[error(transparent)]
    Record(#[from] InvalidRecord),
    #[error("the record has no canonical form: {0}")]
    Form(#[from] Unencodable),
}

impl Attestation {
    pub fn new(key: PrivateKey, key_id: String, sig_type: String) -> Self {
        Self { key, key_id, sig_type }
    }

    /// Loads the configured key, or the one in the database, which is generated if missing. All hosts use the same key.
    ///
    /// # Errors
    /// As [`instance::load`].
    pub async fn load(
        config: &config::Attestation,
        (default_id, default_type): (String, String),
        db: &Db,
        sealing: &SealingKey,
        random: &Random,
        clock: &Clock,
    ) -> Result<Self, InstanceKeyError> {
        let key = match &config.private_key {
            Some(given) => PrivateKey::from_bytes(Algorithm::Es256k, given.reveal())
                .map_err(|_| InstanceKeyError::Sealed(NAME))?,
            None => instance::load(db, sealing, random, clock, NAME, Algorithm::Es256k).await?,
        };
        let key_id = config.key_id.clone().unwrap_or(default_id);
        let sig_type = config.sig_type.clone().unwrap_or(default_type);
        Ok(Self { key, key_id, sig_type })
    }

    /// The key with which other servers verify signatures.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// The fragment and the key for the DID document of `did`; `None` when the key id belongs to another DID's document.
    pub fn method_of(&self, did: &Did) -> Option<(String, PublicKey)> {
        let fragment = self.key_id.strip_prefix(did.as_str()).filter(|rest| rest.starts_with('#'))?;
        Some((fragment.to_owned(), self.key.public()))
    }

    pub fn public_key(&self) -> PublicKey {
        self.key.public()
    }

    /// Signs a record, JSON text of an object, for a repo: `{$type, key, signature: {$bytes}}`.
    ///
    /// # Errors
    /// When the data model can't express the record.
    pub fn sign(&self, record: &[u8], repository: &str) -> Result<Value, Unsignable> {
        let signature = self.key.sign(&self.signed_bytes(record, repository)?);
        Ok(json!({
            "$type": self.sig_type,
            "key": self.key_id,
            "signature": { "$bytes": BASE64.encode(signature) },
        }))
    }

    /// Whether `signature` is this instance's, for this record in this repo. False for malformed input.
    pub fn verify(&self, record: &[u8], signature: &Value, repository: &str) -> bool {
        let own = signature["$type"] == *self.sig_type && signature["key"] == *self.key_id;
        let bytes = signature["signature"]["$bytes"].as_str().and_then(|text| BASE64.decode(text).ok());
        let signed = self.signed_bytes(record, repository);
        match (own, bytes, signed) {
            (true, Some(bytes), Ok(signed)) => {
                self.key.public().verify(&signed, &bytes, HighS::Refuse).is_ok()
            }
            _ => false,
        }
    }

    /// The bytes to sign: the 36 bytes of the CID.
    fn signed_bytes(&self, record: &[u8], repository: &str) -> Result<[u8; 36], Unsignable> {
        // Checks size, depth and duplicate keys before the text is parsed into a tree.
        inspect(record)?;
        let mut value: Value = serde_json::from_slice(record).map_err(|_| InvalidRecord::Malformed)?;
        let object = value.as_object_mut().ok_or(InvalidRecord::NotObject)?;
        object.remove("signatures");
        object.insert("$sig".to_owned(), json!({ "$type": self.sig_type, "repository": repository }));
        Ok(inspect(value.to_string().as_bytes())?.cid?.to_bytes())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attestation() -> Attestation {
        let key = PrivateKey::from_bytes(Algorithm::Es256k, &[7; 32]).unwrap();
        Attestation::new(key, "did:web:x.test#attestation".to_owned(), "com.example.sig".to_owned())
    }

    #[test]
    fn a_signature_is_valid_only_for_its_record_and_repo() {
        let ours = attestation();
        let record = br#"{"$type":"com.example.note","text":"hi","n":1,"deep":{"b":[1,null],"a":true}}"#;
        let signature = ours.sign(record, "did:plc:a").unwrap();
        assert_eq!(signature["$type"], "com.example.sig");
        assert_eq!(signature["key"], "did:web:x.test#attestation");
        assert!(ours.verify(record, &signature, "did:plc:a"));
        // Order of keys, spaces, and signatures that are attached afterwards change nothing.
        let other_text = br#"{ "n":1, "deep":{"a":true,"b":[1,null]}, "text":"hi", "$type":"com.example.note", "signatures":[1] }"#;
        assert!(ours.verify(other_text, &signature, "did:plc:a"));
        assert!(!ours.verify(record, &signature, "did:plc:b"));
        assert!(!ours.verify(br#"{"$type":"com.example.note","text":"ho"}"#, &signature, "did:plc:a"));
        for (field, value) in [
            ("$type", json!("com.example.other")),
            ("key", json!("did:web:y.test#a")),
            ("signature", json!({ "$bytes": "AAAA" })),
            ("signature", json!("x")),
            ("signature", json!({ "$bytes": 7 })),
        ] {
            let mut forged = signature.clone();
            forged[field] = value;
            assert!(!ours.verify(record, &forged, "did:plc:a"), "{forged}");
        }
        assert!(!ours.verify(record, &Value::Null, "did:plc:a"));
        assert!(!ours.verify(b"[]", &signature, "did:plc:a"));
    }

    #[test]
    fn the_signed_bytes_are_the_cid_of_the_canonical_record() {
        // Links and bytes are signed in their binary form.
        let record = br#"{"link":{"$link":"bafkreibme22gw2h7y2h7tg2fhqotaqjucnbc24deqo72b6mkl2egezxhvy"},"b":{"$bytes":"AQI"}}"#;
        let expected = inspect(
            br#"{"b":{"$bytes":"AQI="},"link":{"$link":"bafkreibme22gw2h7y2h7tg2fhqotaqjucnbc24deqo72b6mkl2egezxhvy"},"$sig":{"repository":"did:plc:a","$type":"com.example.sig"}}"#,
        )
        .unwrap()
        .cid
        .unwrap();
        let ours = attestation();
        assert_eq!(ours.signed_bytes(record, "did:plc:a").unwrap(), expected.to_bytes());
        // 64 bytes, low s, and the same every time.
        let signature = ours.sign(record, "did:plc:a").unwrap();
        assert_eq!(signature, ours.sign(record, "did:plc:a").unwrap());
        let bytes = BASE64.decode(signature["signature"]["$bytes"].as_str().unwrap()).unwrap();
        assert!(ours.public_key().verify(&expected.to_bytes(), &bytes, HighS::Refuse).is_ok());
    }

    /// JSON that the data model can express.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-z]{1,3}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_signature_verifies_and_no_other_record_does(
            fields in proptest::collection::btree_map("[a-z]{1,4}", value(), 0..5),
            other in value(),
        ) {
            let ours = attestation();
            let record = Value::Object(fields.into_iter().collect());
            let signature = ours.sign(record.to_string().as_bytes(), "did:plc:a").unwrap();
            let mut signed = record.clone();
            signed["signatures"] = json!([signature.clone()]);
            let pretty = serde_json::to_vec_pretty(&signed).unwrap();
            prop_assert!(ours.verify(&pretty, &signature, "did:plc:a"));
            let mut changed = record.clone();
            changed["zzzzz"] = other;
            prop_assert!(!ours.verify(changed.to_string().as_bytes(), &signature, "did:plc:a"));
        }

        #[test]
        fn never_panics(record in ".{0,80}", signature in value(), repo in ".{0,20}") {
            let ours = attestation();
            let _ = ours.sign(record.as_bytes(), &repo);
            prop_assert!(!ours.verify(record.as_bytes(), &signature, &repo));
        }
    }

    #[test]
    fn invalid_records_are_not_signed() {
        let refused = |record: &[u8]| attestation().sign(record, "did:plc:a").unwrap_err();
        assert_eq!(refused(br#"{"n":1.5}"#), Unsignable::Form(Unencodable::Number));
        assert_eq!(refused(br#"{"l":{"$link":"x"}}"#), Unsignable::Form(Unencodable::Link));
        assert_eq!(refused(b"[]"), Unsignable::Record(InvalidRecord::NotObject));
        assert_eq!(refused(b"{"), Unsignable::Record(InvalidRecord::Malformed));
    }
}
