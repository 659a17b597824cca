//! What a column's name means. Every name is looked up among the relations that can be seen where it stands, whose
//! columns are all known: those of the views are written down here, those of own tables come from the database's
//! catalog, those of subqueries and functions follow from their text. A name that is not found is refused.
//!
//! PostgreSQL reads `t.name` as `name(t)` where `t` has no such column. Two things keep that from ever happening: only
//! names that were found are written, and every relation gets an alias of its own (`t1`, `t2` …), so that no name can
//! mean another relation to the database than it means here.

use std::collections::BTreeMap;

use sqlparser::ast::Ident;

use super::{Emit, Refusal};

/// What computing something takes, once everything that it names is put in its place: databases do that with the columns
/// of subqueries, so that a few nested ones could grow into millions of expressions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    pub(super) nodes: u32,
    /// Functions, casts, and operators on texts.
    pub(super) calls: u32,
}

/// A column of something that is read.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// `None` when it has no name that could be used.
    pub(super) name: Option<String>,
    pub(super) cost: Cost,
}

impl Column {
    pub(super) fn new(name: &str) -> Self {
        Self { name: Some(name.to_owned()), cost: Cost::default() }
    }
}

/// The columns of something, in their order.
pub(super) type Columns = Vec<Column>;

/// The columns of the views, on both databases.
const RECORDS: &[&str] = &["uri", "did", "collection", "rkey", "cid", "indexed_at", "indexed_us", "record"];
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

/// SQLite's number of a row, which `*` does not show.
const ROWID: &[&str] = &["rowid"];

pub(super) fn of_view(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "records" => RECORDS,
        "record_refs" => RECORD_REFS,
        "labels" => LABELS,
        "lexicons" => LEXICONS,
        _ => return None,
    })
}

pub(super) fn named(names: &[&str]) -> Columns {
    names.iter().map(|name| Column::new(name)).collect()
}

/// The own tables that a statement may mean, with their columns.
#[derive(Clone, Debug, Default)]
pub struct Catalog(BTreeMap<String, Vec<String>>);

impl Catalog {
    pub fn add(&mut self, table: &str, column: &str) {
        self.0.entry(table.to_owned()).or_default().push(column.to_owned());
    }
}

/// One table, view, function or subquery after FROM.
#[derive(Debug)]
pub(super) struct Relation {
    /// As the script calls it. Empty if it can't be called.
    pub(super) name: String,
    /// What is written in front of its columns, quoted. Empty where nothing may stand there.
    pub(super) alias: String,
    pub(super) columns: Columns,
    /// Further columns, which `*` does not show.
    pub(super) hidden: &'static [&'static str],
    pub(super) is_records: bool,
    /// A function with one column, which may be called by the function's alias.
    pub(super) is_scalar: bool,
    /// Found only with its name in front (`excluded`).
    pub(super) is_shy: bool,
}

impl Relation {
    pub(super) fn new(name: String, alias: String, columns: Columns) -> Self {
        let (is_records, is_scalar, is_shy) = (false, false, false);
        Self { name, alias, columns, hidden: &[], is_records, is_scalar, is_shy }
    }

    /// Renames the first columns.
    pub(super) fn rename(&mut self, names: Vec<String>) -> Result<(), Refusal> {
        if names.len() > self.columns.len() {
            return Err(Refusal::Unsupported("a list of more columns than there are".to_owned()));
        }
        for (column, name) in self.columns.iter_mut().zip(names) {
            column.name = Some(name);
        }
        Ok(())
    }
}

/// What one SELECT, or one statement that writes, sees.
#[derive(Debug, Default)]
pub(super) struct Scope {
    pub(super) relations: Vec<Relation>,
    /// Columns that USING and NATURAL made one of two.
    pub(super) merged: Vec<String>,
    /// What the SELECT calls its own columns.
    pub(super) outputs: Vec<String>,
}

/// A column that was found.
#[derive(Debug)]
pub(super) struct Found {
    /// As it is written.
    pub(super) text: String,
    pub(super) cost: Cost,
    /// What is written in front of the other columns of `records`, if it is a column of that.
    pub(super) of_records: Option<String>,
}

