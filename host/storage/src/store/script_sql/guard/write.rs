//! Rebuilds INSERT, UPDATE and DELETE on own tables.

use sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Delete, DoUpdate, Expr, FromTable, Insert, OnConflict,
    OnConflictAction, OnInsert, SelectItem, SetExpr, SqliteOnConflict, TableFactor, TableObject,
    TableWithJoins, Update, UpdateTableFromKind,
};

use super::idents::single;
use super::scope::{Columns, Relation, Scope};
use super::{GuardError, Rewriter, only, plain, refuse_if, separated, unsupported};

impl Rewriter<'_> {
    pub(super) fn insert(&mut self, insert: &mut Insert) -> Result<String, GuardError> {
        let clauses = "a clause of this INSERT";
        only!(
            clauses,
            insert,
            plain::insert()?,
            into,
            or,
            replace_into,
            table,
            columns,
            source,
            on,
            returning
        );
        let Insert { or, replace_into, table, columns, source, on, returning, .. } = insert;
        let replaces = *replace_into || matches!(or, Some(SqliteOnConflict::Replace));
        let ignores = matches!(or, Some(SqliteOnConflict::Ignore));
        refuse_if("INSERT OR", or.is_some() && !replaces && !ignores)?;
        refuse_if("REPLACE (use ON CONFLICT)", (replaces || ignores) && self.is_postgres())?;
        let word = match (replaces, ignores) {
            (true, _) => "INSERT OR REPLACE",
            (_, true) => "INSERT OR IGNORE",
            _ => "INSERT",
        };
        let TableObject::TableName(table) = table else { return unsupported("this INSERT") };
        let name = self.own_name(table)?;
        let (text, alias) = (self.own_text(&name), self.next_alias());
        let target = self.own_relation(&name, alias.clone())?;
        let columns = separated(columns, |column| self.known_column(single(column)?, &target.columns))?;
        let columns = if columns.is_empty() { columns } else { format!(" ({columns})") };
        let source = match source {
            None => "DEFAULT VALUES".to_owned(),
            Some(query) => {
                // SQLite reads `SELECT … FROM t ON CONFLICT` as a join. A WHERE in between makes it unambiguous.
                let is_ambiguous =
                    on.is_some() && !self.is_postgres() && !matches!(*query.body, SetExpr::Values(_));
                self.query(query)?;
                if is_ambiguous { format!("SELECT * FROM ({query}) WHERE TRUE") } else { query.to_string() }
            }
        };
        let excluded = Relation::new("excluded", "excluded".to_owned(), target.columns.clone());
        let excluded = Relation { needs_qualifier: true, ..excluded };
        self.scopes.push(Scope { relations: vec![target, excluded], ..Scope::default() });
        let on = match on {
            None => String::new(),
            Some(OnInsert::OnConflict(conflict)) => self.on_conflict(conflict)?,
            Some(_) => return unsupported("ON DUPLICATE KEY (use ON CONFLICT)"),
        };
        self.scope()?.relations.truncate(1);
        let returning = self.returning(returning)?;
        Ok(format!("{word} INTO {text} AS {alias}{columns} {source}{on}{returning}"))
    }

    /// The columns of the table that the statement changes.
    fn target_columns(&self) -> Columns {
        let relation = self.scopes.first().and_then(|scope| scope.relations.first());
        relation.map(|relation| relation.columns.clone()).unwrap_or_default()
    }

    fn on_conflict(&mut self, conflict: &mut OnConflict) -> Result<String, GuardError> {
        let known = self.target_columns();
        let target = match &conflict.conflict_target {
            None => String::new(),
            Some(ConflictTarget::Columns(columns)) => {
                format!(" ({})", separated(columns, |column| self.known_column(column, &known))?)
            }
            Some(ConflictTarget::OnConstraint(_)) => return unsupported("ON CONSTRAINT"),
        };
        let action = match &mut conflict.action {
            OnConflictAction::DoNothing => "NOTHING".to_owned(),
            OnConflictAction::DoUpdate(DoUpdate { assignments, selection }) => {
                format!("UPDATE SET {}{}", self.assignments(assignments)?, self.condition(selection)?)
            }
        };
        Ok(format!(" ON CONFLICT{target} DO {action}"))
    }

    fn assignments(&mut self, assignments: &mut [Assignment]) -> Result<String, GuardError> {
        let known = self.target_columns();
        separated(assignments, |Assignment { target, value }| {
            let AssignmentTarget::ColumnName(column) = target else {
                return unsupported("an assignment to several columns");
            };
            let column = self.known_column(single(column)?, &known)?;
            self.expr(value)?;
            Ok(format!("{column} = {value}"))
        })
    }

    /// The SQL of a WHERE clause.
    pub(super) fn condition(&mut self, condition: &mut Option<Expr>) -> Result<String, GuardError> {
        let Some(condition) = condition else { return Ok(String::new()) };
        self.expr(condition)?;
        Ok(format!(" WHERE {condition}"))
    }

    pub(super) fn update(&mut self, update: &mut Update) -> Result<String, GuardError> {
        only!(
            "a clause of this UPDATE",
            update,
            plain::update()?,
            table,
            assignments,
            from,
            selection,
            returning
        );
        let Update { table, assignments, from, selection, returning, .. } = update;
        let target = self.target(table)?;
        // The FROM clause comes first: the new values may use its columns.
        let from = match from {
            None => String::new(),
            Some(UpdateTableFromKind::AfterSet(tables)) => {
                let tables = separated(tables, |tables| {
                    self.joined(tables)?;
                    Ok(tables.to_string())
                })?;
                format!(" FROM {tables}")
            }
            Some(UpdateTableFromKind::BeforeSet(_)) => return unsupported("FROM before SET"),
        };
        let (set, condition) = (self.assignments(assignments)?, self.condition(selection)?);
        Ok(format!("UPDATE {target} SET {set}{from}{condition}{}", self.returning(returning)?))
    }

    pub(super) fn delete(&mut self, delete: &mut Delete) -> Result<String, GuardError> {
        let clauses = "a clause of this DELETE (use a subquery)";
        only!(clauses, delete, plain::delete()?, from, selection, returning);
        let Delete { from, selection, returning, .. } = delete;
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = from;
        let [table] = from.as_slice() else { return unsupported("DELETE from several tables") };
        let target = self.target(table)?;
        let condition = self.condition(selection)?;
        Ok(format!("DELETE FROM {target}{condition}{}", self.returning(returning)?))
    }

    /// The SQL of the table that the statement changes, whose columns become visible.
    fn target(&mut self, table: &TableWithJoins) -> Result<String, GuardError> {
        refuse_if("a join here", !table.joins.is_empty())?;
        let TableFactor::Table { name, alias, args: None, .. } = &table.relation else {
            return unsupported("this target table");
        };
        let name = self.own_name(name)?;
        let written = self.next_alias();
        let relation = self.own_relation(&name, written)?;
        let has_columns = alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
        refuse_if("a list of columns after its alias", has_columns)?;
        self.scopes.push(Scope::default());
        Ok(self.own_text(&name) + &self.aliased(relation, alias.as_ref())?)
    }

    /// The SQL of a RETURNING clause. On SQLite columns in it have no table name.
    fn returning(&mut self, items: &mut Option<Vec<SelectItem>>) -> Result<String, GuardError> {
        let Some(items) = items else { return Ok(String::new()) };
        if !self.is_postgres() {
            let scope = self.scope()?;
            scope.relations.truncate(1);
            scope.relations.iter_mut().for_each(|relation| relation.alias.clear());
        }
        self.result = self.projection(items, false)?;
        Ok(format!(" RETURNING {}", separated(items, |item| Ok(item.to_string()))?))
    }
}
