#![no_main]

use belvedere_scripting::scripts::RecordedRun;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(run) = RecordedRun::decode(bytes) {
        // Numbers have several encodings, so the bytes may be others.
        let encoded = run.encode();
        assert!(encoded.is_none_or(|encoded| RecordedRun::decode(&encoded) == Some(run)));
    }
});
