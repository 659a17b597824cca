//! Rewrites conditions and orders on `records` and `record_refs` so that they can use an index. The rewritten statement returns the same
//! rows.
//!
//! - `uri = X`: the URI is computed from three columns, so these are also compared with the parts of X.
//! - `collection = X` on PostgreSQL: the id of the collection is also compared, and so it is for a URI. With the function
//!   `collection_id` the id is a constant when the statement is planned: only then is one partition of the table planned
//!   and read, and can the order of an index be used.
//! - `ORDER BY indexed_at`: sorts by `indexed_us` instead, the same time as a number, which has an index.
//!
//! A statement that names its columns uses the lean view of `records`: on SQLite it has no CID, whose expression takes
//! long to prepare; on PostgreSQL it also has the collection's id, which `*` must not include, and so has that of
//! `record_refs`.

use sqlparser::ast::{Expr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, Value};
use sqlparser::tokenizer::Token;

use super::super::VIEW_SCHEMA;
use super::idents::checked_name;
use super::scope::Cost;
use super::{GuardError, Rewriter, replace};
use crate::store::Backend;

/// Whether the statement can use the lean view of `records`: it has no `*` except in `count(*)`, and on SQLite no CID.
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
            // NATURAL would join on columns that only one of the two views has.
            Token::Word(word) if word.value.eq_ignore_ascii_case("natural") => return false,
            _ => {}
        }
        before = Some(token);
    }
    true
}

/// Factor for the cost of the value that a URI is compared with, because it is written several times.
const URI_REPEATS: u32 = 8;

impl Rewriter<'_> {
    /// The prefix of the columns of `records` or `record_refs`, if `expr` is its column of that name.
    fn rewritten_column(&self, expr: &Expr, column: &str) -> Option<String> {
        let is = |name: &Ident| {
            checked_name(self.backend, name).is_ok_and(|plain| plain.eq_ignore_ascii_case(column))
        };
        let found = match expr {
            Expr::Identifier(name) if is(name) => self.resolve_unqualified(name),
            Expr::CompoundIdentifier(names) => match names.as_slice() {
                [table, name] if is(name) => self.resolve_qualified(table, name),
                _ => return None,
            },
            _ => return None,
        };
        // A name that can't be resolved is refused when it is rewritten.
        found.ok()?.of_rewritten
    }

    /// The SQL of `left = right` if it can use an index; `None` if the comparison stays as it is.
    pub(super) fn equals(&mut self, left: &mut Expr, right: &mut Expr) -> Result<Option<String>, GuardError> {
        for column in ["uri", "collection"] {
            for is_left in [true, false] {
                let (own, other) = if is_left { (&*left, &mut *right) } else { (&*right, &mut *left) };
                let Some(before) = self.rewritten_column(own, column) else { continue };
                if !self.is_column_or_text(other) {
                    continue;
                }
                let is_value = matches!(other, Expr::Value(_));
                if column == "uri" {
                    return self.uri_equals(&before, other, is_value).map(Some);
                }
                if is_value && self.is_postgres() && self.lean {
                    self.expr(other)?;
                    let same_id = collection_id(&before, &other.to_string());
                    return Ok(Some(format!("({before}\"collection\" = {other}{same_id})")));
                }
            }
        }
        Ok(None)
    }

    /// The SQL of the comparison of a URI with `other`, a column or a text, and of the URI's parts.
    fn uri_equals(&mut self, before: &str, other: &mut Expr, is_value: bool) -> Result<String, GuardError> {
        let spent = self.spent;
        self.expr(other)?;
        let uri = other.to_string();
        self.spend(Cost {
            nodes: (self.spent.nodes - spent.nodes).saturating_mul(URI_REPEATS),
            calls: (self.spent.calls - spent.calls).saturating_mul(URI_REPEATS),
        })?;
        let [uri_column, did, collection, rkey] =
            ["uri", "did", "collection", "rkey"].map(|name| format!("{before}{}", self.quoted(name)));
        let [is_did, is_collection, is_rkey] = parts(&uri, self.is_postgres());
        let has_id = is_value && self.is_postgres() && self.lean;
        let same_id = if has_id { collection_id(before, &is_collection) } else { String::new() };
        Ok(format!(
            "({uri_column} = {uri} AND {did} = {is_did} AND {collection} = {is_collection}{same_id} AND {rkey} = {is_rkey})"
        ))
    }

    /// Whether it is a column, or a text literal or parameter.
    fn is_column_or_text(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
            Expr::Value(value) => {
                matches!(value.value, Value::SingleQuotedString(_))
                    || self.param(expr).is_some_and(serde_json::Value::is_string)
            }
            _ => false,
        }
    }

    /// Replaces an ORDER BY `indexed_at` of `records` with `indexed_us`. Returns whether it is that.
    pub(super) fn order_by_indexed_us(&self, expr: &mut Expr) -> bool {
        let Some(before) = self.rewritten_column(expr, "indexed_at") else { return false };
        replace(expr, format!("{before}{}", self.quoted("indexed_us")));
        true
    }
}

/// Whether each row of a query is a row of its tables, so that ORDER BY can use columns that the query does not return.
pub(super) fn keeps_rows(query: &Query) -> bool {
    let SetExpr::Select(select) = &*query.body else { return false };
    let Select { distinct: None, projection, group_by, having: None, .. } = &**select else {
        return false;
    };
    let GroupByExpr::Expressions(groups, _) = group_by else { return false };
    // In ORDER BY an alias takes precedence over a column.
    let renames = projection.iter().any(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => {
            ["indexed_at", "indexed_us"].iter().any(|name| alias.value.eq_ignore_ascii_case(name))
        }
        _ => false,
    });
    groups.is_empty() && !renames && !has_aggregate(projection)
}

/// Whether a SELECT without GROUP BY may aggregate its rows: then columns of its tables can't be used in ORDER BY.
fn has_aggregate(items: &[SelectItem]) -> bool {
    items.iter().any(|item| {
        matches!(
            item,
            SelectItem::UnnamedExpr(Expr::Function(_))
                | SelectItem::ExprWithAlias { expr: Expr::Function(_), .. }
        )
    })
}

/// A further condition on PostgreSQL: the id of the collection is that of the expression `nsid`.
fn collection_id(before: &str, nsid: &str) -> String {
    format!(" AND {before}\"collection_id\" = {VIEW_SCHEMA}.collection_id({nsid})")
}

/// Expressions for the DID, the collection and the rkey in a record's URI. For any other text, such as the address of a
/// record in a space, they can differ between the databases. No row matches it, because the whole URI is compared too.
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
