//! Statements which try to read tables other than the scripts' own.

use super::choices::Choices;
use super::words::{
    ALIASES, FORBIDDEN, FORBIDDEN_TABLES, FORBIDDEN_TYPES, FOREIGN, FUNCTIONS, JOINS, OPERATORS, READABLE,
    STRANGE, STRANGE_OPERATORS, TABLE_FUNCTIONS, TEXTS, TYPES,
};

/// The content of the table `canary`, which no statement may reveal.
pub const SECRET: &str = "canary-b7d1f0";
/// Maximum depth of subqueries and expressions.
const DEPTH: u32 = 4;
/// One in this many choices is something that the guard should refuse.
const HOSTILE_ODDS: usize = 24;

fn add(sql: &mut String, text: std::fmt::Arguments<'_>) {
    sql.push_str(&text.to_string());
}

/// Generates a statement from bytes.
pub fn statement(bytes: &[u8]) -> String {
    Hostile { choices: Choices::new(bytes), seen: Vec::new() }.statement()
}

struct Hostile<'a> {
    choices: Choices<'a>,
    /// The visible aliases with their columns, innermost last.
    seen: Vec<(&'static str, Vec<&'static str>)>,
}

impl Hostile<'_> {
    fn below(&mut self, end: usize) -> usize {
        self.choices.below(end)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        self.choices.one_of(all)
    }

    fn once_in(&mut self, n: usize) -> bool {
        self.choices.once_in(n)
    }

    fn statement(&mut self) -> String {
        let own: (&str, Vec<&str>) = ("script_own", vec!["x", "n"]);
        match self.below(12) {
            0..=7 => self.query(DEPTH, None),
            8 => {
                let target = if self.once_in(HOSTILE_ODDS) {
                    self.one_of(&["canary", "records"])
                } else {
                    "script_own"
                };
                let query = self.query(2, Some(1));
                let conflict =
                    self.one_of(&["", "ON CONFLICT DO NOTHING", "RETURNING *", "RETURNING script_own.x"]);
                format!("INSERT INTO {target} (x) {query} {conflict}")
            }
            9 => {
                let value = self.expr(2);
                self.seen.push(own);
                format!("INSERT INTO script_own (x) VALUES ({value}) RETURNING {}", self.projection(2, None))
            }
            10 => {
                self.seen.push(own);
                let from = self.from(2);
                let (value, condition) = (self.expr(2), self.expr(1));
                let shown = self.projection(2, None);
                format!(
                    "UPDATE script_own SET x = {value} FROM {from} WHERE {condition} IS NULL RETURNING {shown}"
                )
            }
            _ => {
                self.seen.push(own);
                format!(
                    "DELETE FROM script_own WHERE {} IS NULL RETURNING {}",
                    self.expr(2),
                    self.projection(2, None)
                )
            }
        }
    }

    /// A query with `width` columns, or any number for `None`.
    fn query(&mut self, depth: u32, width: Option<usize>) -> String {
        let mut sql = String::new();
        if depth > 1 && self.once_in(8) {
            let recursive = self.one_of(&["", "RECURSIVE "]);
            let name = if self.once_in(HOSTILE_ODDS) {
                self.one_of(&["canary", "records", "script_own"])
            } else {
                "w"
            };
            sql = format!("WITH {recursive}{name} (x) AS ({}) ", self.query(depth - 1, Some(1)));
        }
        if depth > 1 && self.once_in(10) {
            let width = width.or(Some(1));
            let (left, right) = (self.select(depth - 1, width), self.select(depth - 1, width));
            let word = self.one_of(&["UNION", "UNION ALL", "EXCEPT", "INTERSECT"]);
            add(&mut sql, format_args!("{left} {word} {right}"));
        } else if self.once_in(20) {
            let row = (0..width.unwrap_or(2)).map(|_| self.expr(1)).collect::<Vec<_>>().join(", ");
            add(&mut sql, format_args!("VALUES ({row})"));
        } else {
            sql += &self.select(depth, width);
        }
        if self.once_in(6) {
            sql += " ORDER BY 1";
        }
        if self.once_in(6) {
            add(
                &mut sql,
                format_args!(
                    " LIMIT {}",
                    self.one_of(&["5", "1", "$1 + 0", "(SELECT count(*) FROM script_own)"])
                ),
            );
        }
        sql
    }

    fn select(&mut self, depth: u32, width: Option<usize>) -> String {
        let outside = self.seen.len();
        let from = if self.once_in(8) { String::new() } else { format!(" FROM {}", self.from(depth)) };
        let distinct = self.one_of(&["", "", "", "DISTINCT "]);
        let mut sql = format!("SELECT {distinct}{}{from}", self.projection(depth, width));
        if self.once_in(3) {
            add(&mut sql, format_args!(" WHERE {} IS NOT NULL", self.expr(depth - 1)));
        }
        if self.once_in(12) {
            add(&mut sql, format_args!(" GROUP BY {}", self.expr(1)));
        }
        if self.once_in(10) {
            add(&mut sql, format_args!(" ORDER BY {}", self.expr(1)));
        }
        self.seen.truncate(outside);
        sql
    }

    fn projection(&mut self, depth: u32, width: Option<usize>) -> String {
        let count = width.unwrap_or_else(|| 1 + self.below(3));
        let items = (0..count).map(|_| {
            if width.is_none() && self.once_in(6) {
                return self.seen.last().map_or("1".to_owned(), |(alias, _)| format!("{alias}.*"));
            }
            let item = self.expr(depth - 1);
            if self.once_in(3) {
                format!("{item} AS {}", self.one_of(&["x", "secret", "n", "a"]))
            } else {
                item
            }
        });
        items.collect::<Vec<_>>().join(", ")
    }

    fn from(&mut self, depth: u32) -> String {
        let mut sql = self.table(depth);
        while self.once_in(4) {
            let join = self.one_of(JOINS);
            sql += join;
            sql += &self.table(depth.saturating_sub(1));
            if join.contains("JOIN") && !join.contains("CROSS") && !join.contains("NATURAL") {
                let condition = if self.once_in(HOSTILE_ODDS) {
                    " USING (secret)".to_owned()
                } else {
                    format!(" ON {} = 'x'", self.expr(1))
                };
                sql += &condition;
            }
        }
        sql
    }

    fn table(&mut self, depth: u32) -> String {
        // Aliases repeat only when all are in use.
        let alias = ALIASES[self.seen.len() % ALIASES.len()];
        let (text, columns) = match self.below(9) {
            _ if self.once_in(HOSTILE_ODDS) => (self.one_of(FOREIGN).to_owned(), vec!["secret"]),
            0..=4 => {
                let (name, columns) = self.one_of(READABLE);
                (name.to_owned(), columns.to_vec())
            }
            5 | 6 => {
                let (name, columns) = self.one_of(TABLE_FUNCTIONS);
                let name = if self.once_in(HOSTILE_ODDS) { self.one_of(FORBIDDEN_TABLES) } else { name };
                let columns =
                    if columns.len() == 1 && columns[0] == name { vec![alias] } else { columns.to_vec() };
                let argument =
                    if self.once_in(3) { self.expr(1) } else { format!("'{}'", self.one_of(TEXTS)) };
                (format!("{name}({argument})"), columns)
            }
            _ if depth > 1 => {
                let outside = std::mem::take(&mut self.seen);
                let query = self.query(depth - 1, Some(1));
                self.seen = outside;
                (format!("(SELECT q.* FROM (SELECT ({query} LIMIT 1) AS x) AS q)"), vec!["x"])
            }
            _ => ("script_own".to_owned(), vec!["x", "n"]),
        };
        self.seen.push((alias, columns));
        format!("{text} AS {alias}")
    }

    fn column(&mut self) -> String {
        if self.seen.is_empty() {
            return "'none'".to_owned();
        }
        let index = self.below(self.seen.len());
        let (alias, columns) = self.seen[index].clone();
        let column = columns[self.below(columns.len())];
        if !self.once_in(HOSTILE_ODDS / 3) {
            return format!("{alias}.{column}");
        }
        let strange = self.one_of(STRANGE);
        match self.below(6) {
            0 => column.to_owned(),
            1 => format!("({alias}).{column}"),
            2 => format!("({alias}.{column}).{strange}"),
            3 => format!("public.{alias}.{strange}"),
            4 => strange.to_owned(),
            _ => format!("{alias}.{strange}"),
        }
    }

    fn expr(&mut self, depth: u32) -> String {
        let kind = if depth == 0 { self.below(6) } else { self.below(20) };
        let deeper = depth.saturating_sub(1);
        match kind {
            0..=3 => self.column(),
            4 => format!("'{}'", self.one_of(TEXTS)),
            5 => self.one_of(&["1", "0", "NULL", "TRUE", "2.5", "$1", "current_date"]).to_owned(),
            6..=10 => {
                let (name, count) = self.one_of(FUNCTIONS);
                let name = if self.once_in(HOSTILE_ODDS) { self.one_of(FORBIDDEN) } else { name };
                let arguments = (0..count).map(|_| self.expr(deeper)).collect::<Vec<_>>().join(", ");
                let extra = if name == "row_number" || name == "lag" {
                    self.one_of(&[" OVER ()", " OVER (ORDER BY 1)"])
                } else {
                    self.one_of(&["", "", "", "", "", " OVER ()", " FILTER (WHERE TRUE)"])
                };
                format!("{name}({arguments}){extra}")
            }
            11..=13 => {
                let (left, right) = (self.expr(deeper), self.expr(deeper));
                let word =
                    if self.once_in(8) { self.one_of(STRANGE_OPERATORS) } else { self.one_of(OPERATORS) };
                format!("({left} {word} {right})")
            }
            14 | 15 => {
                let name = if self.once_in(8) { self.one_of(FORBIDDEN_TYPES) } else { self.one_of(TYPES) };
                let inner = self.expr(deeper);
                if self.once_in(2) {
                    format!("CAST({inner} AS {name})")
                } else {
                    format!("({inner})::{name}")
                }
            }
            16 => format!("({} LIMIT 1)", self.select(deeper.max(1), Some(1))),
            17 => format!("EXISTS ({})", self.select(deeper.max(1), None)),
            18 => {
                let (when, then, other) = (self.expr(deeper), self.expr(deeper), self.expr(deeper));
                format!("CASE WHEN {when} IS NULL THEN {then} ELSE {other} END")
            }
            _ => {
                let inner = self.expr(deeper);
                match self.below(6) {
                    0 => format!("{inner} IN ({})", self.select(deeper.max(1), Some(1))),
                    1 => format!("({inner}).{}", self.one_of(FORBIDDEN)),
                    2 => format!("{} '{}'", self.one_of(TYPES), self.one_of(TEXTS)),
                    3 => format!("ARRAY[{inner}]"),
                    _ => format!("coalesce({inner}, {inner})"),
                }
            }
        }
    }
}
