#![no_main]

use belvedere_protocol::atproto::record::{self, InvalidRecord};
use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use serde_json::Value;

/// Whether serde_json accepts the text as JSON. Parsing to a `Value` rejects numbers beyond the range of a double, which
/// are valid JSON; for those the result of parsing to `IgnoredAny` counts.
fn is_json(data: &[u8]) -> bool {
    match serde_json::from_slice::<Value>(data) {
        Ok(_) => true,
        Err(error) => {
            error.to_string().starts_with("number out of range")
                && serde_json::from_slice::<IgnoredAny>(data).is_ok()
        }
    }
}

fuzz_target!(|data: &[u8]| {
    match record::inspect(data) {
        // serde_json keeps the last of two equal keys.
        Ok(_) | Err(InvalidRecord::DuplicateKey) => {
            assert!(is_json(data) && data.trim_ascii_start().starts_with(b"{"));
        }
        Err(InvalidRecord::NotObject) => {
            assert!(!serde_json::from_slice::<Value>(data).is_ok_and(|json| json.is_object()));
        }
        Err(InvalidRecord::Malformed | InvalidRecord::NumberOutOfRange) => {
            assert!(serde_json::from_slice::<Value>(data).is_err());
        }
        Err(InvalidRecord::TooLarge | InvalidRecord::TooDeep) => {}
    }
});
