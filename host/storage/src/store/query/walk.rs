//! Reads a page of a query that is sorted by a field, in the order of the field's index.
//!
//! The index is ordered by type and value, and so is the result, except that rows without a value are last in both
//! directions. So one range per type is read, starting after the previous page, until the page is full: nearly always
//! in the first range.

use std::time::Instant;

use crate::query::filter::Filter;
use crate::query::path::Path;
use crate::query::sort::{Direction, SortKeyset, SortValue};
use crate::store::fields::IndexKind;
use crate::store::intern::Collection;
use crate::store::records::PartialRow;
use crate::store::scans::SCAN_TIME_LIMIT;
use crate::store::{Backend, Db, StoreError};

use super::bounds::{Values, conditions};
use super::compile::{direction_words, push_caller_conditions};
use super::sql::{Classes, Dialect, InIndex, Sql, Value, ValueType};
use super::{PostgresDialect, QueryArgs, QueryRow, SqliteDialect, fetch};

/// A read along an index for sorts.
#[derive(Clone)]
pub(super) struct Walk<'a> {
    pub(super) index: i64,
    pub(super) path: &'a Path,
    pub(super) direction: Direction,
    pub(super) after: Option<&'a SortKeyset>,
    /// The query's conditions on the same field.
    pub(super) values: Option<Values<'a>>,
}

/// A range of the index.
#[derive(Clone, Copy, Debug, PartialEq)]
enum IndexRange<'a> {
    /// All rows of a type.
    All(ValueType),
    /// Rows with this value, after an id.
    Tie(ValueType, &'a SortValue, i64),
    /// Rows after this value, of its type.
    Past(ValueType, &'a SortValue),
}

impl IndexRange<'_> {
    fn of(self) -> ValueType {
        let (Self::All(of) | Self::Tie(of, _, _) | Self::Past(of, _)) = self;
        of
    }
}

/// The type of a value by which rows are sorted.
fn type_of(value: &SortValue) -> ValueType {
    match value {
        SortValue::Number(_) => ValueType::Number,
        SortValue::Text(_) => ValueType::Text,
        SortValue::Boolean(_) => ValueType::Boolean,
        SortValue::Missing => ValueType::Missing,
    }
}

