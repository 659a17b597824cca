//! Checks a script's SQL and rewrites it: parses the statement, keeps the parts that are allowed, and prints them. The
//! database never sees the script's text, so nothing unknown can reach it. Comments, quoting and letter case are dropped;
//! literals are quoted again.
//!
//! Allowed: one SELECT over the views and the scripts' own tables; on own tables also INSERT, UPDATE, DELETE, CREATE
//! and DROP of tables and indexes, and simple ALTER TABLE. Relations, functions, operators and types have allowlists.
//! Every relation is written with its schema, so the search path does not matter.
//!
//! The wall of the data is the database: [`super::authorizer`] on SQLite, [`super::role`] on PostgreSQL. The guard is the
//! second one. Only the guard limits what a statement costs, and rewrites it for indexes and the same answers on both.

mod define;
mod dialect;
mod error;
mod expr;
mod from;
mod functions;
mod idents;
mod index_rewrites;
mod limits;
mod lists;
mod matches;
mod names;
mod plain;
mod query;
mod scope;
mod write;

#[cfg(test)]
mod tests;

use serde_json::Value;
use sqlparser::ast::{Expr, Statement as Ast, Value as Literal};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Whitespace};

pub(super) use dialect::without_end;
pub use error::GuardError;
pub use limits::{MAX_BYTES, MAX_CALLS, MAX_PARAM_BYTES, MAX_PARAMS, OWN_PREFIX, VIEWS};
use limits::{MAX_DEPTH, MAX_NODES, MAX_TOKENS, PARSER_DEPTH};
pub(super) use names::CTE_PREFIX;
use plain::only;
pub use scope::{Catalog, views};
use scope::{Columns, Cost, Scope};

use super::super::Backend;

/// The kind of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only reads.
    Select,
    /// INSERT, UPDATE or DELETE on an own table; `rows` if it has a RETURNING clause.
    Write { rows: bool },
    /// CREATE, ALTER or DROP of an own table or index; `creates` for CREATE.
    Define { creates: bool },
    /// The plan of a SELECT, which does not run.
    Explain,
}

/// A checked statement.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The generated SQL, for one database. Its parameters are `$1`, `$2` and so on.
    pub sql: String,
    pub kind: Kind,
    /// For each parameter of `sql` the index of the script's parameter. NULLs, and on PostgreSQL numbers and booleans,
    /// are written as literals, so that the database infers their type.
    pub binds: Vec<usize>,
    /// For each column of the result whether the statement shows that its values are JSON (`json`). On PostgreSQL the
    /// type of the column shows it too.
    pub json: Vec<bool>,
}

/// Names that a script may call on a database: functions in expressions and after FROM, and those without parentheses.
pub fn callable(backend: Backend) -> impl Iterator<Item = &'static str> {
    let (own, tables) = match backend {
        Backend::Sqlite => (lists::SQLITE, lists::TABLE_SQLITE),
        Backend::Postgres => (lists::POSTGRES, lists::TABLE_POSTGRES),
    };
    [lists::BOTH, own, tables, lists::WITHOUT_PARENTHESES].into_iter().flat_map(str::split_whitespace)
}

/// Checks one statement and generates its SQL for `backend`. `catalog` has the own tables that it names.
///
/// # Errors
/// [`GuardError`].
pub fn check(
    sql: &str,
    params: &[Value],
    backend: Backend,
    catalog: &Catalog,
) -> Result<Statement, GuardError> {
    Parsed::new(sql, backend)?.write(params, catalog)
}

/// A parsed statement that is not checked yet.
#[derive(Debug)]
pub struct Parsed {
    /// On the heap, because futures hold it.
    ast: Box<Ast>,
    backend: Backend,
    /// Whether it can use the lean view of `records`.
    lean: bool,
    /// Whether its parameters have numbers, as `$1`.
    is_numbered: bool,
    /// The highest number of a parameter, which is how many it needs.
    parameters: usize,
    /// Names in the statement that may be own tables, in lower case.
    own: Vec<String>,
    is_explained: bool,
}

