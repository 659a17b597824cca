#![no_main]

use belvedere_storage::query::cursor;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(keyset) = cursor::decode(text) {
        assert_eq!(cursor::encode(keyset), text);
    }
    let _ = cursor::decode_sorted(text);
});
