#![no_main]

use belvedere_protocol::crypto::PublicKey;
use belvedere_protocol::spaces::r10::http_signature::{Cover, Headers, verify};
use belvedere_protocol::spaces::r10::token::{ParsedAttestation, ParsedCredential, ParsedDelegation};
use libfuzzer_sys::fuzz_target;

/// The private key of this one is not known.
const KEY: &str = "did:key:zDnaeac1d5FeLM37Ww6tEwbrqyzfoNdJXynZXEzVhjYQGDYs9";

fuzz_target!(|lines: (&str, &str, &str)| {
    let (authorization, input, signature) = lines;
    let _ = ParsedCredential::parse(authorization);
    let _ = ParsedDelegation::parse(authorization);
    let _ = ParsedAttestation::parse(authorization);
    let key = PublicKey::from_did_key(KEY).expect("a key");
    let headers = Headers {
        authorization: &[authorization],
        audience: &["did:plc:abc"],
        signature_input: &[input],
        signature: &[signature],
    };
    assert!(verify(&headers, Cover::Credential(&key), Default::default()).is_err());
    // The input may name a key of which it has a signature.
    let _ = verify(&headers, Cover::Delegation, Default::default());
});