impl Parsed {
    /// Parses one statement.
    ///
    /// # Errors
    /// [`GuardError`] for anything but a single statement, or one that is too long.
    pub fn new(sql: &str, backend: Backend) -> Result<Self, GuardError> {
        if sql.len() > MAX_BYTES {
            return Err(GuardError::TooLarge);
        }
        let dialect = dialect::of(backend);
        let syntax = |error: &str| GuardError::Syntax(format!("the SQL can't be read: {error}"));
        let read = Tokenizer::new(dialect, sql).tokenize_with_location();
        let read = read.map_err(|error| syntax(&error.to_string()))?;
        // Positions in errors are those in the script's text.
        let (mut tokens, spans): (Vec<_>, Vec<_>) = read.into_iter().map(|one| (one.token, one.span)).unzip();
        let (is_numbered, parameters) = number_parameters(&mut tokens)?;
        let meant = |token: &&Token| !matches!(token, Token::Whitespace(_) | Token::SemiColon);
        match tokens.iter().filter(meant).count() {
            0 => return Err(GuardError::Empty),
            n if n > MAX_TOKENS => return Err(GuardError::TooLarge),
            _ => {}
        }
        let lean = index_rewrites::is_lean(&tokens, backend);
        let own = names::own_names_in(&tokens);
        let tokens = tokens.into_iter().zip(spans).map(|(token, span)| TokenWithSpan { token, span });
        let mut parser = Parser::new(dialect)
            .with_recursion_limit(PARSER_DEPTH)
            .with_tokens_with_locations(tokens.collect());
        let mut statements = parser.parse_statements().map_err(|error| match error {
            ParserError::RecursionLimitExceeded => GuardError::TooLarge,
            ParserError::ParserError(error) | ParserError::TokenizerError(error) => syntax(&error),
        })?;
        match (statements.pop(), statements.is_empty()) {
            (None, _) => Err(GuardError::Empty),
            (Some(ast), true) => Ok(Self {
                ast: Box::new(ast),
                backend,
                lean,
                is_numbered,
                parameters,
                own,
                is_explained: false,
            }),
            (Some(_), false) => Err(GuardError::Several),
        }
    }

    /// Parses a statement that only reads.
    ///
    /// # Errors
    /// As [`Self::new`], and for a statement that is not a SELECT. `place` says where it stands.
    pub fn select(sql: &str, backend: Backend, place: &str) -> Result<Self, GuardError> {
        let parsed = Self::new(sql, backend)?;
        if parsed.is_select() {
            Ok(parsed)
        } else {
            Err(GuardError::Unsupported(format!("a statement other than SELECT in {place}")))
        }
    }

    /// The SELECT for its plan.
    #[must_use]
    pub fn explained(self) -> Self {
        Self { is_explained: true, ..self }
    }

    /// Whether only the plan is asked for.
    pub fn is_explained(&self) -> bool {
        self.is_explained
    }

    /// Names that may be own tables. [`Self::write`] needs their columns.
    pub fn own_tables(&self) -> &[String] {
        &self.own
    }

    /// Whether the statement's parameters have numbers, as `$1`. Those without are in the order of the text.
    pub fn numbers_parameters(&self) -> bool {
        self.is_numbered
    }

    /// The number of parameters that the statement needs.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// Whether the statement only reads.
    pub fn is_select(&self) -> bool {
        matches!(*self.ast, Ast::Query(_))
    }

    /// Whether the statement changes rows.
    pub fn is_write(&self) -> bool {
        matches!(*self.ast, Ast::Insert(_) | Ast::Update(_) | Ast::Delete(_))
    }

    /// Checks the statement and generates its SQL.
    ///
    /// # Errors
    /// [`GuardError`].
    pub fn write(self, params: &[Value], catalog: &Catalog) -> Result<Statement, GuardError> {
        let is_long = |value: &Value| value.as_str().is_some_and(|text| text.len() > MAX_PARAM_BYTES);
        if params.len() > MAX_PARAMS || params.iter().any(is_long) {
            return Err(GuardError::TooLarge);
        }
        let Self { mut ast, backend, lean, is_numbered: _, parameters, own: _, is_explained } = self;
        let mut rewriter = Rewriter { lean, ..Rewriter::new(backend, params, catalog) };
        let (sql, kind) = match &mut *ast {
            Ast::Query(query) => {
                rewriter.result = rewriter.query(query)?;
                match (is_explained, backend) {
                    (false, _) => (query.to_string(), Kind::Select),
                    (true, Backend::Sqlite) => (format!("EXPLAIN QUERY PLAN {query}"), Kind::Explain),
                    (true, Backend::Postgres) => (format!("EXPLAIN {query}"), Kind::Explain),
                }
            }
            Ast::Insert(insert) => {
                (rewriter.insert(insert)?, Kind::Write { rows: insert.returning.is_some() })
            }
            Ast::Update(update) => {
                (rewriter.update(update)?, Kind::Write { rows: update.returning.is_some() })
            }
            Ast::Delete(delete) => {
                (rewriter.delete(delete)?, Kind::Write { rows: delete.returning.is_some() })
            }
            other => {
                let (sql, creates) = rewriter.definition(other)?;
                (sql, Kind::Define { creates })
            }
        };
        if parameters != params.len() {
            return Err(GuardError::Parameters { has: parameters, given: params.len() });
        }
        let json = rewriter.result.iter().map(|column| column.is_json).collect();
        Ok(Statement { sql, kind, binds: rewriter.binds, json })
    }
}

