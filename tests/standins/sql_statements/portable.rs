//! Statements that have the same answer on SQLite and PostgreSQL: typed expressions, and what docs/scripting/sql.md
//! names as different written as it says. They read the views `records` and `record_refs` and the table `script_own`.

mod expressions;

use super::choices::Choices;

/// Creates the table that the statements read and write.
pub const TABLE: &str =
    "CREATE TABLE script_own (id bigint PRIMARY KEY, i bigint, r double precision, t text)";
/// Its rows.
pub const ROWS: &str = "INSERT INTO script_own VALUES (1, 1, 0.5, 'a'), (2, -7, 2.5, 'B'), (3, NULL, -1.5, 'b_c'), (4, 40, NULL, 'A'), \
    (5, 7, 3, NULL), (6, 0, 0, ''), (7, 2, 12.25, '\u{e9}t\u{e9}'), (8, 2, -0.25, 'Z%'), (9, 12, 2.5, ' it''s '), (10, -7, 1, '10')";
/// Reads all of it.
pub const CONTENT: &str = "SELECT id, i, r, t FROM script_own ORDER BY id";

const DEPTH: u32 = 3;
const ALIASES: &[&str] = &["a", "b", "c"];

/// The type of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Integer,
    Real,
    Text,
}

const TYPES: &[Type] = &[Type::Integer, Type::Text, Type::Real, Type::Text];

/// The relation that an alias names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Own,
    Records,
    Refs,
}

/// A generated statement. `$1` is a text and `$2` an integer.
#[derive(Debug)]
pub struct Statement {
    pub sql: String,
    /// Whether it changes the table: its answer is the number of rows, and [`CONTENT`] afterwards.
    pub writes: bool,
}

/// Generates a statement from bytes.
pub fn statement(bytes: &[u8]) -> Statement {
    let mut portable = Portable { choices: Choices::new(bytes), seen: Vec::new() };
    match portable.choices.below(10) {
        0 => Statement { sql: portable.write(), writes: true },
        1 => Statement { sql: portable.recursive(), writes: false },
        _ => {
            let columns = portable.columns();
            Statement { sql: portable.query(DEPTH, &columns), writes: false }
        }
    }
}

/// A list of columns. The databases name a column without an alias differently.
fn named(columns: impl Iterator<Item = String>) -> String {
    let named = columns.enumerate().map(|(n, column)| format!("{column} AS c{n}"));
    named.collect::<Vec<_>>().join(", ")
}

struct Portable<'a> {
    choices: Choices<'a>,
    /// The visible relations, innermost last; each has the alias of its position.
    seen: Vec<Relation>,
}

