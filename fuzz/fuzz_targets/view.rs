#![no_main]

use std::sync::LazyLock;

use belvedere_scripting::views::{self, Documents};
use libfuzzer_sys::fuzz_target;

/// The lexicon of the method, whose output refers to itself.
static DOCUMENTS: LazyLock<Documents> = LazyLock::new(|| {
    let document = serde_json::json!({ "lexicon": 1, "id": "com.example.get", "defs": {
        "main": { "type": "query",
            "parameters": { "type": "params", "properties": {
                "uri": { "type": "string", "format": "at-uri" },
                "limit": { "type": "integer" },
                "cursor": { "type": "string" },
            } },
            "output": { "encoding": "application/json", "schema": { "type": "object", "required": ["items"], "properties": {
                "items": { "type": "array", "items": { "type": "ref", "ref": "#item" } },
                "cursor": { "type": "string" },
            } } } },
        "item": { "type": "object", "required": ["uri"], "properties": {
            "uri": { "type": "string", "format": "at-uri" },
            "record": { "type": "unknown" },
            "count": { "type": "integer" },
            "replies": { "type": "array", "items": { "type": "ref", "ref": "#item" } },
        } },
    } });
    Documents::from([("com.example.get".to_owned(), document)])
});

fuzz_target!(|text: &str| {
    if let Ok(view) = views::compile(text) {
        let _ = view.parameters();
        let _ = views::check(&view, "com.example.get", &DOCUMENTS);
    }
});
