#![no_main]

use belvedere_storage::query::Path;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = Path::parse(text);
});
