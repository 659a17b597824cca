#![no_main]

use belvedere_protocol::crypto::dpop::Proof;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(proof) = Proof::parse(text) {
        // The length of a SHA-256 in base64url.
        assert_eq!(proof.thumbprint.len(), 43);
        let _ = proof.verify();
    }
});
