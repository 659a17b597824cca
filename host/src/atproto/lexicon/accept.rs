//! Recognizes valid records by their DAG-CBOR, without building a tree of values. Nearly all records are valid, and are
//! accepted here at a fraction of the cost.
//!
//! What is accepted here is valid. What is not may be valid too: the validation of [`super::Schemas::check`] decides, and
//! says why.

use shrike::lexicon::{Catalog, Def, FieldSchema, ObjectDef};
use shrike::syntax::{AtIdentifier, AtUri, Datetime, Did, Handle, Language, Nsid, RecordKey, Tid};

use crate::atproto::record::cbor::{Item, Reader};

/// Required fields that one word can count. Lexicons have a few; one with more is left to the other validation.
const MAX_REQUIRED: usize = 64;

/// Whether the record certainly matches the lexicon of its collection.
pub(super) fn accepts(catalog: &Catalog, collection: &str, cbor: &[u8]) -> bool {
    let Some(Def::Record(definition)) = catalog.main_def(collection) else { return false };
    let mut reader = Reader::new(cbor);
    let Some(Item::Map(members)) = reader.next() else { return false };
    let acceptor = Acceptor { catalog };
    acceptor.object(&mut reader, members, collection, &definition.record, Some(collection)).is_some()
}

#[derive(Clone, Copy)]
struct Acceptor<'a> {
    catalog: &'a Catalog,
}

/// `None`: not certainly valid, and the reader is anywhere.
type Accepted = Option<()>;

impl Acceptor<'_> {
    /// The members of an object. `nsid`: the lexicon that the definition is in. `kind`: what `$type` must be, if present.
    fn object(
        self,
        reader: &mut Reader<'_>,
        members: u64,
        nsid: &str,
        definition: &ObjectDef,
        kind: Option<&str>,
    ) -> Accepted {
        if definition.required.len() > MAX_REQUIRED {
            return None;
        }
        // A bit for each required field.
        let unused = (MAX_REQUIRED - definition.required.len()) as u32;
        let mut missing = u64::MAX.checked_shr(unused).unwrap_or(0);
        for _ in 0..members {
            let Item::Text(name) = reader.next()? else { return None };
            if let Some(kind) = kind
                && name == "$type"
                && reader.peek()? != Item::Text(kind)
            {
                return None;
            }
            if let Some(at) = definition.required.iter().position(|required| required == name) {
                missing &= !(1 << at);
            }
            match definition.properties.get(name) {
                Some(field) => {
                    let is_nullable = definition.nullable.iter().any(|nullable| nullable == name);
                    if is_nullable && reader.peek()? == Item::Null {
                        reader.skip()?;
                    } else {
                        self.field(reader, nsid, field)?;
                    }
                }
                // Undeclared, but it could be required and null.
                None if reader.peek()? == Item::Null => return None,
                None => reader.skip()?,
            }
        }
        (missing == 0).then_some(())
    }

    fn field(self, reader: &mut Reader<'_>, nsid: &str, field: &FieldSchema) -> Accepted {
        match (field, reader.next()?) {
            (
                FieldSchema::String {
                    min_length,
                    max_length,
                    min_graphemes,
                    max_graphemes,
                    r#enum,
                    format,
                    const_val,
                    ..
                },
                Item::Text(text),
            ) => {
                let length = text.len() as u64;
                let fits = min_length.is_none_or(|min| length >= min)
                    && max_length.is_none_or(|max| length <= max)
                    // A grapheme has at least one byte. Counting them is left to the other validation.
                    && max_graphemes.is_none_or(|max| length <= max || text.chars().count() as u64 <= max)
                    && min_graphemes.is_none()
                    && const_val.as_ref().is_none_or(|constant| constant == text)
                    && r#enum.as_ref().is_none_or(|values| values.iter().any(|value| value == text))
                    && format.as_ref().is_none_or(|format| has_format(format, text));
                fits.then_some(())
            }
            (FieldSchema::Integer { minimum, maximum, r#enum, const_val, .. }, Item::Integer(n)) => {
                let fits = minimum.is_none_or(|min| n >= min)
                    && maximum.is_none_or(|max| n <= max)
                    && const_val.is_none_or(|constant| n == constant)
                    && r#enum.as_ref().is_none_or(|values| values.contains(&n));
                fits.then_some(())
            }
            (FieldSchema::Boolean { const_val, .. }, Item::Boolean(value)) => {
                const_val.is_none_or(|constant| value == constant).then_some(())
            }
            (FieldSchema::Bytes { min_length, max_length, .. }, Item::Bytes(bytes)) => {
                let length = bytes.len() as u64;
                let fits =
                    min_length.is_none_or(|min| length >= min) && max_length.is_none_or(|max| length <= max);
                fits.then_some(())
            }
            (FieldSchema::Blob { accept, max_size, .. }, Item::Map(members)) => {
                blob(reader, members, accept.as_deref(), *max_size)
            }
            (FieldSchema::Array { items, min_length, max_length, .. }, Item::Array(count)) => {
                if min_length.is_some_and(|min| count < min) || max_length.is_some_and(|max| count > max) {
                    return None;
                }
                (0..count).try_for_each(|_| self.field(reader, nsid, items))
            }
            (FieldSchema::Object(definition), Item::Map(members)) => {
                self.object(reader, members, nsid, definition, None)
            }
            (FieldSchema::Ref { reference, .. }, Item::Map(members)) => {
                let (nsid, name) = resolve(nsid, reference);
                self.definition(reader, members, nsid, name)
            }
            (FieldSchema::Union { refs, closed, .. }, Item::Map(members)) => {
                let kind = kind_of(*reader, members)?;
                let (of, name) = kind.split_once('#').unwrap_or((kind, "main"));
                if name.contains('#') {
                    return None;
                }
                if refs.iter().any(|reference| resolve(nsid, reference) == (of, name)) {
                    return self.definition(reader, members, of, name);
                }
                if closed.unwrap_or_default() {
                    return None;
                }
                skip_members(reader, members)
            }
            (FieldSchema::Unknown { .. }, Item::Map(members)) => skip_members(reader, members),
            (FieldSchema::Unknown { .. }, Item::Bytes(_))
            | (FieldSchema::CidLink { .. } | FieldSchema::Unknown { .. }, Item::Link) => Some(()),
            _ => None,
        }
    }

    /// The members of an object that a definition of a lexicon describes.
    fn definition(self, reader: &mut Reader<'_>, members: u64, nsid: &str, name: &str) -> Accepted {
        match self.catalog.get(nsid)?.defs.get(name)? {
            Def::Object(definition) => self.object(reader, members, nsid, definition, None),
            Def::Record(definition) => self.object(reader, members, nsid, &definition.record, None),
            _ => None,
        }
    }
}

