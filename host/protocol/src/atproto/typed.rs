//! Handles and DIDs as people type and paste them.

use std::borrow::Cow;

/// Removes the invisible characters from a typed or pasted handle or DID: white space around it, marks of writing
/// direction, zero-width characters, soft hyphens and byte order marks. Pages put them around handles, and a copy has
/// them too. No handle and no DID contains one.
pub fn typed(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    if !text.contains(is_invisible) {
        return text.into();
    }
    // White space may be between the marks and the text.
    let visible: String = text.chars().filter(|c| !is_invisible(*c)).collect();
    visible.trim().to_owned().into()
}

/// The characters of the Unicode category Cf that change only how text is laid out, and U+034F, which is never shown.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_removed() {
        for pasted in [
            "alice.example",
            "  alice.example\n",
            "\u{202a}alice.example\u{202c}",
            "\u{2068}alice.example\u{2069}",
            "\u{200e}\u{200f}alice.example\u{61c}",
            "\u{feff}alice.example",
            "alice\u{200b}.exam\u{ad}ple\u{200d}\u{2060}",
            "\u{202a} alice.example \u{202c}",
            "\u{a0}alice.example\u{3000}",
        ] {
            assert_eq!(typed(pasted), "alice.example", "{pasted:?}");
        }
        // Visible characters stay, so that the text is refused.
        for other in ["alice example", "älice.example", "alice\u{301}.example", "аlice.example"] {
            assert_eq!(typed(other), other);
        }
    }
}
