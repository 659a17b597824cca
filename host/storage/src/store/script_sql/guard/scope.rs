//! Resolves the names of columns. Every name is looked up in the visible relations, whose columns are all known: those
//! of views are listed here, those of own tables come from the database's catalog, those of subqueries and functions
//! from the statement. A name that is not found is refused.
//!
//! PostgreSQL reads `t.name` as `name(t)` if `t` has no such column. Two rules prevent this: only resolved names are
//! written, and every relation gets a unique alias (`t1`, `t2` …), so that a name can't mean a different relation to
//! the database.

use std::collections::BTreeMap;

use sqlparser::ast::Ident;

use super::{Emitter, GuardError};

/// The cost of an expression, including the expressions of the columns that it uses: databases replace the columns of
/// subqueries with their expressions, so a few nested subqueries could grow to millions of expressions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// Nodes of the syntax tree.
    pub(super) nodes: u32,
    /// Functions, casts, and operators on texts.
    pub(super) calls: u32,
}

/// A column of a relation or a query.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// `None` if the column can't be named.
    pub(super) name: Option<String>,
    pub(super) cost: Cost,
    /// Whether its values are JSON, although the database may only know that they are texts.
    pub(super) is_json: bool,
}

impl Column {
    pub(super) fn new(name: &str) -> Self {
        Self { name: Some(name.to_owned()), cost: Cost::default(), is_json: false }
    }
}

/// Columns of a relation or a query, in order.
pub(super) type Columns = Vec<Column>;

/// The columns of the views, on both databases.
const RECORDS: &[&str] =
    &["uri", "did", "collection", "rkey", "cid", "indexed_at", "indexed_us", "record", "valid"];
const RECORD_REFS: &[&str] = &["source_uri", "target_uri", "collection"];
const LABELS: &[&str] = &["src", "uri", "val", "cid", "cts", "exp"];
const LEXICONS: &[&str] = &[
    "id",
    "revision",
    "lexicon_type",
    "lexicon_json",
    "action",
    "target_collection",
    "source",
    "authority_did",
    "created_at",
    "updated_at",
];

/// SQLite's row id, which `*` does not include.
const ROWID: &[&str] = &["rowid"];

pub(super) fn view_columns(name: &str) -> Option<Columns> {
    let (names, json) = match name {
        "records" => (RECORDS, "record"),
        "record_refs" => (RECORD_REFS, ""),
        "labels" => (LABELS, ""),
        "lexicons" => (LEXICONS, "lexicon_json"),
        _ => return None,
    };
    Some(names.iter().map(|name| Column { is_json: *name == json, ..Column::new(name) }).collect())
}

pub(super) fn columns_named(names: &[&str]) -> Columns {
    names.iter().map(|name| Column::new(name)).collect()
}

/// The own tables that a statement may use, with their columns.
#[derive(Clone, Debug, Default)]
pub struct Catalog(BTreeMap<String, Columns>);

impl Catalog {
    /// Adds a column of an own table. `is_json`: its declared type is JSON.
    pub fn add(&mut self, table: &str, column: &str, is_json: bool) {
        let column = Column { is_json, ..Column::new(column) };
        self.0.entry(table.to_owned()).or_default().push(column);
    }
}

/// One table, view, function or subquery after FROM.
#[derive(Debug)]
pub(super) struct Relation {
    /// The name in the script's statement. Empty if it has none.
    pub(super) name: String,
    /// The quoted alias that is written before its columns. Empty where columns must be unqualified.
    pub(super) alias: String,
    pub(super) columns: Columns,
    /// Further columns, which `*` does not include.
    pub(super) hidden: &'static [&'static str],
    /// The view `records` or `record_refs` with its original column names: `index_rewrites` rewrites its conditions.
    pub(super) is_rewritten: bool,
    /// A function with one column, which may also be named by the function's alias.
    pub(super) is_scalar: bool,
    /// Its columns are found only with the relation's name before them (`excluded`).
    pub(super) needs_qualifier: bool,
}

impl Relation {
    pub(super) fn new(name: String, alias: String, columns: Columns) -> Self {
        let (is_rewritten, is_scalar, needs_qualifier) = (false, false, false);
        Self { name, alias, columns, hidden: &[], is_rewritten, is_scalar, needs_qualifier }
    }

