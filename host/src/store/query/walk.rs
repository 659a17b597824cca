//! A sort on a field along its index.
//!
//! The index is in the order of types and values, and so is the answer, but for rows without a value, which come last
//! both ways. So the walk goes type by type, from where the page before ended, until the page is full: nearly always
//! within the first.

use crate::query::path::Path;
use crate::query::sort::{Direction, SortKeyset, SortValue};
use crate::store::fields::{Kind, build};
use crate::store::records::Found;
use crate::store::{Backend, Db, StoreError};

use super::compile::{and_asked, words};
use super::sql::{Classes, Dialect, Keys, MISSING, Sql, Value};
use super::{PostgresDialect, QueryArgs, QueryRow, SqliteDialect, fetch};

pub(super) struct Walk<'a> {
    pub(super) index: i64,
    pub(super) path: &'a Path,
    pub(super) direction: Direction,
    pub(super) after: Option<&'a SortKeyset>,
}

/// A stretch of the index.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stretch<'a> {
    /// All rows of a type.
    All(Type),
    /// Rows with this value, past an id.
    Tie(Type, &'a SortValue, i64),
    /// Rows past this value, of its type.
    Past(Type, &'a SortValue),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Number,
    Text,
    Boolean,
    Missing,
}

impl Type {
    fn of(value: &SortValue) -> Self {
        match value {
            SortValue::Number(_) => Self::Number,
            SortValue::Text(_) => Self::Text,
            SortValue::Boolean(_) => Self::Boolean,
            SortValue::Missing => Self::Missing,
        }
    }

    fn class(self, classes: Classes) -> i64 {
        match self {
            Self::Number => classes.number,
            Self::Text => classes.text,
            Self::Boolean => classes.boolean,
            Self::Missing => MISSING,
        }
    }
}

impl Walk<'_> {
    /// A page, in order.
    pub(super) async fn rows(
        &self,
        db: &Db,
        scans: bool,
        collection: i64,
        args: &QueryArgs<'_>,
    ) -> Result<Vec<Found<QueryRow>>, StoreError> {
        let mut rows = Vec::new();
        for stretch in stretches(self.direction, self.after) {
            let wanted = (args.rows() as usize).saturating_sub(rows.len());
            if wanted == 0 {
                break;
            }
            let sql = self.statement(db.backend(), collection, args, stretch, wanted);
            rows.extend(fetch(db, scans, sql, args).await?);
        }
        Ok(rows)
    }

    /// The statement of the first stretch.
    pub(super) fn first(&self, backend: Backend, collection: i64, args: &QueryArgs<'_>) -> Sql {
        let first = stretches(self.direction, self.after)[0];
        self.statement(backend, collection, args, first, args.rows() as usize)
    }

    fn statement(
        &self,
        backend: Backend,
        collection: i64,
        args: &QueryArgs<'_>,
        stretch: Stretch<'_>,
        limit: usize,
    ) -> Sql {
        match backend {
            Backend::Sqlite => self.compile::<SqliteDialect>(collection, args, stretch, limit),
            Backend::Postgres => self.compile::<PostgresDialect>(collection, args, stretch, limit),
        }
    }

    fn compile<D: Dialect>(
        &self,
        collection: i64,
        args: &QueryArgs<'_>,
        stretch: Stretch<'_>,
        limit: usize,
    ) -> Sql {
        let mut sql = Sql { text: String::with_capacity(1024), values: Vec::new() };
        let (direction, than) = words(self.direction);
        let Keys { class, num, txt } = D::keys("r.record", self.path, Classes::INDEXED);
        let (Stretch::All(of) | Stretch::Tie(of, ..) | Stretch::Past(of, _)) = stretch;
        let place = of.class(Classes::of(self.direction));
        sql.push(&format!(
            "SELECT {}, {} FROM (SELECT r.id AS id, {place} AS class, {num} AS num, {txt} AS txt {}AND \
             r.collection_id = {collection} AND {class} = {}",
            D::COLUMNS,
            D::PLACE,
            D::from_visible(Some(&build::name(Kind::Sort, self.index))),
            of.class(Classes::INDEXED)
        ));
        sql.push(&match of {
            Type::Number | Type::Boolean => format!(" AND {txt} IS NULL"),
            Type::Text => format!(" AND {num} IS NULL"),
            Type::Missing => format!(" AND {num} IS NULL AND {txt} IS NULL"),
        });
        let column = if of == Type::Text { &txt } else { &num };
        match stretch {
            Stretch::All(_) => {}
            Stretch::Tie(_, value, id) => {
                if let Some(value) = bound_value::<D>(&mut sql, value) {
                    sql.push(&format!(" AND {column} = {value}"));
                }
                let id = sql.bind(Value::Integer(id));
                sql.push(&format!(" AND r.id {than} {id}"));
            }
            Stretch::Past(_, value) => {
                if let Some(value) = bound_value::<D>(&mut sql, value) {
                    sql.push(&format!(" AND {column} {than} {value}"));
                }
            }
        }
        and_asked::<D>(&mut sql, args);
        let limit = sql.bind(Value::Integer(limit as i64));
        let keys = match (stretch, of) {
            _ if D::ORDER_NAMES_NULLS => format!("{num} {direction}, {txt} {direction}, "),
            (Stretch::Tie(..), _) | (_, Type::Missing) => String::new(),
            (_, Type::Text) => format!("{txt} {direction}, "),
            // What follows the first key that varies is named in any case.
            (_, Type::Number | Type::Boolean) => format!("{num} {direction}, {txt} {direction}, "),
        };
        sql.push(&format!(
            " ORDER BY {keys}r.id {direction} LIMIT {limit}) s \
             CROSS JOIN records r CROSS JOIN dids d WHERE r.id = s.id AND d.id = r.did_id \
             ORDER BY s.num {direction}, s.txt {direction}, s.id {direction}"
        ));
        sql
    }
}

