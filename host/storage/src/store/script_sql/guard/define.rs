//! Rebuilds CREATE, ALTER and DROP of own tables and indexes from the options that are allowed.

use sqlparser::ast::{
    AlterTable, AlterTableOperation, CheckConstraint, ColumnDef, ColumnOption, CreateIndex, CreateTable,
    DataType, ForeignKeyConstraint, Ident, IndexColumn, ObjectName, ObjectType, RenameTableNameKind,
    Statement, TableConstraint,
};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use super::idents::{checked_name, single};
use super::lists::type_name;
use super::query::direction;
use super::scope::{Column, Columns, Relation, Scope};
use super::{GuardError, Rewriter, only, plain, refuse_if, separated, unsupported};

fn if_not_exists(is_there: bool) -> &'static str {
    if is_there { "IF NOT EXISTS " } else { "" }
}

impl Rewriter<'_> {
    /// The SQL of the statement, and whether it creates a table or an index.
    pub(super) fn definition(&mut self, statement: &mut Statement) -> Result<(String, bool), GuardError> {
        match statement {
            Statement::CreateTable(table) => Ok((self.create_table(table)?, true)),
            Statement::CreateIndex(index) => Ok((self.create_index(index)?, true)),
            Statement::AlterTable(AlterTable {
                name,
                if_exists: false,
                only: false,
                operations,
                location: None,
                on_cluster: None,
                table_type: None,
                end_token: _,
            }) => {
                let table = self.own_name(name)?;
                let [operation] = operations.as_mut_slice() else {
                    return unsupported("several changes in one ALTER TABLE");
                };
                let change = self.alter(&table, operation)?;
                Ok((format!("ALTER TABLE {} {change}", self.own_text(&table)), false))
            }
            Statement::Drop {
                object_type,
                if_exists,
                names,
                cascade: false,
                restrict: _,
                purge: false,
                temporary: false,
                table: None,
            } => {
                let object = match object_type {
                    ObjectType::Table => "TABLE",
                    ObjectType::Index => "INDEX",
                    _ => return unsupported("DROP of anything but a table or an index"),
                };
                let [name] = names.as_slice() else { return unsupported("DROP of several tables") };
                let if_exists = if *if_exists { "IF EXISTS " } else { "" };
                Ok((format!("DROP {object} {if_exists}{}", self.own_text(&self.own_name(name)?)), false))
            }
            _ => unsupported(
                "this statement (allowed are SELECT, and on your own tables INSERT, UPDATE, DELETE, CREATE, ALTER, DROP)",
            ),
        }
    }

    fn create_table(&mut self, table: &mut CreateTable) -> Result<String, GuardError> {
        refuse_if("CREATE TABLE AS (create it, then INSERT … SELECT)", table.query.is_some())?;
        let clauses = "an option of this CREATE TABLE";
        only!(
            clauses,
            table,
            plain::create_table()?,
            name,
            columns,
            constraints,
            if_not_exists,
            strict,
            without_rowid
        );
        let CreateTable { name, columns, constraints, if_not_exists: if_new, strict, without_rowid, .. } =
            table;
        refuse_if("a table without columns", columns.is_empty())?;
        refuse_if("STRICT or WITHOUT ROWID", self.is_postgres() && (*strict || *without_rowid))?;
        let name = self.own_name(name)?;
        let known = columns.iter().map(|column| Ok(Column::new(&checked_name(self.backend, &column.name)?)));
        let known = known.collect::<Result<Columns, GuardError>>()?;
        self.enter_table(&name, known);
        let mut parts = separated(columns, |column| self.column_definition(column))?;
        for constraint in constraints {
            parts = format!("{parts}, {}", self.constraint(constraint)?);
        }
        self.scopes.pop();
        let options = match (strict, without_rowid) {
            (true, true) => " STRICT, WITHOUT ROWID",
            (true, false) => " STRICT",
            (false, true) => " WITHOUT ROWID",
            (false, false) => "",
        };
        Ok(format!("CREATE TABLE {}{} ({parts}){options}", if_not_exists(*if_new), self.own_text(&name)))
    }

    /// Makes the columns of the table that is being defined visible, without a table name before them.
    fn enter_table(&mut self, name: &str, columns: Columns) {
        let relation = Relation::new(name, String::new(), columns);
        self.scopes.push(Scope { relations: vec![relation], ..Scope::default() });
    }

    fn column_definition(&mut self, column: &mut ColumnDef) -> Result<String, GuardError> {
        let ColumnDef { name, data_type, options } = column;
        let mut text = self.quoted_name(name)?;
        if *data_type != DataType::Unspecified {
            text = format!("{text} {}", type_name(data_type, self.backend)?);
            let is_text = matches!(
                data_type,
                DataType::Text | DataType::Varchar(_) | DataType::CharacterVarying(_) | DataType::Char(_)
            );
            // As SQLite compares texts, and as the columns of the views.
            if self.is_postgres() && is_text {
                text += " COLLATE \"C\"";
            }
        }
        for option in options {
            text = format!("{text} {}", self.column_option(&mut option.option)?);
        }
        Ok(text)
    }

    fn column_option(&mut self, option: &mut ColumnOption) -> Result<String, GuardError> {
        Ok(match option {
            ColumnOption::Null => "NULL".to_owned(),
            ColumnOption::NotNull => "NOT NULL".to_owned(),
            ColumnOption::PrimaryKey(_) => "PRIMARY KEY".to_owned(),
            ColumnOption::Unique(_) => "UNIQUE".to_owned(),
            ColumnOption::Default(value) => {
                // A default can't refer to columns.
                let hidden = std::mem::take(&mut self.scopes);
                self.expr(value)?;
                self.scopes = hidden;
                format!("DEFAULT ({value})")
            }
            ColumnOption::Check(check) => self.check(check)?,
            ColumnOption::ForeignKey(key) => self.references(key)?,
            ColumnOption::Collation(name) if !self.is_postgres() => {
                let name = checked_name(self.backend, single(name)?)?.to_ascii_uppercase();
                refuse_if("this collation", !["NOCASE", "BINARY", "RTRIM"].contains(&name.as_str()))?;
                format!("COLLATE {name}")
            }
            ColumnOption::DialectSpecific(tokens)
                if matches!(tokens.as_slice(), [Token::Word(word)] if word.keyword == Keyword::AUTOINCREMENT)
                    && !self.is_postgres() =>
            {
                "AUTOINCREMENT".to_owned()
            }
            ColumnOption::Generated {
                generated_as: _,
                sequence_options: None,
                generation_expr: None,
                generation_expr_mode: None,
                generated_keyword: true,
            } if self.is_postgres() => "GENERATED BY DEFAULT AS IDENTITY".to_owned(),
            _ => return unsupported("this column option"),
        })
    }

    /// The SQL of a constraint, without its name: nothing can refer to it.
    fn constraint(&mut self, constraint: &mut TableConstraint) -> Result<String, GuardError> {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                Ok(format!("PRIMARY KEY ({})", self.index_columns(&mut key.columns)?))
            }
            TableConstraint::Unique(key) => Ok(format!("UNIQUE ({})", self.index_columns(&mut key.columns)?)),
            TableConstraint::Check(check) => self.check(check),
            TableConstraint::ForeignKey(key) => {
                let known = self.defined().map(|table| table.columns.clone()).unwrap_or_default();
                let columns = separated(&key.columns, |name| self.known_column(name, &known))?;
                Ok(format!("FOREIGN KEY ({columns}) {}", self.references(key)?))
            }
            _ => unsupported("this constraint"),
        }
    }

    fn check(&mut self, check: &mut CheckConstraint) -> Result<String, GuardError> {
        self.expr(&mut check.expr)?;
        Ok(format!("CHECK ({})", check.expr))
    }

    /// The table that is being defined.
    fn defined(&self) -> Option<&Relation> {
        self.scopes.first()?.relations.first()
    }

    fn references(&mut self, key: &ForeignKeyConstraint) -> Result<String, GuardError> {
        let table = self.own_name(&key.foreign_table)?;
        // On SQLite a foreign key refers to a table in the same file, and takes no schema.
        let mut text = if self.is_postgres() { self.own_text(&table) } else { self.quoted(&table) };
        if !key.referred_columns.is_empty() {
            let known = match self.defined() {
                Some(defined) if defined.name == table => defined.columns.clone(),
                _ => self.own_columns(&table)?,
            };
            let columns = separated(&key.referred_columns, |name| self.known_column(name, &known))?;
            text = format!("{text} ({columns})");
        }
        for (word, action) in [("DELETE", key.on_delete), ("UPDATE", key.on_update)] {
            if let Some(action) = action {
                text = format!("{text} ON {word} {action}");
            }
        }
        Ok(format!("REFERENCES {text}"))
    }

    fn create_index(&mut self, index: &mut CreateIndex) -> Result<String, GuardError> {
        let clauses = "an option of this CREATE INDEX";
        only!(
            clauses,
            index,
            plain::create_index()?,
            name,
            table_name,
            columns,
            unique,
            if_not_exists,
            predicate
        );
        let CreateIndex { name, table_name, columns, unique, if_not_exists: if_new, predicate, .. } = index;
        let Some(name) = name else { return unsupported("an index without a name") };
        let (name, table) = (self.own_name(name)?, self.own_name(table_name)?);
        // SQLite takes the schema before the index's name, PostgreSQL before the table's.
        let (index, on) = if self.is_postgres() {
            (self.quoted(&name), self.own_text(&table))
        } else {
            (self.own_text(&name), self.quoted(&table))
        };
        let known = self.own_columns(&table)?;
        self.enter_table(&table, known);
        let columns = self.index_columns(columns)?;
        let condition = self.condition(predicate)?;
        self.scopes.pop();
        let unique = if *unique { "UNIQUE " } else { "" };
        Ok(format!("CREATE {unique}INDEX {}{index} ON {on} ({columns}){condition}", if_not_exists(*if_new)))
    }

    fn index_columns(&mut self, columns: &mut [IndexColumn]) -> Result<String, GuardError> {
        separated(columns, |IndexColumn { column, operator_class }| {
            refuse_if("an operator class", operator_class.is_some())?;
            direction(column)?;
            self.expr(&mut column.expr)?;
            Ok(column.to_string())
        })
    }

    fn alter(&mut self, table: &str, operation: &mut AlterTableOperation) -> Result<String, GuardError> {
        match operation {
            AlterTableOperation::AddColumn {
                column_keyword: _,
                if_not_exists: if_new,
                column_def,
                column_position: None,
            } => {
                refuse_if("IF NOT EXISTS here", *if_new && !self.is_postgres())?;
                let mut columns = self.own_columns(table)?;
                columns.push(Column::new(&checked_name(self.backend, &column_def.name)?));
                self.enter_table(table, columns);
                let column = self.column_definition(column_def)?;
                self.scopes.pop();
                Ok(format!("ADD COLUMN {}{column}", if_not_exists(*if_new)))
            }
            AlterTableOperation::DropColumn {
                has_column_keyword: _,
                column_names,
                if_exists: false,
                drop_behavior: None,
            } => {
                let [name] = column_names.as_slice() else { return unsupported("DROP of several columns") };
                Ok(format!("DROP COLUMN {}", self.own_column(table, name)?))
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                let (old, new) =
                    (self.own_column(table, old_column_name)?, self.quoted_name(new_column_name)?);
                Ok(format!("RENAME COLUMN {old} TO {new}"))
            }
            AlterTableOperation::RenameTable {
                table_name: RenameTableNameKind::As(name) | RenameTableNameKind::To(name),
            } => Ok(format!("RENAME TO {}", self.renamed(name)?)),
            _ => unsupported("this change of a table"),
        }
    }

    fn own_column(&self, table: &str, name: &Ident) -> Result<String, GuardError> {
        self.known_column(name, &self.own_columns(table)?)
    }

    fn renamed(&self, name: &ObjectName) -> Result<String, GuardError> {
        Ok(self.quoted(&self.own_name(name)?))
    }
}
