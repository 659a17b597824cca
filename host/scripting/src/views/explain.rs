//! Describes the reads of a view.

use schemars::JsonSchema;
use serde::Serialize;

use belvedere_storage::query::{Links, PageSize, Relation};
use belvedere_storage::store::fields::table::{self, State};
use belvedere_storage::store::records::links::MAX_TARGETS;
use belvedere_storage::store::records::related::targets_per_statement;
use belvedere_storage::store::{Db, StoreError};

use super::conditions::Operands;
use super::limits;
use super::needs::{Field, Needs};
use super::plan::{Addition, Hide, Kind, Source, Subject, View};

/// The statements for labels: those of labelers, and self-labels.
const OF_LABELS: u32 = 2;

/// The statements of a timeline before its accounts are read one by one, until the page is full: their ids, two for the next records
/// of the collection, and the first record of each account.
const OF_TIMELINE: u32 = 4;

/// A read of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ViewStep")]
pub struct Step {
    /// The part of the document that it reads.
    pub name: String,
    /// The records that it reads.
    pub reads: String,
    /// The indexes that it reads them by, and the parts of the document that none serves.
    pub indexes: Vec<String>,
    /// Rows that it returns, at most.
    pub rows: u32,
    /// Statements that it takes for a page, at most.
    pub statements: u32,
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
    let Needs { indexes, unserved } = Needs::of(view);
    let index = |field: &Field<'_>| format!("{} of {} ({})", field.kind.as_str(), field.path, state(field));
    let none = |part: &String| {
        if indexes.is_empty() {
            format!("none for {part}: the read is a scan")
        } else {
            format!("none for {part}: the read is a scan, unless the other conditions leave few records")
        }
    };
    let of_fields: Vec<String> = indexes.iter().map(index).chain(unserved.iter().map(none)).collect();
    let rows = source(view, &mut steps, of_fields);
    additions(&view.additions, "with", rows, &view.hide, &mut steps);
    Ok(steps)
}

/// Adds the reads of the source, of which a list uses the indexes `of_fields`. Returns the most rows of it.
fn source(view: &View, steps: &mut Vec<Step>, of_fields: Vec<String>) -> u32 {
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
                counted.indexes.extend(of_fields);
                steps.push(counted);
                return PageSize::GROUPS.max;
            }
            let several = matches!(view.conditions.did, Some(Operands::Array(_) | Operands::List(_)));
            let is_timeline = linked_from.is_some() || several;
            let by_account = linked_from.is_some() || view.conditions.did.is_some();
            let mut list = step(
                "from",
                format!("a page of {collection}"),
                &[if by_account { "records_list_did" } else { "records_list" }],
                rows,
                if is_timeline { OF_TIMELINE + PageSize::rows_read(rows) } else { 2 },
            );
            list.indexes.extend(of_fields);
            steps.push(list);
            rows
        }
        Source::Record { .. } => {
            let statements = 1 + of_hidden_labels(&view.hide);
            steps.push(step(
                "from",
                "one record by its URI".to_owned(),
                &["records (primary key)"],
                1,
                statements,
            ));
            1
        }
        Source::Tree { links: Links { collection, .. }, limit, .. } => {
            let reads = format!("the records of {collection} below a record, level by level");
            let statements = 1 + of_hidden_labels(&view.hide) + limits::DEPTH;
            steps.push(step("from", reads, &["record_refs (primary key)"], *limit, statements));
            *limit
        }
    }
}

/// The statements for the labels of records that are read by their keys, of which some may be hidden.
fn of_hidden_labels(hide: &Hide) -> u32 {
    if hide.labels.is_empty() { 0 } else { OF_LABELS }
}

/// Adds the reads of additions.
fn additions(additions: &[Addition], at: &str, rows: u32, hide: &Hide, steps: &mut Vec<Step>) {
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
        steps.push(Step {
            name: name.clone(),
            reads,
            indexes: indexes.iter().map(|index| (*index).to_owned()).collect(),
            rows: most,
            statements: statements(kind, rows, hide),
        });
        if let Some(joined) = kind.joined() {
            self::additions(&joined.additions, &format!("{name}.with"), most, hide, steps);
        }
    }
}

/// The statements for an addition of so many rows.
fn statements(kind: &Kind, rows: u32, hide: &Hide) -> u32 {
    let parts = |each: usize| u32::try_from((rows as usize).div_ceil(each)).unwrap_or(u32::MAX);
    match kind {
        Kind::Follow { .. } | Kind::Record { .. } => 1 + of_hidden_labels(hide),
        // The records and the handles.
        Kind::Profile { .. } => 2 + of_hidden_labels(hide),
        // The records of small counts are looked through for hidden ones.
        Kind::Count { .. } if *hide != Hide::default() => 2 * parts(MAX_TARGETS),
        Kind::Count { .. } | Kind::Mine { .. } => parts(MAX_TARGETS),
        Kind::Labels { .. } => OF_LABELS,
        Kind::List { limit, .. } => parts(targets_per_statement(*limit)),
    }
}

fn subject(subject: &Subject) -> String {
    match subject {
        Subject::Uri => "the row".to_owned(),
        Subject::Did => "the author".to_owned(),
        Subject::Field(path) => format!("what {path} names"),
    }
}