impl Walk<'_> {
    /// Whether all rows of the ranges match the filter.
    pub(super) fn reads_only_matches(&self, filter: Option<&Filter>) -> bool {
        let within = self.values.as_ref().map_or(0, |values| values.conditions.len());
        within == filter.map_or(0, conditions)
    }

    /// The ranges to read, in order.
    fn ranges(&self) -> Vec<IndexRange<'_>> {
        let mut ranges = index_ranges(self.direction, self.after);
        if let Some(values) = &self.values {
            ranges.retain(|range| range.of() == values.of);
        }
        ranges
    }

    /// Reads a page in order.
    pub(super) async fn rows(
        &self,
        db: &Db,
        scans: bool,
        collection: Collection,
        args: &QueryArgs<'_>,
    ) -> Result<Vec<PartialRow<QueryRow>>, StoreError> {
        let (mut rows, started) = (Vec::new(), Instant::now());
        for range in self.ranges() {
            let wanted = (args.rows() as usize).saturating_sub(rows.len());
            if wanted == 0 {
                break;
            }
            if started.elapsed() > SCAN_TIME_LIMIT {
                return Err(StoreError::TooSlow);
            }
            let sql = self.statement(db.backend(), collection, args, range, wanted);
            rows.extend(fetch(db, scans, sql, args).await?);
        }
        Ok(rows)
    }

    /// The statement for the first range.
    #[cfg(test)]
    pub(super) fn first(&self, backend: Backend, collection: Collection, args: &QueryArgs<'_>) -> Sql {
        let first = self.ranges()[0];
        self.statement(backend, collection, args, first, args.rows() as usize)
    }

    fn statement(
        &self,
        backend: Backend,
        collection: Collection,
        args: &QueryArgs<'_>,
        range: IndexRange<'_>,
        limit: usize,
    ) -> Sql {
        match backend {
            Backend::Sqlite => self.compile::<SqliteDialect>(collection, args, range, limit),
            Backend::Postgres => self.compile::<PostgresDialect>(collection, args, range, limit),
        }
    }

    fn compile<D: Dialect>(
        &self,
        collection: Collection,
        args: &QueryArgs<'_>,
        range: IndexRange<'_>,
        limit: usize,
    ) -> Sql {
        let mut sql = Sql { text: String::with_capacity(1024), values: Vec::new() };
        let (direction, than) = direction_words(self.direction);
        let of = range.of();
        let sort_class = of.class(Classes::of(self.direction));
        let InIndex { condition, value: column, num, txt } = D::in_index(collection.id, self.path, of);
        let row_id = D::INDEX_ORDER.1;
        sql.push(&format!(
            "SELECT {}, {} FROM (SELECT r.id AS id, {sort_class} AS class, {num} AS num, {txt} AS txt {}AND {condition}",
            D::COLUMNS,
            D::POSITION,
            D::from_visible(collection.partition, Some(&IndexKind::Sort.index_name(self.index))),
        ));
        match range {
            IndexRange::All(_) => {}
            IndexRange::Tie(_, value, id) => {
                if let Some(value) = bound_value::<D>(&mut sql, value) {
                    sql.push(&format!(" AND {column} = {value}"));
                }
                let id = sql.bind(Value::Integer(id));
                sql.push(&format!(" AND {row_id} {than} {id}"));
            }
            IndexRange::Past(_, value) => {
                if let Some(value) = bound_value::<D>(&mut sql, value) {
                    sql.push(&format!(" AND {column} {than} {value}"));
                }
            }
        }
        if let Some(values) = &self.values {
            values.push::<D>(&mut sql, &column);
        }
        push_caller_conditions::<D>(&mut sql, args);
        let limit = sql.bind(Value::Integer(limit as i64));
        let keys = match (range, of) {
            _ if D::ORDER_NAMES_NULLS => format!("{num} {direction}, {txt} {direction}, "),
            (IndexRange::Tie(..), _) | (_, ValueType::Missing) => String::new(),
            _ => format!("{column} {direction}, "),
        };
        let (join, joined) = D::COLUMNS_JOIN;
        sql.push(&format!(
            " ORDER BY {keys}{row_id} {direction} LIMIT {limit}) s \
             CROSS JOIN {} r{join} WHERE r.collection_id = {} AND r.id = s.id{joined} \
             ORDER BY s.num {direction}, s.txt {direction}, s.id {direction}",
            collection.partition.records(),
            collection.id
        ));
        sql
    }
}

/// The placeholder of a value; `None` for a missing one.
fn bound_value<D: Dialect>(sql: &mut Sql, value: &SortValue) -> Option<String> {
    Some(match value {
        SortValue::Missing => return None,
        SortValue::Number(text) => D::number(sql, text),
        SortValue::Boolean(value) => D::number(sql, if *value { "1" } else { "0" }),
        SortValue::Text(text) => sql.bind(Value::Text(text.clone())),
    })
}

/// The ranges to read for a page after a keyset, in order.
fn index_ranges(direction: Direction, after: Option<&SortKeyset>) -> Vec<IndexRange<'_>> {
    let mut order = [ValueType::Number, ValueType::Text, ValueType::Boolean, ValueType::Missing];
    if direction == Direction::Desc {
        order[..3].reverse();
    }
    let Some(SortKeyset { value, id }) = after else { return order.map(IndexRange::All).into() };
    let from = type_of(value);
    let mut ranges = vec![IndexRange::Tie(from, value, *id)];
    if from != ValueType::Missing {
        ranges.push(IndexRange::Past(from, value));
    }
    let rest = order.into_iter().skip_while(|of| *of != from).skip(1);
    ranges.extend(rest.map(IndexRange::All));
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continues_after_the_previous_page() {
        let text = SortValue::Text("b".into());
        let after = SortKeyset { value: text.clone(), id: 7 };
        assert_eq!(
            index_ranges(Direction::Desc, Some(&after)),
            [
                IndexRange::Tie(ValueType::Text, &text, 7),
                IndexRange::Past(ValueType::Text, &text),
                IndexRange::All(ValueType::Number),
                IndexRange::All(ValueType::Missing)
            ]
        );
        let end = SortKeyset { value: SortValue::Missing, id: 7 };
        assert_eq!(
            index_ranges(Direction::Asc, Some(&end)),
            [IndexRange::Tie(ValueType::Missing, &SortValue::Missing, 7)]
        );
        assert_eq!(index_ranges(Direction::Asc, None).len(), 4);
    }
}