/// Replaces `?` with `$1`, `$2` and so on in the order of the text, and comments with spaces.
/// Returns whether the parameters have had numbers, and the highest one.
fn number_parameters(tokens: &mut Vec<Token>) -> Result<(bool, usize), GuardError> {
    // Comments are dropped: they have no meaning in a statement.
    for token in tokens.iter_mut() {
        if matches!(token, Token::Whitespace(_)) {
            *token = Token::Whitespace(Whitespace::Space);
        }
    }
    let (mut next, mut named, mut highest) = (0, false, 0);
    for token in tokens {
        if let Token::Placeholder(name) = token {
            if name == "?" {
                next += 1;
                *name = format!("${next}");
            } else {
                named = true;
                let number = name.strip_prefix('$').and_then(|number| number.parse().ok());
                highest = highest.max(number.unwrap_or(0));
            }
        }
    }
    if named && next > 0 {
        return Err(GuardError::Unsupported("a mixture of ? and $1".to_owned()));
    }
    Ok((named, highest.max(next)))
}

/// Rewrites a statement.
struct Rewriter<'a> {
    backend: Backend,
    params: &'a [Value],
    catalog: &'a Catalog,
    binds: Vec<usize>,
    depth: u32,
    /// Number of aliases and names of common table expressions assigned so far.
    aliases: u32,
    /// The cost of everything rewritten so far.
    spent: Cost,
    /// The visible common table expressions, innermost last.
    common: Vec<names::CommonTable>,
    /// The scopes of the SELECTs that are being rewritten, innermost last.
    scopes: Vec<Scope>,
    /// Whether `records` becomes its lean view.
    lean: bool,
    /// Whether the SELECT or VALUES that comes next is the first part of a recursive query.
    is_anchor: bool,
    /// The columns of the statement's result.
    result: Columns,
}

impl<'a> Rewriter<'a> {
    fn new(backend: Backend, params: &'a [Value], catalog: &'a Catalog) -> Self {
        let (binds, common, scopes, result, spent) = Default::default();
        let (depth, aliases, lean, is_anchor) = Default::default();
        Self {
            backend,
            params,
            catalog,
            binds,
            depth,
            aliases,
            spent,
            common,
            scopes,
            lean,
            is_anchor,
            result,
        }
    }

    /// Counts an operation whose time depends on the size of a value.
    fn count_call(&mut self) -> Result<(), GuardError> {
        self.spend(Cost { nodes: 0, calls: 1 })
    }

    fn spend(&mut self, cost: Cost) -> Result<(), GuardError> {
        self.spent.nodes = self.spent.nodes.saturating_add(cost.nodes);
        self.spent.calls = self.spent.calls.saturating_add(cost.calls);
        if self.spent.calls > MAX_CALLS {
            return Err(GuardError::TooManyCalls);
        }
        if self.spent.nodes > MAX_NODES { Err(GuardError::TooLarge) } else { Ok(()) }
    }

    fn is_postgres(&self) -> bool {
        self.backend == Backend::Postgres
    }

    /// Runs `rewrite` one level deeper.
    fn deeper<T>(
        &mut self,
        rewrite: impl FnOnce(&mut Self) -> Result<T, GuardError>,
    ) -> Result<T, GuardError> {
        self.depth += 1;
        self.spend(Cost { nodes: 1, calls: 0 })?;
        if self.depth > MAX_DEPTH {
            return Err(GuardError::TooLarge);
        }
        let result = rewrite(self);
        self.depth -= 1;
        result
    }
}

/// An expression with this SQL, which the guard has written.
fn raw(text: String) -> Expr {
    Expr::value(Literal::Placeholder(text))
}

/// Replaces an expression with SQL that the guard has written.
fn replace(expr: &mut Expr, text: String) {
    *expr = raw(text);
}

/// The SQL of a list.
fn separated<I: IntoIterator>(
    items: I,
    text: impl FnMut(I::Item) -> Result<String, GuardError>,
) -> Result<String, GuardError> {
    Ok(items.into_iter().map(text).collect::<Result<Vec<_>, _>>()?.join(", "))
}

/// Refuses something that is not supported. `what` must not be an expression: formatting one recurses.
fn unsupported<T>(what: impl std::fmt::Display) -> Result<T, GuardError> {
    Err(GuardError::Unsupported(what.to_string()))
}

/// Refuses a clause that is not supported, if it is there.
fn refuse_if(clause: &str, is_there: bool) -> Result<(), GuardError> {
    if is_there { unsupported(clause) } else { Ok(()) }
}
