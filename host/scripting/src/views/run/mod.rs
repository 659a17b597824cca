//! Answers a call of a view: reads its rows, then each addition of all rows at once, and writes the answer.
//!
//! Each read takes its own permit and gives it back, so that a call never holds two.

mod joins;
mod rows;
mod tree;

use bytes::Bytes;

use belvedere_base::clock::Timestamp;
use belvedere_instance::identity::Resolver;
use belvedere_protocol::atproto::Did;
use belvedere_storage::query::{HasLabel, Hidden, Links, PageSize};
use belvedere_storage::store::Db;
use belvedere_storage::store::records::{Room, linked_accounts};
use belvedere_web::fair_share::Tenant;

use super::error::ViewError;
use super::level::Row;
use super::operand::Arguments;
use super::output::{self, Page};
use super::plan::{Hide, Source, View};
use super::{blobs, limits};
use crate::scripts::services::Profiles;

/// The services that answer a call.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "services have no Debug")]
pub struct Reads<'a> {
    pub db: &'a Db,
    pub tenant: &'a Tenant,
    pub profiles: &'a Profiles,
    pub resolver: &'a Resolver,
    pub now: Timestamp,
}

/// The state of a call.
struct Run<'a> {
    reads: Reads<'a>,
    arguments: &'a Arguments,
    hidden: Hidden,
    budget: Budget,
}

/// The added records for which an answer still has room. The others are left out: any account may write such records, and must not
/// be able to make a page of others fail.
struct Budget {
    rows: usize,
    bytes: usize,
}

impl Budget {
    /// Takes the room of a record; `false` if there is none.
    fn take(&mut self, row: &Row) -> bool {
        let bytes = row.record.as_ref().map_or(0, |record| record.record.len());
        let fits = self.rows > 0 && bytes <= self.bytes;
        if fits {
            self.rows -= 1;
            self.bytes -= bytes;
        }
        fits
    }

    /// The place of the row that each row shows, while there is room for it.
    fn places(&mut self, places: impl Iterator<Item = Option<usize>>, rows: &[Row]) -> Vec<Option<usize>> {
        places.map(|at| at.filter(|at| rows.get(*at).is_some_and(|row| self.take(row)))).collect()
    }

    fn room(&self) -> Room {
        Room { each: limits::RECORD_BYTES, all: self.bytes }
    }
}

/// The rows of the source.
#[derive(Default)]
struct Found {
    rows: Vec<Row>,
    /// The cursors of the pages after and before.
    cursor: Option<String>,
    previous: Option<String>,
    /// The positions of the records below each record of a tree.
    children: Vec<Vec<usize>>,
}

impl View {
    /// Answers a call.
    ///
    /// # Errors
    /// See [`ViewError`].
    pub async fn run(&self, reads: Reads<'_>, arguments: &Arguments) -> Result<Bytes, ViewError> {
        if self.needs_viewer() && arguments.viewer.is_none() {
            return Err(ViewError::NoViewer);
        }
        let hidden = hidden(&self.hide, reads, arguments).await?;
        let budget = Budget { rows: limits::ROWS, bytes: limits::BYTES };
        let mut run = Run { reads, arguments, hidden, budget };
        let Found { rows, cursor, previous, children } = match &self.source {
            Source::List { collection, linked_from } => {
                run.list(self, collection, linked_from.as_ref()).await?
            }
            Source::Record { uri, collection } => {
                Found { rows: vec![run.record(uri, collection.as_ref()).await?], ..Found::default() }
            }
            Source::Tree { root, links, depth, limit } => {
                let record = run.record(root, Some(&links.collection)).await?;
                run.tree(record, links.clone(), depth.as_ref(), *limit).await?
            }
        };
        let level = run.level(rows, &self.additions).await?;
        let hosts = blobs::hosts(reads.resolver, &self.output, &self.additions, &level).await;
        let page = Page {
            level: &level,
            cursor: cursor.as_deref(),
            previous: previous.as_deref(),
            children: &children,
            hosts: &hosts,
        };
        Ok(output::write(self, &page))
    }
}

/// The records that the rows of a call leave out.
async fn hidden(hide: &Hide, reads: Reads<'_>, arguments: &Arguments) -> Result<Hidden, ViewError> {
    let mut hidden = Hidden::default();
    for value in &hide.labels {
        let label = HasLabel::new(value.clone(), reads.now).map_err(ViewError::parameter)?;
        hidden.labels.push(label);
    }
    if let Some(viewer) = &arguments.viewer {
        for collection in &hide.viewer {
            let links = Links { collection: collection.clone(), path: None };
            hidden.accounts.extend(accounts(reads, viewer, &links).await?);
        }
        for collection in &hide.to_viewer {
            let links = Links { collection: collection.clone(), path: None };
            let Reads { db, tenant, .. } = reads;
            let linking = linked_accounts::linking(db, viewer, &links, limits::ACCOUNTS, tenant).await?;
            hidden.accounts.extend(linking);
        }
    }
    Ok(hidden)
}

/// The accounts to which an account's records link.
async fn accounts(reads: Reads<'_>, account: &Did, links: &Links) -> Result<Vec<Did>, ViewError> {
    Ok(linked_accounts::read(reads.db, account, links, limits::ACCOUNTS, reads.tenant).await?)
}

/// The rows of a page that a call asks for.
fn page_limit(arguments: &Arguments) -> u32 {
    PageSize::RECORDS.clamp(arguments.values.get("limit").and_then(serde_json::Value::as_i64))
}
