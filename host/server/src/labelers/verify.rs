//! Decodes a labeler's messages, and checks that their labels are its own: the source and the signature of each
//! (docs/adr/0052).

use std::collections::BTreeMap;

use bytes::Bytes;

use belvedere_protocol::atproto::Did;
use belvedere_protocol::atproto::labels::{self, InvalidLabel, LabelFrame, SignedLabel};
use belvedere_protocol::crypto::{HighS, PublicKey};

/// The content of a chunk of messages.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// Labels whose signature the key verified, and those for which it did not, in their order.
    labels: Vec<(SignedLabel, bool)>,
    /// The highest number of a message with labels.
    pub(super) seq: Option<i64>,
    pub(super) refused: Refusals,
    /// The labeler informs that it has deleted messages after the cursor.
    pub(super) says_outdated: bool,
    /// The error after which the labeler closes the connection, and its text.
    pub(super) error: Option<(String, String)>,
}

/// The number of refusals by kind, with the first error of each.
pub(super) type Refusals = BTreeMap<&'static str, (u64, String)>;

/// Decodes messages and checks their labels. Occupies the thread: some 100 µs for each label.
pub(super) fn read(messages: &[Bytes], labeler: &Did, key: &PublicKey) -> Content {
    let mut content = Content::default();
    for message in messages {
        match labels::decode(message) {
            Ok(LabelFrame::Labels { seq, labels }) => {
                content.seq = content.seq.max(Some(seq));
                for label in labels {
                    match label {
                        Ok(label) if label.src != *labeler => {
                            let why = format!("message {seq} has a label of {}", label.src);
                            content.refuse("source", why);
                        }
                        Ok(label) if label.signature.is_none() => {
                            content
                                .refuse("unsigned", format!("message {seq}: {} has no signature", label.uri));
                        }
                        Ok(label) => {
                            let verified = is_signed_with(&label, key);
                            content.labels.push((label, verified));
                        }
                        Err(error @ InvalidLabel::Space) => {
                            content.refuse("space", format!("message {seq}: {error}"));
                        }
                        Err(error) => content.refuse("label", format!("message {seq}: {error}")),
                    }
                }
            }
            Ok(LabelFrame::Info { name, message }) => {
                tracing::debug!(%labeler, name, message, "the labeler informs");
                content.says_outdated |= name == "OutdatedCursor";
            }
            Ok(LabelFrame::Error { error, message }) => {
                content.error = Some((error, message));
                break;
            }
            Ok(LabelFrame::Other) => {}
            Err(error) => content.refuse("message", error.to_string()),
        }
    }
    content
}

impl Content {
    /// Whether a label's signature was not verified.
    pub(super) fn has_unverified(&self) -> bool {
        self.labels.iter().any(|(_, verified)| !verified)
    }

    /// Checks the labels that were not verified with another key.
    pub(super) fn verify_again(&mut self, key: &PublicKey) {
        for (label, verified) in &mut self.labels {
            *verified = *verified || is_signed_with(label, key);
        }
    }

    /// The verified labels. The others are refused.
    pub(super) fn take_labels(&mut self) -> Vec<SignedLabel> {
        let mut verified = Vec::with_capacity(self.labels.len());
        for (label, is_verified) in std::mem::take(&mut self.labels) {
            if is_verified {
                verified.push(label);
            } else {
                self.refuse(
                    "signature",
                    format!("the signature of the label {:?} on {} is wrong", label.val, label.uri),
                );
            }
        }
        verified
    }

    fn refuse(&mut self, kind: &'static str, why: String) {
        self.refused.entry(kind).or_insert((0, why)).0 += 1;
    }
}

/// atproto allows only low `s` (cryptography specification), so that a label has one signature.
fn is_signed_with(label: &SignedLabel, key: &PublicKey) -> bool {
    let signature = label.signature.as_deref().unwrap_or_default();
    key.verify(&label.signed_bytes, signature, HighS::Refuse).is_ok()
}

#[cfg(test)]
mod tests {
    use shrike::cbor::{Value, encode_value};

    use super::*;
    use belvedere_base::random::Random;
    use belvedere_protocol::crypto::{Algorithm, PrivateKey};

    const LABELER: &str = "did:plc:labelerlabelerlabelerlab";

    fn did() -> Did {
        Did::try_from(LABELER).unwrap()
    }

    fn key(algorithm: Algorithm, seed: u64) -> PrivateKey {
        PrivateKey::generate(algorithm, &Random::seeded(seed))
    }

