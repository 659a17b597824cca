//! Chooses the index for a query.
//!
//! Every condition that must hold (not those under an OR) can use an index of its field, for equality and ranges. The
//! rows of one value are read newest first, which is never slower than a scan of the collection. The rows of a range
//! or list must be sorted, and so must those of a filter in a sorted query, so they are counted first, up to
//! [`MAX_SORTED_ROWS`]. With more rows, those of each value of a list are read in order and merged. A range of the field that the query is sorted by is a part of the index for the sort. A query
//! for one account's records uses no index of a field: it reads that account's records in order.

use std::time::Duration;

use crate::query::Query;
use crate::query::filter::{Combine, Filter};
use crate::query::path::Path;
use crate::query::sort::SortKey;
use crate::store::fields::{IndexKey, IndexKind};
use crate::store::intern::Collection;
use crate::store::reads::Reads;
use crate::store::select::{
    Bound, Bounds, Dialect, PostgresDialect, Sql, SqliteDialect, Value, Values, bound, within,
};
use crate::store::{Db, StoreError};
use belvedere_web::fair_share::Tenant;

use super::walk::Walk;

/// Up to this number of rows within the bounds is read and sorted, in some milliseconds. If more rows match, reading in
/// order finds a page of them as quickly.
const MAX_SORTED_ROWS: i64 = 2_000;

/// The way in which a query reads its rows.
pub(super) enum AccessPath<'a> {
    /// All records of the collection, or of an account in it.
    Scan,
    /// Through an index for filters.
    Filter {
        bounds: Bounds<'a>,
        /// At most [`MAX_SORTED_ROWS`] rows are within the bounds.
        is_small: bool,
    },
    /// Through an index for filters, one value of a list after the other.
    Merge(Bounds<'a>),
    /// Through an index for sorts.
    Sort(Walk<'a>),
}

/// The fields of a query that an index could serve.
pub(super) struct IndexCandidates<'a> {
    collection: Collection,
    /// The conditions for equality and ranges.
    conditions: Vec<(&'a Path, Bound<'a>)>,
    sort: Option<&'a Path>,
    /// The conditions on the field of the sort.
    sorted: Option<Values<'a>>,
}

impl AccessPath<'_> {
    pub(super) fn index(&self) -> Option<i64> {
        match self {
            Self::Scan => None,
            Self::Filter { bounds, .. } | Self::Merge(bounds) => Some(bounds.index),
            Self::Sort(walk) => Some(walk.index),
        }
    }

    /// Whether the query reads few rows that are not on its page, so that it costs no more than a list.
    pub(super) fn is_cheap(&self, query: &Query) -> bool {
        let by_time = query.is_by_time();
        if !narrows_cheaply(query) {
            return false;
        }
        match self {
            Self::Scan => query.filter.is_none() && by_time,
            Self::Filter { is_small: true, .. } => true,
            Self::Filter { bounds, is_small: false } => {
                by_time && bounds.is_one_value() && bounds.has_all_of(query.filter.as_ref())
            }
            Self::Merge(bounds) => bounds.has_all_of(query.filter.as_ref()),
            Self::Sort(walk) => walk.reads_only_matches(query.filter.as_ref()),
        }
    }
}

impl<'a> IndexCandidates<'a> {
    pub(super) fn of(collection: Collection, query: &'a Query) -> Self {
        let mut conditions = Vec::new();
        let (mut sort, mut sorted) = (None, None::<Values<'a>>);
        if query.did.is_none() {
            if let Some(filter) = &query.filter {
                collect(filter, &mut conditions);
            }
            // The rows of one value of an index are in the order of their ids, not of a second key.
            if let Some(by) = query.sort.as_ref().filter(|sort| sort.then.is_empty())
                && let SortKey::Field(path) = &by.key
            {
                sort = Some(path);
                // The rows of a list are several parts of the index.
                let on_it = conditions.iter().filter(|(field, bound)| *field == path && !bound.is_list());
                for (_, bound) in on_it {
                    match &mut sorted {
                        Some(sorted) => sorted.add(*bound),
                        None => sorted = Some(Values::of(*bound)),
                    }
                }
            }
        }
        Self { collection, conditions, sort, sorted }
    }

    pub(super) async fn choose(
        &self,
        db: &Db,
        query: &'a Query,
        tenant: &Tenant,
    ) -> Result<AccessPath<'a>, StoreError> {
        let sort = self.sort.and_then(|path| {
            let index = db.fields().index(self.collection.id, path, IndexKind::Sort)?;
            let sort = query.sort.as_ref()?;
            let values = self.sorted.clone();
            let (after, is_backwards) = (query.after_value(), query.is_backwards);
            Some(Walk { index, path, sort, after, is_backwards, values })
        });
        if let Some(walk) = sort.as_ref().filter(|walk| walk.reads_only_matches(query.filter.as_ref())) {
            return Ok(AccessPath::Sort(walk.clone()));
        }
        let mut bounds = self.bounds(db);
        let one_value = bounds.first().is_some_and(Bounds::is_one_value);
        // One value newest first, or one value without an index for the sort: no need to count.
        if one_value && bounds.len() == 1 && (self.sort.is_none() || sort.is_none()) {
            let chosen = bounds.pop().map(|bounds| AccessPath::Filter { bounds, is_small: false });
            return Ok(chosen.unwrap_or(AccessPath::Scan));
        }
        Ok(match (self.fewest(db, tenant, bounds).await?, sort) {
            (Some((count, bounds)), _) if count <= MAX_SORTED_ROWS => {
                AccessPath::Filter { bounds, is_small: true }
            }
            (_, Some(walk)) => AccessPath::Sort(walk),
            (Some((_, bounds)), None) if bounds.is_list() && !bounds.is_one_value() && query.is_by_time() => {
                AccessPath::Merge(bounds)
            }
            (Some((_, bounds)), None) if one_value || bounds.is_list() || !query.is_by_time() => {
                AccessPath::Filter { bounds, is_small: false }
            }
            _ => AccessPath::Scan,
        })
    }

