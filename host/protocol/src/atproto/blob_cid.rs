//! The CID of a blob.

use shrike::cbor::{Cid, Codec};

/// The CID of bytes that are no record: codec `raw`, SHA-256.
pub fn blob_cid(bytes: &[u8]) -> Cid {
    Cid::compute(Codec::Raw, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cid_of_a_blob_begins_as_those_of_the_network() {
        assert_eq!(blob_cid(b"").to_string(), "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku");
    }
}
