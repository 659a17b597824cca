//! Describes the reads of a view, and asks for the indexes of the fields that they use.

use schemars::JsonSchema;
use serde::Serialize;

use belvedere_protocol::atproto::Nsid;
use belvedere_storage::query::{PageSize, Path, Relation, SortKey};
use belvedere_storage::store::fields::table::{self, State};
use belvedere_storage::store::fields::{self, IndexKind};
use belvedere_storage::store::records::links::MAX_TARGETS;
use belvedere_storage::store::records::related::ROWS_PER_STATEMENT;
use belvedere_storage::store::{Db, StoreError};

use super::conditions::{FieldCondition, FieldTest};
use super::limits;
use super::plan::{Addition, Hide, Kind, Source, Subject, View};

/// A read of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ViewStep")]
pub struct Step {
    /// The part of the document that it reads.
    pub name: String,
    /// The records that it reads.
    pub reads: String,
    /// The indexes that it reads them by.
    pub indexes: Vec<String>,
    /// Rows that it returns, at most.
    pub rows: u32,
    /// Statements that it takes for a page, at most.
    pub statements: u32,
}

/// A field of which a view needs an index.
struct Field<'a> {
    collection: &'a Nsid,
    path: &'a Path,
    kind: IndexKind,
}

/// The reads of a view, in their order.
///
/// # Errors
/// When the state of the indexes can't be read.
pub async fn explain(db: &Db, view: &View) -> Result<Vec<Step>, StoreError> {
    let built = table::list(db).await?;
    let state = |field: &Field<'_>| {
        let is_it = |entry: &&table::FieldIndex| {
            entry.collection == field.collection.as_str()
                && entry.key.path == *field.path
                && entry.key.kind == field.kind
        };
        match built.iter().find(is_it).map(|entry| entry.state) {
            Some(State::Ready) => "ready",
            Some(State::Building) => "being built",
            Some(State::Failed) => "failed",
            Some(State::Candidate) | None => "asked for; until it is built the read is a scan",
        }
    };
    let mut steps = Vec::new();
    let hide = |entry: String, reads: String, indexes: &[&str]| Step {
        name: format!("hide {entry}"),
        reads,
        indexes: indexes.iter().map(|index| (*index).to_owned()).collect(),
        rows: u32::try_from(limits::ACCOUNTS).unwrap_or(u32::MAX),
        statements: 1,
    };
    for collection in &view.hide.viewer {
        let reads = format!("the accounts to which the viewer's records of {collection} link");
        steps.push(hide(format!("viewer:{collection}"), reads, &["records_list_did", "record_refs_record"]));
    }
    for collection in &view.hide.to_viewer {
        let reads = format!("the accounts whose records of {collection} link to the viewer");
        steps.push(hide(format!("toViewer:{collection}"), reads, &["record_refs (primary key)"]));
    }
    let rows = source(view, &mut steps, &|field| {
        format!("{} of {} ({})", field.kind.as_str(), field.path, state(field))
    });
    let hides = view.hide != Hide::default();
    additions(&view.additions, "with", rows, hides, &mut steps);
    Ok(steps)
}

