//! Defines how each database's SQL is parsed. In sqlparser's SQLite dialect the precedence of `->` and `||` is too low.

use std::any::TypeId;

use sqlparser::ast::{Expr, Statement};
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence, SQLiteDialect};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, Tokenizer};

use crate::store::Backend;

pub(super) fn of(backend: Backend) -> &'static dyn Dialect {
    match backend {
        Backend::Sqlite => &Sqlite { base: SQLiteDialect {} },
        Backend::Postgres => &PostgreSqlDialect {},
    }
}

/// The text of one statement without the semicolon that ends it, and without comments after that. One that can't be read is returned
/// as it is.
pub(in super::super) fn without_end(sql: &str, backend: Backend) -> &str {
    let tokens = Tokenizer::new(of(backend), sql).tokenize_with_location().unwrap_or_default();
    let Some(end) = tokens.iter().find(|found| found.token == Token::SemiColon) else { return sql };
    let mut at = Location::new(1, 1);
    for (index, character) in sql.char_indices() {
        if at == end.span.start {
            return &sql[..index];
        }
        at = match character {
            '\n' => Location::new(at.line + 1, 1),
            _ => Location::new(at.line, at.column + 1),
        };
    }
    sql
}

/// Precedence of `||`, `->` and `->>` on SQLite: the highest except for COLLATE and unary operators.
const TIGHT: u8 = 60;

#[derive(Debug)]
struct Sqlite {
    base: SQLiteDialect,
}

impl Dialect for Sqlite {
    fn dialect(&self) -> TypeId {
        self.base.dialect()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        self.base.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        self.base.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        self.base.is_identifier_part(ch)
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_group_by_expr(&self) -> bool {
        false
    }

    fn supports_dollar_placeholder(&self) -> bool {
        true
    }

    fn supports_in_empty_list(&self) -> bool {
        true
    }

    fn supports_notnull_operator(&self) -> bool {
        true
    }

    fn parse_statement(&self, parser: &mut Parser) -> Option<Result<Statement, ParserError>> {
        self.base.parse_statement(parser)
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        expr: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        self.base.parse_infix(parser, expr, precedence)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        matches!(&parser.peek_token_ref().token, Token::StringConcat | Token::Arrow | Token::LongArrow)
            .then_some(Ok(TIGHT))
    }

    fn prec_value(&self, prec: Precedence) -> u8 {
        self.base.prec_value(prec)
    }
}
