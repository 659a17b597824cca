#![no_main]

use belvedere::atproto::record::{self, InvalidRecord};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let json = serde_json::from_slice::<Value>(data);
    match record::inspect(data) {
        // serde_json keeps the last of two equal keys, and refuses numbers beyond a double's range.
        Ok(_) | Err(InvalidRecord::DuplicateKey) => {
            assert!(json.is_ok() || data.contains(&b'e') || data.contains(&b'E'));
        }
        Err(InvalidRecord::NotObject) => assert!(!json.is_ok_and(|json| json.is_object())),
        Err(InvalidRecord::Malformed) => assert!(json.is_err()),
        Err(InvalidRecord::TooLarge | InvalidRecord::TooDeep) => {}
    }
});
