//! Names: of relations, which are on a list, and what a name may look like: plain ASCII.

use sqlparser::ast::{Ident, ObjectName, ObjectNamePart, TableAlias};
use sqlparser::tokenizer::Token;

use super::super::LEAN_RECORDS;
use super::scope::{Columns, Relation, named, of_view};
use super::{Emit, OWN_PREFIX, Refusal, absent};

/// PostgreSQL cuts longer ones, and what is cut may be something else. Leaves room for what we put before a name.
const MAX_NAME: usize = 50;

/// How the names of common table expressions begin that we give them: no relation's name begins so.
const CTE_PREFIX: &str = "cte_";

/// A common table expression.
#[derive(Debug)]
pub(super) struct Cte {
    /// As the script calls it, in lower case.
    name: String,
    /// As it is written, quoted.
    text: String,
    /// Unknown as long as the first part of a recursive one is being read.
    pub(super) columns: Option<Columns>,
}

/// Tables of ours whose names begin as those of the scripts' own do. They are elsewhere and could not be reached; the
/// refusal says so at once.
const RESERVED: [&str; 1] = ["script_variables"];

/// Whether a name in lower case is one of an own table.
fn is_own(name: &str) -> bool {
    name.len() > OWN_PREFIX.len() && name.starts_with(OWN_PREFIX) && !RESERVED.contains(&name)
}

/// The names in a statement that may be those of own tables.
pub(super) fn own_in(tokens: &[Token]) -> Vec<String> {
    let mut found: Vec<String> = tokens
        .iter()
        .filter_map(|token| match token {
            Token::Word(word) => Some(word.value.to_ascii_lowercase()),
            _ => None,
        })
        .filter(|name| name.len() <= MAX_NAME && is_own(name))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// `name` as it looks in an error: short.
fn shown(name: &ObjectName) -> String {
    name.to_string().chars().filter(|c| !c.is_control()).take(80).collect()
}

/// A name with nothing in front of it.
pub(super) fn single(name: &ObjectName) -> Result<&Ident, Refusal> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(ident)] => Ok(ident),
        _ => Err(Refusal::Name(shown(name))),
    }
}

