//! Validates the DAG-CBOR of records by a [`Plan`]: one pass that builds no values, and allocates only for errors and the
//! names of an object that lacks a required one. A value of a union is read ahead to find its `$type`, and an object again for
//! each error about what it lacks. Both are bounded: at most 19 times the record is read, so the work is linear in its size,
//! times the logarithm of the lexicon's lists.
//! `docs/validation.md` says what is valid where the specification leaves it open or implementations differ.

mod blob;
mod errors;
mod scalar;
#[cfg(test)]
mod tests;
mod unencodable;

use self::errors::{Errors, Place};
pub(super) use self::unencodable::first_unencodable;
use super::plan::{DefinitionId, Object, Plan, Type};
use super::steps;
use crate::atproto::record::cbor::{Item, Reader};

/// Maximum that is read ahead of the pass, in times the size of the record, and in bytes for small records. `$type`
/// comes before all members with longer names, so records of the network need next to nothing.
const READ_AHEAD_TIMES: usize = 8;
const MIN_READ_AHEAD: usize = 64 << 10;

/// The errors of a record, at most [`errors::MAX_ERRORS`]; none for a collection without a record lexicon.
pub(super) fn validate(plan: &Plan, collection: &str, cbor: &[u8]) -> Vec<String> {
    let Some(schema) = plan.record(collection) else { return Vec::new() };
    errors_of(plan, "record", cbor, |validation, root| {
        validation.root(schema, root, Kind::Required(collection))
    })
}

/// The errors of the parameters of a method, as an object.
pub(super) fn validate_params(plan: &Plan, schema: &Object, cbor: &[u8]) -> Vec<String> {
    errors_of(plan, "params", cbor, |validation, root| validation.root(schema, root, Kind::Any))
}

/// The errors of a body: `name` says which one.
pub(super) fn validate_body(plan: &Plan, name: &'static str, schema: &Type, cbor: &[u8]) -> Vec<String> {
    errors_of(plan, name, cbor, |validation, root| validation.value(schema, root))
}

/// The errors that `check` finds in a value, of which `name` is what it is.
fn errors_of<'a>(
    plan: &'a Plan,
    name: &'static str,
    cbor: &'a [u8],
    check: impl FnOnce(&mut Validation<'a>, &Place<'_>) -> Step,
) -> Vec<String> {
    let read_ahead = (READ_AHEAD_TIMES * cbor.len()).max(MIN_READ_AHEAD);
    let mut validation =
        Validation { plan, reader: Reader::new(cbor), read_ahead, errors: Errors::default() };
    let root = Place::Root(name);
    match check(&mut validation, &root) {
        Err(End::Malformed) => {
            validation.errors.add(&root, format_args!("the {name} is not DAG-CBOR"));
        }
        Err(End::TooMuchAhead) => {
            let text = format_args!(
                "values of unions with long members before $type are inside each other: finding their types takes more \
                 than {READ_AHEAD_TIMES} times the size of the {name}"
            );
            validation.errors.add(&root, text);
        }
        Ok(()) | Err(End::EnoughErrors) => {}
    }
    validation.errors.into()
}

/// The reason why a validation ends before the end of the record.
#[derive(Clone, Copy, Debug)]
enum End {
    Malformed,
    EnoughErrors,
    /// To find the types of its unions costs too much.
    TooMuchAhead,
}

type Step = Result<(), End>;

/// The rule for `$type` of an object.
#[derive(Clone, Copy)]
enum Kind<'a> {
    Required(&'a str),
    /// For an object whose type the schema around it already names.
    IfPresent(&'a str),
    Any,
}

struct Validation<'a> {
    plan: &'a Plan,
    reader: Reader<'a>,
    /// Bytes that may still be read ahead of the pass.
    read_ahead: usize,
    errors: Errors,
}

impl<'a> Validation<'a> {
    /// The object that is the whole value.
    fn root(&mut self, schema: &'a Object, root: &Place<'_>, kind: Kind<'_>) -> Step {
        match self.next()? {
            Item::Map(members) => self.object(schema, members, root, kind),
            _ => Err(End::Malformed),
        }
    }

