//! Reads a page of a query that is sorted by a field, in the order of the field's index.
//!
//! The index is ordered by type and value, and so is the result, except that rows without a value are last in both
//! directions (and first in a page that is read backwards). So one range per type is read, starting after the previous page, until the page is full: nearly always
//! in the first range.

use std::time::Instant;

use crate::query::PageSize;
use crate::query::filter::Filter;
use crate::query::path::Path;
use crate::query::sort::{Direction, Sort, SortKeyset, SortValue};
use crate::store::fields::IndexKind;
use crate::store::records::{PartialRow, RecordRow};
use crate::store::scans::SCAN_TIME_LIMIT;
use crate::store::select::{
    Accounts, By, Classes, Dialect, InIndex, PostgresDialect, Select, Sql, SqliteDialect, Value, ValueType,
    Values, conditions, direction_words,
};
use crate::store::{Backend, Db, StoreError};

use super::fetch;
use super::sorted::rows_of;

/// A read along an index for sorts.
#[derive(Clone)]
pub(super) struct Walk<'a> {
    pub(super) index: i64,
    pub(super) path: &'a Path,
    pub(super) sort: &'a Sort,
    pub(super) after: Option<&'a SortKeyset>,
    pub(super) is_backwards: bool,
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
        let mut ranges = index_ranges(self.sort.direction, self.is_backwards, self.after);
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
        select: &Select<'_>,
    ) -> Result<Vec<PartialRow<RecordRow>>, StoreError> {
        let (mut rows, started) = (Vec::new(), Instant::now());
        for range in self.ranges() {
            let wanted = (PageSize::rows_read(select.limit) as usize).saturating_sub(rows.len());
            if wanted == 0 {
                break;
            }
            if started.elapsed() > SCAN_TIME_LIMIT {
                return Err(StoreError::TooSlow);
            }
            let sql = self.statement(db.backend(), select, range, wanted);
            rows.extend(fetch(db, scans, sql, self.sort, select).await?);
        }
        Ok(rows)
    }

    /// The statement for the first range.
    #[cfg(test)]
    pub(super) fn first(&self, backend: Backend, select: &Select<'_>) -> Sql {
        let first = self.ranges()[0];
        self.statement(backend, select, first, PageSize::rows_read(select.limit) as usize)
    }

    fn statement(&self, backend: Backend, select: &Select<'_>, range: IndexRange<'_>, limit: usize) -> Sql {
        match backend {
            Backend::Sqlite => self.compile::<SqliteDialect>(select, range, limit),
            Backend::Postgres => self.compile::<PostgresDialect>(select, range, limit),
        }
    }

    fn compile<D: Dialect>(&self, select: &Select<'_>, range: IndexRange<'_>, limit: usize) -> Sql {
        let by = self.sort.direction;
        let (direction, than) = direction_words(if self.is_backwards { by.reversed() } else { by });
        let of = range.of();
        let sort_class = of.class(Classes::of(by));
        let InIndex { condition, value: column, num, txt } = D::in_index(select.collection.id, self.path, of);
        let row_id = D::INDEX_ORDER.1;
        rows_of::<D>(select, self.sort, self.is_backwards, |sql| {
            sql.push(format_args!("SELECT r.id AS id, {sort_class} AS class, {num} AS num, {txt} AS txt"));
            let index = IndexKind::Sort.index_name(self.index);
            D::from(sql, select.collection, By::Index(&index), Accounts::Visible);
            sql.push(format_args!(" AND {condition}"));
            match range {
                IndexRange::All(_) => {}
                IndexRange::Tie(_, value, id) => {
                    if let Some(value) = bound_value::<D>(sql, value) {
                        sql.push(format_args!(" AND {column} = {value}"));
                    }
                    let id = sql.bind(Value::Integer(id));
                    sql.push(format_args!(" AND {row_id} {than} {id}"));
                }
                IndexRange::Past(_, value) => {
                    if let Some(value) = bound_value::<D>(sql, value) {
                        sql.push(format_args!(" AND {column} {than} {value}"));
                    }
                }
            }
            if let Some(values) = &self.values {
                values.push::<D>(sql, &column);
            }
            select.write_conditions::<D>(sql);
            let limit = sql.bind(Value::Integer(limit as i64));
            let keys = match (range, of) {
                _ if D::ORDER_NAMES_NULLS => format!("{num} {direction}, {txt} {direction}, "),
                (IndexRange::Tie(..), _) | (_, ValueType::Missing) => String::new(),
                _ => format!("{column} {direction}, "),
            };
            sql.push(format_args!(" ORDER BY {keys}{row_id} {direction} LIMIT {limit}"));
        })
    }
}

/// The placeholder of a value; `None` for a missing one.
fn bound_value<D: Dialect>(sql: &mut Sql, value: &SortValue) -> Option<String> {
    Some(match value {
        SortValue::Missing => return None,
        SortValue::Number(text) => D::number(sql, text),
        SortValue::Boolean(value) => D::number(sql, if *value { "1" } else { "0" }),
        SortValue::Text(text) => sql.bind(Value::Text(text.clone())).to_string(),
    })
}

/// The ranges to read for a page after a keyset, in order.
fn index_ranges(direction: Direction, is_backwards: bool, after: Option<&SortKeyset>) -> Vec<IndexRange<'_>> {
    let mut order = [ValueType::Number, ValueType::Text, ValueType::Boolean, ValueType::Missing];
    if direction == Direction::Desc {
        order[..3].reverse();
    }
    if is_backwards {
        order.reverse();
    }
    let Some(SortKeyset { value, id, .. }) = after else { return order.map(IndexRange::All).into() };
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
        let after = SortKeyset { value: text.clone(), then: Vec::new(), id: 7 };
        assert_eq!(
            index_ranges(Direction::Desc, false, Some(&after)),
            [
                IndexRange::Tie(ValueType::Text, &text, 7),
                IndexRange::Past(ValueType::Text, &text),
                IndexRange::All(ValueType::Number),
                IndexRange::All(ValueType::Missing)
            ]
        );
        let end = SortKeyset { value: SortValue::Missing, then: Vec::new(), id: 7 };
        assert_eq!(
            index_ranges(Direction::Asc, false, Some(&end)),
            [IndexRange::Tie(ValueType::Missing, &SortValue::Missing, 7)]
        );
        assert_eq!(index_ranges(Direction::Asc, false, None).len(), 4);
        let back = index_ranges(Direction::Asc, true, Some(&end));
        assert_eq!(back.len(), 4, "records without a value are the first: {back:?}");
        assert_eq!(
            index_ranges(Direction::Desc, true, Some(&after)).last(),
            Some(&IndexRange::All(ValueType::Boolean))
        );
    }
}