impl Portable<'_> {
    fn columns(&mut self) -> Vec<Type> {
        let count = 1 + self.choices.below(3);
        (0..count).map(|_| self.choices.one_of(TYPES)).collect()
    }

    /// A query with these columns whose rows have one order.
    fn query(&mut self, depth: u32, columns: &[Type]) -> String {
        let mut sql = self.select(depth, columns);
        if self.choices.once_in(5) {
            let word = self.choices.one_of(&["UNION", "UNION ALL", "EXCEPT", "INTERSECT"]);
            sql = format!("{sql} {word} {}", self.select(depth, columns));
        }
        let order = (1..=columns.len()).map(|n| {
            let direction = self.choices.one_of(&["", " DESC"]);
            format!("{n}{direction} NULLS LAST")
        });
        sql = format!("{sql} ORDER BY {}", order.collect::<Vec<_>>().join(", "));
        if self.choices.once_in(4) {
            sql += self.choices.one_of(&[" LIMIT 3", " LIMIT 2 OFFSET 1", " LIMIT $2"]);
        }
        sql
    }

    fn select(&mut self, depth: u32, columns: &[Type]) -> String {
        let outside = self.seen.len();
        let from = self.from(depth);
        let condition =
            if self.choices.once_in(2) { format!(" WHERE {}", self.boolean(depth)) } else { String::new() };
        let sql = match self.choices.below(6) {
            0 => self.grouped(depth, columns, &from, &condition),
            1 if outside == 0 => {
                let shown = named(columns.iter().map(|column| self.window(*column)));
                format!("SELECT {shown}{from}{condition}")
            }
            kind => {
                let distinct = if kind == 2 { "DISTINCT " } else { "" };
                let shown = named(columns.iter().map(|column| self.expr(*column, depth)));
                format!("SELECT {distinct}{shown}{from}{condition}")
            }
        };
        self.seen.truncate(outside);
        sql
    }

    /// The first column is what is grouped by, the others aggregate.
    fn grouped(&mut self, depth: u32, columns: &[Type], from: &str, condition: &str) -> String {
        let key = self.expr(columns[0], depth - 1);
        let others = columns[1..].iter().map(|column| self.aggregate(*column, depth - 1));
        let shown = named(std::iter::once(key).chain(others.collect::<Vec<_>>()));
        let having = match self.choices.below(3) {
            0 => format!(" HAVING max({}) IS NOT NULL", self.column(Type::Text)),
            1 => " HAVING count(*) > 1".to_owned(),
            _ => String::new(),
        };
        format!("SELECT {shown}{from}{condition} GROUP BY 1{having}")
    }

    fn aggregate(&mut self, of: Type, depth: u32) -> String {
        match of {
            Type::Integer if self.choices.once_in(3) => {
                let any = self.choices.one_of(TYPES);
                format!("count(DISTINCT {})", self.expr(any, depth))
            }
            Type::Integer if self.choices.once_in(2) => "count(*)".to_owned(),
            Type::Real if self.choices.once_in(2) => format!("avg({})", self.expr(Type::Integer, depth)),
            Type::Integer | Type::Real => {
                let name = self.choices.one_of(&["sum", "min", "max"]);
                format!("{name}({})", self.expr(of, depth))
            }
            Type::Text => {
                let name = self.choices.one_of(&["min", "max"]);
                format!("{name}({})", self.expr(of, depth))
            }
        }
    }

    fn window(&mut self, of: Type) -> String {
        let (partition, order) = (self.expr(Type::Text, 1), self.unique());
        let over = if self.choices.once_in(2) {
            format!("PARTITION BY {partition} ORDER BY {order}")
        } else {
            format!("ORDER BY {order}")
        };
        if of == Type::Integer {
            let name = self.choices.one_of(&["row_number()", "rank()", "count(*)"]);
            return format!("{name} OVER ({over})");
        }
        let name = self.choices.one_of(&["lag", "lead", "first_value", "max"]);
        format!("{name}({}) OVER ({over})", self.expr(of, 1))
    }

    /// Columns that together differ in each row.
    fn unique(&self) -> String {
        let each = self.seen.iter().zip(ALIASES).map(|(relation, alias)| match relation {
            Relation::Own => format!("{alias}.id NULLS LAST"),
            Relation::Records => format!("{alias}.uri NULLS LAST"),
            Relation::Refs => format!("{alias}.source_uri NULLS LAST, {alias}.target_uri NULLS LAST"),
        });
        each.collect::<Vec<_>>().join(", ")
    }

    fn relation(&mut self) -> (Relation, &'static str) {
        self.choices.one_of(&[
            (Relation::Own, "script_own"),
            (Relation::Records, "records"),
            (Relation::Own, "script_own"),
            (Relation::Refs, "record_refs"),
        ])
    }

    fn from(&mut self, depth: u32) -> String {
        let (relation, name) = self.relation();
        self.seen.push(relation);
        let alias = ALIASES[self.seen.len() - 1];
        let mut sql = format!(" FROM {name} AS {alias}");
        if depth == DEPTH && self.seen.len() < ALIASES.len() && self.choices.once_in(3) {
            let (relation, name) = self.relation();
            let left = self.expr(Type::Text, 0);
            self.seen.push(relation);
            let alias = ALIASES[self.seen.len() - 1];
            let right = self.own_column(alias, relation, Type::Text);
            let join = self.choices.one_of(&["JOIN", "LEFT JOIN"]);
            let and =
                if self.choices.once_in(3) { format!(" AND {}", self.boolean(1)) } else { String::new() };
            sql = format!("{sql} {join} {name} AS {alias} ON {left} = {right}{and}");
        }
        sql
    }

    fn recursive(&mut self) -> String {
        let start =
            self.choices.one_of(&["$1", "'a'", "lower('A' || $1)", "CAST($2 AS text)", "'at://' || $1"]);
        let number = self.choices.one_of(&["0", "$2", "1 + 1"]);
        let all = self.choices.one_of(&["ALL ", ""]);
        let step = self.choices.one_of(&[
            "x.t || '.', x.n + 1 FROM x WHERE x.n < 9",
            "coalesce(a.t, x.t), x.n + 1 FROM x JOIN script_own a ON a.id = x.n + 1 WHERE x.n < 6",
            "a.source_uri, x.n + 1 FROM x LEFT JOIN record_refs a ON a.target_uri = x.t WHERE x.n < 4",
        ]);
        self.seen.push(Relation::Own);
        let condition = self.choices.one_of(&["TRUE", "x.t < 'b'", "x.t IN (SELECT a.t FROM script_own a)"]);
        format!(
            "WITH RECURSIVE x(t, n) AS (SELECT {start}, {number} UNION {all}SELECT {step}) \
             SELECT x.t, x.n FROM x WHERE {condition} ORDER BY 2 NULLS LAST, 1 NULLS LAST LIMIT 30"
        )
    }

    fn write(&mut self) -> String {
        match self.choices.below(3) {
            0 => {
                self.seen.push(Relation::Own);
                let values = [self.integer(2), self.real(2), self.text(2)];
                let condition = self.boolean(2);
                let [i, r, t] = values;
                format!(
                    "INSERT INTO script_own (id, i, r, t) SELECT a.id + 5, {i}, {r}, {t} FROM script_own AS a WHERE {condition} \
                     ON CONFLICT (id) DO {}",
                    self.choices
                        .one_of(&["NOTHING", "UPDATE SET i = excluded.i, t = script_own.t || excluded.t"])
                )
            }
            1 => {
                let set = self.choices.one_of(&[
                    "i = i / 2, t = lower(t)",
                    "t = CAST(i AS text)",
                    "r = i * 0.5, t = t || $1",
                    "i = length(t), t = NULL",
                    "i = $2",
                ]);
                format!("UPDATE script_own SET {set} WHERE {}", self.plain_condition())
            }
            _ => format!("DELETE FROM script_own WHERE {}", self.plain_condition()),
        }
    }

    fn plain_condition(&mut self) -> &'static str {
        self.choices.one_of(&[
            "t < 'b'",
            "t >= $1",
            "i IN (SELECT a.id FROM script_own AS a WHERE a.t > 'A')",
            "i % 2 = 1",
            "r > i",
            "NOT (t = 'a')",
            "lower(t) LIKE '%b%'",
            "id = (SELECT max(a.id) FROM script_own AS a)",
        ])
    }
}
