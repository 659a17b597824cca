#![no_main]

use belvedere_protocol::atproto::labels::{self, LabelFrame, check_subject, is_value};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(LabelFrame::Labels { labels, .. }) = labels::decode(data) else { return };
    for label in labels.into_iter().flatten() {
        assert!(check_subject(&label.uri).is_ok() && is_value(&label.val));
    }
});
