#![no_main]

use belvedere_scripting::views;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(view) = views::compile(text) {
        let _ = view.parameters();
        let _ = views::check(&view, "com.example.get", &views::Documents::new());
    }
});