    /// A message with one label of an account.
    fn message(src: &str, val: &str, sign: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Bytes {
        message_about("did:plc:alice", src, val, sign)
    }

    fn message_about(uri: &str, src: &str, val: &str, sign: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Bytes {
        let mut label = vec![
            ("ver", Value::Unsigned(1)),
            ("src", Value::Text(src)),
            ("uri", Value::Text(uri)),
            ("val", Value::Text(val)),
            ("cts", Value::Text("2024-05-01T12:00:00.000Z")),
        ];
        let signature = sign(&encode_value(&Value::Map(label.clone())).unwrap());
        label.extend(signature.as_deref().map(|signature| ("sig", Value::Bytes(signature))));
        let header = Value::Map(vec![("op", Value::Unsigned(1)), ("t", Value::Text("#labels"))]);
        let labels = Value::Array(vec![Value::Map(label)]);
        let body = Value::Map(vec![("seq", Value::Unsigned(7)), ("labels", labels)]);
        [encode_value(&header).unwrap(), encode_value(&body).unwrap()].concat().into()
    }

    fn signed(val: &str, key: &PrivateKey) -> Bytes {
        message(LABELER, val, |bytes| Some(key.sign(bytes).to_vec()))
    }

    fn values(content: &mut Content) -> Vec<String> {
        content.take_labels().into_iter().map(|label| label.val).collect()
    }

    #[test]
    fn labels_of_both_curves_are_verified() {
        for algorithm in [Algorithm::Es256, Algorithm::Es256k] {
            let key = key(algorithm, 1);
            let mut content = read(&[signed("a", &key), signed("b", &key)], &did(), &key.public());
            assert!(!content.has_unverified() && content.refused.is_empty());
            assert_eq!((values(&mut content), content.seq), (vec!["a".to_owned(), "b".to_owned()], Some(7)));
        }
    }

    #[test]
    fn labels_that_are_not_the_labelers_own_are_refused() {
        let (key, other) = (key(Algorithm::Es256k, 1), key(Algorithm::Es256k, 2));
        // The same signature with the other `s` of the curve: n - s.
        let high = |bytes: &[u8]| {
            let signature = k256::ecdsa::Signature::from_slice(&key.sign(bytes)).unwrap();
            let (r, s) = signature.split_scalars();
            Some(k256::ecdsa::Signature::from_scalars(r, -s).unwrap().to_bytes().to_vec())
        };
        let messages = [
            message("did:plc:other", "spoofed", |bytes| Some(key.sign(bytes).to_vec())),
            message(LABELER, "unsigned", |_| None),
            message(LABELER, "short", |bytes| Some(key.sign(bytes)[..63].to_vec())),
            message(LABELER, "high", high),
            signed("foreign", &other),
            signed("good", &key),
            Bytes::from_static(b"garbage"),
            message_about(
                "at://did:plc:a/space/a.b.c/main/did:plc:b/a.b.d/1",
                LABELER,
                "in a space",
                |bytes| Some(key.sign(bytes).to_vec()),
            ),
        ];
        let mut content = read(&messages, &did(), &key.public());
        assert_eq!(values(&mut content), ["good"]);
        let counts: Vec<_> = content.refused.iter().map(|(kind, (count, _))| (*kind, *count)).collect();
        assert_eq!(counts, [("message", 1), ("signature", 3), ("source", 1), ("space", 1), ("unsigned", 1)]);
    }

    #[test]
    fn a_new_key_verifies_what_the_old_one_did_not_and_keeps_the_order() {
        let (old, new) = (key(Algorithm::Es256k, 1), key(Algorithm::Es256, 2));
        let messages = [signed("a", &new), signed("b", &old), signed("c", &new)];
        let mut content = read(&messages, &did(), &old.public());
        assert!(content.has_unverified());
        content.verify_again(&new.public());
        assert_eq!(values(&mut content), ["a", "b", "c"]);
    }

    #[test]
    fn nothing_after_an_error_is_read() {
        let key = key(Algorithm::Es256k, 1);
        let header = encode_value(&Value::Map(vec![("op", Value::Signed(-1))])).unwrap();
        let body = encode_value(&Value::Map(vec![("error", Value::Text("FutureCursor"))])).unwrap();
        let error = Bytes::from([header, body].concat());
        let mut content = read(&[signed("a", &key), error, signed("b", &key)], &did(), &key.public());
        assert_eq!(values(&mut content), ["a"]);
        assert_eq!(content.error, Some(("FutureCursor".to_owned(), String::new())));
    }
}
