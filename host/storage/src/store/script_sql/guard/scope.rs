//! Resolves the names of columns. Every name is looked up in the visible relations, whose columns are all known: those
//! of views are listed here, those of own tables come from the database's catalog, those of subqueries and functions
//! from the statement. A name that is not found is refused.
//!
//! The databases resolve names themselves and decide what may be read. This resolver is for what they can't do:
//! PostgreSQL reads `t.name` as the call `name(t)` if `t` has no such column, and has no list of the functions that
//! scripts may call. Also the rewrites for indexes, JSON columns on SQLite and the cost of subqueries depend on what a
//! name refers to. Every relation gets a unique alias (`t1`, `t2` …), so that a name can't mean a different relation to
//! the database.

use std::collections::BTreeMap;

use sqlparser::ast::Ident;

use super::idents::{checked_name, same_name};
use super::limits::VIEWS;
use super::{GuardError, Rewriter, unsupported};
use crate::store::Backend;

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

pub(super) fn columns_named(names: &str) -> Columns {
    names.split(' ').map(Column::new).collect()
}

/// The columns of a view, on both databases.
pub(super) fn view_columns(name: &str) -> Option<Columns> {
    let (names, json) = match name {
        "records" => ("uri did collection rkey cid indexed_at indexed_us record valid", "record"),
        "record_refs" => ("source_uri target_uri collection paths", ""),
        "accounts" => ("did handle status pds", ""),
        "labels" => ("src uri val cid cts exp", ""),
        "lexicons" => (
            "id revision lexicon_type lexicon_json action target_collection source authority_did created_at updated_at",
            "lexicon_json",
        ),
        _ => return None,
    };
    Some(names.split(' ').map(|name| Column { is_json: name == json, ..Column::new(name) }).collect())
}

