#![no_main]

use belvedere::testing::query::Path;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = Path::parse(text);
});
