//! Conditions and orders on `records` that no index helps with as they stand, said again so that one does. What is
//! added follows from what is there, so no row more or less is found.
//! Where a statement names its columns, `records` has a lean form: on SQLite without the CID, whose expression is long to
//! prepare, on PostgreSQL with the number of the collection, which a `*` must not show.
//!
//! - `uri = X`: the URI is put together of three columns, so those three are compared with the parts of X as well.
//! - `collection = X` on PostgreSQL: the number of the collection is compared as well, which makes it a constant; else the
//!   order of an index on it can't be used.
//! - `ORDER BY indexed_at`: `indexed_us` is the same time as a number, and has an index.

use sqlparser::ast::{
    Expr, GroupByExpr, Ident, OrderByExpr, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins,
    Value,
};
use sqlparser::tokenizer::Token;

use super::super::super::Backend;
use super::super::VIEW_SCHEMA;
use super::names::single;
use super::{Emit, Refusal};

/// Whether the lean form of `records` will do: no `*` but that of `count(*)`, and on SQLite no CID.
pub(super) fn is_lean(tokens: &[Token], backend: Backend) -> bool {
    let mut meant = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).peekable();
    let mut before = None;
    while let Some(token) = meant.next() {
        match token {
            Token::Mul => {
                let in_brackets = before == Some(&Token::LParen) && meant.peek() == Some(&&Token::RParen);
                if !in_brackets {
                    return false;
                }
            }
            Token::Word(word) if backend == Backend::Sqlite && word.value.eq_ignore_ascii_case("cid") => {
                return false;
            }
            _ => {}
        }
        before = Some(token);
    }
    true
}

/// A table of a FROM, by the name that columns have in front.
#[derive(Debug)]
pub(super) struct Source {
    name: String,
    is_records: bool,
}

