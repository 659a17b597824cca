//! Compiles `group`.

use serde_json::Value;

use belvedere_protocol::atproto::Nsid;
use belvedere_storage::query::group::{COUNT, GroupKey};
use belvedere_storage::query::{PageSize, Query};

use super::fields::{direction, number, path};
use crate::views::document::{self, part};
use crate::views::offence::Offences;
use crate::views::plan::{Addition, Group};

/// The group of a view of this collection.
pub(super) fn group(given: &Value, collection: &Nsid, offences: &mut Offences) -> Option<Group> {
    let document::Group { by, order, limit } = part(given, "group", offences)?;
    let keys = by.iter().enumerate();
    let by: Vec<GroupKey> = keys.filter_map(|(n, of)| key(of, &format!("group.by[{n}]"), offences)).collect();
    for (n, key) in by.iter().enumerate() {
        if by[..n].iter().any(|other| other.name == key.name) {
            offences.add("group.by", format!("{} is named twice: a field has one span", key.name));
            return None;
        }
    }
    let order = order.iter().map(|name| direction(name)).map(|(name, by)| (name.to_owned(), by)).collect();
    let limit = match &limit {
        Some(limit) => Some(number(limit, "group.limit", PageSize::GROUPS.max, offences)?),
        None => None,
    };
    let group = Group { by, order, limit };
    offences.check("group", group.of(Query::of(collection.clone()), None))?;
    Some(group)
}

/// A field, or a time with its span.
fn key(given: &Value, at: &str, offences: &mut Offences) -> Option<GroupKey> {
    let (field, span) = match given {
        Value::String(field) => (field.as_str(), None),
        Value::Object(object) => match object.iter().collect::<Vec<_>>()[..] {
            [(span, Value::String(field))] => (field.as_str(), Some(span.as_str())),
            _ => ("", None),
        },
        _ => ("", None),
    };
    let column = match field {
        "" => {
            offences.add(
                at,
                "it is a field, did or indexedAt, or the span of a time, such as { \"day\": \"createdAt\" }",
            );
            return None;
        }
        "indexedAt" => "indexed_at",
        "did" => "did",
        "rkey" | "collection" | "uri" | "cid" => {
            offences
                .add(at, format!("records are counted by their fields, did and indexedAt, not by {field}"));
            return None;
        }
        field => {
            path(field, at, offences)?;
            field
        }
    };
    offences.check(at, GroupKey::parse(column, span, Some(field)))
}

/// Checks that the additions to groups are about values that these have.
pub(super) fn check_additions(group: &Group, additions: &[Addition], offences: &mut Offences) {
    for Addition { name, kind } in additions {
        let at = format!("with.{name}");
        if name == COUNT {
            offences.add(&at, "@count is the number of records of a group: rename the addition");
        }
        if !group.has(&kind.subject()) {
            let text = "it is about a part of a record that group.by does not name: name that part, or one that it names with to, of or \
                        the path";
            offences.add(&at, text);
        }
    }
}
