//! Decodes a frame: two DAG-CBOR items, a header and a body (atproto event stream specification, framing).

use shrike::cbor::{Decoder, Value};

use super::cbor::{field, integer, is_bounded, text};
use super::label::{InvalidLabel, SignedLabel};

/// Characters of a labeler's message that are kept for the operator.
const MAX_MESSAGE_CHARS: usize = 200;

/// One message of a labeler.
#[derive(Debug, PartialEq)]
pub enum LabelFrame {
    Labels {
        /// Later frames have higher numbers. The cursor is such a number.
        seq: i64,
        labels: Vec<Result<SignedLabel, InvalidLabel>>,
    },
    /// The labeler closes the connection after it.
    Error {
        error: String,
        message: String,
    },
    Info {
        name: String,
        message: String,
    },
    /// A kind that this version doesn't know.
    Other,
}

#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidFrame {
    #[error("it is not DAG-CBOR, nests too deep or has too many items")]
    Cbor,
    #[error("it has not exactly a header and a body")]
    Items,
    #[error("its header is not one of an event stream")]
    Header,
    #[error("its body lacks a field")]
    Body,
}

/// Decodes a message. An invalid label doesn't make the others of its frame invalid.
///
/// # Errors
/// See [`InvalidFrame`].
pub fn decode(message: &[u8]) -> Result<LabelFrame, InvalidFrame> {
    if !is_bounded(message) {
        return Err(InvalidFrame::Cbor);
    }
    let mut decoder = Decoder::new(message);
    let mut item = || {
        if decoder.is_empty() {
            return Err(InvalidFrame::Items);
        }
        decoder.decode().map_err(|_| InvalidFrame::Cbor)
    };
    let (header, body) = (item()?, item()?);
    if !decoder.is_empty() {
        return Err(InvalidFrame::Items);
    }
    match (integer(&header, "op"), text(&header, "t")) {
        (Some(1), Some("#labels")) => labels(&body),
        (Some(1), Some("#info")) => {
            Ok(LabelFrame::Info { name: shown(&body, "name")?, message: optional(&body, "message") })
        }
        (Some(1), Some(_)) => Ok(LabelFrame::Other),
        (Some(-1), _) => {
            Ok(LabelFrame::Error { error: shown(&body, "error")?, message: optional(&body, "message") })
        }
        _ => Err(InvalidFrame::Header),
    }
}

fn labels(body: &Value<'_>) -> Result<LabelFrame, InvalidFrame> {
    let seq = integer(body, "seq").filter(|seq| *seq >= 0).ok_or(InvalidFrame::Body)?;
    let Some(Value::Array(items)) = field(body, "labels") else { return Err(InvalidFrame::Body) };
    Ok(LabelFrame::Labels { seq, labels: items.iter().map(SignedLabel::parse).collect() })
}

fn shown(body: &Value<'_>, name: &str) -> Result<String, InvalidFrame> {
    let text = text(body, name).ok_or(InvalidFrame::Body)?;
    Ok(text.chars().filter(|c| !c.is_control()).take(MAX_MESSAGE_CHARS).collect())
}

fn optional(body: &Value<'_>, name: &str) -> String {
    shown(body, name).unwrap_or_default()
}
