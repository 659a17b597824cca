#![no_main]

use belvedere_protocol::crypto::jws::{self, ServiceClaims};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(token) = jws::parse(text) {
        assert!(text.starts_with(token.signing_input));
        let _ = token.claims::<ServiceClaims>();
    }
});
