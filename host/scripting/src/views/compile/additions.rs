//! Compiles `with`.

use serde_json::{Map, Value, json};

use belvedere_protocol::atproto::{Nsid, RecordKey};
use belvedere_storage::query::{Direction, Links, Relation};

use super::fields::{direction, nsid, path, subject};
use super::{fields, template};
use crate::views::document::{self, part};
use crate::views::limits;
use crate::views::offence::Offences;
use crate::views::plan::{Addition, Joined, Kind, Subject};

/// The additions to the rows of a view.
pub(super) fn additions(given: &Map<String, Value>, offences: &mut Offences) -> Vec<Addition> {
    let additions = level(given, "with", 1, offences);
    if count(&additions) > limits::ADDITIONS {
        offences
            .add("with", format!("a view has at most {} additions, nested ones included", limits::ADDITIONS));
    }
    additions
}

fn count(additions: &[Addition]) -> usize {
    let nested = |addition: &Addition| addition.kind.joined().map_or(0, |joined| count(&joined.additions));
    additions.iter().map(|addition| 1 + nested(addition)).sum()
}

fn level(given: &Map<String, Value>, at: &str, depth: usize, offences: &mut Offences) -> Vec<Addition> {
    if depth > limits::LEVELS && !given.is_empty() {
        offences.add(at, "additions are nested twice at most");
        return Vec::new();
    }
    let mut additions = Vec::new();
    for (name, value) in given {
        let at = format!("{at}.{name}");
        if !is_name(name) {
            offences.add(
                &at,
                "a name has letters and digits, perhaps a dot after the name of a group, and is not that of a row's field",
            );
            continue;
        }
        let Some(document) = part::<document::Addition>(value, &at, offences) else { continue };
        if let Some(kind) = kind(document, &at, depth, offences) {
            additions.push(Addition { name: name.clone(), kind });
        }
    }
    for addition in &additions {
        let group = addition.name.split('.').next().unwrap_or_default();
        if addition.name.contains('.') && additions.iter().any(|other| other.name == group) {
            offences
                .add(&format!("{at}.{group}"), "a group of additions has the same name: rename one of them");
        }
    }
    additions
}

/// Names of a row's fields, which additions can't have.
const ROW_FIELDS: [&str; 10] =
    ["uri", "cid", "did", "rkey", "handle", "indexedAt", "record", "cursor", "children", "value"];

fn is_name(name: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic()) && word.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    let mut words = name.split('.');
    let (first, second, more) = (words.next(), words.next(), words.next());
    first.is_some_and(|word| is_word(word) && !ROW_FIELDS.contains(&word))
        && second.is_none_or(is_word)
        && more.is_none()
}

/// The one kind that a document names.
fn kind(given: document::Addition, at: &str, depth: usize, offences: &mut Offences) -> Option<Kind> {
    let document::Addition { follow, list, count, mine, profile, record, labels, .. } = &given;
    let named: Vec<(&str, &String)> = [
        ("follow", follow),
        ("list", list),
        ("count", count),
        ("mine", mine),
        ("profile", profile),
        ("record", record),
        ("labels", labels),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value.as_ref()?)))
    .collect();
    let [(name, value)] = named[..] else {
        offences.add(at, "it has exactly one of follow, list, count, mine, profile, record and labels");
        return None;
    };
    check_parts(&given, name, at, offences);
    let at_value = format!("{at}.{name}");
    match name {
        "follow" => Some(Kind::Follow {
            path: path(value, &at_value, offences)?,
            collection: match &given.collection {
                Some(collection) => Some(nsid(collection, &format!("{at}.collection"), offences)?),
                None => None,
            },
            joined: joined(&given, template::record, at, depth, offences)?,
        }),
        "list" => listed(&given, value, at, depth, offences),
        "count" => {
            let (links, to) = links(&given, value, &at_value, at, offences)?;
            Some(Kind::Count { links, to })
        }
        "mine" => {
            let (links, to) = links(&given, value, &at_value, at, offences)?;
            Some(Kind::Mine { links, to })
        }
        "profile" => Some(Kind::Profile {
            of: subject(value, &at_value, offences)?,
            joined: joined(&given, template::profile, at, depth, offences)?,
        }),
        "record" => Some(Kind::Record {
            collection: nsid(value, &at_value, offences)?,
            rkey: {
                let rkey = given.rkey.as_deref().unwrap_or("self");
                let parsed = RecordKey::try_from(rkey).map_err(|_| format!("{rkey:?} is not a record key"));
                offences.check(&format!("{at}.rkey"), parsed)?
            },
            of: subject(given.of.as_deref().unwrap_or("did"), &format!("{at}.of"), offences)?,
            joined: joined(&given, template::record, at, depth, offences)?,
        }),
        _ => Some(Kind::Labels { of: subject(value, &at_value, offences)? }),
    }
}