/// The members of a blob.
fn blob(reader: &mut Reader<'_>, members: u64, accept: Option<&[String]>, max_size: Option<u64>) -> Accepted {
    let mut seen = 0;
    for _ in 0..members {
        let Item::Text(name) = reader.next()? else { return None };
        seen += match (name, *reader, reader.next()?) {
            ("$type", _, Item::Text("blob")) | ("ref", _, Item::Link) => 1,
            ("mimeType", _, Item::Text(kind)) if !kind.is_empty() => {
                let is_accepted =
                    |pattern: &String| pattern == "*/*" || pattern == kind || starts(pattern, kind);
                accept.is_none_or(|patterns| patterns.iter().any(is_accepted)).then_some(1)?
            }
            ("size", _, Item::Integer(size)) => {
                let size = u64::try_from(size).ok()?;
                max_size.is_none_or(|max| size <= max).then_some(1)?
            }
            ("$type" | "ref" | "mimeType" | "size", ..) => return None,
            (_, before, _) => {
                *reader = before;
                reader.skip()?;
                0
            }
        };
    }
    (seen == 4).then_some(())
}

/// Whether a MIME type is one of `type/*`.
fn starts(pattern: &str, kind: &str) -> bool {
    let prefix = pattern.strip_suffix('*').filter(|prefix| prefix.ends_with('/'));
    prefix.is_some_and(|prefix| kind.starts_with(prefix))
}

/// The `$type` of an object whose members follow.
fn kind_of(mut reader: Reader<'_>, members: u64) -> Option<&str> {
    for _ in 0..members {
        let Item::Text(name) = reader.next()? else { return None };
        if name == "$type" {
            return match reader.next()? {
                Item::Text(kind) => Some(kind),
                _ => None,
            };
        }
        reader.skip()?;
    }
    None
}

fn skip_members(reader: &mut Reader<'_>, members: u64) -> Accepted {
    (0..members.checked_mul(2)?).try_for_each(|_| reader.skip())
}

/// The lexicon and the definition that a reference in lexicon `nsid` names.
fn resolve<'a>(nsid: &'a str, reference: &'a str) -> (&'a str, &'a str) {
    match reference.split_once('#') {
        Some(("", name)) => (nsid, name),
        Some(named) => named,
        None => (reference, "main"),
    }
}

fn has_format(format: &str, text: &str) -> bool {
    match format {
        "did" => Did::try_from(text).is_ok(),
        "handle" => Handle::try_from(text).is_ok(),
        "at-uri" => AtUri::try_from(text).is_ok(),
        "at-identifier" => AtIdentifier::try_from(text).is_ok(),
        "nsid" => Nsid::try_from(text).is_ok(),
        "datetime" => Datetime::try_from(text).is_ok(),
        "tid" => Tid::try_from(text).is_ok(),
        "record-key" => RecordKey::try_from(text).is_ok(),
        "language" => Language::try_from(text).is_ok(),
        "uri" => is_plain_uri(text),
        _ => false,
    }
}

/// The URIs that occur: a scheme, `://`, and ASCII without spaces.
fn is_plain_uri(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, rest)| {
        !scheme.is_empty()
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && !rest.is_empty()
            && !rest.starts_with('/')
            && rest.bytes().all(|byte| byte.is_ascii_graphic())
    })
}

#[cfg(test)]
mod tests;
