//! Bytes in JSON: `{"$bytes": base64}` (spaces-delta.md §4). They are written without padding, and read with or without.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::{Value, json};

/// The JSON form of bytes.
pub fn bytes_json(bytes: &[u8]) -> Value {
    json!({ "$bytes": STANDARD_NO_PAD.encode(bytes) })
}

/// Reads the JSON form; `None` for another one.
pub fn read_bytes(value: &Value) -> Option<Vec<u8>> {
    STANDARD_NO_PAD.decode(value["$bytes"].as_str()?.trim_end_matches('=')).ok()
}

/// Reads a digest of 32 bytes.
pub fn read_digest(value: &Value) -> Option<[u8; 32]> {
    read_bytes(value)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip() {
        assert_eq!(bytes_json(&[1, 2, 3, 255]), json!({ "$bytes": "AQID/w" }));
        for text in ["AQID/w", "AQID/w=="] {
            assert_eq!(read_bytes(&json!({ "$bytes": text })), Some(vec![1, 2, 3, 255]));
        }
        for wrong in [json!("AQ"), json!({ "$bytes": "AQID_w" }), json!({ "$bytes": 1 }), json!(null)] {
            assert_eq!(read_bytes(&wrong), None, "{wrong}");
        }
        assert_eq!(read_digest(&bytes_json(&[7; 32])), Some([7; 32]));
        assert_eq!(read_digest(&bytes_json(&[7; 31])), None);
    }
}