/// The views with the names of their columns, by name.
pub fn views() -> impl Iterator<Item = (&'static str, Vec<String>)> {
    let columns = |name| view_columns(name).as_ref().map(output_names).unwrap_or_default();
    VIEWS.into_iter().map(move |name| (name, columns(name)))
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
#[derive(Debug, Default)]
pub(super) struct Relation {
    /// The name in the script's statement. Empty if it has none.
    pub(super) name: String,
    /// The quoted alias that is written before its columns. Empty where columns must be unqualified.
    pub(super) alias: String,
    pub(super) columns: Columns,
    /// SQLite: whether it has a `rowid`, which `*` does not include.
    pub(super) has_rowid: bool,
    /// The view `records` or `record_refs` with its original column names: `index_rewrites` rewrites its conditions.
    pub(super) is_rewritten: bool,
    /// A function with one column, which may also be named by the function's alias.
    pub(super) is_scalar: bool,
    /// Its columns are found only with the relation's name before them (`excluded`).
    pub(super) needs_qualifier: bool,
}

impl Relation {
    pub(super) fn new(name: &str, alias: String, columns: Columns) -> Self {
        Self { name: name.to_owned(), alias, columns, ..Self::default() }
    }
}

/// The names of the columns that have one.
pub(super) fn output_names(columns: &Columns) -> Vec<String> {
    columns.iter().filter_map(|column| column.name.clone()).collect()
}

/// Gives the first columns other names.
pub(super) fn rename(columns: &mut Columns, names: Vec<String>) -> Result<(), GuardError> {
    if names.len() > columns.len() {
        return unsupported("a list of more columns than there are");
    }
    columns.iter_mut().zip(names).for_each(|(column, name)| column.name = Some(name));
    Ok(())
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

impl Rewriter<'_> {
    /// Returns a new quoted alias for a relation.
    pub(super) fn next_alias(&mut self) -> String {
        self.aliases += 1;
        self.quoted(&format!("t{}", self.aliases))
    }

    /// Makes a relation visible in the current SELECT.
    pub(super) fn add_relation(&mut self, relation: Relation) -> Result<(), GuardError> {
        let scope = self.scope()?;
        if !relation.name.is_empty() && scope.relations.iter().any(|other| other.name == relation.name) {
            return unsupported(format!("the name {} for two tables", relation.name));
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
        let relation = Relation::new(lower, alias, self.own_columns(lower)?);
        Ok(Relation { has_rowid: self.backend == Backend::Sqlite, ..relation })
    }

    /// The column of `relation` with this name, in the relation's spelling.
    fn column_of(&self, relation: &Relation, name: &str) -> Option<Column> {
        let is =
            |column: &Column| column.name.as_deref().is_some_and(|own| same_name(self.backend, own, name));
        let shown = relation.columns.iter().find(|column| is(column)).cloned();
        let rowid = Some(Column::new("rowid"));
        shown.or_else(|| rowid.filter(|rowid| relation.has_rowid && is(rowid)))
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
        if let Some(merged) = scope.merged.iter().find(|merged| same_name(self.backend, merged, name)) {
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
        let name = checked_name(self.backend, name)?;
        for scope in self.scopes.iter().rev() {
            if let Some(found) = self.resolve_in(scope, &name)? {
                return Ok(found);
            }
            // On SQLite every expression can use the names of the SELECT's result columns.
            if !self.is_postgres()
                && let Some(output) = self.output_named(scope, &name)
            {
                return Ok(self.unqualified(output));
            }
        }
        // The alias of a function that returns single values also names the value.
        let relations = self.scopes.iter().rev().flat_map(|scope| &scope.relations);
        let mut scalars = relations.filter(|relation| relation.is_scalar);
        if let Some(relation) = scalars.find(|relation| same_name(self.backend, &relation.name, &name))
            && let Some(column) = relation.columns.first()
        {
            return Ok(self.resolved(relation, column));
        }
        Err(GuardError::Column(name))
    }

    /// The relation with this name in the innermost scope that has one.
    pub(super) fn relation_named(&self, name: &str) -> Option<&Relation> {
        let outwards = self.scopes.iter().rev().flat_map(|scope| &scope.relations);
        outwards.filter(|_| !name.is_empty()).find(|relation| same_name(self.backend, &relation.name, name))
    }

    /// Resolves `table.column`.
    pub(super) fn resolve_qualified(
        &self,
        table: &Ident,
        column: &Ident,
    ) -> Result<ResolvedColumn, GuardError> {
        let (table, column) = (checked_name(self.backend, table)?, checked_name(self.backend, column)?);
        let relation = self.relation_named(&table);
        let found = relation.and_then(|r| Some(self.resolved(r, &self.column_of(r, &column)?)));
        found.ok_or_else(|| GuardError::Column(format!("{table}.{column}")))
    }

    fn output_named<'s>(&self, scope: &'s Scope, name: &str) -> Option<&'s String> {
        scope.outputs.iter().find(|output| same_name(self.backend, output, name))
    }

    /// The SQL of the result column of the current SELECT that `name` refers to in GROUP BY or ORDER BY. In GROUP BY a
    /// column of its tables takes precedence.
    pub(super) fn output_column(
        &self,
        name: &Ident,
        outputs_first: bool,
    ) -> Result<Option<String>, GuardError> {
        let name = checked_name(self.backend, name)?;
        let Some(scope) = self.scopes.last() else { return Ok(None) };
        let Some(output) = self.output_named(scope, &name) else { return Ok(None) };
        if !outputs_first && self.resolve_in(scope, &name)?.is_some() {
            return Ok(None);
        }
        Ok(Some(self.quoted(output)))
    }

    /// The SQL of a column of the table that is changed or defined, without a table name.
    pub(super) fn known_column(&self, name: &Ident, columns: &Columns) -> Result<String, GuardError> {
        let plain = checked_name(self.backend, name)?;
        let mut names = columns.iter().filter_map(|column| column.name.as_deref());
        match names.find(|column| same_name(self.backend, column, &plain)) {
            Some(found) => Ok(self.quoted(found)),
            None => Err(GuardError::Column(plain)),
        }
    }

    /// The columns that `*` stands for in the current scope.
    pub(super) fn star_columns(&self) -> Columns {
        let Some(scope) = self.scopes.last() else { return Columns::new() };
        let is_merged =
            |column: &str| scope.merged.iter().any(|merged| same_name(self.backend, merged, column));
        let merged = scope.merged.iter().map(|name| Column::new(name));
        let rest = scope.relations.iter().flat_map(|relation| &relation.columns);
        let rest = rest.filter(|column| !column.name.as_deref().is_some_and(is_merged)).cloned();
        merged.chain(rest).collect()
    }
}
