//! Conditions and orders on `records` that no index helps with as they stand, said again so that one does. What is
//! added follows from what is there, so no row more or less is found.
//! Where a statement names its columns, `records` has a lean form: on SQLite without the CID, whose expression is long to
//! prepare, on PostgreSQL with the number of the collection, which a `*` must not show.
//!
//! - `uri = X`: the URI is put together of three columns, so those three are compared with the parts of X as well.
//! - `collection = X` on PostgreSQL: the number of the collection is compared as well, which makes it a constant; else the
//!   order of an index on it can't be used.
//! - `ORDER BY indexed_at`: `indexed_us` is the same time as a number, and has an index.

use sqlparser::ast::{Expr, GroupByExpr, Ident, OrderByExpr, Query, Select, SelectItem, SetExpr, Value};
use sqlparser::tokenizer::Token;

use super::super::super::Backend;
use super::super::VIEW_SCHEMA;
use super::scope::Cost;
use super::{Emit, Refusal, absent};

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
            // It would join what only one of the forms has.
            Token::Word(word) if word.value.eq_ignore_ascii_case("natural") => return false,
            _ => {}
        }
        before = Some(token);
    }
    true
}

/// How often the text that a URI is compared with is written.
const REPEATS: u32 = 8;

impl Emit<'_> {
    /// The text in front of the columns of `records`, if `expr` is its column of that name.
    fn column_of_records(&self, expr: &Expr, column: &str) -> Option<String> {
        let is = |name: &Ident| self.plain(name).is_ok_and(|plain| plain.eq_ignore_ascii_case(column));
        let found = match expr {
            Expr::Identifier(name) if is(name) => self.bare(name),
            Expr::CompoundIdentifier(names) => match names.as_slice() {
                [table, name] if is(name) => self.qualified(table, name),
                _ => return None,
            },
            _ => return None,
        };
        // One that is not found is refused where it is written.
        found.ok()?.of_records
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
        let (start, before_it) = (self.out.len(), self.spent);
        self.expr(other)?;
        let uri = self.out.split_off(start);
        self.spend(Cost {
            nodes: (self.spent.nodes - before_it.nodes).saturating_mul(REPEATS),
            calls: (self.spent.calls - before_it.calls).saturating_mul(REPEATS),
        })?;
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

    /// Writes an item of an ORDER BY as the number it stands for, if that is the same order. Otherwise writes nothing and
    /// returns false.
    pub(super) fn quick_order(&mut self, item: &OrderByExpr) -> Result<bool, Refusal> {
        let Some(before) = self.column_of_records(&item.expr, "indexed_at") else { return Ok(false) };
        absent("WITH FILL", item.with_fill.is_some())?;
        let column = self.quoted("indexed_us");
        self.push(&format!("{before}{column}"));
        Ok(true)
    }
}

/// Whether the rows of a query are those of its tables, so that an ORDER BY may name columns that it does not give.
pub(super) fn keeps_rows(query: &Query) -> bool {
    let SetExpr::Select(select) = &*query.body else { return false };
    let Select { distinct: None, projection, group_by, having: None, .. } = &**select else {
        return false;
    };
    let GroupByExpr::Expressions(groups, _) = group_by else { return false };
    // An alias would come first.
    let renames = projection.iter().any(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => {
            ["indexed_at", "indexed_us"].iter().any(|name| alias.value.eq_ignore_ascii_case(name))
        }
        _ => false,
    });
    groups.is_empty() && !renames && !has_aggregate(projection)
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
