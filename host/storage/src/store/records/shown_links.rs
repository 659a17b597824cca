//! Counts the links of many targets without those that a read hides.
//!
//! The links of a target with few are looked through. The number of a target with many is kept by triggers, the same for all
//! readers, and has the hidden ones (ADR 129).

use sqlx::Row;

use belvedere_web::fair_share::Tenant;

use super::super::intern::{self, Collection};
use super::super::packed::Packed;
use super::super::read_cost::ReadCost;
use super::super::reads::Reads;
#[cfg(test)]
use super::super::select::plan;
use super::super::select::{By, Dialect, PostgresDialect, Select, Sql, SqliteDialect, Target, Value, bound};
use super::super::types::to_json_text;
use super::super::{Db, StoreError};
use super::links::{self, Few};
use crate::query::{Hidden, Links, Narrow};

/// The number of visible records with such a link to each target, in the order of the targets, without the hidden ones of targets
/// with few links.
///
/// # Errors
/// [`StoreError::Busy`], and [`StoreError::TooSlow`] for a scan.
pub async fn count(
    db: &Db,
    wanted: &Links,
    hidden: &Hidden,
    targets: &[String],
    tenant: &Tenant,
) -> Result<Vec<u64>, StoreError> {
    if *hidden == Hidden::NONE {
        return links::count(db, wanted, targets, tenant).await;
    }
    let numbers = links::numbers(db, wanted, Few::LeftOut, targets, tenant).await?;
    let mut counts: Vec<u64> = numbers.iter().map(|number| number.links).collect();
    let few = numbers.iter().enumerate().filter(|(_, number)| number.are_few);
    let few: Vec<usize> = few.map(|(at, _)| at).collect();
    let Some(collection) = intern::collection(db, &wanted.collection).await? else { return Ok(counts) };
    if few.is_empty() {
        return Ok(counts);
    }
    let looked_through: Vec<&String> = few.iter().map(|at| &targets[*at]).collect();
    let look_through = async |scans: bool| {
        let sql = statement(db, wanted, collection, hidden, &looked_through);
        macro_rules! fetch {
            ($db:expr) => {{
                let pool = $db.pool_of(collection.partition, Reads::of_scan(scans));
                bound!(sql).fetch_one(pool.reads()).await?.try_get(0)?
            }};
        }
        Ok(match db {
            Db::Sqlite(db) => fetch!(db),
            Db::Postgres(db) => fetch!(db),
        })
    };
    let cost = async { Ok(ReadCost::of(hidden)) };
    let shown: Option<String> =
        db.read_or_scan(tenant, cost, look_through(false), look_through(true)).await?;
    let shown: Vec<u64> = Packed::new(shown.unwrap_or_default()).rows(|row| row.field()?.parse().ok())?;
    for (at, shown) in few.into_iter().zip(shown) {
        counts[at] = shown;
    }
    Ok(counts)
}

/// The statement that counts the records that link to each target, as one packed text.
fn statement(db: &Db, wanted: &Links, collection: Collection, hidden: &Hidden, targets: &[&String]) -> Sql {
    let targets = to_json_text(targets);
    match db {
        Db::Sqlite(_) => write::<SqliteDialect>(wanted, collection, hidden, targets, ["json_each(", ") v"]),
        Db::Postgres(_) => {
            let each = ["jsonb_array_elements_text(", "::text::jsonb) WITH ORDINALITY v (value, key)"];
            write::<PostgresDialect>(wanted, collection, hidden, targets, each)
        }
    }
}

fn write<D: Dialect>(
    wanted: &Links,
    collection: Collection,
    hidden: &Hidden,
    targets: String,
    [before, after]: [&str; 2],
) -> Sql {
    let narrow = Narrow { hidden: hidden.clone(), ..Narrow::default() };
    let by = By::Target { target: Target::Column("v.value"), path: wanted.path.as_deref() };
    let select = Select { by, narrow: &narrow, ..Select::page(&wanted.collection, collection, 1) };
    let mut sql = Sql::new();
    sql.push(format_args!("SELECT string_agg(n || ' ', '') FROM (SELECT (SELECT count(*)"));
    select.write_from::<D>(&mut sql);
    let targets = sql.bind(Value::Text(targets));
    sql.push(format_args!(") AS n FROM {before}{targets}{after} ORDER BY v.key) t"));
    sql
}

/// The database's plan for the targets with few links.
#[cfg(test)]
pub async fn explain(
    db: &Db,
    wanted: &Links,
    hidden: &Hidden,
    targets: &[String],
) -> Result<String, StoreError> {
    let Some(collection) = intern::collection(db, &wanted.collection).await? else {
        return Ok(String::new());
    };
    let targets: Vec<&String> = targets.iter().collect();
    plan(db, statement(db, wanted, collection, hidden, &targets)).await
}
