//! Compiles the document of a view, and lists all of its mistakes.

mod additions;
mod conditions;
mod fields;
mod group;
mod template;

use serde_json::Value;

use belvedere_storage::query::sort::MAX_KEYS;
use belvedere_storage::query::{Direction, Path, Sort, SortKey};

use self::fields::{direction, links, nsid, number, operand};
use super::document::{Document, LinkedFrom, ListSource, RecordSource, TreeSource, part};
use super::limits;
use super::offence::Offences;
use super::operand::Operand;
use super::plan::{Hide, Source, View};

/// Compiles a document.
///
/// # Errors
/// Its mistakes.
pub fn compile(text: &str) -> Result<View, Offences> {
    let mut offences = Offences::default();
    let view = view(text, &mut offences);
    offences.into_result(view)
}

fn view(text: &str, offences: &mut Offences) -> Option<View> {
    if text.len() > limits::DOCUMENT_BYTES {
        offences.add("", format!("a view has at most {} bytes", limits::DOCUMENT_BYTES));
        return None;
    }
    let value: Value = offences.check("", serde_json::from_str(text))?;
    let document: Document = part(&value, "", offences)?;
    if document.view != 1 {
        offences.add("view", "the version of the language is 1");
    }
    let from = source(&document.from, offences);
    let mut conditions = conditions::conditions(&document.conditions, offences);
    let source = from.map(|(source, did)| {
        let names_accounts = did.is_some() || matches!(source, Source::List { linked_from: Some(_), .. });
        if names_accounts && conditions.did.is_some() {
            offences.add("where.did", "from.did names the accounts already: remove the condition");
        }
        conditions.did = did.or_else(|| conditions.did.take());
        source
    });
    let order = order(&document.order, offences);
    let additions = additions::additions(&document.with, offences);
    let hide = hide(&document.hide, offences);
    let source = source?;
    check_parts(&source, &document, offences);
    let group = match (&document.group, &source) {
        (Some(given), Source::List { collection, .. }) => Some(group::group(given, collection, offences)?),
        _ => None,
    };
    if let Some(group) = &group {
        group::check_additions(group, &additions, offences);
    }
    let output = template::of_answer(&document.output, &source, group.as_ref(), &additions, offences)?;
    Some(View { source, conditions, order, group, additions, hide, output })
}

/// Checks that a view of one record or of a tree has no parts of a list.
fn check_parts(source: &Source, document: &Document, offences: &mut Offences) {
    if matches!(source, Source::List { .. }) {
        if document.group.is_some() && !document.order.is_empty() {
            offences.add("order", "the order of groups is that of group: move it there");
        }
        return;
    }
    if !document.conditions.is_empty() {
        offences.add("where", "only a view of a collection has conditions");
    }
    if !document.order.is_empty() {
        offences.add("order", "only a view of a collection has an order");
    }
    if document.group.is_some() {
        offences.add("group", "only the records of a collection are counted");
    }
}

/// The source, and the condition on the author that is a part of it.
fn source(from: &Value, offences: &mut Offences) -> Option<(Source, Option<super::conditions::Operands>)> {
    let at = "from";
    let list = |collection| Source::List { collection, linked_from: None };
    if let Value::String(collection) = from {
        return Some((list(nsid(collection, at, offences)?), None));
    }
    if from.get("uri").is_some() {
        let RecordSource { uri, collection } = part(from, at, offences)?;
        let uri = parameter(&uri, "from.uri", offences);
        let collection = match collection {
            Some(collection) => Some(nsid(&collection, "from.collection", offences)?),
            None => None,
        };
        return Some((Source::Record { uri: uri?, collection }, None));
    }
    if from.get("tree").is_some() {
        return Some((tree(part(from, at, offences)?, offences)?, None));
    }
    let ListSource { collection, did } = part(from, at, offences)?;
    let collection = nsid(&collection, "from.collection", offences);
    match did {
        Some(object @ Value::Object(_)) if object.get("in").is_none() => {
            let LinkedFrom { account, by, path } = part(&object, "from.did", offences)?;
            let account = operand(&account.into(), "from.did.linkedFrom", offences);
            let links = links((&by, "from.did.by"), (path.as_deref(), "from.did.path"), offences);
            Some((Source::List { collection: collection?, linked_from: Some((account?, links?)) }, None))
        }
        Some(did) => {
            let did = conditions::authors(&did, "from.did", offences);
            Some((list(collection?), did))
        }
        None => Some((list(collection?), None)),
    }
}

fn tree(source: TreeSource, offences: &mut Offences) -> Option<Source> {
    let root = parameter(&source.tree, "from.tree", offences);
    let links = links((&source.collection, "from.collection"), (Some(&source.path), "from.path"), offences);
    let depth = match &source.depth {
        Some(depth) => Some(number(depth, "from.depth", limits::DEPTH, offences)?),
        None => None,
    };
    let limit = source.limit.unwrap_or(limits::TREE_DEFAULT);
    if !(1..=limits::TREE).contains(&limit) {
        offences.add("from.limit", format!("it is a number from 1 to {}", limits::TREE));
    }
    Some(Source::Tree { root: root?, links: links?, depth, limit })
}

/// A value that each call provides.
fn parameter(text: &str, at: &str, offences: &mut Offences) -> Option<Operand> {
    let operand = operand(&text.into(), at, offences)?;
    if matches!(operand, Operand::Parameter(_)) {
        return Some(operand);
    }
    offences.add(at, "it is a parameter of the lexicon, such as $uri");
    None
}

fn order(order: &[String], offences: &mut Offences) -> Option<Sort> {
    if order.len() > MAX_KEYS {
        offences.add("order", format!("it has at most {MAX_KEYS} fields"));
    }
    let mut keys = order.iter().filter_map(|key| {
        let (name, direction) = direction(key);
        let key = match name {
            "indexedAt" => SortKey::IndexedAt,
            "did" => SortKey::Did,
            "uri" => SortKey::Uri,
            path => SortKey::Field(offences.check("order", Path::parse(path))?),
        };
        Some((key, direction))
    });
    let (key, direction) = keys.next()?;
    let sort = Sort { key, direction, then: keys.collect() };
    // Newest first is the order of a list, which needs no sort.
    let newest_first = Sort { key: SortKey::IndexedAt, direction: Direction::Desc, then: Vec::new() };
    (sort != newest_first).then_some(sort)
}

fn hide(entries: &[String], offences: &mut Offences) -> Hide {
    let mut hide = Hide::default();
    if entries.len() > limits::HIDE {
        offences.add("hide", format!("it has at most {} entries", limits::HIDE));
    }
    for entry in entries {
        match entry.split_once(':') {
            Some(("labels", value)) if !value.is_empty() && value.len() <= 128 && !value.contains('\0') => {
                hide.labels.push(value.to_owned());
            }
            Some(("viewer", collection)) => hide.viewer.extend(nsid(collection, "hide", offences)),
            Some(("toViewer", collection)) => hide.to_viewer.extend(nsid(collection, "hide", offences)),
            _ => offences.add(
                "hide",
                format!(
                    "{entry:?} is neither labels:VALUE, nor viewer:COLLECTION of the caller's records that link to accounts, nor \
                     toViewer:COLLECTION of records that link to the caller"
                ),
            ),
        }
    }
    hide
}
