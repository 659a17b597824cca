//! Writes CREATE TABLE, CREATE INDEX, ALTER TABLE and DROP for own tables. All options that are not written here are
//! refused.

use sqlparser::ast::{
    AlterTableOperation, CheckConstraint, ColumnDef, ColumnOption, CreateIndex, CreateTable,
    CreateTableOptions, DataType, ForeignKeyConstraint, HiveDistributionStyle, Ident, IndexColumn,
    ObjectName, ObjectType, ReferentialAction, RenameTableNameKind, Statement, TableConstraint,
};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use super::names::single;
use super::scope::{Column, Columns, Relation, Scope};
use super::{Emitter, GuardError, refuse_if, unsupported};

impl Emitter<'_> {
    /// Writes the statement. Returns whether it creates a table or an index.
    pub(super) fn definition(&mut self, statement: &Statement) -> Result<bool, GuardError> {
        match statement {
            Statement::CreateTable(table) => self.create_table(table).map(|()| true),
            Statement::CreateIndex(index) => self.create_index(index).map(|()| true),
            Statement::AlterTable(alter) => {
                refuse_if(
                    "this ALTER TABLE",
                    alter.if_exists
                        || alter.only
                        || alter.location.is_some()
                        || alter.on_cluster.is_some()
                        || alter.table_type.is_some(),
                )?;
                self.push("ALTER TABLE ");
                let table = self.write_own(&alter.name)?;
                let [operation] = alter.operations.as_slice() else {
                    return unsupported("several changes in one ALTER TABLE");
                };
                self.alter(&table, operation).map(|()| false)
            }
            Statement::Drop {
                object_type,
                if_exists,
                names,
                cascade,
                restrict: _,
                purge,
                temporary,
                table,
            } => {
                refuse_if("this DROP", *cascade || *purge || *temporary || table.is_some())?;
                let word = match object_type {
                    ObjectType::Table => "DROP TABLE ",
                    ObjectType::Index => "DROP INDEX ",
                    _ => return unsupported("DROP of anything but a table or an index"),
                };
                let [name] = names.as_slice() else { return unsupported("DROP of several tables") };
                self.push(word);
                self.push(if *if_exists { "IF EXISTS " } else { "" });
                self.write_own(name).map(|_| false)
            }
            _ => unsupported(
                "this statement (allowed are SELECT, and on your own tables INSERT, UPDATE, DELETE, CREATE, ALTER, DROP)",
            ),
        }
    }

    fn create_table(&mut self, table: &CreateTable) -> Result<(), GuardError> {
        refuse_if("CREATE OR REPLACE", table.or_replace)?;
        refuse_if("a temporary or external table", table.temporary || table.unlogged || table.external)?;
        refuse_if("CREATE TABLE AS (create it, then INSERT … SELECT)", table.query.is_some())?;
        refuse_if("CREATE TABLE LIKE", table.like.is_some() || table.clone.is_some())?;
        refuse_if(
            "this CREATE TABLE",
            !matches!(table.hive_distribution, HiveDistributionStyle::NONE)
                || !matches!(table.table_options, CreateTableOptions::None)
                || table.partition_by.is_some()
                || table.partition_of.is_some()
                || table.inherits.is_some()
                || table.on_commit.is_some()
                || table.location.is_some(),
        )?;
        refuse_if("a table without columns", table.columns.is_empty())?;
        refuse_if("STRICT or WITHOUT ROWID", self.is_postgres() && (table.strict || table.without_rowid))?;
        self.push("CREATE TABLE ");
        self.push(if table.if_not_exists { "IF NOT EXISTS " } else { "" });
        let name = self.write_own(&table.name)?;
        let columns = table.columns.iter().map(|column| Ok(Column::new(&self.checked_name(&column.name)?)));
        let columns = columns.collect::<Result<Columns, GuardError>>()?;
        self.enter_table(&name, columns);
        self.push(" (");
        self.list(&table.columns, Self::column)?;
        for constraint in &table.constraints {
            self.push(", ");
            self.constraint(constraint)?;
        }
        self.push(")");
        self.scopes.pop();
        if table.strict && table.without_rowid {
            self.push(" STRICT, WITHOUT ROWID");
        } else if table.strict {
            self.push(" STRICT");
        } else if table.without_rowid {
            self.push(" WITHOUT ROWID");
        }
        Ok(())
    }

    /// Makes the columns of the table that is being defined visible, without a table name before them.
    fn enter_table(&mut self, name: &str, columns: Columns) {
        let relation = Relation::new(name.to_owned(), String::new(), columns);
        self.scopes.push(Scope { relations: vec![relation], ..Scope::default() });
    }

    /// The columns of the table that is being defined.
    fn defined_columns(&self) -> Columns {
        let relation = self.scopes.first().and_then(|scope| scope.relations.first());
        relation.map(|relation| relation.columns.clone()).unwrap_or_default()
    }

    fn defined_column(&mut self, name: &Ident) -> Result<(), GuardError> {
        let columns = self.defined_columns();
        self.known_column(name, &columns)
    }

    fn column(&mut self, column: &ColumnDef) -> Result<(), GuardError> {
        let ColumnDef { name, data_type, options } = column;
        self.name(name)?;
        if !matches!(data_type, DataType::Unspecified) {
            let text = self.type_name(data_type)?;
            self.push(" ");
            self.push(&text);
            // As SQLite compares texts, and as the columns of the views.
            if self.is_postgres()
                && matches!(
                    data_type,
                    DataType::Text | DataType::Varchar(_) | DataType::CharacterVarying(_) | DataType::Char(_)
                )
            {
                self.push(" COLLATE \"C\"");
            }
        }
        for option in options {
            self.column_option(&option.option)?;
        }
        Ok(())
    }

    fn column_option(&mut self, option: &ColumnOption) -> Result<(), GuardError> {
        match option {
            ColumnOption::Null => self.push(" NULL"),
            ColumnOption::NotNull => self.push(" NOT NULL"),
            ColumnOption::PrimaryKey(_) => self.push(" PRIMARY KEY"),
            ColumnOption::Unique(_) => self.push(" UNIQUE"),
            ColumnOption::Default(value) => {
                // A default can't refer to columns.
                let hidden = std::mem::take(&mut self.scopes);
                self.push(" DEFAULT (");
                self.expr(value)?;
                self.push(")");
                self.scopes = hidden;
            }
            ColumnOption::Check(CheckConstraint { expr, .. }) => {
                self.push(" CHECK (");
                self.expr(expr)?;
                self.push(")");
            }
            ColumnOption::ForeignKey(key) => self.references(key)?,
            ColumnOption::Collation(name) if !self.is_postgres() => {
                let name = self.checked_name(single(name)?)?.to_ascii_uppercase();
                refuse_if("this collation", !["NOCASE", "BINARY", "RTRIM"].contains(&name.as_str()))?;
                self.push(&format!(" COLLATE {name}"));
            }
            ColumnOption::DialectSpecific(tokens)
                if matches!(tokens.as_slice(), [Token::Word(word)] if word.keyword == Keyword::AUTOINCREMENT)
                    && !self.is_postgres() =>
            {
                self.push(" AUTOINCREMENT");
            }
            ColumnOption::Generated {
                generated_as: _,
                sequence_options: None,
                generation_expr: None,
                generation_expr_mode: None,
                generated_keyword: true,
            } if self.is_postgres() => self.push(" GENERATED BY DEFAULT AS IDENTITY"),
            _ => return unsupported("this column option"),
        }
        Ok(())
    }

    /// Writes a constraint, without its name: nothing can refer to it.
    fn constraint(&mut self, constraint: &TableConstraint) -> Result<(), GuardError> {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                self.push("PRIMARY KEY (");
                self.list(&key.columns, Self::index_column)?;
                self.push(")");
            }
            TableConstraint::Unique(key) => {
                self.push("UNIQUE (");
                self.list(&key.columns, Self::index_column)?;
                self.push(")");
            }
            TableConstraint::Check(CheckConstraint { expr, .. }) => {
                self.push("CHECK (");
                self.expr(expr)?;
                self.push(")");
            }
            TableConstraint::ForeignKey(key) => {
                self.push("FOREIGN KEY (");
                self.list(&key.columns, Self::defined_column)?;
                self.push(")");
                self.references(key)?;
            }
            _ => return unsupported("this constraint"),
        }
        Ok(())
    }

    fn references(&mut self, key: &ForeignKeyConstraint) -> Result<(), GuardError> {
        self.push(" REFERENCES ");
        // On SQLite a foreign key refers to a table in the same file, and takes no schema.
        let table = self.write_referenced_table(&key.foreign_table)?;
        if !key.referred_columns.is_empty() {
            let here = self.scopes.first().and_then(|scope| scope.relations.first());
            let columns = match here {
                Some(relation) if relation.name == table => relation.columns.clone(),
                _ => self.own_columns(&table)?,
            };
            self.push(" (");
            self.list(&key.referred_columns, |emit, name| emit.known_column(name, &columns))?;
            self.push(")");
        }
        for (word, action) in [(" ON DELETE ", key.on_delete), (" ON UPDATE ", key.on_update)] {
            let Some(action) = action else { continue };
            self.push(word);
            self.push(match action {
                ReferentialAction::Restrict => "RESTRICT",
                ReferentialAction::Cascade => "CASCADE",
                ReferentialAction::SetNull => "SET NULL",
                ReferentialAction::NoAction => "NO ACTION",
                ReferentialAction::SetDefault => "SET DEFAULT",
            });
        }
        Ok(())
    }

    /// Writes the name of a referenced own table: with its schema on PostgreSQL, without on SQLite.
    fn write_referenced_table(&mut self, name: &ObjectName) -> Result<String, GuardError> {
        if self.is_postgres() { self.write_own(name) } else { self.write_own_name(name) }
    }

    fn create_index(&mut self, index: &CreateIndex) -> Result<(), GuardError> {
        let CreateIndex {
            name,
            table_name,
            using,
            columns,
            unique,
            concurrently,
            r#async,
            if_not_exists,
            include,
            nulls_distinct,
            with,
            predicate,
            index_options,
            alter_options,
        } = index;
        refuse_if(
            "this CREATE INDEX",
            using.is_some()
                || *concurrently
                || *r#async
                || !include.is_empty()
                || nulls_distinct.is_some()
                || !with.is_empty()
                || !index_options.is_empty()
                || !alter_options.is_empty(),
        )?;
        let Some(name) = name else { return unsupported("an index without a name") };
        self.push(if *unique { "CREATE UNIQUE INDEX " } else { "CREATE INDEX " });
        self.push(if *if_not_exists { "IF NOT EXISTS " } else { "" });
        // SQLite takes the schema before the index's name, PostgreSQL before the table's.
        let table = if self.is_postgres() {
            self.write_own_name(name)?;
            self.push(" ON ");
            self.write_own(table_name)?
        } else {
            self.write_own(name)?;
            self.push(" ON ");
            self.write_own_name(table_name)?
        };
        let known = self.own_columns(&table)?;
        self.enter_table(&table, known);
        self.push(" (");
        self.list(columns, Self::index_column)?;
        self.push(")");
        if let Some(predicate) = predicate {
            self.push(" WHERE ");
            self.expr(predicate)?;
        }
        self.scopes.pop();
        Ok(())
    }

    fn index_column(&mut self, column: &IndexColumn) -> Result<(), GuardError> {
        refuse_if("an operator class", column.operator_class.is_some())?;
        self.order(&column.column)
    }

    fn alter(&mut self, table: &str, operation: &AlterTableOperation) -> Result<(), GuardError> {
        match operation {
            AlterTableOperation::AddColumn {
                column_keyword: _,
                if_not_exists,
                column_def,
                column_position: None,
            } => {
                refuse_if("IF NOT EXISTS here", *if_not_exists && !self.is_postgres())?;
                self.push(" ADD COLUMN ");
                self.push(if *if_not_exists { "IF NOT EXISTS " } else { "" });
                let mut columns = self.own_columns(table)?;
                columns.push(Column::new(&self.checked_name(&column_def.name)?));
                self.enter_table(table, columns);
                self.column(column_def)?;
                self.scopes.pop();
                Ok(())
            }
            AlterTableOperation::DropColumn {
                has_column_keyword: _,
                column_names,
                if_exists: false,
                drop_behavior: None,
            } => {
                let [name] = column_names.as_slice() else { return unsupported("DROP of several columns") };
                self.push(" DROP COLUMN ");
                let columns = self.own_columns(table)?;
                self.known_column(name, &columns)
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                self.push(" RENAME COLUMN ");
                let columns = self.own_columns(table)?;
                self.known_column(old_column_name, &columns)?;
                self.push(" TO ");
                self.name(new_column_name)
            }
            AlterTableOperation::RenameTable { table_name } => {
                let (RenameTableNameKind::As(name) | RenameTableNameKind::To(name)) = table_name;
                self.push(" RENAME TO ");
                self.write_own_name(name).map(drop)
            }
            _ => unsupported("this change of a table"),
        }
    }
}
