#![no_main]

use belvedere_scripting::scripts::RecordedRun;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(run) = RecordedRun::decode(bytes) {
        // Numbers have several encodings, so the bytes may be others.
        if let Some(encoded) = run.encode() {
            assert_eq!(RecordedRun::decode(&encoded).as_ref(), Some(&run));
        }
    }
});
