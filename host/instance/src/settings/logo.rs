//! Encodes the logo as the text of one setting, which contains both media type and bytes, so that they always match.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub const KEY: &str = "logo";

/// The path that serves it.
pub const PATH: &str = "/settings/logo";

/// The maximum size of the picture, in bytes (admin-api.md §9).
pub const MAX_BYTES: usize = 5 << 20;

/// Whether a media type without parameters is an image type.
pub fn is_image(kind: &str) -> bool {
    kind.strip_prefix("image/").is_some_and(|subtype| {
        !subtype.is_empty() && subtype.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    })
}

pub fn to_text(kind: &str, picture: &[u8]) -> String {
    format!("{kind};{}", STANDARD.encode(picture))
}

/// Reads the media type and the picture; `None` for text that [`to_text`] did not write.
pub fn of_text(text: &str) -> Option<(&str, Vec<u8>)> {
    let (kind, picture) = text.split_once(';')?;
    Some((kind, STANDARD.decode(picture).ok()?)).filter(|(kind, _)| is_image(kind))
}