    fn value(&mut self, schema: &'a Type, place: &Place<'_>) -> Step {
        if let Type::Named(id) = schema {
            return self.value(self.plan.get(*id), place);
        }
        match (schema, self.next()?) {
            (Type::Null, Item::Null)
            | (Type::Link | Type::Unknown, Item::Link(_))
            | (Type::Unknown, Item::Bytes(_)) => Ok(()),
            (Type::Boolean { constant }, Item::Boolean(value)) => self.boolean(*constant, value, place),
            (Type::Integer(schema), Item::Integer(n)) => self.integer(schema, n, place),
            (Type::String(schema), Item::Text(text)) => self.string(schema, text, place),
            (Type::Token(token), Item::Text(text)) => self.token(token, text, place),
            (Type::Bytes { length }, Item::Bytes(bytes)) => {
                self.limits(*length, bytes.len() as u64, ("bytes", " bytes"), place)
            }
            (Type::Blob { accept, max_size }, Item::Map(members)) => {
                self.blob(accept.as_deref(), *max_size, members, place)
            }
            (Type::Array { items, length }, Item::Array(count)) => {
                self.limits(*length, count, ("array", " items"), place)?;
                (0..count).try_for_each(|index| self.value(items, &Place::Item(place, index)))
            }
            (Type::Object(object), Item::Map(members)) => {
                let kind = object.kind.as_deref().map_or(Kind::Any, Kind::IfPresent);
                self.object(object, members, place, kind)
            }
            (Type::Union { members: refs, is_closed }, Item::Map(members)) => {
                self.union(refs, *is_closed, members, place)
            }
            (Type::Unknown, Item::Map(members)) => self.skip_members(members),
            (Type::Any, item) if item != Item::Null => self.skip_inside(item),
            (schema, item) => {
                self.add(place, format_args!("expected {}, got {}", expected(schema), got(item)))?;
                self.skip_inside(item)
            }
        }
    }

    /// The members of an object, of which the head was read.
    fn object(&mut self, object: &'a Object, members: u64, place: &Place<'_>, kind: Kind<'_>) -> Step {
        let start = self.reader;
        let (mut found, mut has_kind) = (0, false);
        for _ in 0..members {
            let name = self.name()?;
            if name == "$type" {
                has_kind = true;
                self.check_kind(kind, place)?;
            }
            let Some(property) = object.property(name) else {
                self.skip()?;
                continue;
            };
            found += usize::from(property.is_required);
            if property.is_nullable && self.reader.peek() == Some(Item::Null) {
                self.skip()?;
            } else {
                self.value(&property.schema, &Place::Field(place, name))?;
            }
        }
        if matches!(kind, Kind::Required(_)) && !has_kind {
            self.add(&Place::Field(place, "$type"), "required field missing")?;
        }
        if found < object.required {
            self.missing(object, start, members, place)?;
        }
        Ok(())
    }

    /// Names the required properties that an object lacks, whose members begin at `members`.
    #[cold]
    fn missing(&mut self, object: &Object, members: Reader<'a>, count: u64, place: &Place<'_>) -> Step {
        let mut reader = members;
        let mut names = std::collections::HashSet::new();
        for _ in 0..count {
            let Some(Item::Text(name)) = reader.next() else { return Err(End::Malformed) };
            names.insert(name);
            reader.skip().ok_or(End::Malformed)?;
        }
        let mut missing = object.required_names().filter(|name| !names.contains(name));
        missing.try_for_each(|name| self.add(&Place::Field(place, name), "required field missing"))
    }

    /// Checks the value of `$type`, which is next.
    fn check_kind(&mut self, kind: Kind<'_>, place: &Place<'_>) -> Step {
        let (Kind::Required(kind) | Kind::IfPresent(kind)) = kind else { return Ok(()) };
        match self.reader.peek() {
            Some(Item::Text(text)) if text == kind => Ok(()),
            Some(Item::Text(text)) => {
                self.add(&Place::Field(place, "$type"), format_args!("expected {kind}, got {text:?}"))
            }
            Some(item) => {
                self.add(&Place::Field(place, "$type"), format_args!("expected {kind}, got {}", got(item)))
            }
            None => Err(End::Malformed),
        }
    }