    /// The existing index that has the fewest rows for the conditions, for a read of all of them.
    pub(super) async fn narrowest(&self, db: &Db, tenant: &Tenant) -> Result<Option<Bounds<'a>>, StoreError> {
        let mut bounds = self.bounds(db);
        Ok(if bounds.len() > 1 {
            self.fewest(db, tenant, bounds).await?.map(|(_, bounds)| bounds)
        } else {
            bounds.pop()
        })
    }

    /// The bounds with the fewest rows, the first of those with as many, and how many these are, at most
    /// [`MAX_SORTED_ROWS`] + 1.
    async fn fewest(
        &self,
        db: &Db,
        tenant: &Tenant,
        bounds: Vec<Bounds<'a>>,
    ) -> Result<Option<(i64, Bounds<'a>)>, StoreError> {
        if bounds.is_empty() {
            return Ok(None);
        }
        let _permit = db.read_permit(tenant).await?;
        let mut fewest: Option<(i64, Bounds<'a>)> = None;
        for candidate in bounds {
            let count = count_within(db, self.collection, &candidate).await?;
            if fewest.as_ref().is_none_or(|(fewest, _)| count < *fewest) {
                fewest = Some((count, candidate));
            }
        }
        Ok(fewest)
    }

    /// The existing indexes for the conditions, each with its conditions; those for one value first, then those for a list.
    fn bounds(&self, db: &Db) -> Vec<Bounds<'a>> {
        let mut found: Vec<Bounds<'a>> = Vec::new();
        for (path, bound) in &self.conditions {
            let Some(index) = db.fields().index(self.collection.id, path, IndexKind::Filter) else {
                continue;
            };
            match found.iter_mut().find(|bounds| bounds.index == index) {
                Some(bounds) => bounds.values.add(*bound),
                None => found.push(Bounds { index, path, values: Values::of(*bound) }),
            }
        }
        found.sort_by_key(|bounds| (!bounds.is_one_value(), !bounds.is_list()));
        found
    }

    /// Records that the query used these fields, and its duration for those without an index that would help.
    pub(super) fn note(&self, db: &Db, used: Option<i64>, took: Duration) {
        for key in self.keys() {
            let index = db.fields().index(key.collection_id, &key.path, key.kind);
            // The index for the sort has the rows of the conditions on its field in one part.
            let is_part =
                key.kind == IndexKind::Filter && self.sort == Some(&key.path) && self.sorted.is_some();
            if index.is_none() && is_part {
                continue;
            }
            let answered = index.is_some() && (index == used || key.kind == IndexKind::Filter);
            db.fields().note(key, (!answered).then_some(took));
        }
    }

    /// Stops using the indexes of this query's fields.
    pub(super) fn forget(&self, db: &Db) {
        for key in self.keys() {
            if let Some(index) = db.fields().index(key.collection_id, &key.path, key.kind) {
                db.fields().forget(index);
            }
        }
    }

    fn keys(&self) -> impl Iterator<Item = IndexKey> {
        let filters = self.conditions.iter().map(|(path, ..)| (*path, IndexKind::Filter));
        let keys = filters.chain(self.sort.map(|path| (path, IndexKind::Sort)));
        keys.map(|(path, kind)| IndexKey { collection_id: self.collection.id, path: path.clone(), kind })
    }
}

/// Whether reading in order of time passes over few records that the query's accounts and narrowing leave out.
fn narrows_cheaply(query: &Query) -> bool {
    query.dids.is_none()
        && query.narrow.label.is_none()
        && (query.narrow.rkey.is_none() || query.did.is_some())
}

/// Collects the conditions that must hold.
fn collect<'a>(filter: &'a Filter, into: &mut Vec<(&'a Path, Bound<'a>)>) {
    match filter {
        Filter::Condition { field, test } => into.extend(Bound::of(test).map(|bound| (field, bound))),
        Filter::Group { combine, children } if *combine == Combine::And || children.len() == 1 => {
            for child in children {
                collect(child, into);
            }
        }
        Filter::Group { .. } => {}
    }
}

/// The number of rows within bounds, at most [`MAX_SORTED_ROWS`] + 1.
async fn count_within(db: &Db, collection: Collection, bounds: &Bounds<'_>) -> Result<i64, StoreError> {
    fn compiled<D: Dialect>(collection: Collection, bounds: &Bounds<'_>) -> Sql {
        let mut sql = Sql::new();
        let table = D::index_table(collection.partition, &bounds.index_name());
        sql.push(format_args!("SELECT count(*) FROM (SELECT 1 FROM {table} WHERE "));
        within::<D>(&mut sql, collection.id, bounds);
        let limit = sql.bind(Value::Integer(MAX_SORTED_ROWS + 1));
        sql.push(format_args!(" LIMIT {limit}) s"));
        sql
    }
    macro_rules! fetch {
        ($db:expr, $sql:expr) => {{
            let query = bound!($sql);
            let pool = $db.pool_of(collection.partition, Reads::Hot);
            let row = query.fetch_one(pool.reads()).await?;
            sqlx::Row::try_get(&row, 0)?
        }};
    }
    Ok(match db {
        Db::Sqlite(db) => fetch!(db, compiled::<SqliteDialect>(collection, bounds)),
        Db::Postgres(db) => fetch!(db, compiled::<PostgresDialect>(collection, bounds)),
    })
}