/// The placeholder of a value; none for a missing one.
fn bound_value<D: Dialect>(sql: &mut Sql, value: &SortValue) -> Option<String> {
    Some(match value {
        SortValue::Missing => return None,
        SortValue::Number(text) => D::number(sql, text),
        SortValue::Boolean(value) => D::number(sql, if *value { "1" } else { "0" }),
        SortValue::Text(text) => sql.bind(Value::Text(text.clone())),
    })
}

fn stretches(direction: Direction, after: Option<&SortKeyset>) -> Vec<Stretch<'_>> {
    let mut order = [Type::Number, Type::Text, Type::Boolean, Type::Missing];
    if direction == Direction::Desc {
        order[..3].reverse();
    }
    let Some(SortKeyset { value, id }) = after else { return order.map(Stretch::All).into() };
    let from = Type::of(value);
    let mut stretches = vec![Stretch::Tie(from, value, *id)];
    if from != Type::Missing {
        stretches.push(Stretch::Past(from, value));
    }
    let rest = order.into_iter().skip_while(|of| *of != from).skip(1);
    stretches.extend(rest.map(Stretch::All));
    stretches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_on_where_the_page_before_ended() {
        let text = SortValue::Text("b".into());
        let after = SortKeyset { value: text.clone(), id: 7 };
        assert_eq!(
            stretches(Direction::Desc, Some(&after)),
            [
                Stretch::Tie(Type::Text, &text, 7),
                Stretch::Past(Type::Text, &text),
                Stretch::All(Type::Number),
                Stretch::All(Type::Missing)
            ]
        );
        let end = SortKeyset { value: SortValue::Missing, id: 7 };
        assert_eq!(
            stretches(Direction::Asc, Some(&end)),
            [Stretch::Tie(Type::Missing, &SortValue::Missing, 7)]
        );
        assert_eq!(stretches(Direction::Asc, None).len(), 4);
    }
}