impl Emit<'_> {
    /// The text of a name: plain, and in lower case where PostgreSQL would fold it.
    pub(super) fn plain(&self, name: &Ident) -> Result<String, Refusal> {
        let text = &name.value;
        let fits = (1..=MAX_NAME).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !text.starts_with(|c: char| c.is_ascii_digit());
        if !fits {
            return Err(Refusal::Name(text.chars().filter(|c| !c.is_control()).take(80).collect()));
        }
        let folds = self.is_postgres() && name.quote_style.is_none();
        Ok(if folds { text.to_ascii_lowercase() } else { text.clone() })
    }

    /// Quoted in a way that is never a string: SQLite reads `"x"` as text when there is no such column.
    pub(super) fn quoted(&self, plain: &str) -> String {
        if self.is_postgres() { format!("\"{plain}\"") } else { format!("`{plain}`") }
    }

    /// A column, an alias, or the like.
    pub(super) fn name(&mut self, name: &Ident) -> Result<(), Refusal> {
        let text = self.plain(name)?;
        let text = self.quoted(&text);
        self.push(&text);
        Ok(())
    }

    /// A relation to read, under an alias of its own.
    pub(super) fn relation(&mut self, name: &ObjectName, alias: Option<&TableAlias>) -> Result<(), Refusal> {
        // A schema in front is refused even where it would be the right one.
        let refused = || Refusal::Table(shown(name));
        let plain = self.plain(single(name).map_err(|_| refused())?).map_err(|_| refused())?;
        let lower = plain.to_ascii_lowercase();
        let written = self.next_alias();
        let cte = self.ctes.iter().rev().find(|cte| cte.name == lower);
        let (text, relation) = if let Some(cte) = cte {
            let Some(columns) = cte.columns.clone() else {
                return Err(Refusal::Unsupported(
                    "the first part of a recursive WITH naming itself".to_owned(),
                ));
            };
            (cte.text.clone(), Relation::new(plain, written, columns))
        } else if let Some(columns) = of_view(&lower) {
            let schema = if self.is_postgres() { super::super::VIEW_SCHEMA } else { "temp" };
            let view = if self.lean && lower == "records" { LEAN_RECORDS } else { &lower };
            let text = format!("{schema}.{}", self.quoted(view));
            let mut relation = Relation::new(lower.clone(), written, named(columns));
            relation.is_records = lower == "records";
            (text, relation)
        } else if is_own(&lower) {
            (self.own_text(&lower), self.own_relation(&lower, written)?)
        } else {
            return Err(refused());
        };
        self.push(&text);
        self.aliased(relation, alias)
    }

    /// Writes the alias of what was just written after FROM, and makes its columns visible. `alias` is the script's.
    pub(super) fn aliased(
        &mut self,
        mut relation: Relation,
        alias: Option<&TableAlias>,
    ) -> Result<(), Refusal> {
        let written = format!(" AS {}", relation.alias);
        self.push(&written);
        if let Some(TableAlias { explicit: _, name, columns, at }) = alias {
            absent("AT", at.is_some())?;
            absent("a column type here", columns.iter().any(|column| column.data_type.is_some()))?;
            relation.name = self.plain(name)?;
            if !columns.is_empty() {
                if !self.is_postgres() {
                    return Err(Refusal::Unsupported("a list of columns after a table's alias".to_owned()));
                }
                let names = columns.iter().map(|column| self.plain(&column.name));
                let names = names.collect::<Result<Vec<_>, _>>()?;
                self.name_list(&names);
                relation.rename(names)?;
                // It is not quick where its columns have other names.
                relation.is_records = false;
            }
        }
        self.see(relation)
    }

    /// ` ("a", "b")`.
    pub(super) fn name_list(&mut self, names: &[String]) {
        let quoted: Vec<String> = names.iter().map(|name| self.quoted(name)).collect();
        self.push(&format!(" ({})", quoted.join(", ")));
    }

    /// Makes room for a common table expression: its name for the script, and the one it gets.
    pub(super) fn cte(&mut self, name: &Ident, columns: Option<Columns>) -> Result<Cte, Refusal> {
        let name = self.plain(name)?.to_ascii_lowercase();
        if of_view(&name).is_some() || is_own(&name) {
            return Err(Refusal::Name(name));
        }
        self.aliases += 1;
        let text = self.quoted(&format!("{CTE_PREFIX}{}", self.aliases));
        self.push(&text);
        Ok(Cte { name, text, columns })
    }

    fn own_text(&self, lower: &str) -> String {
        let schema = if self.is_postgres() { super::super::OWN_SCHEMA } else { "main" };
        format!("{schema}.{}", self.quoted(lower))
    }

    pub(super) fn own_plain(&self, name: &ObjectName) -> Result<String, Refusal> {
        let refused = || Refusal::NotYours(shown(name));
        let plain = self.plain(single(name).map_err(|_| refused())?).map_err(|_| refused())?;
        let lower = plain.to_ascii_lowercase();
        if is_own(&lower) { Ok(lower) } else { Err(refused()) }
    }

    /// An own table or index, with its schema; its name alone is returned.
    pub(super) fn own(&mut self, name: &ObjectName) -> Result<String, Refusal> {
        let plain = self.own_plain(name)?;
        let text = self.own_text(&plain);
        self.push(&text);
        Ok(plain)
    }

    /// The same where the grammar takes no schema.
    pub(super) fn own_bare(&mut self, name: &ObjectName) -> Result<String, Refusal> {
        let plain = self.own_plain(name)?;
        let text = self.quoted(&plain);
        self.push(&text);
        Ok(plain)
    }
}
