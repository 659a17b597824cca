//! Writes INSERT, UPDATE and DELETE on own tables.

use sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Delete, DoUpdate, FromTable, Insert, OnConflict,
    OnConflictAction, OnInsert, SelectItem, SqliteOnConflict, TableFactor, TableObject, TableWithJoins,
    Update, UpdateTableFromKind,
};

use super::names::single;
use super::scope::{Columns, Relation, Scope};
use super::{Emitter, GuardError, refuse_if, unsupported};

impl Emitter<'_> {
    /// Writes an INSERT. Returns whether it returns rows.
    pub(super) fn insert(&mut self, insert: &Insert) -> Result<bool, GuardError> {
        let Insert {
            insert_token: _,
            optimizer_hints,
            or,
            ignore,
            into: _,
            table,
            table_alias,
            columns,
            overwrite,
            source,
            assignments,
            partitioned,
            after_columns,
            has_table_keyword,
            on,
            returning,
            output,
            replace_into,
            priority,
            insert_alias,
            settings,
            format_clause,
            multi_table_insert_type,
            multi_table_into_clauses,
            multi_table_when_clauses,
            multi_table_else_clause,
        } = insert;
        refuse_if(
            "this INSERT",
            !optimizer_hints.is_empty()
                || *ignore
                || table_alias.is_some()
                || *overwrite
                || !assignments.is_empty()
                || partitioned.is_some()
                || !after_columns.is_empty()
                || *has_table_keyword
                || output.is_some()
                || priority.is_some()
                || insert_alias.is_some()
                || settings.is_some()
                || format_clause.is_some()
                || multi_table_insert_type.is_some()
                || !multi_table_into_clauses.is_empty()
                || !multi_table_when_clauses.is_empty()
                || multi_table_else_clause.is_some(),
        )?;
        let replaces = *replace_into || matches!(or, Some(SqliteOnConflict::Replace));
        let ignores = matches!(or, Some(SqliteOnConflict::Ignore));
        refuse_if("INSERT OR", or.is_some() && !replaces && !ignores)?;
        refuse_if("REPLACE (use ON CONFLICT)", (replaces || ignores) && self.is_postgres())?;
        let TableObject::TableName(table) = table else { return unsupported("this INSERT") };
        self.push(match (replaces, ignores) {
            (true, _) => "INSERT OR REPLACE INTO ",
            (_, true) => "INSERT OR IGNORE INTO ",
            _ => "INSERT INTO ",
        });
        let name = self.write_own(table)?;
        let written = self.next_alias();
        self.push(&format!(" AS {written}"));
        let target = self.own_relation(&name, written)?;
        if !columns.is_empty() {
            self.push(" (");
            self.list(columns, |emit, column| emit.known_column(single(column)?, &target.columns))?;
            self.push(")");
        }
        match source {
            None => self.push(" DEFAULT VALUES"),
            Some(query) => {
                self.push(" ");
                // SQLite reads `SELECT … FROM t ON CONFLICT` as a join. A WHERE in between makes it unambiguous.
                let is_ambiguous = on.is_some() && !self.is_postgres();
                if is_ambiguous && !matches!(*query.body, sqlparser::ast::SetExpr::Values(_)) {
                    self.push("SELECT * FROM (");
                    self.query(query)?;
                    self.push(") WHERE TRUE");
                } else {
                    self.query(query)?;
                }
            }
        }
        let mut excluded =
            Relation::new("excluded".to_owned(), "excluded".to_owned(), target.columns.clone());
        excluded.needs_qualifier = true;
        self.scopes.push(Scope { relations: vec![target, excluded], ..Scope::default() });
        match on {
            None => {}
            Some(OnInsert::OnConflict(conflict)) => self.on_conflict(conflict)?,
            Some(_) => return unsupported("ON DUPLICATE KEY (use ON CONFLICT)"),
        }
        self.scope()?.relations.truncate(1);
        self.returning(returning.as_deref())
    }

    /// The columns of the table that the statement changes.
    fn target_columns(&self) -> Columns {
        let relation = self.scopes.first().and_then(|scope| scope.relations.first());
        relation.map(|relation| relation.columns.clone()).unwrap_or_default()
    }

    fn on_conflict(&mut self, conflict: &OnConflict) -> Result<(), GuardError> {
        let OnConflict { conflict_target, action } = conflict;
        self.push(" ON CONFLICT");
        match conflict_target {
            None => {}
            Some(ConflictTarget::Columns(columns)) => {
                let known = self.target_columns();
                self.push(" (");
                self.list(columns, |emit, column| emit.known_column(column, &known))?;
                self.push(")");
            }
            Some(ConflictTarget::OnConstraint(_)) => return unsupported("ON CONSTRAINT"),
        }
        match action {
            OnConflictAction::DoNothing => self.push(" DO NOTHING"),
            OnConflictAction::DoUpdate(DoUpdate { assignments, selection }) => {
                self.push(" DO UPDATE SET ");
                self.list(assignments, Self::assignment)?;
                if let Some(selection) = selection {
                    self.push(" WHERE ");
                    self.expr(selection)?;
                }
            }
        }
        Ok(())
    }

    fn assignment(&mut self, assignment: &Assignment) -> Result<(), GuardError> {
        let Assignment { target, value } = assignment;
        let AssignmentTarget::ColumnName(column) = target else {
            return unsupported("an assignment to several columns");
        };
        let known = self.target_columns();
        self.known_column(single(column)?, &known)?;
        self.push(" = ");
        self.expr(value)
    }

    pub(super) fn update(&mut self, update: &Update) -> Result<bool, GuardError> {
        let Update {
            update_token: _,
            optimizer_hints,
            table,
            assignments,
            from,
            selection,
            returning,
            output,
            or,
            order_by,
            limit,
        } = update;
        refuse_if(
            "this UPDATE",
            !optimizer_hints.is_empty()
                || output.is_some()
                || or.is_some()
                || !order_by.is_empty()
                || limit.is_some(),
        )?;
        self.push("UPDATE ");
        self.target(table)?;
        // The FROM clause comes first: the new values may use its columns.
        let start = self.out.len();
        match from {
            None => {}
            Some(UpdateTableFromKind::AfterSet(tables)) => {
                self.push(" FROM ");
                self.list(tables, Self::joined)?;
            }
            Some(UpdateTableFromKind::BeforeSet(_)) => return unsupported("FROM before SET"),
        }
        let tables = self.out.split_off(start);
        self.push(" SET ");
        self.list(assignments, Self::assignment)?;
        self.push(&tables);
        if let Some(selection) = selection {
            self.push(" WHERE ");
            self.expr(selection)?;
        }
        self.returning(returning.as_deref())
    }

    pub(super) fn delete(&mut self, delete: &Delete) -> Result<bool, GuardError> {
        let Delete {
            delete_token: _,
            optimizer_hints,
            tables,
            from,
            using,
            selection,
            returning,
            output,
            order_by,
            limit,
        } = delete;
        refuse_if(
            "this DELETE (use a subquery)",
            !optimizer_hints.is_empty()
                || !tables.is_empty()
                || using.is_some()
                || output.is_some()
                || !order_by.is_empty()
                || limit.is_some(),
        )?;
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = from;
        let [table] = from.as_slice() else { return unsupported("DELETE from several tables") };
        self.push("DELETE FROM ");
        self.target(table)?;
        if let Some(selection) = selection {
            self.push(" WHERE ");
            self.expr(selection)?;
        }
        self.returning(returning.as_deref())
    }

    /// Writes the table that the statement changes, and makes it visible.
    fn target(&mut self, table: &TableWithJoins) -> Result<(), GuardError> {
        refuse_if("a join here", !table.joins.is_empty())?;
        let TableFactor::Table { name, alias, args: None, .. } = &table.relation else {
            return unsupported("this target table");
        };
        let name = self.write_own(name)?;
        let written = self.next_alias();
        let relation = self.own_relation(&name, written)?;
        refuse_if(
            "a list of columns after its alias",
            alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()),
        )?;
        self.scopes.push(Scope::default());
        self.aliased(relation, alias.as_ref())
    }

    /// Writes a RETURNING clause. Returns whether there is one. On SQLite columns in it have no table name.
    fn returning(&mut self, items: Option<&[SelectItem]>) -> Result<bool, GuardError> {
        let Some(items) = items else { return Ok(false) };
        if !self.is_postgres() {
            let scope = self.scope()?;
            scope.relations.truncate(1);
            scope.relations.iter_mut().for_each(|relation| relation.alias.clear());
        }
        self.push(" RETURNING ");
        self.result = self.projection(items)?;
        Ok(true)
    }
}
