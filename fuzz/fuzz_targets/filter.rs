#![no_main]

use belvedere_storage::query::Filter;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(value) = serde_json::from_slice(data) {
        let _ = Filter::from_json(&value);
    }
});
