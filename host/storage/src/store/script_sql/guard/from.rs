//! Rewrites the FROM clause: tables, subqueries, functions and joins.

use sqlparser::ast::{
    Ident, Join, JoinConstraint, JoinOperator, ObjectName, TableFactor, TableFunctionArgs, TableWithJoins,
};

use super::idents::{checked_name, same_name, single};
use super::scope::{Relation, output_names};
use super::{GuardError, Rewriter, refuse_if, unsupported};

/// A relation after FROM with this SQL.
pub(super) fn raw_table(text: String) -> TableFactor {
    TableFactor::Table {
        name: ObjectName::from(vec![Ident::new(text)]),
        alias: None,
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

impl Rewriter<'_> {
    pub(super) fn joined(&mut self, tables: &mut TableWithJoins) -> Result<(), GuardError> {
        let start = self.scope()?.relations.len();
        self.factor(&mut tables.relation)?;
        for Join { relation, global, join_operator } in &mut tables.joins {
            refuse_if("GLOBAL", *global)?;
            let (JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint)
            | JoinOperator::Right(constraint)
            | JoinOperator::RightOuter(constraint)
            | JoinOperator::FullOuter(constraint)
            | JoinOperator::CrossJoin(constraint)) = join_operator
            else {
                return unsupported("this join");
            };
            let middle = self.scope()?.relations.len();
            self.factor(relation)?;
            match constraint {
                JoinConstraint::On(condition) => drop(self.expr(condition)?),
                JoinConstraint::Using(columns) => {
                    let names = columns.iter().map(|name| checked_name(self.backend, single(name)?));
                    let names = names.collect::<Result<Vec<_>, _>>()?;
                    let quoted =
                        names.iter().map(|name| ObjectName::from(vec![Ident::new(self.quoted(name))]));
                    *columns = quoted.collect();
                    self.merge(start, middle, names)?;
                }
                JoinConstraint::Natural => {
                    let names = self.common_columns(start, middle)?;
                    self.merge(start, middle, names)?;
                }
                JoinConstraint::None => {}
            }
        }
        Ok(())
    }

    /// The columns that both sides of a join have. The left side is the relations from `start`, the right side those
    /// from `middle`.
    fn common_columns(&mut self, start: usize, middle: usize) -> Result<Vec<String>, GuardError> {
        let backend = self.backend;
        let relations = &self.scope()?.relations;
        let names =
            |range: &[Relation]| range.iter().flat_map(|r| output_names(&r.columns)).collect::<Vec<_>>();
        let (mut left, right) = (names(&relations[start..middle]), names(&relations[middle..]));
        left.retain(|name| right.iter().any(|other| same_name(backend, name, other)));
        Ok(left)
    }

    /// Merges the columns of both sides that have these names (USING, NATURAL).
    fn merge(&mut self, start: usize, middle: usize, names: Vec<String>) -> Result<(), GuardError> {
        let (backend, common) = (self.backend, self.common_columns(start, middle)?);
        for name in names {
            if !common.iter().any(|other| same_name(backend, &name, other)) {
                return Err(GuardError::Column(name));
            }
            if !self.scope()?.merged.contains(&name) {
                self.scope()?.merged.push(name);
            }
        }
        Ok(())
    }

    fn factor(&mut self, factor: &mut TableFactor) -> Result<(), GuardError> {
        self.deeper(|rewriter| {
            let text = match factor {
                TableFactor::Table {
                    name,
                    alias,
                    args,
                    with_hints,
                    version: None,
                    with_ordinality,
                    partitions,
                    json_path: None,
                    sample: None,
                    index_hints,
                } if with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty() => match args {
                    None if !*with_ordinality => rewriter.relation(name, alias.as_ref())?,
                    Some(TableFunctionArgs { args, settings: None }) => {
                        rewriter.table_function(name, args, *with_ordinality, alias.as_ref())?
                    }
                    _ => return unsupported("this table"),
                },
                TableFactor::Derived { lateral, subquery, alias, sample: None } => {
                    let written = rewriter.next_alias();
                    // Without LATERAL a subquery does not see the tables before it.
                    let hidden = if *lateral { None } else { Some(std::mem::take(rewriter.scope()?)) };
                    let columns = rewriter.query(subquery)?;
                    if let Some(hidden) = hidden {
                        *rewriter.scope()? = hidden;
                    }
                    let alias = rewriter.aliased(Relation::new("", written, columns), alias.as_ref())?;
                    format!("{}({subquery}){alias}", if *lateral { "LATERAL " } else { "" })
                }
                // Functions see the tables before them even without LATERAL.
                TableFactor::Function { lateral: _, name, args, with_ordinality, alias } => {
                    rewriter.table_function(name, args, *with_ordinality, alias.as_ref())?
                }
                TableFactor::NestedJoin { table_with_joins, alias: None } => {
                    return rewriter.joined(table_with_joins);
                }
                _ => return unsupported("this kind of table"),
            };
            *factor = raw_table(text);
            Ok(())
        })
    }
}
