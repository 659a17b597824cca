//! Checks names: relations must be views or own tables, and every name must be plain ASCII.

use sqlparser::ast::{Ident, ObjectName, TableAlias, TableAliasColumnDef};
use sqlparser::tokenizer::Token;

use super::super::{LEAN_RECORD_REFS, LEAN_RECORDS, OWN_SCHEMA, VIEW_SCHEMA};
use super::idents::{MAX_NAME, checked_name, shown, single};
use super::scope::{Columns, Relation, rename, view_columns};
use super::{GuardError, OWN_PREFIX, Rewriter, refuse_if, unsupported};

/// Prefix of the generated names of common table expressions. No relation's name has it.
pub(in crate::store::script_sql) const CTE_PREFIX: &str = "cte_";

/// A common table expression.
#[derive(Debug)]
pub(super) struct CommonTable {
    /// The name in the script's statement, in lower case.
    name: String,
    /// The generated name, quoted.
    text: String,
    /// `None` while the first part of a recursive one is being rewritten.
    pub(super) columns: Option<Columns>,
}

/// Tables of the server whose names have the prefix of own tables. They are in another schema or file, so they could
/// not be reached anyway; this gives a clear error.
const RESERVED: [&str; 1] = ["script_variables"];

/// A view that is younger than many statements: their common table expressions of that name remain theirs.
const YOUNGEST_VIEW: &str = "accounts";

/// Whether a name in lower case is that of an own table.
fn is_own(name: &str) -> bool {
    name.len() > OWN_PREFIX.len() && name.starts_with(OWN_PREFIX) && !RESERVED.contains(&name)
}

/// The names in a statement that may be own tables.
pub(super) fn own_names_in(tokens: &[Token]) -> Vec<String> {
    let words = tokens.iter().filter_map(|token| match token {
        Token::Word(word) => Some(word.value.to_ascii_lowercase()),
        _ => None,
    });
    let mut found: Vec<String> = words.filter(|name| name.len() <= MAX_NAME && is_own(name)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

impl Rewriter<'_> {
    /// Quotes a name. On SQLite with backticks, because it reads `"x"` as a string if there is no such column.
    pub(super) fn quoted(&self, plain: &str) -> String {
        if self.is_postgres() { format!("\"{plain}\"") } else { format!("`{plain}`") }
    }

    /// Checks and quotes the name of a column or an alias.
    pub(super) fn quoted_name(&self, name: &Ident) -> Result<String, GuardError> {
        Ok(self.quoted(&checked_name(self.backend, name)?))
    }

    /// The SQL of a relation to read, with a unique alias.
    pub(super) fn relation(
        &mut self,
        name: &ObjectName,
        alias: Option<&TableAlias>,
    ) -> Result<String, GuardError> {
        // Schemas are always refused, even the correct one.
        let refused = || GuardError::Table(shown(&name.to_string()));
        let plain =
            checked_name(self.backend, single(name).map_err(|_| refused())?).map_err(|_| refused())?;
        let lower = plain.to_ascii_lowercase();
        let written = self.next_alias();
        let common = self.common.iter().rev().find(|common| common.name == lower);
        let (text, relation) = if let Some(common) = common {
            let Some(columns) = common.columns.clone() else {
                return unsupported("a recursive WITH whose first part names itself");
            };
            (common.text.clone(), Relation::new(&plain, written, columns))
        } else if let Some(columns) = view_columns(&lower) {
            let schema = if self.is_postgres() { VIEW_SCHEMA } else { "temp" };
            let view = match lower.as_str() {
                "records" if self.lean => LEAN_RECORDS,
                "record_refs" if self.lean && self.is_postgres() => LEAN_RECORD_REFS,
                view => view,
            };
            let is_rewritten = matches!(lower.as_str(), "records" | "record_refs");
            let relation = Relation { is_rewritten, ..Relation::new(&lower, written, columns) };
            (format!("{schema}.{}", self.quoted(view)), relation)
        } else if is_own(&lower) {
            (self.own_text(&lower), self.own_relation(&lower, written)?)
        } else {
            return Err(refused());
        };
        Ok(text + &self.aliased(relation, alias)?)
    }

    /// Makes the columns of a relation visible and returns the SQL of its alias. `alias` is the script's alias.
    pub(super) fn aliased(
        &mut self,
        mut relation: Relation,
        alias: Option<&TableAlias>,
    ) -> Result<String, GuardError> {
        let mut text = format!(" AS {}", relation.alias);
        if let Some(TableAlias { explicit: _, name, columns, at }) = alias {
            refuse_if("AT", at.is_some())?;
            relation.name = checked_name(self.backend, name)?;
            if !columns.is_empty() {
                refuse_if("a list of columns after a table's alias", !self.is_postgres())?;
                let names = self.column_names(columns)?;
                text += &self.name_list(&names);
                rename(&mut relation.columns, names)?;
                // The index rewrites rely on the original column names.
                relation.is_rewritten = false;
            }
        }
        self.add_relation(relation)?;
        Ok(text)
    }

    /// The checked names of a list of columns after an alias.
    pub(super) fn column_names(&self, columns: &[TableAliasColumnDef]) -> Result<Vec<String>, GuardError> {
        refuse_if("a column type here", columns.iter().any(|column| column.data_type.is_some()))?;
        columns.iter().map(|column| checked_name(self.backend, &column.name)).collect()
    }

    /// The SQL of a list of names: ` ("a", "b")`.
    pub(super) fn name_list(&self, names: &[String]) -> String {
        let quoted: Vec<String> = names.iter().map(|name| self.quoted(name)).collect();
        format!(" ({})", quoted.join(", "))
    }

    /// Gives a common table expression a generated name.
    pub(super) fn common_table(
        &mut self,
        name: &mut Ident,
        columns: Option<Columns>,
    ) -> Result<CommonTable, GuardError> {
        let plain = checked_name(self.backend, name)?.to_ascii_lowercase();
        let is_reserved = view_columns(&plain).is_some() && plain != YOUNGEST_VIEW;
        if is_reserved || is_own(&plain) {
            return Err(GuardError::Name(plain));
        }
        self.aliases += 1;
        let text = self.quoted(&format!("{CTE_PREFIX}{}", self.aliases));
        *name = Ident::new(&text);
        Ok(CommonTable { name: plain, text, columns })
    }

    /// The SQL of an own table or index, with its schema.
    pub(super) fn own_text(&self, lower: &str) -> String {
        format!("{}.{}", if self.is_postgres() { OWN_SCHEMA } else { "main" }, self.quoted(lower))
    }

    /// The name of an own table or index, without its schema.
    pub(super) fn own_name(&self, name: &ObjectName) -> Result<String, GuardError> {
        let plain = single(name).and_then(|name| checked_name(self.backend, name));
        let lower = plain.map(|plain| plain.to_ascii_lowercase()).ok().filter(|lower| is_own(lower));
        lower.ok_or_else(|| GuardError::NotYours(shown(&name.to_string())))
    }
}
