//! The logo, kept as one setting: its type and its bytes in one text, so that they can't part.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub const KEY: &str = "logo";

/// Bytes of a picture (admin-api.md §9).
pub const MAX_BYTES: usize = 5 << 20;

/// Whether a media type without parameters is a picture's.
pub fn is_image(kind: &str) -> bool {
    kind.strip_prefix("image/").is_some_and(|subtype| {
        !subtype.is_empty() && subtype.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    })
}

pub fn to_text(kind: &str, picture: &[u8]) -> String {
    format!("{kind};{}", STANDARD.encode(picture))
}

/// `None` for what [`to_text`] did not write.
pub fn of_text(text: &str) -> Option<(&str, Vec<u8>)> {
    let (kind, picture) = text.split_once(';')?;
    Some((kind, STANDARD.decode(picture).ok()?)).filter(|(kind, _)| is_image(kind))
}
