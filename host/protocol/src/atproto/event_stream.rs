//! The frames of event streams (atproto event stream specification; proposal 0015).

use super::lexicon::{SchemaErrors, Schemas};
use super::record;

/// A subprotocol: how the messages of a stream are framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subprotocol {
    /// Two CBOR items: a header and the message without its type.
    V0Cbor,
    /// One JSON object.
    V1Json,
    /// The same object as DAG-CBOR.
    V1Cbor,
}

/// A frame that is sent to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    Text(String),
    Binary(Vec<u8>),
}

/// A message of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The subscription.
    pub nsid: &'a str,
    /// The name of the message in the subscription's lexicon, without `#`; one of another lexicon has its full name.
    pub name: &'a str,
    /// The JSON text of its fields, without braces.
    pub fields: &'a str,
}

impl Message<'_> {
    /// The message as DAG-CBOR, which is checked against its lexicon.
    ///
    /// # Errors
    /// The differences from the lexicon.
    pub fn encode(&self, schemas: &Schemas) -> Result<Vec<u8>, SchemaErrors> {
        schemas.encode_message(self.nsid, self.payload().as_bytes())
    }

    fn payload(&self) -> String {
        let Self { nsid, name, fields } = self;
        let comma = if fields.is_empty() { "" } else { "," };
        if name.contains('#') {
            format!(r#"{{"$type":"{name}"{comma}{fields}}}"#)
        } else {
            format!(r#"{{"$type":"{nsid}#{name}"{comma}{fields}}}"#)
        }
    }
}

impl Subprotocol {
    pub const ALL: [Self; 3] = [Self::V0Cbor, Self::V1Json, Self::V1Cbor];

    /// The name in `Sec-WebSocket-Protocol`.
    pub fn token(self) -> &'static str {
        match self {
            Self::V0Cbor => "xrpc.v0.cbor",
            Self::V1Json => "xrpc.v1.json",
            Self::V1Cbor => "xrpc.v1.cbor",
        }
    }

    /// Tokens have a letter case.
    pub fn of_token(token: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.token() == token)
    }

    /// The default of a lexicon that names this subprotocol, or none.
    pub fn of_lexicon(token: Option<&str>) -> Self {
        token.and_then(Self::of_token).unwrap_or(Self::V0Cbor)
    }

    /// The frame of a message, which is checked against its lexicon.
    ///
    /// # Errors
    /// The differences from the lexicon.
    pub fn message(self, schemas: &Schemas, message: Message<'_>) -> Result<Frame, SchemaErrors> {
        let Message { name, fields, .. } = message;
        let payload = message.payload();
        let cbor = schemas.encode_message(message.nsid, payload.as_bytes())?;
        Ok(match self {
            Self::V1Json => Frame::Text(format!(r#"{{"$type":"message","payload":{payload}}}"#)),
            Self::V1Cbor => {
                let mut frame = vec![0xa2];
                for text in ["$type", "message", "payload"] {
                    push_text(&mut frame, text);
                }
                frame.extend(cbor);
                Frame::Binary(frame)
            }
            Self::V0Cbor => {
                let mut frame = vec![0xa2];
                push_text(&mut frame, "t");
                push_text(&mut frame, &if name.contains('#') { name.to_owned() } else { format!("#{name}") });
                push_text(&mut frame, "op");
                frame.push(0x01);
                // The same text could be encoded with its type.
                if let Ok(Ok(body)) = record::to_cbor(format!("{{{fields}}}").as_bytes()) {
                    frame.extend(body);
                }
                Frame::Binary(frame)
            }
        })
    }

    /// The frame of an error, after which the connection is closed. `name` and `message` are plain ASCII without quotes.
    pub fn error(self, name: &str, message: &str) -> Frame {
        let text = format!(r#"{{"$type":"error","error":"{name}","message":"{message}"}}"#);
        match self {
            Self::V0Cbor => Frame::Binary(super::labels::error_message(name, message)),
            Self::V1Json => Frame::Text(text),
            Self::V1Cbor => {
                Frame::Binary(record::to_cbor(text.as_bytes()).ok().and_then(Result::ok).unwrap_or_default())
            }
        }
    }
}

/// Appends a CBOR text of at most 255 bytes; names of definitions are shorter.
fn push_text(out: &mut Vec<u8>, text: &str) {
    match u8::try_from(text.len()) {
        Ok(length @ 0..24) => out.push(0x60 | length),
        Ok(length) => out.extend([0x78, length]),
        // The length in two bytes: a name of a definition may be long.
        Err(_) => out.extend([0x79, (text.len() >> 8) as u8, text.len() as u8]),
    }
    out.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn schemas() -> Schemas {
        let lexicon = json!({ "lexicon": 1, "id": "com.example.watch", "defs": {
            "main": { "type": "subscription", "message": { "schema": { "type": "union", "refs": ["#create"] } } },
            "create": { "type": "object", "required": ["seq"], "properties": {
                "seq": { "type": "integer" }, "cid": { "type": "cid-link" }, "record": { "type": "unknown" } } } } });
        Schemas::new(std::iter::once(lexicon.to_string().as_str()))
    }

    fn frame(subprotocol: Subprotocol, fields: &str) -> Result<Frame, String> {
        let message = Message { nsid: "com.example.watch", name: "create", fields };
        subprotocol.message(&schemas(), message).map_err(|error| error.to_string())
    }

    #[test]
    fn a_message_has_a_frame_in_each_subprotocol() {
        let fields = r#""seq":7,"record":{"a":1}"#;
        let text =
            r#"{"$type":"message","payload":{"$type":"com.example.watch#create","seq":7,"record":{"a":1}}}"#;
        assert_eq!(frame(Subprotocol::V1Json, fields), Ok(Frame::Text(text.to_owned())));
        let encoded = record::to_cbor(text.as_bytes()).unwrap().unwrap();
        assert_eq!(frame(Subprotocol::V1Cbor, fields), Ok(Frame::Binary(encoded)));
        let mut parts = record::to_cbor(br##"{"op":1,"t":"#create"}"##).unwrap().unwrap();
        parts.extend(record::to_cbor(br#"{"seq":7,"record":{"a":1}}"#).unwrap().unwrap());
        assert_eq!(frame(Subprotocol::V0Cbor, fields), Ok(Frame::Binary(parts)));
    }

    proptest! {
        #[test]
        fn a_message_has_a_frame_in_each_subprotocol_or_in_none(seq in any::<i64>(), text in ".{0,40}", more in "[0-9.e\\-]{0,6}") {
            let fields = format!(r#""seq":{seq},"record":{{"a":{},"b":"{more}"}}"#, json!(text));
            let message = Message { nsid: "com.example.watch", name: "create", fields: &fields };
            let schemas = schemas();
            let frames = Subprotocol::ALL.map(|subprotocol| subprotocol.message(&schemas, message).is_ok());
            prop_assert!(frames == [true; 3] || frames == [false; 3], "{:?}", frames);
        }
    }

    #[test]
    fn a_message_that_the_lexicon_does_not_allow_is_an_error() {
        assert_eq!(
            frame(Subprotocol::V1Json, r#""seq":"7""#).unwrap_err(),
            "at message.seq: expected integer, got string"
        );
        assert!(schemas().has_message("com.example.watch", "com.example.watch#create"));
        assert!(!schemas().has_message("com.example.watch", "com.example.watch#delete"));
        assert!(schemas().is_link("com.example.watch#create", "cid"));
        assert!(!schemas().is_link("com.example.watch#create", "seq"));
    }

    #[test]
    fn errors_have_their_own_frames() {
        let text = r#"{"$type":"error","error":"FutureCursor","message":"why"}"#;
        assert_eq!(Subprotocol::V1Json.error("FutureCursor", "why"), Frame::Text(text.to_owned()));
        let cbor = record::to_cbor(text.as_bytes()).unwrap().unwrap();
        assert_eq!(Subprotocol::V1Cbor.error("FutureCursor", "why"), Frame::Binary(cbor));
    }

    #[test]
    fn tokens_are_matched_exactly_and_v0_is_the_default() {
        for subprotocol in Subprotocol::ALL {
            assert_eq!(Subprotocol::of_lexicon(Some(subprotocol.token())), subprotocol);
        }
        assert_eq!(Subprotocol::of_token("XRPC.v1.json"), None);
        assert_eq!(Subprotocol::of_lexicon(None), Subprotocol::V0Cbor);
    }
}
