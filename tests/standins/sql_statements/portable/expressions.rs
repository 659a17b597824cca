//! Expressions with a type.

use super::{ALIASES, Portable, Relation, TYPES, Type};

const INTEGERS: &[&str] = &["0", "1", "2", "7", "-3", "(10)", "$2"];
const REALS: &[&str] = &["0.5", "2.0", "-1.25", "1e1"];
const TEXTS: &[&str] = &["'a'", "'B'", "'_'", "''", "'it''s'", "'\u{e9}'", "$1"];
const PATTERNS: &[&str] =
    &["'%a%'", "'_'", "'b\\_%' ESCAPE '\\'", "'%t\u{e9}'", "''", "'%'", "'z!%' ESCAPE '!'"];
const COMPARISONS: &[&str] = &["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"];

impl Portable<'_> {
    pub(super) fn own_column(&mut self, alias: &str, relation: Relation, of: Type) -> String {
        match (relation, of) {
            (Relation::Own, Type::Integer) => format!("{alias}.{}", self.choices.one_of(&["i", "id"])),
            (Relation::Own, Type::Real) => format!("{alias}.r"),
            (Relation::Own, Type::Text) => format!("{alias}.t"),
            (Relation::Records, Type::Integer) => self
                .choices
                .one_of(&["CAST(@.record ->> 'n' AS integer)", "@.indexed_us", "length(@.rkey)"])
                .replace('@', alias),
            (Relation::Records, Type::Real) => format!("CAST({alias}.record ->> 'n' AS double precision)"),
            (Relation::Records, Type::Text) => self
                .choices
                .one_of(&["(@.record ->> 'text')", "@.rkey", "@.collection", "@.did", "@.uri"])
                .replace('@', alias),
            (Relation::Refs, Type::Integer) => format!("length({alias}.target_uri)"),
            (Relation::Refs, Type::Real) => format!("length({alias}.source_uri) * 0.5"),
            (Relation::Refs, Type::Text) => {
                format!("{alias}.{}", self.choices.one_of(&["source_uri", "target_uri", "collection"]))
            }
        }
    }

    pub(super) fn column(&mut self, of: Type) -> String {
        let index = self.choices.below(self.seen.len());
        self.own_column(ALIASES[index], self.seen[index], of)
    }

    pub(super) fn expr(&mut self, of: Type, depth: u32) -> String {
        match of {
            Type::Integer => self.integer(depth),
            Type::Real => self.real(depth),
            Type::Text => self.text(depth),
        }
    }

    pub(super) fn integer(&mut self, depth: u32) -> String {
        let Some(deeper) = depth.checked_sub(1) else { return self.column(Type::Integer) };
        match self.choices.below(12) {
            0..=3 => self.column(Type::Integer),
            4 => {
                let op = self.choices.one_of(&["+", "-"]);
                format!("({} {op} {})", self.integer(deeper), self.integer(deeper))
            }
            5 => format!("({} * {})", self.integer(deeper), self.choices.one_of(&["2", "-3", "$2"])),
            6 => {
                let op = self.choices.one_of(&["/", "%"]);
                format!("({} {op} nullif({}, 0))", self.integer(deeper), self.integer(deeper))
            }
            7 => format!("length({})", self.text(deeper)),
            8 => format!("abs({})", self.integer(deeper)),
            9 => format!("coalesce({}, {})", self.integer(deeper), self.choices.one_of(INTEGERS)),
            10 => format!(
                "CASE WHEN {} THEN {} ELSE {} END",
                self.boolean(deeper),
                self.integer(deeper),
                self.choices.one_of(INTEGERS)
            ),
            _ => self.subquery(Type::Integer, deeper),
        }
    }

    pub(super) fn real(&mut self, depth: u32) -> String {
        let Some(deeper) = depth.checked_sub(1) else { return self.column(Type::Real) };
        match self.choices.below(6) {
            0 | 1 => self.column(Type::Real),
            2 => {
                let op = self.choices.one_of(&["+", "-", "*"]);
                format!("({} {op} {})", self.real(deeper), self.choices.one_of(REALS))
            }
            3 => format!("({} / 2.0)", self.integer(deeper)),
            4 => format!("coalesce({}, {})", self.real(deeper), self.choices.one_of(REALS)),
            _ => self.subquery(Type::Real, deeper),
        }
    }

    /// A text that has the collation of a column or field.
    pub(super) fn text(&mut self, depth: u32) -> String {
        let Some(deeper) = depth.checked_sub(1) else { return self.column(Type::Text) };
        match self.choices.below(14) {
            0..=3 => self.column(Type::Text),
            4 => format!("{}({})", self.choices.one_of(&["lower", "upper", "trim"]), self.text(deeper)),
            5 => format!("({} || {})", self.text(deeper), self.choices.one_of(TEXTS)),
            6 => format!("({} || {})", self.choices.one_of(TEXTS), self.text(deeper)),
            7 => format!(
                "substr({}, {}, {})",
                self.text(deeper),
                self.choices.one_of(&["1", "2"]),
                self.choices.one_of(&["1", "3", "$2"])
            ),
            8 => format!("replace({}, 'a', {})", self.text(deeper), self.choices.one_of(TEXTS)),
            9 => format!("CAST({} AS text)", self.integer(deeper)),
            10 => format!("coalesce({}, {})", self.text(deeper), self.choices.one_of(TEXTS)),
            11 => format!("nullif({}, {})", self.text(deeper), self.choices.one_of(TEXTS)),
            12 => format!(
                "CASE WHEN {} THEN {} ELSE {} END",
                self.boolean(deeper),
                self.choices.one_of(TEXTS),
                self.text(deeper)
            ),
            _ => self.subquery(Type::Text, deeper),
        }
    }

    fn subquery(&mut self, of: Type, depth: u32) -> String {
        if self.seen.len() == ALIASES.len() || depth == 0 {
            return self.column(of);
        }
        let outside = self.seen.len();
        let from = self.from(1);
        // Only what it reads itself: PostgreSQL refuses an aggregate of an outer column.
        let (alias, relation) = (ALIASES[outside], self.seen[outside]);
        let value = self.own_column(alias, relation, of);
        let condition = self.boolean(depth - 1);
        self.seen.truncate(outside);
        format!("(SELECT max({value}){from} WHERE {condition})")
    }

    pub(super) fn boolean(&mut self, depth: u32) -> String {
        let Some(deeper) = depth.checked_sub(1) else {
            return format!("{} IS NOT NULL", self.column(Type::Text));
        };
        match self.choices.below(10) {
            0..=2 => {
                let of = self.choices.one_of(TYPES);
                format!(
                    "({} {} {})",
                    self.expr(of, deeper),
                    self.choices.one_of(COMPARISONS),
                    self.expr(of, deeper)
                )
            }
            3 => {
                let word = self.choices.one_of(&["AND", "OR"]);
                format!("({} {word} {})", self.boolean(deeper), self.boolean(deeper))
            }
            4 => format!("(NOT {})", self.boolean(deeper)),
            5 => {
                let of = self.choices.one_of(TYPES);
                format!("({} IS {})", self.expr(of, deeper), self.choices.one_of(&["NULL", "NOT NULL"]))
            }
            6 => {
                let not = self.choices.one_of(&["", "NOT "]);
                format!("(lower({}) {not}LIKE {})", self.text(deeper), self.choices.one_of(PATTERNS))
            }
            7 => {
                let of = self.choices.one_of(TYPES);
                let literals = match of {
                    Type::Integer => INTEGERS,
                    Type::Real => REALS,
                    Type::Text => TEXTS,
                };
                let not = self.choices.one_of(&["", "NOT "]);
                let (one, two) = (self.choices.one_of(literals), self.choices.one_of(literals));
                let among = if self.choices.once_in(2) {
                    format!("IN ({one}, {two})")
                } else {
                    format!("BETWEEN {one} AND {two}")
                };
                format!("({} {not}{among})", self.expr(of, deeper))
            }
            8 if self.seen.len() < ALIASES.len() && depth > 1 => {
                let outside = self.seen.len();
                let from = self.from(1);
                let condition = self.boolean(deeper);
                self.seen.truncate(outside);
                let not = self.choices.one_of(&["", "NOT "]);
                format!("({not}EXISTS (SELECT 1{from} WHERE {condition}))")
            }
            _ => {
                let of = self.choices.one_of(TYPES);
                let (left, right) = (self.column(of), self.column(of));
                format!("({left} = {right})")
            }
        }
    }
}
