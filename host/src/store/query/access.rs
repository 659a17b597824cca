//! Which index a query goes by.
//!
//! Every condition that must hold (not those under an OR) may use an index of its field: equality, and ranges. One
//! value is walked newest first, which is never worse than the collection. A range has to be sorted, and a filter
//! beside a sort too, so they are counted first, up to [`FEW`]. A query for one account's records uses none: it has
//! those in order already.

use std::time::Duration;

use crate::query::filter::{Combine, Filter, Op, Scalar};
use crate::query::path::Path;
use crate::query::sort::SortKey;
use crate::store::fields::{Key, Kind};
use crate::store::{Db, StoreError, lane};

use super::bounds::{Bounds, class, within};
use super::sql::{Dialect, Sql, Value};
use super::walk::Walk;
use super::{Order, PostgresDialect, QueryArgs, SqliteDialect, bound};

/// Rows that are sorted rather than found in order: some milliseconds. When more match, walking in order finds a page
/// among them as quickly.
const FEW: i64 = 2_000;

/// How to get at the rows.
pub(super) enum Chosen<'a> {
    /// Through the collection, or an account's part of it.
    Scan,
    Filter {
        bounds: Bounds<'a>,
        /// At most [`FEW`] rows are within the bounds.
        few: bool,
    },
    Sort(Walk<'a>),
}

/// What a query could use.
pub(super) struct Uses<'a> {
    collection: i64,
    /// Equal to a value, or, when none is, within a range.
    conditions: Vec<(&'a Path, Op, &'a Scalar)>,
    sort: Option<&'a Path>,
}

impl Chosen<'_> {
    pub(super) fn index(&self) -> Option<i64> {
        match self {
            Self::Scan => None,
            Self::Filter { bounds, .. } => Some(bounds.index),
            Self::Sort(walk) => Some(walk.index),
        }
    }

    /// Whether the query passes over few rows that are not on its page, so that it costs no more than a list.
    pub(super) fn is_cheap(&self, args: &QueryArgs<'_>) -> bool {
        let by_time = match &args.order {
            Order::Newest { .. } => true,
            Order::By { sort, .. } => sort.key == SortKey::IndexedAt,
        };
        match self {
            Self::Scan => args.filter.is_none() && by_time,
            Self::Filter { few: true, .. } => true,
            Self::Filter { bounds, few: false } => {
                let asked = args.filter.map_or(0, conditions);
                by_time && bounds.is_one_value() && bounds.conditions.len() == asked
            }
            Self::Sort(_) => args.filter.is_none(),
        }
    }
}

/// Conditions in a filter, whether they must hold or not.
fn conditions(filter: &Filter) -> usize {
    match filter {
        Filter::Condition { .. } => 1,
        Filter::Group { children, .. } => children.iter().map(conditions).sum(),
    }
}

impl<'a> Uses<'a> {
    pub(super) fn of(collection: i64, args: &QueryArgs<'a>) -> Self {
        let mut conditions = Vec::new();
        let mut sort = None;
        if args.did.is_none() {
            if let Some(filter) = args.filter {
                collect(filter, &mut conditions);
            }
            if conditions.iter().any(|(_, op, _)| *op == Op::Eq) {
                conditions.retain(|(_, op, _)| *op == Op::Eq);
            }
            if let Order::By { sort: by, .. } = &args.order
                && let SortKey::Field(path) = &by.key
            {
                sort = Some(path);
            }
        }
        Self { collection, conditions, sort }
    }

