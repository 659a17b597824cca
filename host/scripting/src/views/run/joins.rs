//! Reads the additions of all rows of a level at once.

use std::collections::{HashMap, HashSet};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use belvedere_protocol::atproto::{Did, Nsid, RecordKey, RecordUri};
use belvedere_storage::query::{Links, Related};
use belvedere_storage::store::labels;
use belvedere_storage::store::records::links::{self, MAX_TARGETS};
use belvedere_storage::store::records::{RecordRow, get_many_full, related, shown_links};

use super::Run;
use crate::views::error::ViewError;
use crate::views::level::{Column, Level, Row};
use crate::views::plan::{Addition, Joined, Kind, Subject};

impl Run<'_> {
    /// Reads the additions of these rows.
    pub(super) fn level<'b>(
        &'b mut self,
        rows: Vec<Row>,
        additions: &'b [Addition],
    ) -> BoxFuture<'b, Result<Level, ViewError>> {
        // Boxed, because joined rows have a level of their own.
        async move {
            let mut columns = Vec::with_capacity(additions.len());
            for Addition { kind, .. } in additions {
                columns.push(self.column(&rows, kind).await?);
            }
            Ok(Level { rows, columns })
        }
        .boxed()
    }

    async fn column(&mut self, rows: &[Row], kind: &Kind) -> Result<Column, ViewError> {
        match kind {
            Kind::Count { links, to } => self.counts(rows, links, to).await.map(Column::Counts),
            Kind::Mine { links, to } => self.of_viewer(rows, links, to).await.map(Column::Uris),
            Kind::Labels { of } => self.labels(rows, of).await,
            Kind::Follow { path, collection, joined } => {
                let is_wanted =
                    |uri: &RecordUri| collection.as_ref().is_none_or(|wanted| *wanted == uri.collection);
                let uris =
                    rows.iter().map(|row| RecordUri::parse(&row.reference(path)?).ok().filter(is_wanted));
                self.one(uris.collect(), joined).await
            }
            Kind::Record { collection, rkey, of, joined } => {
                let uris = rows.iter().map(|row| record_of(row, of, collection, rkey));
                self.one(uris.collect(), joined).await
            }
            Kind::Profile { of, joined } => self.profiles(rows, of, joined).await,
            Kind::List { collection, relation, to, direction, limit, joined } => {
                let related = Related {
                    collection: collection.clone(),
                    relation: relation.clone(),
                    direction: *direction,
                    limit: *limit,
                    hidden: self.hidden.clone(),
                };
                self.lists(rows, &related, to, joined).await
            }
        }
    }

    async fn counts(&self, rows: &[Row], links: &Links, to: &Subject) -> Result<Vec<u64>, ViewError> {
        let (targets, of_row) = targets(rows, to);
        let mut counts = Vec::with_capacity(targets.len());
        for part in targets.chunks(MAX_TARGETS) {
            counts.extend(
                shown_links::count(self.reads.db, links, &self.hidden, part, self.reads.tenant).await?,
            );
        }
        let count = |at: Option<usize>| at.and_then(|at| counts.get(at)).copied().unwrap_or_default();
        Ok(of_row.into_iter().map(count).collect())
    }

    async fn of_viewer(
        &self,
        rows: &[Row],
        links: &Links,
        to: &Subject,
    ) -> Result<Vec<Option<String>>, ViewError> {
        let Some(viewer) = &self.arguments.viewer else { return Ok(vec![None; rows.len()]) };
        let (targets, of_row) = targets(rows, to);
        let mut uris = Vec::with_capacity(targets.len());
        for part in targets.chunks(MAX_TARGETS) {
            let rkeys = links::of_account(self.reads.db, viewer, links, part, self.reads.tenant).await?;
            let uri = |rkey: String| format!("at://{viewer}/{}/{rkey}", links.collection);
            uris.extend(rkeys.into_iter().map(|rkey| rkey.map(uri)));
        }
        Ok(of_row.into_iter().map(|at| uris.get(at?)?.clone()).collect())
    }

    async fn labels(&self, rows: &[Row], of: &Subject) -> Result<Column, ViewError> {
        let (subjects, of_row) = targets(rows, of);
        let active = {
            let _permit = self.reads.db.read_permit(self.reads.tenant).await?;
            labels::active(self.reads.db, &subjects, self.reads.now).await?
        };
        let labels = of_row.into_iter().map(|at| {
            let subject = at.and_then(|at| subjects.get(at)).cloned().unwrap_or_default();
            let found = active.get(&subject).cloned().unwrap_or_default();
            (subject, found)
        });
        Ok(Column::Labels(labels.collect()))
    }

    /// The record of each row, one statement for all.
    async fn one(&mut self, uris: Vec<Option<RecordUri>>, joined: &Joined) -> Result<Column, ViewError> {
        let wanted: Vec<RecordUri> =
            uris.iter().flatten().collect::<HashSet<_>>().into_iter().cloned().collect();
        let found = if wanted.is_empty() {
            Vec::new()
        } else {
            let _permit = self.reads.db.read_permit(self.reads.tenant).await?;
            get_many_full(self.reads.db, &wanted, self.budget.room()).await?.rows
        };
        let valid = found.into_iter().filter(|full| full.invalid_reason.is_none());
        let rows = self.visible(valid.map(|full| Row::of_record(full.row)).collect()).await?;
        let places: HashMap<String, usize> =
            rows.iter().enumerate().filter_map(|(at, row)| Some((row.uri()?, at))).collect();
        let places = uris.iter().map(|uri| places.get(&uri.as_ref()?.to_string()).copied());
        let of_row = self.budget.places(places, &rows);
        Ok(Column::One(self.level(rows, &joined.additions).await?, of_row))
    }

    async fn profiles(&mut self, rows: &[Row], of: &Subject, joined: &Joined) -> Result<Column, ViewError> {
        let (subjects, of_row) = targets(rows, of);
        let dids: Vec<Did> = subjects.iter().filter_map(|did| Did::try_from(did.as_str()).ok()).collect();
        let reads = self.reads;
        let found = if dids.is_empty() {
            Vec::new()
        } else {
            reads.profiles.of(reads.tenant, dids, self.budget.bytes).await?
        };
        let row = |profile: crate::scripts::services::Profile| {
            Row::of_account(&profile.did, profile.handle, profile.record.map(|full| full.row))
        };
        let accounts = self.visible(found.into_iter().map(row).collect()).await?;
        let places: HashMap<&str, usize> =
            accounts.iter().enumerate().map(|(at, row)| (row.did.as_str(), at)).collect();
        let places = of_row.into_iter().map(|at| places.get(subjects.get(at?)?.as_str()).copied());
        let of_row = self.budget.places(places, &accounts);
        Ok(Column::One(self.level(accounts, &joined.additions).await?, of_row))
    }

    async fn lists(
        &mut self,
        rows: &[Row],
        wanted: &Related,
        to: &Subject,
        joined: &Joined,
    ) -> Result<Column, ViewError> {
        let (targets, of_row) = targets(rows, to);
        let found = self.related(wanted, &targets).await?;
        let mut of_target: Vec<Vec<usize>> = vec![Vec::new(); targets.len()];
        let mut records = Vec::with_capacity(found.len());
        for (target, row) in found {
            if let Some(list) = of_target.get_mut(target) {
                list.push(records.len());
                records.push(Row::of_record(row));
            }
        }
        let budget = &mut self.budget;
        let list = |at: Option<usize>| {
            let places = at.and_then(|at| of_target.get(at)).into_iter().flatten().copied();
            places.filter(|at| budget.take(&records[*at])).collect()
        };
        let of_row = of_row.into_iter().map(list).collect();
        Ok(Column::Many(self.level(records, &joined.additions).await?, of_row))
    }

    /// The records that belong to each target.
    async fn related(
        &self,
        wanted: &Related,
        targets: &[String],
    ) -> Result<Vec<(usize, RecordRow)>, ViewError> {
        if targets.is_empty() {
            return Ok(Vec::new());
        }
        let reads = self.reads;
        let page = related::read(reads.db, wanted, targets, self.budget.room(), reads.tenant).await?;
        Ok(page.rows.into_iter().map(|found| (found.target, found.row)).collect())
    }

    /// The rows that are not hidden, for reads by key.
    pub(super) async fn visible(&self, mut rows: Vec<Row>) -> Result<Vec<Row>, ViewError> {
        let hidden: HashSet<&str> = self.hidden.accounts.iter().map(Did::as_str).collect();
        rows.retain(|row| !hidden.contains(row.did.as_str()));
        if self.hidden.labels.is_empty() || rows.is_empty() {
            return Ok(rows);
        }
        let subjects: Vec<String> =
            rows.iter().flat_map(|row| [Some(row.did.clone()), row.uri()]).flatten().collect();
        let active = {
            let _permit = self.reads.db.read_permit(self.reads.tenant).await?;
            labels::active(self.reads.db, &subjects, self.reads.now).await?
        };
        let is_hidden = |subject: &str| {
            let labels = active.get(subject).map(Vec::as_slice).unwrap_or_default();
            labels.iter().any(|label| self.hidden.labels.iter().any(|hidden| hidden.val == label.val))
        };
        rows.retain(|row| !is_hidden(&row.did) && !row.uri().is_some_and(|uri| is_hidden(&uri)));
        Ok(rows)
    }
}

/// The subjects of rows, each once, and the position of each row's subject among them.
fn targets(rows: &[Row], to: &Subject) -> (Vec<String>, Vec<Option<usize>>) {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut targets = Vec::new();
    let of_row = rows.iter().map(|row| {
        let subject = row.subject(to)?;
        Some(*places.entry(subject).or_insert_with_key(|subject| {
            targets.push(subject.clone());
            targets.len() - 1
        }))
    });
    let of_row = of_row.collect();
    (targets, of_row)
}

fn record_of(row: &Row, of: &Subject, collection: &Nsid, rkey: &RecordKey) -> Option<RecordUri> {
    let did = Did::try_from(row.subject(of)?.as_str()).ok()?;
    Some(RecordUri { did, collection: collection.clone(), rkey: rkey.clone() })
}
