#![no_main]

use belvedere::query::Path;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = Path::parse(text);
});
