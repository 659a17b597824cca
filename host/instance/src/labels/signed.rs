//! Signs labels when they are sent.

use belvedere_protocol::atproto::labels::NewLabel;
use belvedere_storage::store::issued_labels::IssuedLabel;
use belvedere_storage::store::labels::Label;

use crate::service_identity::Labeler;

/// A label with its signature.
#[derive(Debug)]
pub struct Signed<'a> {
    label: NewLabel<'a>,
    seq: i64,
    signature: [u8; 64],
}

impl<'a> Signed<'a> {
    /// Signs a label with the key of today, whatever key it was issued under: subscribers check with the key of the DID document.
    pub fn new(labeler: &Labeler, issued: &'a IssuedLabel) -> Self {
        let Label { uri, src, val, cid, neg, cts, exp } = &issued.label;
        let label = NewLabel { src, uri, cid: cid.as_deref(), val, neg: *neg, cts: *cts, exp: *exp };
        Self { label, seq: issued.seq, signature: labeler.key.sign(&label.signed_bytes()) }
    }

    pub fn json(&self) -> serde_json::Value {
        self.label.json(&self.signature)
    }

    /// The message of `subscribeLabels`.
    pub fn message(&self) -> Vec<u8> {
        self.label.message(self.seq, &self.signature)
    }
}
