#![no_main]

use belvedere_protocol::atproto::LexiconDoc;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(value) = serde_json::from_slice(data) else { return };
    if let Err(error) = LexiconDoc::parse(&value) {
        assert!(!error.path.is_empty() && !error.reason.is_empty());
    }
});
