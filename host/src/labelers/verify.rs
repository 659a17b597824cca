//! Decodes a labeler's messages, and checks that their labels are its own: the source and the signature of each
//! (docs/adr/0052).

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::atproto::Did;
use crate::atproto::labels::{self, LabelFrame, SignedLabel};
use crate::crypto::{HighS, PublicKey};

/// The content of a chunk of messages.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// Labels whose signature the key verified, and those for which it did not, in their order.
    labels: Vec<(SignedLabel, bool)>,
    /// The highest number of a message with labels.
    pub(super) seq: Option<i64>,
    pub(super) refused: Refusals,
    /// Names and texts of `#info` messages.
    pub(super) infos: Vec<(String, String)>,
    /// The error after which the labeler closes the connection, and its text.
    pub(super) error: Option<(String, String)>,
}

/// What was refused, by kind: how often, and why the first time.
pub(super) type Refusals = BTreeMap<&'static str, (u64, String)>;

/// `#info` messages of a chunk that are kept.
const MAX_INFOS: usize = 4;

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
                        Err(error) => content.refuse("label", format!("message {seq}: {error}")),
                    }
                }
            }
            Ok(LabelFrame::Info { name, message }) => {
                if content.infos.len() < MAX_INFOS {
                    content.infos.push((name, message));
                }
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