    /// Renames the first columns.
    pub(super) fn rename(&mut self, names: Vec<String>) -> Result<(), GuardError> {
        if names.len() > self.columns.len() {
            return Err(GuardError::Unsupported("a list of more columns than there are".to_owned()));
        }
        for (column, name) in self.columns.iter_mut().zip(names) {
            column.name = Some(name);
        }
        Ok(())
    }
}

/// The names that one SELECT or one writing statement can use.
#[derive(Debug, Default)]
pub(super) struct Scope {
    pub(super) relations: Vec<Relation>,
    /// Columns that USING or NATURAL merged.
    pub(super) merged: Vec<String>,
    /// Names of the SELECT's result columns.
    pub(super) outputs: Vec<String>,
}

/// A column that a name refers to.
#[derive(Debug)]
pub(super) struct ResolvedColumn {
    /// Its SQL.
    pub(super) text: String,
    pub(super) cost: Cost,
    pub(super) is_json: bool,
    /// For a column of `records` or `record_refs`: the prefix of that relation's other columns.
    pub(super) of_rewritten: Option<String>,
}

impl Emitter<'_> {
    /// Whether two names are the same for the database. On PostgreSQL unquoted names are already in lower case.
    pub(super) fn same_name(&self, a: &str, b: &str) -> bool {
        if self.is_postgres() { a == b } else { a.eq_ignore_ascii_case(b) }
    }

    /// Returns a new quoted alias for a relation.
    pub(super) fn next_alias(&mut self) -> String {
        self.aliases += 1;
        self.quoted(&format!("t{}", self.aliases))
    }

    /// Makes a relation visible in the current SELECT.
    pub(super) fn add_relation(&mut self, relation: Relation) -> Result<(), GuardError> {
        let scope = self.scope()?;
        if !relation.name.is_empty() && scope.relations.iter().any(|other| other.name == relation.name) {
            return Err(GuardError::Unsupported(format!("the name {} for two tables", relation.name)));
        }
        scope.relations.push(relation);
        Ok(())
    }

    pub(super) fn scope(&mut self) -> Result<&mut Scope, GuardError> {
        self.scopes.last_mut().ok_or_else(|| GuardError::Unsupported("a table here".to_owned()))
    }

    /// The columns of an own table.
    pub(super) fn own_columns(&self, lower: &str) -> Result<Columns, GuardError> {
        self.catalog.0.get(lower).cloned().ok_or_else(|| GuardError::Missing(lower.to_owned()))
    }

    pub(super) fn own_relation(&self, lower: &str, alias: String) -> Result<Relation, GuardError> {
        let mut relation = Relation::new(lower.to_owned(), alias, self.own_columns(lower)?);
        relation.hidden = if self.is_postgres() { &[] } else { ROWID };
        Ok(relation)
    }

    /// The column of `relation` with this name, in the relation's spelling.
    fn column_of(&self, relation: &Relation, name: &str) -> Option<Column> {
        let is = |column: &str| self.same_name(column, name);
        let shown = relation.columns.iter().find(|column| column.name.as_deref().is_some_and(is));
        shown.cloned().or_else(|| relation.hidden.iter().find(|column| is(column)).map(|c| Column::new(c)))
    }

    fn resolved(&self, relation: &Relation, column: &Column) -> ResolvedColumn {
        let before = if relation.alias.is_empty() { String::new() } else { format!("{}.", relation.alias) };
        let text = format!("{before}{}", self.quoted(column.name.as_deref().unwrap_or_default()));
        let of_rewritten = relation.is_rewritten.then_some(before);
        ResolvedColumn { text, cost: column.cost, is_json: column.is_json, of_rewritten }
    }

    fn unqualified(&self, name: &str) -> ResolvedColumn {
        ResolvedColumn { text: self.quoted(name), cost: Cost::default(), is_json: false, of_rewritten: None }
    }

    /// Resolves an unqualified name in one scope.
    fn resolve_in(&self, scope: &Scope, name: &str) -> Result<Option<ResolvedColumn>, GuardError> {
        if let Some(merged) = scope.merged.iter().find(|merged| self.same_name(merged, name)) {
            return Ok(Some(self.unqualified(merged)));
        }
        let visible = scope.relations.iter().filter(|relation| !relation.needs_qualifier);
        let mut found = visible.filter_map(|r| self.column_of(r, name).map(|column| (r, column)));
        match (found.next(), found.next()) {
            (Some((relation, column)), None) => Ok(Some(self.resolved(relation, &column))),
            (Some(_), Some(_)) => Err(GuardError::Ambiguous(name.to_owned())),
            (None, _) => Ok(None),
        }
    }

    /// Resolves an unqualified name.
    pub(super) fn resolve_unqualified(&self, name: &Ident) -> Result<ResolvedColumn, GuardError> {
        let name = self.checked_name(name)?;
        for scope in self.scopes.iter().rev() {
            if let Some(found) = self.resolve_in(scope, &name)? {
                return Ok(found);
            }
            // On SQLite every expression can use the names of the SELECT's result columns.
            if !self.is_postgres()
                && let Some(output) = scope.outputs.iter().find(|output| self.same_name(output, &name))
            {
                return Ok(self.unqualified(output));
            }
        }
        // The alias of a function that returns single values also names the value.
        let relations = self.scopes.iter().rev().flat_map(|scope| &scope.relations);
        let mut scalars = relations.filter(|relation| relation.is_scalar);
        if let Some(relation) = scalars.find(|relation| self.same_name(&relation.name, &name))
            && let Some(column) = relation.columns.first()
        {
            return Ok(self.resolved(relation, column));
        }
        Err(GuardError::Column(name))
    }

    /// The relation with this name in the innermost scope that has one.
    pub(super) fn relation_named(&self, name: &str) -> Option<&Relation> {
        if name.is_empty() {
            return None;
        }
        let mut outwards = self.scopes.iter().rev().flat_map(|scope| &scope.relations);
        outwards.find(|relation| self.same_name(&relation.name, name))
    }

    /// Resolves `table.column`.
    pub(super) fn resolve_qualified(
        &self,
        table: &Ident,
        column: &Ident,
    ) -> Result<ResolvedColumn, GuardError> {
        let (table, column) = (self.checked_name(table)?, self.checked_name(column)?);
        let relation = self.relation_named(&table);
        let found = relation.and_then(|r| Some(self.resolved(r, &self.column_of(r, &column)?)));
        found.ok_or_else(|| GuardError::Column(format!("{table}.{column}")))
    }

    /// Resolves a name in ORDER BY or DISTINCT ON (`outputs_first`) or in GROUP BY to a result column. `None` if it is
    /// to be resolved like any other expression.
    pub(super) fn output_column(
        &self,
        name: &Ident,
        outputs_first: bool,
    ) -> Result<Option<String>, GuardError> {
        let name = self.checked_name(name)?;
        let Some(scope) = self.scopes.last() else { return Ok(None) };
        let Some(output) = scope.outputs.iter().find(|output| self.same_name(output, &name)) else {
            return Ok(None);
        };
        if !outputs_first && self.resolve_in(scope, &name)?.is_some() {
            return Ok(None);
        }
        Ok(Some(self.quoted(output)))
    }

    /// Writes a column of the table that is changed or defined, without a table name.
    pub(super) fn known_column(&mut self, name: &Ident, columns: &Columns) -> Result<(), GuardError> {
        let plain = self.checked_name(name)?;
        let Some(found) = columns
            .iter()
            .filter_map(|column| column.name.as_deref())
            .find(|column| self.same_name(column, &plain))
        else {
            return Err(GuardError::Column(plain));
        };
        let text = self.quoted(found);
        self.push(&text);
        Ok(())
    }

    /// The columns that `*` stands for in the current scope.
    pub(super) fn star_columns(&self) -> Columns {
        let Some(scope) = self.scopes.last() else { return Columns::new() };
        let is_merged = |column: &str| scope.merged.iter().any(|merged| self.same_name(merged, column));
        let merged = scope.merged.iter().map(|name| Column::new(name));
        let rest = scope.relations.iter().flat_map(|relation| &relation.columns);
        let rest = rest.filter(|column| !column.name.as_deref().is_some_and(is_merged)).cloned();
        merged.chain(rest).collect()
    }

    /// Writes a resolved column.
    pub(super) fn write_resolved(&mut self, found: &ResolvedColumn) -> Result<(), GuardError> {
        self.push(&found.text);
        self.spend(found.cost)
    }
}
