//! Names: of relations, which are on a list, and of everything else, which is the script's own business as long as it
//! is plain ASCII.

use sqlparser::ast::{Ident, ObjectName, ObjectNamePart, TableAlias};

use super::super::LEAN_RECORDS;
use super::{Emit, OWN_PREFIX, Refusal, VIEWS, absent};

/// PostgreSQL cuts longer ones, and what is cut may be something else. Leaves room for what we put before a name.
const MAX_NAME: usize = 50;

/// What a common table expression's name gets in front, so that it can never be a relation's.
const CTE_PREFIX: &str = "cte_";

/// Tables of ours whose names begin as those of the scripts' own do. They are elsewhere and could not be reached; the
/// refusal says so at once.
const RESERVED: [&str; 1] = ["script_variables"];

/// Whether a name in lower case is one of an own table.
fn is_own(name: &str) -> bool {
    name.len() > OWN_PREFIX.len() && name.starts_with(OWN_PREFIX) && !RESERVED.contains(&name)
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

    pub(super) fn single_name(&mut self, name: &ObjectName) -> Result<(), Refusal> {
        let name = single(name)?;
        self.name(name)
    }

    /// A relation to read, with an alias of its own name if it has none: then columns can be written with it in front.
    pub(super) fn relation(&mut self, name: &ObjectName, alias: Option<&TableAlias>) -> Result<(), Refusal> {
        // A schema in front is refused even where it would be the right one.
        let refused = || Refusal::Table(shown(name));
        let plain = self.plain(single(name).map_err(|_| refused())?).map_err(|_| refused())?;
        let lower = plain.to_ascii_lowercase();
        let (text, own_name) = if self.ctes.contains(&lower) {
            (self.quoted(&format!("{CTE_PREFIX}{lower}")), plain)
        } else if VIEWS.contains(&lower.as_str()) {
            let schema = if self.is_postgres() { super::super::VIEW_SCHEMA } else { "temp" };
            let view = if self.lean && lower == "records" { LEAN_RECORDS } else { &lower };
            (format!("{schema}.{}", self.quoted(view)), lower)
        } else if is_own(&lower) {
            (self.own_text(&lower), lower)
        } else {
            return Err(refused());
        };
        self.push(&text);
        if let Some(alias) = alias {
            return self.alias(alias);
        }
        let own_name = self.quoted(&own_name);
        self.push(&format!(" AS {own_name}"));
        Ok(())
    }

    pub(super) fn alias(&mut self, alias: &TableAlias) -> Result<(), Refusal> {
        let TableAlias { explicit: _, name, columns, at } = alias;
        absent("AT", at.is_some())?;
        self.push(" AS ");
        self.name(name)?;
        if !columns.is_empty() {
            absent("a column type here", columns.iter().any(|column| column.data_type.is_some()))?;
            if !self.is_postgres() {
                return Err(Refusal::Unsupported("a list of columns after a table's alias".to_owned()));
            }
            self.push(" (");
            self.list(columns, |emit, column| emit.name(&column.name))?;
            self.push(")");
        }
        Ok(())
    }

    /// Takes the name of a common table expression.
    pub(super) fn declare(&mut self, name: &Ident) -> Result<(), Refusal> {
        let lower = self.plain(name)?.to_ascii_lowercase();
        if VIEWS.contains(&lower.as_str()) || is_own(&lower) {
            return Err(Refusal::Name(lower));
        }
        self.ctes.push(lower);
        Ok(())
    }

    pub(super) fn declared(&mut self, name: &Ident) -> Result<(), Refusal> {
        let lower = self.plain(name)?.to_ascii_lowercase();
        let text = self.quoted(&format!("{CTE_PREFIX}{lower}"));
        self.push(&text);
        Ok(())
    }

    fn own_text(&self, lower: &str) -> String {
        let schema = if self.is_postgres() { super::super::OWN_SCHEMA } else { "main" };
        format!("{schema}.{}", self.quoted(lower))
    }

    fn own_plain(&self, name: &ObjectName) -> Result<String, Refusal> {
        let refused = || Refusal::NotYours(shown(name));
        let plain = self.plain(single(name).map_err(|_| refused())?).map_err(|_| refused())?;
        let lower = plain.to_ascii_lowercase();
        if is_own(&lower) { Ok(lower) } else { Err(refused()) }
    }

    /// An own table or index, with its schema.
    pub(super) fn own(&mut self, name: &ObjectName) -> Result<(), Refusal> {
        let text = self.own_text(&self.own_plain(name)?);
        self.push(&text);
        Ok(())
    }

    /// The same where the grammar takes no schema.
    pub(super) fn own_bare(&mut self, name: &ObjectName) -> Result<(), Refusal> {
        let text = self.quoted(&self.own_plain(name)?);
        self.push(&text);
        Ok(())
    }
}
