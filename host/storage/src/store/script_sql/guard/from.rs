//! Writes the FROM clause: tables, subqueries, functions and joins.

use sqlparser::ast::{Join, JoinConstraint, JoinOperator, TableFactor, TableWithJoins};

use super::names::single;
use super::scope::Relation;
use super::{Emitter, GuardError, refuse_if, unsupported};

impl Emitter<'_> {
    pub(super) fn joined(&mut self, tables: &TableWithJoins) -> Result<(), GuardError> {
        let start = self.scope()?.relations.len();
        self.factor(&tables.relation)?;
        for join in &tables.joins {
            let Join { relation, global, join_operator } = join;
            refuse_if("GLOBAL", *global)?;
            let (word, constraint) = match join_operator {
                JoinOperator::Join(c) | JoinOperator::Inner(c) => ("JOIN", c),
                JoinOperator::Left(c) | JoinOperator::LeftOuter(c) => ("LEFT JOIN", c),
                JoinOperator::Right(c) | JoinOperator::RightOuter(c) => ("RIGHT JOIN", c),
                JoinOperator::FullOuter(c) => ("FULL JOIN", c),
                JoinOperator::CrossJoin(c) => ("CROSS JOIN", c),
                _ => return unsupported("this join"),
            };
            self.push(if matches!(constraint, JoinConstraint::Natural) { " NATURAL " } else { " " });
            self.push(word);
            self.push(" ");
            let middle = self.scope()?.relations.len();
            self.factor(relation)?;
            match constraint {
                JoinConstraint::On(condition) => {
                    self.push(" ON ");
                    self.expr(condition)?;
                }
                JoinConstraint::Using(columns) => {
                    let names = columns.iter().map(|name| self.checked_name(single(name)?));
                    let names = names.collect::<Result<Vec<_>, _>>()?;
                    self.push(" USING");
                    self.name_list(&names);
                    self.merge(start, middle, &names)?;
                }
                JoinConstraint::Natural => {
                    let names = self.common(start, middle)?;
                    self.merge(start, middle, &names)?;
                }
                JoinConstraint::None => {}
            }
        }
        Ok(())
    }

    /// The columns that both sides of a join have. The left side is the relations from `start`, the right side those
    /// from `middle`.
    fn common(&mut self, start: usize, middle: usize) -> Result<Vec<String>, GuardError> {
        let relations = &self.scope()?.relations;
        let names = |range: &[Relation]| -> Vec<String> {
            range.iter().flat_map(|r| &r.columns).filter_map(|column| column.name.clone()).collect()
        };
        let (left, right) = (names(&relations[start..middle]), names(&relations[middle..]));
        Ok(left.into_iter().filter(|name| right.iter().any(|other| self.same_name(name, other))).collect())
    }

    /// Merges the columns of both sides that have these names (USING, NATURAL).
    fn merge(&mut self, start: usize, middle: usize, names: &[String]) -> Result<(), GuardError> {
        let common = self.common(start, middle)?;
        for name in names {
            if !common.iter().any(|other| self.same_name(name, other)) {
                return Err(GuardError::Column(name.clone()));
            }
            if !self.scope()?.merged.contains(name) {
                self.scope()?.merged.push(name.clone());
            }
        }
        Ok(())
    }

    fn factor(&mut self, factor: &TableFactor) -> Result<(), GuardError> {
        self.deeper(|emit| match factor {
            TableFactor::Table {
                name,
                alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
            } => {
                refuse_if("a hint", !with_hints.is_empty() || !index_hints.is_empty())?;
                refuse_if("TABLESAMPLE", sample.is_some())?;
                refuse_if("this table", version.is_some() || !partitions.is_empty() || json_path.is_some())?;
                match args {
                    None => {
                        refuse_if("WITH ORDINALITY", *with_ordinality)?;
                        emit.relation(name, alias.as_ref())
                    }
                    Some(args) => {
                        refuse_if("a setting", args.settings.is_some())?;
                        emit.table_function(name, &args.args, *with_ordinality, alias.as_ref())
                    }
                }
            }
            TableFactor::Derived { lateral, subquery, alias, sample } => {
                refuse_if("TABLESAMPLE", sample.is_some())?;
                let written = emit.next_alias();
                emit.push(if *lateral { "LATERAL (" } else { "(" });
                // Without LATERAL a subquery does not see the tables before it.
                let hidden = if *lateral { None } else { Some(std::mem::take(emit.scope()?)) };
                let columns = emit.query(subquery)?;
                if let Some(hidden) = hidden {
                    *emit.scope()? = hidden;
                }
                emit.push(")");
                emit.aliased(Relation::new(String::new(), written, columns), alias.as_ref())
            }
            // Functions see the tables before them even without LATERAL.
            TableFactor::Function { lateral: _, name, args, with_ordinality, alias } => {
                emit.table_function(name, args, *with_ordinality, alias.as_ref())
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                refuse_if("an alias of a join", alias.is_some())?;
                emit.push("(");
                emit.joined(table_with_joins)?;
                emit.push(")");
                Ok(())
            }
            _ => unsupported("this kind of table"),
        })
    }
}
