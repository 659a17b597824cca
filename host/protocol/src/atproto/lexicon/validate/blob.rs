//! References to blobs (specs/data-model, `blob` Type).

use super::super::format::Format;
use super::super::plan::contains;
use super::super::steps;
use super::errors::Place;
use super::{Step, Validation};
use crate::atproto::record::cbor::Item;

/// The members that make a blob; others are ignored.
#[derive(Default)]
struct Members<'a> {
    kind: Option<&'a str>,
    has_ref: bool,
    mime_type: Option<&'a str>,
    size: Option<i64>,
    /// The CID of the legacy form.
    cid: Option<&'a str>,
}

impl Validation<'_> {
    /// The members of a blob, of which the head was read.
    pub(super) fn blob(
        &mut self,
        accept: Option<&[Box<str>]>,
        max_size: u64,
        members: u64,
        place: &Place<'_>,
    ) -> Step {
        let mut blob = Members::default();
        for _ in 0..members {
            let name = self.name()?;
            match (name, self.reader.peek()) {
                ("$type", Some(Item::Text(kind))) => blob.kind = Some(kind),
                ("ref", Some(Item::Link(_))) => blob.has_ref = true,
                ("mimeType", Some(Item::Text(mime_type))) => blob.mime_type = Some(mime_type),
                ("size", Some(Item::Integer(size))) => blob.size = Some(size),
                ("cid", Some(Item::Text(cid))) => blob.cid = Some(cid),
                _ => {}
            }
            self.skip()?;
        }
        let mime_type = match blob {
            Members {
                kind: Some("blob"),
                has_ref: true,
                mime_type: Some(mime_type),
                size: Some(size),
                ..
            } if size >= 0 => {
                if size.unsigned_abs() > max_size {
                    self.add(place, format_args!("blob too large: max {max_size} bytes, got {size}"))?;
                }
                mime_type
            }
            // The form of before 2023, which no PDS writes any more.
            Members { kind: None, mime_type: Some(mime_type), cid: Some(cid), .. }
                if Format::Cid.accepts(cid) =>
            {
                mime_type
            }
            _ => {
                return self.add(
                    place,
                    "expected blob, got an object without $type \"blob\", ref, mimeType and size",
                );
            }
        };
        if mime_type.is_empty() {
            return self.add(place, "the mimeType of the blob is empty");
        }
        if accept.is_none_or(|patterns| accepts(patterns, mime_type)) {
            return Ok(());
        }
        self.add(place, format_args!("the mimeType {mime_type:?} of the blob is not accepted"))
    }
}

/// Whether sorted patterns have a MIME type, its `type/*` or `*/*`. A lexicon may have thousands of patterns, and a record
/// thousands of blobs.
fn accepts(patterns: &[Box<str>], mime_type: &str) -> bool {
    let has_family = |family: &str| {
        let order = |pattern: &str| {
            steps::count();
            pattern.bytes().cmp(family.bytes().chain(*b"/*"))
        };
        patterns.binary_search_by(|pattern| order(pattern)).is_ok()
    };
    contains(patterns, mime_type)
        || contains(patterns, "*/*")
        || mime_type.split_once('/').is_some_and(|(family, _)| has_family(family))
}
