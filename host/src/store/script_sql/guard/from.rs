//! What stands after FROM: tables, subqueries, functions, and how they are joined.

use sqlparser::ast::{Join, JoinConstraint, JoinOperator, TableFactor, TableWithJoins};

use super::names::single;
use super::scope::Relation;
use super::{Emit, Refusal, absent, unsupported};

impl Emit<'_> {
    pub(super) fn joined(&mut self, tables: &TableWithJoins) -> Result<(), Refusal> {
        let start = self.scope()?.relations.len();
        self.factor(&tables.relation)?;
        for join in &tables.joins {
            let Join { relation, global, join_operator } = join;
            absent("GLOBAL", *global)?;
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
                    let names = columns.iter().map(|name| self.plain(single(name)?));
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

    /// The columns that both sides of a join have; the relations from `middle` on are the right side.
    fn common(&mut self, start: usize, middle: usize) -> Result<Vec<String>, Refusal> {
        let relations = &self.scope()?.relations;
        let names = |range: &[Relation]| -> Vec<String> {
            range.iter().flat_map(|r| &r.columns).filter_map(|column| column.name.clone()).collect()
        };
        let (left, right) = (names(&relations[start..middle]), names(&relations[middle..]));
        Ok(left.into_iter().filter(|name| right.iter().any(|other| self.same(name, other))).collect())
    }

    /// Makes one column of two that have the same name.
    fn merge(&mut self, start: usize, middle: usize, names: &[String]) -> Result<(), Refusal> {
        let common = self.common(start, middle)?;
        for name in names {
            if !common.iter().any(|other| self.same(name, other)) {
                return Err(Refusal::Column(name.clone()));
            }
            if !self.scope()?.merged.contains(name) {
                self.scope()?.merged.push(name.clone());
            }
        }
        Ok(())
    }

    fn factor(&mut self, factor: &TableFactor) -> Result<(), Refusal> {
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
                absent("a hint", !with_hints.is_empty() || !index_hints.is_empty())?;
                absent("TABLESAMPLE", sample.is_some())?;
                absent("this table", version.is_some() || !partitions.is_empty() || json_path.is_some())?;
                match args {
                    None => {
                        absent("WITH ORDINALITY", *with_ordinality)?;
                        emit.relation(name, alias.as_ref())
                    }
                    Some(args) => {
                        absent("a setting", args.settings.is_some())?;
                        emit.table_function(name, &args.args, *with_ordinality, alias.as_ref())
                    }
                }
            }
            TableFactor::Derived { lateral, subquery, alias, sample } => {
                absent("TABLESAMPLE", sample.is_some())?;
                let written = emit.next_alias();
                emit.push(if *lateral { "LATERAL (" } else { "(" });
                // Without LATERAL it does not see the tables before it.
                let hidden = if *lateral { None } else { Some(std::mem::take(emit.scope()?)) };
                let columns = emit.query(subquery)?;
                if let Some(hidden) = hidden {
                    *emit.scope()? = hidden;
                }
                emit.push(")");
                emit.aliased(Relation::new(String::new(), written, columns), alias.as_ref())
            }
            // Functions see the tables before them with and without the word.
            TableFactor::Function { lateral: _, name, args, with_ordinality, alias } => {
                emit.table_function(name, args, *with_ordinality, alias.as_ref())
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                absent("an alias of a join", alias.is_some())?;
                emit.push("(");
                emit.joined(table_with_joins)?;
                emit.push(")");
                Ok(())
            }
            _ => unsupported("this kind of table"),
        })
    }
}