impl Emit<'_> {
    /// Whether two names are the same to the database; they are folded already where PostgreSQL folds.
    pub(super) fn same(&self, a: &str, b: &str) -> bool {
        if self.is_postgres() { a == b } else { a.eq_ignore_ascii_case(b) }
    }

    /// A new alias for a relation, quoted.
    pub(super) fn next_alias(&mut self) -> String {
        self.aliases += 1;
        self.quoted(&format!("t{}", self.aliases))
    }

    /// Makes a relation visible to what follows in its SELECT.
    pub(super) fn see(&mut self, relation: Relation) -> Result<(), Refusal> {
        let scope = self.scope()?;
        if !relation.name.is_empty() && scope.relations.iter().any(|other| other.name == relation.name) {
            return Err(Refusal::Unsupported(format!("the name {} for two tables", relation.name)));
        }
        scope.relations.push(relation);
        Ok(())
    }

    pub(super) fn scope(&mut self) -> Result<&mut Scope, Refusal> {
        self.scopes.last_mut().ok_or_else(|| Refusal::Unsupported("a table here".to_owned()))
    }

    /// The columns of an own table.
    pub(super) fn own_columns(&self, lower: &str) -> Result<Columns, Refusal> {
        let found = self.catalog.0.get(lower).ok_or_else(|| Refusal::Missing(lower.to_owned()))?;
        Ok(found.iter().map(|name| Column::new(name)).collect())
    }

    pub(super) fn own_relation(&self, lower: &str, alias: String) -> Result<Relation, Refusal> {
        let mut relation = Relation::new(lower.to_owned(), alias, self.own_columns(lower)?);
        relation.hidden = if self.is_postgres() { &[] } else { ROWID };
        Ok(relation)
    }

    /// The column of `relation` with a name, as it is called there.
    fn column_of(&self, relation: &Relation, name: &str) -> Option<Column> {
        let is = |column: &str| self.same(column, name);
        let shown = relation.columns.iter().find(|column| column.name.as_deref().is_some_and(is));
        shown.cloned().or_else(|| relation.hidden.iter().find(|column| is(column)).map(|c| Column::new(c)))
    }

    fn found(&self, relation: &Relation, column: &Column) -> Found {
        let before = if relation.alias.is_empty() { String::new() } else { format!("{}.", relation.alias) };
        let text = format!("{before}{}", self.quoted(column.name.as_deref().unwrap_or_default()));
        Found { text, cost: column.cost, of_records: relation.is_records.then_some(before) }
    }

    fn alone(&self, name: &str) -> Found {
        Found { text: self.quoted(name), cost: Cost::default(), of_records: None }
    }

    /// The column that a name alone means in one scope.
    fn bare_in(&self, scope: &Scope, name: &str) -> Result<Option<Found>, Refusal> {
        if let Some(merged) = scope.merged.iter().find(|merged| self.same(merged, name)) {
            return Ok(Some(self.alone(merged)));
        }
        let visible = scope.relations.iter().filter(|relation| !relation.is_shy);
        let mut found = visible.filter_map(|r| self.column_of(r, name).map(|column| (r, column)));
        match (found.next(), found.next()) {
            (Some((relation, column)), None) => Ok(Some(self.found(relation, &column))),
            (Some(_), Some(_)) => Err(Refusal::Ambiguous(name.to_owned())),
            (None, _) => Ok(None),
        }
    }

    /// What a name alone means.
    pub(super) fn bare(&self, name: &Ident) -> Result<Found, Refusal> {
        let name = self.plain(name)?;
        for scope in self.scopes.iter().rev() {
            if let Some(found) = self.bare_in(scope, &name)? {
                return Ok(found);
            }
            // SQLite lets any expression use the names that its SELECT gives.
            if !self.is_postgres()
                && let Some(output) = scope.outputs.iter().find(|output| self.same(output, &name))
            {
                return Ok(self.alone(output));
            }
        }
        // The row of a function that gives single values is the value.
        let relations = self.scopes.iter().rev().flat_map(|scope| &scope.relations);
        let mut scalars = relations.filter(|relation| relation.is_scalar);
        if let Some(relation) = scalars.find(|relation| self.same(&relation.name, &name))
            && let Some(column) = relation.columns.first()
        {
            return Ok(self.found(relation, column));
        }
        Err(Refusal::Column(name))
    }

    /// The relation of the innermost scope that has one of this name.
    pub(super) fn relation_named(&self, name: &str) -> Option<&Relation> {
        if name.is_empty() {
            return None;
        }
        let mut outwards = self.scopes.iter().rev().flat_map(|scope| &scope.relations);
        outwards.find(|relation| self.same(&relation.name, name))
    }

    /// What `table.column` means.
    pub(super) fn qualified(&self, table: &Ident, column: &Ident) -> Result<Found, Refusal> {
        let (table, column) = (self.plain(table)?, self.plain(column)?);
        let relation = self.relation_named(&table);
        let found = relation.and_then(|r| Some(self.found(r, &self.column_of(r, &column)?)));
        found.ok_or_else(|| Refusal::Column(format!("{table}.{column}")))
    }

    /// A name alone in an ORDER BY or DISTINCT ON (`outputs_first`), or in a GROUP BY: a column of the answer, or one of the
    /// tables. `None` when it is an expression to be resolved as every other.
    pub(super) fn output(&self, name: &Ident, outputs_first: bool) -> Result<Option<String>, Refusal> {
        let name = self.plain(name)?;
        let Some(scope) = self.scopes.last() else { return Ok(None) };
        let Some(output) = scope.outputs.iter().find(|output| self.same(output, &name)) else {
            return Ok(None);
        };
        if !outputs_first && self.bare_in(scope, &name)?.is_some() {
            return Ok(None);
        }
        Ok(Some(self.quoted(output)))
    }

    /// A column of the one table that is changed or defined, named without anything else.
    pub(super) fn known_column(&mut self, name: &Ident, columns: &Columns) -> Result<(), Refusal> {
        let plain = self.plain(name)?;
        let Some(found) = columns
            .iter()
            .filter_map(|column| column.name.as_deref())
            .find(|column| self.same(column, &plain))
        else {
            return Err(Refusal::Column(plain));
        };
        let text = self.quoted(found);
        self.push(&text);
        Ok(())
    }

    /// What `*` shows in the current scope.
    pub(super) fn star(&self) -> Columns {
        let Some(scope) = self.scopes.last() else { return Columns::new() };
        let is_merged = |column: &str| scope.merged.iter().any(|merged| self.same(merged, column));
        let merged = scope.merged.iter().map(|name| Column::new(name));
        let rest = scope.relations.iter().flat_map(|relation| &relation.columns);
        let rest = rest.filter(|column| !column.name.as_deref().is_some_and(is_merged)).cloned();
        merged.chain(rest).collect()
    }

    /// Writes a column that was found.
    pub(super) fn write_found(&mut self, found: &Found) -> Result<(), Refusal> {
        self.push(&found.text);
        self.spend(found.cost)
    }
}