/// Adds the reads of the source. Returns the most rows of it.
fn source(view: &View, steps: &mut Vec<Step>, shown: &dyn Fn(&Field<'_>) -> String) -> u32 {
    let step = |name: &str, reads: String, indexes: &[&str], rows: u32, statements: u32| Step {
        name: name.to_owned(),
        reads,
        indexes: indexes.iter().map(|index| (*index).to_owned()).collect(),
        rows,
        statements,
    };
    match &view.source {
        Source::List { collection, linked_from } => {
            let rows = PageSize::RECORDS.max;
            let indexes = ["records_list_did", "record_refs_record"];
            if let Some((_, links)) = linked_from {
                let reads =
                    format!("the accounts to which an account's records of {} link", links.collection);
                let accounts = u32::try_from(limits::ACCOUNTS).unwrap_or(u32::MAX);
                steps.push(step("from.did", reads, &indexes, accounts, 1));
            }
            if let Some(group) = &view.group {
                let keys: Vec<_> = group.by.iter().map(|key| key.name.as_str()).collect();
                let reads =
                    format!("all records of {collection} that match, counted by {}: a scan", keys.join(", "));
                let mut counted = step("group", reads, &[], PageSize::GROUPS.max, 1);
                counted.indexes.extend(fields_of(view).iter().map(shown));
                steps.push(counted);
                return PageSize::GROUPS.max;
            }
            let by_account = linked_from.is_some() || view.conditions.did.is_some();
            let mut list = step(
                "from",
                format!("a page of {collection}"),
                &[if by_account { "records_list_did" } else { "records_list" }],
                rows,
                // The lists of the accounts of a timeline are read one by one, until the page is full.
                if linked_from.is_some() { rows + 2 } else { 2 },
            );
            list.indexes.extend(fields_of(view).iter().map(shown));
            steps.push(list);
            rows
        }
        Source::Record { .. } => {
            steps.push(step("from", "one record by its URI".to_owned(), &["records (primary key)"], 1, 1));
            1
        }
        Source::Tree { collection, limit, .. } => {
            let reads = format!("the records of {collection} below a record, level by level");
            steps.push(step("from", reads, &["record_refs (primary key)"], *limit, 1 + limits::DEPTH));
            *limit
        }
    }
}

/// Adds the reads of additions. `hides`: whether the view hides records, which counts look through once more.
fn additions(additions: &[Addition], at: &str, rows: u32, hides: bool, steps: &mut Vec<Step>) {
    for Addition { name, kind } in additions {
        let name = format!("{at}.{name}");
        let (reads, indexes, most): (_, &[&str], u32) = match kind {
            Kind::Follow { path, .. } => {
                (format!("the records that {path} names"), &["records (primary key)"], rows)
            }
            Kind::Record { collection, rkey, of, .. } => {
                (format!("{collection}/{rkey} of {}", subject(of)), &["records (primary key)"], rows)
            }
            Kind::Profile { of, .. } => {
                (format!("the profiles of {}", subject(of)), &["records (primary key)", "identities"], rows)
            }
            Kind::Count { links, to } => (
                format!("the number of {} that link to {}", links.collection, subject(to)),
                &["link_counts", "record_refs (primary key)"],
                rows,
            ),
            Kind::Mine { links, to } => (
                format!("the viewer's {} that links to {}", links.collection, subject(to)),
                &["record_refs (primary key)", "records_list_did"],
                rows,
            ),
            Kind::Labels { of } => {
                (format!("the labels of {}", subject(of)), &["labels (primary key)"], rows)
            }
            Kind::List { collection, relation, to, limit, .. } => {
                let index: &[&str] = match relation {
                    Relation::Link { .. } => &["record_refs (primary key)"],
                    Relation::Author => &["records_list_did"],
                };
                let most = rows.saturating_mul(*limit).min(u32::try_from(limits::ROWS).unwrap_or(u32::MAX));
                (format!("the first {limit} of {collection} of {}", subject(to)), index, most)
            }
        };
        let times = if hides && matches!(kind, Kind::Count { .. }) { 2 } else { 1 };
        steps.push(Step {
            name: name.clone(),
            reads,
            indexes: indexes.iter().map(|index| (*index).to_owned()).collect(),
            rows: most,
            statements: times * statements(most, ROWS_PER_STATEMENT).max(statements(rows, MAX_TARGETS)),
        });
        if let Some(joined) = kind.joined() {
            self::additions(&joined.additions, &format!("{name}.with"), most, hides, steps);
        }
    }
}

/// The statements for so many rows, of which each reads at most `each`.
fn statements(rows: u32, each: usize) -> u32 {
    u32::try_from((rows as usize).div_ceil(each)).unwrap_or(u32::MAX)
}

fn subject(subject: &Subject) -> String {
    match subject {
        Subject::Uri => "the row".to_owned(),
        Subject::Did => "the author".to_owned(),
        Subject::Field(path) => format!("what {path} names"),
    }
}

/// The fields of which the view needs an index.
fn fields_of(view: &View) -> Vec<Field<'_>> {
    let Source::List { collection, linked_from } = &view.source else { return Vec::new() };
    // A list of one account's records reads those, and no index of a field.
    if linked_from.is_some() {
        return Vec::new();
    }
    let by_condition = view.conditions.fields.iter().filter_map(|condition| match condition {
        FieldCondition::Test { path, test, .. } if *test != FieldTest::Contains => Some(path),
        _ => None,
    });
    let mut needed: Vec<Field<'_>> =
        by_condition.map(|path| Field { collection, path, kind: IndexKind::Filter }).collect();
    if let Some(order) = view.order.as_ref().filter(|order| order.then.is_empty())
        && let SortKey::Field(path) = &order.key
    {
        needed.push(Field { collection, path, kind: IndexKind::Sort });
    }
    needed
}

/// Asks for the indexes of the fields that a view uses. They are built in the background.
///
/// # Errors
/// When the store can't be read.
pub async fn request_indexes(db: &Db, view: &View) -> Result<(), StoreError> {
    for Field { collection, path, kind } in fields_of(view) {
        fields::request(db, collection, path, kind).await?;
    }
    Ok(())
}
