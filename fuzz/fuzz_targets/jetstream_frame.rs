#![no_main]

use belvedere_instance::indexing::frame;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = frame::parse(data);
});
