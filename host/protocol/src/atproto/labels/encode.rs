//! Encodes labels and the messages of a subscription to them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::json;
use shrike::cbor::Value;

use crate::atproto::cbor_map;
use belvedere_base::clock::Timestamp;

/// A label that this server issues.
#[derive(Clone, Copy, Debug)]
pub struct NewLabel<'a> {
    pub src: &'a str,
    pub uri: &'a str,
    pub cid: Option<&'a str>,
    pub val: &'a str,
    pub neg: bool,
    pub cts: Timestamp,
    pub exp: Option<Timestamp>,
}

/// A label's fields with the times as texts, which the encoders borrow.
struct Written<'a> {
    label: NewLabel<'a>,
    cts: String,
    exp: Option<String>,
}

impl<'a> From<NewLabel<'a>> for Written<'a> {
    fn from(label: NewLabel<'a>) -> Self {
        Self { label, cts: label.cts.to_string(), exp: label.exp.map(|exp| exp.to_string()) }
    }
}

impl Written<'_> {
    /// Optional fields are left out, as the signatures of all labelers expect.
    fn fields<'v>(&'v self, signature: Option<&'v [u8]>) -> Vec<(&'v str, Value<'v>)> {
        let NewLabel { src, uri, cid, val, neg, .. } = self.label;
        let mut fields = vec![
            ("ver", Value::Unsigned(1)),
            ("src", Value::Text(src)),
            ("uri", Value::Text(uri)),
            ("val", Value::Text(val)),
            ("cts", Value::Text(&self.cts)),
        ];
        fields.extend(cid.map(|cid| ("cid", Value::Text(cid))));
        fields.extend(neg.then_some(("neg", Value::Bool(true))));
        fields.extend(self.exp.as_deref().map(|exp| ("exp", Value::Text(exp))));
        fields.extend(signature.map(|signature| ("sig", Value::Bytes(signature))));
        fields
    }
}

impl NewLabel<'_> {
    /// The bytes that the signature covers: the DAG-CBOR of the label without `sig`.
    pub fn signed_bytes(&self) -> Vec<u8> {
        cbor_map::encode(Written::from(*self).fields(None))
    }

    /// The label as JSON (`com.atproto.label.defs#label`).
    pub fn json(&self, signature: &[u8]) -> serde_json::Value {
        let sig = STANDARD_NO_PAD.encode(signature);
        let mut label = json!({
            "ver": 1,
            "src": self.src,
            "uri": self.uri,
            "val": self.val,
            "cts": self.cts.to_string(),
            "sig": { "$bytes": sig },
        });
        if let Some(cid) = self.cid {
            label["cid"] = cid.into();
        }
        if self.neg {
            label["neg"] = true.into();
        }
        if let Some(exp) = self.exp {
            label["exp"] = exp.to_string().into();
        }
        label
    }

    /// The message with the label, `#labels`.
    pub fn message(&self, seq: i64, signature: &[u8]) -> Vec<u8> {
        let written = Written::from(*self);
        let labels = Value::Array(vec![Value::Map(written.fields(Some(signature)))]);
        message("#labels", vec![("seq", Value::Unsigned(seq.unsigned_abs())), ("labels", labels)])
    }
}

/// The message `#info` with a name of the lexicon, such as `OutdatedCursor`.
pub fn info_message(name: &str, text: &str) -> Vec<u8> {
    message("#info", vec![("name", Value::Text(name)), ("message", Value::Text(text))])
}

/// The message after which the connection is closed.
pub fn error_message(error: &str, text: &str) -> Vec<u8> {
    let header = cbor_map::encode(vec![("op", Value::Signed(-1))]);
    let body = cbor_map::encode(vec![("error", Value::Text(error)), ("message", Value::Text(text))]);
    [header, body].concat()
}

fn message(kind: &str, body: Vec<(&str, Value<'_>)>) -> Vec<u8> {
    let header = cbor_map::encode(vec![("op", Value::Unsigned(1)), ("t", Value::Text(kind))]);
    [header, cbor_map::encode(body)].concat()
}

#[cfg(test)]
mod tests {
    use super::super::{LabelFrame, decode};
    use super::*;

    fn label(cid: Option<&str>) -> NewLabel<'_> {
        let (src, uri, val) = ("did:web:index.example", "at://did:plc:a/com.example.note/1", "spam");
        NewLabel { src, uri, cid, val, neg: false, cts: Timestamp(1), exp: None }
    }

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let cid = "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a";
        let full = NewLabel { neg: true, exp: Some(Timestamp(2)), ..label(Some(cid)) };
        for label in [label(None), full] {
            let read = decode(&label.message(7, &[1; 64])).unwrap();
            let LabelFrame::Labels { seq: 7, labels } = read else { panic!("{read:?}") };
            let read = labels[0].as_ref().unwrap();
            assert_eq!((read.uri.as_str(), read.val.as_str(), read.neg), (label.uri, label.val, label.neg));
            assert_eq!((read.cts, read.exp), (label.cts, label.exp));
            assert_eq!(read.cid.map(|cid| cid.to_string()).as_deref(), label.cid);
            assert_eq!(read.signed_bytes, label.signed_bytes());
            assert_eq!(read.signature.as_deref(), Some(&[1; 64][..]));
        }
    }

    #[test]
    fn the_json_has_no_empty_fields() {
        let json = label(None).json(&[0; 3]);
        assert_eq!(json["sig"]["$bytes"], "AAAA");
        assert!(json.get("cid").is_none() && json.get("neg").is_none() && json.get("exp").is_none());
    }

    #[test]
    fn infos_and_errors_are_read() {
        let info = decode(&info_message("OutdatedCursor", "old")).unwrap();
        assert_eq!(info, LabelFrame::Info { name: "OutdatedCursor".into(), message: "old".into() });
        let error = decode(&error_message("FutureCursor", "far")).unwrap();
        assert_eq!(error, LabelFrame::Error { error: "FutureCursor".into(), message: "far".into() });
    }
}
