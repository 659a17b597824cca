#![no_main]

use belvedere_protocol::atproto::RecordUri;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(uri) = RecordUri::parse(text) {
        assert_eq!(RecordUri::parse(&uri.to_string()), Ok(uri));
    }
});