    pub(super) async fn choose(&self, db: &Db, args: &QueryArgs<'a>) -> Result<Chosen<'a>, StoreError> {
        let sort = self.sort.and_then(|path| {
            let index = db.fields().index(self.collection, path, Kind::Sort)?;
            let Order::By { sort, after } = &args.order else { return None };
            Some(Walk { index, path, direction: sort.direction, after: *after })
        });
        let mut bounds = self.bounds(db);
        let one_value = bounds.first().is_some_and(Bounds::is_one_value);
        // One value newest first, or one value and nothing better: no need to count.
        if one_value && bounds.len() == 1 && (self.sort.is_none() || sort.is_none()) {
            let chosen = bounds.pop().map(|bounds| Chosen::Filter { bounds, few: false });
            return Ok(chosen.unwrap_or(Chosen::Scan));
        }
        let mut fewest: Option<(i64, Bounds<'a>)> = None;
        for candidate in bounds {
            let count = count_within(db, self.collection, &candidate).await?;
            if fewest.as_ref().is_none_or(|(fewest, _)| count < *fewest) {
                fewest = Some((count, candidate));
            }
        }
        Ok(match (fewest, sort) {
            (Some((count, bounds)), _) if count <= FEW => Chosen::Filter { bounds, few: true },
            (_, Some(walk)) => Chosen::Sort(walk),
            (Some((_, bounds)), None) if one_value || self.sort.is_some() => {
                Chosen::Filter { bounds, few: false }
            }
            _ => Chosen::Scan,
        })
    }

    /// The indexes that are there, each with what it is asked for.
    fn bounds(&self, db: &Db) -> Vec<Bounds<'a>> {
        let mut found: Vec<Bounds<'a>> = Vec::new();
        for (path, op, value) in &self.conditions {
            let Some(index) = db.fields().index(self.collection, path, Kind::Filter) else { continue };
            let class = class(value);
            match found.iter_mut().find(|bounds| bounds.index == index) {
                // Two values of different types: nothing matches, and the conditions say so.
                Some(bounds) if bounds.class == class => bounds.conditions.push((*op, value)),
                Some(_) => {}
                None => found.push(Bounds { index, path, class, conditions: vec![(*op, value)] }),
            }
        }
        found
    }

    /// Notes what the query asked for and what it took, unless the index that it went by was for that.
    pub(super) fn note(&self, db: &Db, used: Option<i64>, took: Duration) {
        for key in self.keys() {
            let index = db.fields().index(key.collection_id, &key.path, key.kind);
            let answered = index.is_some() && (index == used || key.kind == Kind::Filter);
            db.fields().note(key, (!answered).then_some(took));
        }
    }

    pub(super) fn forget(&self, db: &Db) {
        for key in self.keys() {
            if let Some(index) = db.fields().index(key.collection_id, &key.path, key.kind) {
                db.fields().forget(index);
            }
        }
    }

    fn keys(&self) -> impl Iterator<Item = Key> {
        let filters = self.conditions.iter().map(|(path, ..)| (*path, Kind::Filter));
        let keys = filters.chain(self.sort.map(|path| (path, Kind::Sort)));
        keys.map(|(path, kind)| Key { collection_id: self.collection, path: path.clone(), kind })
    }
}

/// The conditions that must hold.
fn collect<'a>(filter: &'a Filter, into: &mut Vec<(&'a Path, Op, &'a Scalar)>) {
    match filter {
        Filter::Condition { field, op: op @ (Op::Eq | Op::Lt | Op::Le | Op::Gt | Op::Ge), value } => {
            into.push((field, *op, value));
        }
        Filter::Group { combine, children } if *combine == Combine::And || children.len() == 1 => {
            for child in children {
                collect(child, into);
            }
        }
        Filter::Condition { .. } | Filter::Group { .. } => {}
    }
}

/// How many rows an index has within bounds; one more than [`FEW`] stands for all above it.
async fn count_within(db: &Db, collection: i64, bounds: &Bounds<'_>) -> Result<i64, StoreError> {
    fn compiled<D: Dialect>(collection: i64, bounds: &Bounds<'_>, hint: &str) -> Sql {
        let mut sql = Sql { text: String::with_capacity(512), values: Vec::new() };
        sql.push(&format!("SELECT count(*) FROM (SELECT 1 FROM records r {hint} WHERE "));
        within::<D>(&mut sql, collection, bounds);
        let limit = sql.bind(Value::Integer(FEW + 1));
        sql.push(&format!(" LIMIT {limit}) s"));
        sql
    }
    macro_rules! fetch {
        ($lane:expr, $sql:expr) => {{
            let query = bound!($sql);
            let row = lane::read!($lane, |conn| query.fetch_one(conn).await);
            sqlx::Row::try_get(&row, 0)?
        }};
    }
    Ok(match db {
        Db::Sqlite(db) => {
            let hint = format!("INDEXED BY {}", bounds.index_name());
            fetch!(db.lane, compiled::<SqliteDialect>(collection, bounds, &hint))
        }
        Db::Postgres(db) => fetch!(db.lane, compiled::<PostgresDialect>(collection, bounds, "")),
    })
}