    /// The members of a value of a union.
    fn union(
        &mut self,
        refs: &'a [(Box<str>, Option<DefinitionId>)],
        is_closed: bool,
        members: u64,
        place: &Place<'_>,
    ) -> Step {
        let Some(kind) = self.kind_of(members)? else {
            self.add(&Place::Field(place, "$type"), "a value of a union must have it, as a string")?;
            return self.skip_members(members);
        };
        if kind.starts_with('#') || kind.matches('#').count() > 1 {
            let text = format_args!("{kind:?} is not an NSID, or an NSID with #name");
            self.add(&Place::Field(place, "$type"), text)?;
            return self.skip_members(members);
        }
        let name = kind.strip_suffix("#main").unwrap_or(kind);
        let order = |(member, _): &(Box<str>, Option<DefinitionId>)| {
            steps::count();
            (**member).cmp(name)
        };
        let Ok(at) = refs.binary_search_by(order) else {
            if is_closed {
                let text = format_args!("{kind:?} is not one of the types of the closed union");
                self.add(&Place::Field(place, "$type"), text)?;
            }
            return self.skip_members(members);
        };
        match refs.get(at).and_then(|(_, id)| *id).map(|id| self.plan.get(id)) {
            Some(Type::Object(object)) => self.object(object, members, place, Kind::Any),
            None | Some(Type::Any | Type::Token(_)) => self.skip_members(members),
            Some(other) => {
                self.add(
                    place,
                    format_args!("{name} is {}, which no value of a union can be", expected(other)),
                )?;
                self.skip_members(members)
            }
        }
    }

    /// The `$type` of an object whose members are next; `None` if it has none that is a string.
    fn kind_of(&mut self, members: u64) -> Result<Option<&'a str>, End> {
        let mut reader = self.reader;
        for _ in 0..members {
            let Some(Item::Text(name)) = reader.next() else { return Err(End::Malformed) };
            if name == "$type" {
                return match reader.next() {
                    Some(Item::Text(kind)) => Ok(Some(kind)),
                    _ => Ok(None),
                };
            }
            let before = reader.remaining();
            reader.skip().ok_or(End::Malformed)?;
            let skipped = before - reader.remaining();
            self.read_ahead = self.read_ahead.checked_sub(skipped).ok_or(End::TooMuchAhead)?;
        }
        Ok(None)
    }

    fn next(&mut self) -> Result<Item<'a>, End> {
        self.reader.next().ok_or(End::Malformed)
    }

    /// The name of a member.
    fn name(&mut self) -> Result<&'a str, End> {
        match self.next()? {
            Item::Text(name) => Ok(name),
            _ => Err(End::Malformed),
        }
    }

    fn skip(&mut self) -> Step {
        self.reader.skip().ok_or(End::Malformed)
    }

    fn skip_members(&mut self, members: u64) -> Step {
        (0..members).try_for_each(|_| {
            self.name()?;
            self.skip()
        })
    }

    /// Passes over what belongs to an item that was read.
    fn skip_inside(&mut self, item: Item<'_>) -> Step {
        match item {
            Item::Array(count) => (0..count).try_for_each(|_| self.skip()),
            Item::Map(members) => self.skip_members(members),
            _ => Ok(()),
        }
    }

    #[cold]
    fn add(&mut self, place: &Place<'_>, text: impl std::fmt::Display) -> Step {
        if self.errors.add(place, text) { Ok(()) } else { Err(End::EnoughErrors) }
    }
}

/// The values that a schema accepts, in an error.
fn expected(schema: &Type) -> &'static str {
    match schema {
        Type::Any | Type::Named(_) => "a value",
        Type::Null => "null",
        Type::Boolean { .. } => "boolean",
        Type::Integer(_) => "integer",
        Type::String(_) | Type::Token(_) => "string",
        Type::Bytes { .. } => "bytes",
        Type::Link => "link",
        Type::Blob { .. } => "blob",
        Type::Array { .. } => "array",
        Type::Object(_) | Type::Unknown => "object",
        Type::Union { .. } => "object of a union",
    }
}

fn got(item: Item<'_>) -> &'static str {
    match item {
        Item::Null => "null",
        Item::Boolean(_) => "boolean",
        Item::Integer(_) => "integer",
        Item::Text(_) => "string",
        Item::Bytes(_) => "bytes",
        Item::Link(_) => "link",
        Item::Array(_) => "array",
        Item::Map(_) => "object",
    }
}
