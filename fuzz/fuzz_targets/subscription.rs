#![no_main]

use std::sync::LazyLock;

use belvedere_protocol::atproto::event_stream::{Frame, Message, Subprotocol};
use belvedere_protocol::atproto::lexicon::Schemas;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const WATCH: &str = "com.example.watch";

static SCHEMAS: LazyLock<Schemas> = LazyLock::new(|| {
    let lexicon = r##"{ "lexicon": 1, "id": "com.example.watch", "defs": {
        "main": { "type": "subscription", "parameters": { "type": "params", "properties": {
                "cursor": { "type": "integer" }, "level": { "type": "integer", "maximum": 3 }, "flag": { "type": "boolean" },
                "did": { "type": "array", "maxLength": 2, "items": { "type": "string", "format": "did" } } } },
            "message": { "schema": { "type": "union", "refs": ["#create"] } } },
        "create": { "type": "object", "required": ["seq"], "properties": {
            "seq": { "type": "integer" }, "record": { "type": "unknown" } } } } }"##;
    Schemas::new(std::iter::once(lexicon))
});

// The first line has the parameters and the subprotocol, the rest is a record.
fuzz_target!(|text: &str| {
    let (query, record) = text.split_once('\n').unwrap_or((text, "{}"));
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let given: Vec<(String, String)> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    if let Ok(Some(values)) = SCHEMAS.params(WATCH, &given) {
        assert!(values.get("level").is_none_or(|level| level.as_i64().is_some_and(|level| level <= 3)));
        assert!(values.get("did").is_none_or(|dids| dids.as_array().is_some_and(|dids| dids.len() <= 2)));
    }
    if let Some(subprotocol) = Subprotocol::of_token(query) {
        assert_eq!(subprotocol.token(), query);
    }
    // The database has JSON only.
    if serde_json::from_str::<Value>(record).is_err() {
        return;
    }
    let fields = format!(r#""seq":7,"record":{record}"#);
    let message = Message { nsid: WATCH, name: "create", fields: &fields };
    let frames = Subprotocol::ALL.map(|subprotocol| subprotocol.message(&SCHEMAS, message));
    let sent = frames.iter().filter(|frame| frame.is_ok()).count();
    assert!(sent == 0 || sent == frames.len(), "what one subprotocol can send, all can");
    for frame in frames.into_iter().flatten() {
        match frame {
            Frame::Text(text) => assert!(serde_json::from_str::<Value>(&text).is_ok()),
            Frame::Binary(bytes) => assert_eq!(bytes[0], 0xa2, "a map of two"),
        }
    }
});
