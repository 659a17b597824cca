#![no_main]

use belvedere_protocol::spaces::r10::RepoEntry;
use belvedere_protocol::spaces::r10::op::OpView;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

fuzz_target!(|data: &[u8]| {
    if let Some((entries, _)) = RepoEntry::read_page(data) {
        let listed: Vec<Value> = entries.iter().map(RepoEntry::to_json).collect();
        let page = json!({ "repos": listed }).to_string();
        assert_eq!(RepoEntry::read_page(page.as_bytes()), Some((entries, None)));
    }
    if let Ok(views) = serde_json::from_slice::<Vec<OpView>>(data)
        && let Ok(ops) = OpView::read_page(&views, None)
    {
        assert!(ops.is_sorted_by_key(|op| op.position));
    }
});
