#![no_main]

use belvedere_protocol::atproto::scope::Scopes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(scopes) = text.parse::<Scopes>() {
        assert_eq!(scopes.to_string().parse(), Ok(scopes));
    }
});
