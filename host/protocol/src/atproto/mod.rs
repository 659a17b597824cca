//! The atproto protocol's syntax, CIDs, OAuth scopes and lexicon documents. No I/O.
//!
//! Syntax types and DAG-CBOR come from the crate `shrike`, which only this room uses.

mod app;
mod at_identifier;
mod blob_cid;
pub mod blobs;
pub(crate) mod car;
pub(crate) mod cbor_map;
pub mod did;
pub mod event_stream;
mod json;
pub mod labels;
pub mod lexicon;
pub mod record;
mod record_type;
pub mod record_uri;
pub mod repo_car;
pub mod rev;
pub mod scope;
pub mod space_uri;
mod typed;

pub use app::app_of;
pub use at_identifier::AtIdentifier;
pub use blob_cid::blob_cid;
pub use car::InvalidBlocks;
pub use did::{Did, is_service_fragment};
pub use lexicon::{LexiconDoc, LexiconKind};
pub use record_type::{WrongRecordType, set_record_type};
pub use record_uri::{HandleUri, InvalidRecordUri, RecordUri};
pub use repo_car::{InvalidCar, RepoCar};
pub use shrike::cbor::Cid;
pub(crate) use shrike::cbor::Value as CborValue;
pub use shrike::syntax::{Handle, Nsid, RecordKey, SyntaxError, Tid};
pub use typed::typed;

#[cfg(test)]
mod tests {
    use belvedere_standins::vectors;

    use super::*;

    /// Whether a type accepts a text.
    type Accepts = fn(&str) -> bool;

    #[test]
    fn the_interop_vectors_hold() {
        let types: [(&str, Accepts); 5] = [
            ("did", Did::is_valid),
            ("handle", |text| Handle::try_from(text).is_ok()),
            ("nsid", |text| Nsid::try_from(text).is_ok()),
            ("recordkey", |text| RecordKey::try_from(text).is_ok()),
            ("tid", |text| Tid::try_from(text).is_ok()),
        ];
        for (name, accepts) in types {
            let mut wrong = Vec::new();
            for (suffix, valid) in [("valid", true), ("invalid", false)] {
                let cases = vectors::lines(&format!("syntax/{name}_syntax_{suffix}.txt")).unwrap_or_default();
                wrong.extend(
                    cases.into_iter().filter(|case| accepts(case) != valid).map(|case| (suffix, case)),
                );
            }
            assert!(wrong.is_empty(), "{name}: {wrong:#?}");
        }
    }
}
