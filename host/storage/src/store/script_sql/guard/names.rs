//! Checks names: relations must be views or own tables, and every name must be plain ASCII.

use sqlparser::ast::{Ident, ObjectName, ObjectNamePart, TableAlias};
use sqlparser::tokenizer::Token;

use super::super::{LEAN_RECORD_REFS, LEAN_RECORDS};
use super::scope::{Columns, Relation, view_columns};
use super::{Emitter, GuardError, OWN_PREFIX, refuse_if};

/// Longest name, in bytes. PostgreSQL truncates longer ones, so they could match a different name. Leaves space for a
/// prefix.
const MAX_NAME: usize = 50;

/// Prefix of the generated names of common table expressions. No relation's name has it.
pub(in crate::store::script_sql) const CTE_PREFIX: &str = "cte_";

/// A common table expression.
#[derive(Debug)]
pub(super) struct Cte {
    /// The name in the script's statement, in lower case.
    name: String,
    /// The generated name, quoted.
    text: String,
    /// `None` while the first part of a recursive one is being written.
    pub(super) columns: Option<Columns>,
}

/// Tables of the server whose names have the prefix of own tables. They are in another schema or file, so they could
/// not be reached anyway; this gives a clear error.
const RESERVED: [&str; 1] = ["script_variables"];

/// Whether a name in lower case is that of an own table.
fn is_own(name: &str) -> bool {
    name.len() > OWN_PREFIX.len() && name.starts_with(OWN_PREFIX) && !RESERVED.contains(&name)
}

/// The names in a statement that may be own tables.
pub(super) fn own_names_in(tokens: &[Token]) -> Vec<String> {
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

/// `name` for an error text, shortened.
fn shown(name: &ObjectName) -> String {
    name.to_string().chars().filter(|c| !c.is_control()).take(80).collect()
}

/// A name without a qualifier.
pub(super) fn single(name: &ObjectName) -> Result<&Ident, GuardError> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(ident)] => Ok(ident),
        _ => Err(GuardError::Name(shown(name))),
    }
}

impl Emitter<'_> {
    /// The text of a valid name, in lower case where PostgreSQL would fold it.
    pub(super) fn checked_name(&self, name: &Ident) -> Result<String, GuardError> {
        let text = &name.value;
        let fits = (1..=MAX_NAME).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !text.starts_with(|c: char| c.is_ascii_digit());
        if !fits {
            return Err(GuardError::Name(text.chars().filter(|c| !c.is_control()).take(80).collect()));
        }
        let folds = self.is_postgres() && name.quote_style.is_none();
        Ok(if folds { text.to_ascii_lowercase() } else { text.clone() })
    }

    /// Quotes a name. On SQLite with backticks, because it reads `"x"` as a string if there is no such column.
    pub(super) fn quoted(&self, plain: &str) -> String {
        if self.is_postgres() { format!("\"{plain}\"") } else { format!("`{plain}`") }
    }

    /// Writes the name of a column or an alias.
    pub(super) fn name(&mut self, name: &Ident) -> Result<(), GuardError> {
        let text = self.checked_name(name)?;
        let text = self.quoted(&text);
        self.push(&text);
        Ok(())
    }

    /// Writes a relation to read, with a unique alias.
    pub(super) fn relation(
        &mut self,
        name: &ObjectName,
        alias: Option<&TableAlias>,
    ) -> Result<(), GuardError> {
        // Schemas are always refused, even the correct one.
        let refused = || GuardError::Table(shown(name));
        let plain = self.checked_name(single(name).map_err(|_| refused())?).map_err(|_| refused())?;
        let lower = plain.to_ascii_lowercase();
        let written = self.next_alias();
        let cte = self.ctes.iter().rev().find(|cte| cte.name == lower);
        let (text, relation) = if let Some(cte) = cte {
            let Some(columns) = cte.columns.clone() else {
                return Err(GuardError::Unsupported(
                    "a recursive WITH whose first part names itself".to_owned(),
                ));
            };
            (cte.text.clone(), Relation::new(plain, written, columns))
        } else if let Some(columns) = view_columns(&lower) {
            let schema = if self.is_postgres() { super::super::VIEW_SCHEMA } else { "temp" };
            let view = match lower.as_str() {
                "records" if self.lean => LEAN_RECORDS,
                "record_refs" if self.lean && self.is_postgres() => LEAN_RECORD_REFS,
                view => view,
            };
            let text = format!("{schema}.{}", self.quoted(view));
            let mut relation = Relation::new(lower.clone(), written, columns);
            relation.is_rewritten = matches!(lower.as_str(), "records" | "record_refs");
            (text, relation)
        } else if is_own(&lower) {
            (self.own_text(&lower), self.own_relation(&lower, written)?)
        } else {
            return Err(refused());
        };
        self.push(&text);
        self.aliased(relation, alias)
    }

    /// Writes the alias of a relation after FROM and makes its columns visible. `alias` is the script's alias.
    pub(super) fn aliased(
        &mut self,
        mut relation: Relation,
        alias: Option<&TableAlias>,
    ) -> Result<(), GuardError> {
        let written = format!(" AS {}", relation.alias);
        self.push(&written);
        if let Some(TableAlias { explicit: _, name, columns, at }) = alias {
            refuse_if("AT", at.is_some())?;
            refuse_if("a column type here", columns.iter().any(|column| column.data_type.is_some()))?;
            relation.name = self.checked_name(name)?;
            if !columns.is_empty() {
                if !self.is_postgres() {
                    return Err(GuardError::Unsupported(
                        "a list of columns after a table's alias".to_owned(),
                    ));
                }
                let names = columns.iter().map(|column| self.checked_name(&column.name));
                let names = names.collect::<Result<Vec<_>, _>>()?;
                self.name_list(&names);
                relation.rename(names)?;
                // The index rewrites rely on the original column names.
                relation.is_rewritten = false;
            }
        }
        self.add_relation(relation)
    }

    /// Writes ` ("a", "b")`.
    pub(super) fn name_list(&mut self, names: &[String]) {
        let quoted: Vec<String> = names.iter().map(|name| self.quoted(name)).collect();
        self.push(&format!(" ({})", quoted.join(", ")));
    }

    /// Creates a common table expression and writes its generated name.
    pub(super) fn cte(&mut self, name: &Ident, columns: Option<Columns>) -> Result<Cte, GuardError> {
        let name = self.checked_name(name)?.to_ascii_lowercase();
        if view_columns(&name).is_some() || is_own(&name) {
            return Err(GuardError::Name(name));
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

    pub(super) fn own_name(&self, name: &ObjectName) -> Result<String, GuardError> {
        let refused = || GuardError::NotYours(shown(name));
        let plain = self.checked_name(single(name).map_err(|_| refused())?).map_err(|_| refused())?;
        let lower = plain.to_ascii_lowercase();
        if is_own(&lower) { Ok(lower) } else { Err(refused()) }
    }

    /// Writes an own table or index with its schema. Returns the name without it.
    pub(super) fn write_own(&mut self, name: &ObjectName) -> Result<String, GuardError> {
        let plain = self.own_name(name)?;
        let text = self.own_text(&plain);
        self.push(&text);
        Ok(plain)
    }

    /// Writes an own table or index without its schema. Returns the name.
    pub(super) fn write_own_name(&mut self, name: &ObjectName) -> Result<String, GuardError> {
        let plain = self.own_name(name)?;
        let text = self.quoted(&plain);
        self.push(&text);
        Ok(plain)
    }
}
