//! A label as a labeler sends it, with its signature.

use shrike::cbor::{Value, encode_value};
use shrike::syntax::Datetime;

use super::cbor::{field, integer, text};
use crate::atproto::record::MAX_REF_BYTES;
use crate::atproto::space_uri::is_in_space;
use crate::atproto::{Cid, Did};
use belvedere_base::clock::Timestamp;

/// Longest value, in bytes (`com.atproto.label.defs#label`).
pub const MAX_VALUE_BYTES: usize = 128;

/// A label whose fields are valid. Whether the signature is, is not checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedLabel {
    pub src: Did,
    /// A DID, or an AT URI whose authority is a DID.
    pub uri: String,
    /// The version of the record that it applies to; `None` all.
    pub cid: Option<Cid>,
    pub val: String,
    /// Negates an earlier label.
    pub neg: bool,
    pub cts: Timestamp,
    pub exp: Option<Timestamp>,
    pub signature: Option<Vec<u8>>,
    /// The bytes that the signature covers: the DAG-CBOR of the label without `sig`.
    pub signed_bytes: Vec<u8>,
}

/// Error for a label that is not accepted.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq, Hash)]
pub enum InvalidLabel {
    #[error("it is not a map, or a field is missing or of a wrong type")]
    Malformed,
    #[error("ver is not 1")]
    Version,
    #[error("src is not a DID")]
    Source,
    #[error("uri is neither a DID nor an AT URI with a DID")]
    Subject,
    /// Labels are public, and addresses in spaces are not.
    #[error("uri is an address in a space")]
    Space,
    #[error("val is empty, longer than 128 bytes or has control characters")]
    Value,
    #[error("cts or exp is not a datetime")]
    Time,
    #[error("cid is not a CID")]
    Cid,
}

impl SignedLabel {
    pub(super) fn parse(label: &Value<'_>) -> Result<Self, InvalidLabel> {
        let required = |name| text(label, name).ok_or(InvalidLabel::Malformed);
        if integer(label, "ver") != Some(1) {
            return Err(InvalidLabel::Version);
        }
        let (uri, val) = (required("uri")?, required("val")?);
        check_subject(uri)?;
        if !is_value(val) {
            return Err(InvalidLabel::Value);
        }
        let cid = match field(label, "cid") {
            None => None,
            Some(Value::Text(cid)) => Some(cid.parse().map_err(|_| InvalidLabel::Cid)?),
            Some(_) => return Err(InvalidLabel::Cid),
        };
        let exp = match field(label, "exp") {
            None => None,
            Some(Value::Text(exp)) => Some(time(exp)?),
            Some(_) => return Err(InvalidLabel::Time),
        };
        let neg = match field(label, "neg") {
            None => false,
            Some(Value::Bool(neg)) => *neg,
            Some(_) => return Err(InvalidLabel::Malformed),
        };
        let signature = match field(label, "sig") {
            None => None,
            Some(Value::Bytes(signature)) => Some(signature.to_vec()),
            Some(_) => return Err(InvalidLabel::Malformed),
        };
        Ok(Self {
            src: Did::try_from(required("src")?).map_err(|_| InvalidLabel::Source)?,
            uri: uri.to_owned(),
            cid,
            val: val.to_owned(),
            neg,
            cts: time(required("cts")?)?,
            exp,
            signature,
            signed_bytes: signed_bytes(label).ok_or(InvalidLabel::Malformed)?,
        })
    }
}

/// Checks that a text has the form of a subject of labels: a DID, or an AT URI whose authority is a DID and that is not in
/// a space.
///
/// # Errors
/// [`InvalidLabel::Space`] for an address in a space, [`InvalidLabel::Subject`] for any other text.
pub fn check_subject(uri: &str) -> Result<(), InvalidLabel> {
    if is_in_space(uri) {
        return Err(InvalidLabel::Space);
    }
    let authority = uri.strip_prefix("at://").map_or(uri, |rest| rest.split('/').next().unwrap_or_default());
    let is_subject = Did::is_valid(authority)
        && uri.len() <= MAX_REF_BYTES
        && !uri.contains(|c: char| c.is_control() || c == ' ');
    if is_subject { Ok(()) } else { Err(InvalidLabel::Subject) }
}

/// Whether a text can be the value of a label.
pub fn is_value(val: &str) -> bool {
    !val.is_empty() && val.len() <= MAX_VALUE_BYTES && !val.contains(char::is_control)
}

/// Strict: PDSs and labelers write what the lexicon's format `datetime` allows, and nothing else has one meaning.
fn time(text: &str) -> Result<Timestamp, InvalidLabel> {
    Datetime::parse(text).map_err(|_| InvalidLabel::Time)?;
    Timestamp::parse(text).map_err(|_| InvalidLabel::Time)
}

/// Unknown fields are signed too.
fn signed_bytes(label: &Value<'_>) -> Option<Vec<u8>> {
    let Value::Map(entries) = label else { return None };
    let unsigned = entries.iter().filter(|(name, _)| *name != "sig").cloned().collect();
    encode_value(&Value::Map(unsigned)).ok()
}
