#![no_main]

use belvedere_protocol::atproto::blobs::splice_urls;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|text: &str| {
    if let Some(out) = splice_urls(text, "https://pds.example.com", "did:plc:abc")
        && serde_json::from_str::<Value>(text).is_ok()
    {
        assert!(serde_json::from_str::<Value>(&out).is_ok(), "{out}");
    }
});