impl Emit<'_> {
    /// What a FROM makes visible.
    pub(super) fn sources(&self, tables: &[TableWithJoins]) -> Vec<Source> {
        let mut found = Vec::new();
        for table in tables {
            self.source(&table.relation, &mut found);
            for join in &table.joins {
                self.source(&join.relation, &mut found);
            }
        }
        found
    }

    fn source(&self, factor: &TableFactor, found: &mut Vec<Source>) {
        let (name, is_records) = match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let Ok(relation) = single(name).and_then(|name| self.plain(name)) else { return };
                let relation = relation.to_ascii_lowercase();
                let is_records = relation == "records" && !self.ctes.contains(&relation);
                let name = alias.as_ref().map_or(Ok(relation), |alias| self.plain(&alias.name));
                (name, is_records)
            }
            TableFactor::NestedJoin { table_with_joins, .. } => {
                found.extend(self.sources(std::slice::from_ref(table_with_joins)));
                return;
            }
            // Whatever it is, it is not the view; unnamed ones still count.
            _ => (Ok(String::new()), false),
        };
        found.push(Source { name: name.unwrap_or_default().to_ascii_lowercase(), is_records });
    }

    /// The text in front of the columns of `records`, if `expr` is its column of that name.
    fn column_of_records(&self, expr: &Expr, column: &str) -> Option<String> {
        let is = |name: &Ident| self.plain(name).is_ok_and(|plain| plain.eq_ignore_ascii_case(column));
        match expr {
            Expr::Identifier(name) if is(name) => match self.scopes.last()?.as_slice() {
                [Source { is_records: true, .. }] => Some(String::new()),
                _ => None,
            },
            Expr::CompoundIdentifier(names) => {
                let [table, name] = names.as_slice() else { return None };
                let table = self.plain(table).ok()?;
                let lower = table.to_ascii_lowercase();
                let mut outwards = self.scopes.iter().rev().flatten();
                let source = outwards.find(|source| source.name == lower)?;
                (is(name) && source.is_records).then(|| format!("{}.", self.quoted(&table)))
            }
            _ => None,
        }
    }

    /// Writes `left = right` with its parts, if one side is the URI of a record and the other something simple.
    /// Otherwise writes nothing and returns false.
    pub(super) fn uri_equals(&mut self, left: &Expr, right: &Expr) -> Result<bool, Refusal> {
        let sides = [(left, right), (right, left)];
        let found = sides.into_iter().find_map(|(column, other)| {
            let before = self.column_of_records(column, "uri")?;
            self.is_text(other).then_some((before, other))
        });
        let Some((before, other)) = found else { return Ok(false) };
        let start = self.out.len();
        self.expr(other)?;
        let uri = self.out.split_off(start);
        let [uri_column, did, collection, rkey] =
            ["uri", "did", "collection", "rkey"].map(|name| format!("{before}{}", self.quoted(name)));
        let [is_did, is_collection, is_rkey] = parts(&uri, self.is_postgres());
        self.push(&format!(
            "({uri_column} = {uri} AND {did} = {is_did} AND {collection} = {is_collection} AND {rkey} = {is_rkey})"
        ));
        Ok(true)
    }

    /// Writes `left = right` with the number of the collection, if one side is the collection of a record and the other a
    /// known text, on PostgreSQL. Otherwise writes nothing and returns false.
    pub(super) fn collection_equals(&mut self, left: &Expr, right: &Expr) -> Result<bool, Refusal> {
        if !self.is_postgres() || !self.lean {
            return Ok(false);
        }
        let sides = [(left, right), (right, left)];
        let found = sides.into_iter().find_map(|(column, other)| {
            let before = self.column_of_records(column, "collection")?;
            (matches!(other, Expr::Value(_)) && self.is_text(other)).then_some((before, other))
        });
        let Some((before, other)) = found else { return Ok(false) };
        let start = self.out.len();
        self.expr(other)?;
        let nsid = self.out.split_off(start);
        self.push(&format!(
            "({before}\"collection\" = {nsid} AND {before}\"collection_id\" = \
             (SELECT id FROM {VIEW_SCHEMA}.collection_ids WHERE nsid = {nsid}))"
        ));
        Ok(true)
    }

    /// A column, or a text that is known.
    fn is_text(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
            Expr::Value(value) => match &value.value {
                Value::SingleQuotedString(_) => true,
                Value::Placeholder(name) => {
                    let number = name.strip_prefix('$').and_then(|n| n.parse::<usize>().ok());
                    let value = number.and_then(|n| self.params.get(n.checked_sub(1)?));
                    value.is_some_and(serde_json::Value::is_string)
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Writes an item of an ORDER BY as the number it stands for, if that is the same order; `sources` are those of the
    /// SELECT that is ordered. Otherwise writes nothing and returns false.
    pub(super) fn quick_order(&mut self, item: &OrderByExpr, sources: Option<Vec<Source>>) -> bool {
        let Some(sources) = sources else { return false };
        self.scopes.push(sources);
        let before = self.column_of_records(&item.expr, "indexed_at");
        self.scopes.pop();
        let Some(before) = before else { return false };
        let column = self.quoted("indexed_us");
        self.push(&format!("{before}{column}"));
        true
    }

    /// The sources of a query whose ORDER BY may name columns that it does not give back.
    pub(super) fn orderable(&self, query: &Query) -> Option<Vec<Source>> {
        let SetExpr::Select(select) = &*query.body else { return None };
        let Select { distinct: None, projection, from, group_by, having: None, .. } = &**select else {
            return None;
        };
        let GroupByExpr::Expressions(groups, _) = group_by else { return None };
        // An alias would come first.
        let renames = projection.iter().any(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => {
                ["indexed_at", "indexed_us"].iter().any(|name| alias.value.eq_ignore_ascii_case(name))
            }
            _ => false,
        });
        (groups.is_empty() && !renames && !has_aggregate(projection)).then(|| self.sources(from))
    }
}

/// Whether a SELECT without groups makes one row of many: then there is nothing to order.
fn has_aggregate(items: &[SelectItem]) -> bool {
    items.iter().any(|item| {
        matches!(
            item,
            SelectItem::UnnamedExpr(Expr::Function(_))
                | SelectItem::ExprWithAlias { expr: Expr::Function(_), .. }
        )
    })
}

/// The account, the collection and the key in the text of a record's URI.
fn parts(uri: &str, postgres: bool) -> [String; 3] {
    if postgres {
        return [3, 4, 5].map(|n| format!("split_part({uri}, '/', {n})"));
    }
    let tail = format!("substr({uri}, 6)");
    let behind = format!("substr({tail}, instr({tail}, '/') + 1)");
    [
        format!("substr({tail}, 1, instr({tail}, '/') - 1)"),
        format!("substr({behind}, 1, instr({behind}, '/') - 1)"),
        format!("substr({behind}, instr({behind}, '/') + 1)"),
    ]
}