/// Lists the parts that this kind of addition does not have.
fn check_parts(given: &document::Addition, name: &str, at: &str, offences: &mut Offences) {
    let joins = !matches!(name, "count" | "mine" | "labels");
    let links = matches!(name, "list" | "count" | "mine");
    let parts = [
        ("collection", given.collection.is_some(), name == "follow"),
        ("path", given.path.is_some(), links),
        ("to", given.to.is_some(), links),
        ("of", given.of.is_some(), matches!(name, "list" | "record")),
        ("rkey", given.rkey.is_some(), name == "record"),
        ("order", given.order.is_some(), name == "list"),
        ("limit", given.limit.is_some(), name == "list"),
        ("with", !given.with.is_empty(), joins),
        ("output", given.output.is_some(), joins),
    ];
    for (part, is_given, is_allowed) in parts {
        if is_given && !is_allowed {
            offences.add(&format!("{at}.{part}"), format!("{name} has no {part}"));
        }
    }
}

fn links(
    given: &document::Addition,
    collection: &str,
    at_value: &str,
    at: &str,
    offences: &mut Offences,
) -> Option<(Links, Subject)> {
    let path = (given.path.as_deref(), &*format!("{at}.path"));
    let links = fields::links((collection, at_value), path, offences);
    let to = subject(given.to.as_deref().unwrap_or("uri"), &format!("{at}.to"), offences);
    Some((links?, to?))
}

fn listed(
    given: &document::Addition,
    collection: &str,
    at: &str,
    depth: usize,
    offences: &mut Offences,
) -> Option<Kind> {
    let (relation, to, collection): (_, _, Nsid) = match &given.of {
        Some(_) if given.path.is_some() || given.to.is_some() => {
            offences.add(at, "a list has either of (an account) or path and to (a link)");
            return None;
        }
        Some(of) => {
            let collection = nsid(collection, &format!("{at}.list"), offences);
            (Relation::Author, subject(of, &format!("{at}.of"), offences)?, collection?)
        }
        None => {
            let (links, to) = links(given, collection, &format!("{at}.list"), at, offences)?;
            (Relation::Link { path: links.path }, to, links.collection)
        }
    };
    let limit = given.limit.unwrap_or(limits::LIST_DEFAULT);
    if !(1..=limits::LIST).contains(&limit) {
        offences.add(&format!("{at}.limit"), format!("it is a number from 1 to {}", limits::LIST));
    }
    let direction = match given.order.as_deref() {
        None | Some([]) => Direction::Desc,
        Some([key]) if direction(key).0 == "indexedAt" => direction(key).1,
        Some(_) => {
            offences.add(&format!("{at}.order"), "a list is ordered by -indexedAt or indexedAt");
            return None;
        }
    };
    let joined = joined(given, template::record, at, depth, offences)?;
    Some(Kind::List { collection, relation, to, direction, limit, joined })
}

/// The joined rows. `default` is the form of a row without an `output`, which begins with the row's own fields.
fn joined(
    given: &document::Addition,
    default: fn() -> Value,
    at: &str,
    depth: usize,
    offences: &mut Offences,
) -> Option<Joined> {
    let additions = level(&given.with, &format!("{at}.with"), depth + 1, offences);
    let output = given.output.clone().unwrap_or_else(|| {
        let mut output = default();
        for addition in &additions {
            let name = addition.name.split('.').next().unwrap_or_default();
            output[name] = json!(format!("@{name}"));
        }
        output
    });
    let is_profile = given.profile.is_some();
    let output = template::of_row(&output, &additions, is_profile, &format!("{at}.output"), offences)?;
    Some(Joined { additions, output })
}
