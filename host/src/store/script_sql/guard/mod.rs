//! What a script's SQL may say. The statement is parsed, and a new one is written from the parts that are known to be
//! harmless: nothing that this room does not understand can reach a database, and no difference between our parser and
//! the database's can be used, because the database never sees the script's text. Comments, quoting and letter case are
//! gone by then; literals are quoted again by us. Every name is resolved before it is written ([`scope`]).
//!
//! Allowed: one SELECT over the views and the scripts' own tables, and for the own tables alone INSERT, UPDATE, DELETE,
//! CREATE and DROP of tables and indexes and a simple ALTER TABLE. Relations, functions, operators and types are lists of
//! what may be used. Every relation is written with its schema, so search paths and look-alikes have no say.

mod bounds;
mod define;
mod dialect;
mod expr;
mod from;
mod functions;
mod lists;
mod names;
mod operators;
mod projection;
mod query;
mod quick;
mod scope;
mod special;
mod types;
mod write;

#[cfg(test)]
mod tests;

use serde_json::Value;
use sqlparser::ast::Statement as Ast;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer, Whitespace};

use super::super::Backend;
pub use scope::Catalog;
use scope::{Cost, Scope};

/// Bytes of a statement: a long report has a few thousand.
pub const MAX_BYTES: usize = 16 << 10;
/// Tokens of a statement, blanks not counted. Bounds how deep a chain of operators can be, which the parser builds
/// without recursion.
const MAX_TOKENS: usize = 2_500;
/// Nesting that the parser follows before it refuses.
const PARSER_DEPTH: usize = 40;
/// Levels of the parsed statement, a chain `a AND b AND c` counting one each: what the checks may recurse on a worker's
/// stack.
const MAX_DEPTH: u32 = 150;
/// Parameters of a statement: a batch of some hundred rows.
pub const MAX_PARAMS: usize = 1_000;

/// Bytes of a text that is given as a parameter: what a record may have.
pub const MAX_PARAM_BYTES: usize = 1 << 20;
/// Functions, casts, and operators on texts in one statement. SQLite's steps and PostgreSQL's arrows (`->`) take some
/// milliseconds for the largest values, and so many of them may pass without a look at the clock.
pub const MAX_CALLS: u32 = 100;

/// Expressions of a statement once the database has put those of subqueries into the places where they are named. Nested
/// ones that name each other twice would become millions, and gigabytes, before the first row is read.
const MAX_NODES: u32 = 20_000;

/// What a script may read besides its own tables, and not write.
pub const VIEWS: [&str; 4] = ["labels", "lexicons", "record_refs", "records"];
/// How the names of the scripts' own tables and indexes begin.
pub const OWN_PREFIX: &str = "script_";

/// What a statement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads.
    Select,
    /// INSERT, UPDATE or DELETE on an own table; `rows` when it has a RETURNING.
    Write { rows: bool },
    /// Makes, changes or drops an own table or index.
    Define { makes: bool },
}

/// A statement that may run.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Written anew, for one database. Parameters are `$1`, `$2` and so on.
    pub sql: String,
    pub kind: Kind,
    /// For each parameter of `sql`, which of the script's it is. NULLs, and on PostgreSQL numbers and booleans, became
    /// literals, whose type the database infers.
    pub binds: Vec<usize>,
}

/// Why a statement was refused: for the script's author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{0}")]
    Syntax(String),
    #[error("no statement")]
    Empty,
    #[error("one statement at a time")]
    Several,
    #[error("the statement is too long or too deeply nested")]
    TooLarge,
    #[error(
        "table {0} can't be used: there are records, record_refs, labels, lexicons and your own, named script_…"
    )]
    Table(String),
    #[error("table {0} can't be changed: only your own can, named script_…")]
    NotYours(String),
    #[error("the name {0} can't be used: letters, digits and _, not a table's name for something else")]
    Name(String),
    #[error("there is no column {0}")]
    Column(String),
    #[error("column {0} is in several tables: write the table's name in front")]
    Ambiguous(String),
    /// An own table that does not exist.
    #[error("table {0} does not exist")]
    Missing(String),
    #[error("function {0} can't be used")]
    Function(String),
    #[error("{what} is too long here: {most} bytes at most")]
    TooLong { what: &'static str, most: usize },
    #[error(
        "the statement computes too much at once: {MAX_CALLS} functions, casts and operators on texts at most"
    )]
    TooManyCalls,
    #[error("type {0} can't be used")]
    Type(String),
    #[error("{0} can't be used")]
    Unsupported(String),
    #[error("a parameter is text, a number, a boolean or json.null")]
    Parameter,
    #[error("the statement has {has} parameters, {given} are given")]
    Parameters { has: usize, given: usize },
}

impl Refusal {
    /// Whether the statement is understood and forbidden, rather than wrong.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Table(_) | Self::NotYours(_) | Self::Function(_))
    }
}

/// Names that a script may call on a database: functions in expressions and after FROM, and what stands without brackets.
pub fn callable(backend: Backend) -> impl Iterator<Item = &'static str> {
    let (own, tables) = match backend {
        Backend::Sqlite => (lists::SQLITE, lists::TABLE_SQLITE),
        Backend::Postgres => (lists::POSTGRES, lists::TABLE_POSTGRES),
    };
    [lists::BOTH, own, tables, lists::BARE].into_iter().flatten().copied()
}

/// Checks one statement and writes it for `backend`. `catalog` has the own tables that it names.
///
/// # Errors
/// [`Refusal`], in words for the script's author.
pub fn check(sql: &str, params: &[Value], backend: Backend, catalog: &Catalog) -> Result<Statement, Refusal> {
    Parsed::new(sql, backend)?.write(params, catalog)
}

/// A statement that was read, and not yet checked.
#[derive(Debug)]
pub struct Parsed {
    ast: Ast,
    backend: Backend,
    /// Whether the lean form of `records` will do for it.
    lean: bool,
    /// Names that may be those of own tables, in lower case.
    own: Vec<String>,
}

impl Parsed {
    /// Reads one statement.
    ///
    /// # Errors
    /// [`Refusal`] for what is no single statement, or too long.
    pub fn new(sql: &str, backend: Backend) -> Result<Self, Refusal> {
        if sql.len() > MAX_BYTES {
            return Err(Refusal::TooLarge);
        }
        let dialect = dialect::of(backend);
        let syntax = |error: String| Refusal::Syntax(format!("the SQL can't be read: {error}"));
        let mut tokens = Tokenizer::new(dialect, sql).tokenize().map_err(|e| syntax(e.to_string()))?;
        number_parameters(&mut tokens)?;
        let meant = |token: &&Token| !matches!(token, Token::Whitespace(_) | Token::SemiColon);
        match tokens.iter().filter(meant).count() {
            0 => return Err(Refusal::Empty),
            n if n > MAX_TOKENS => return Err(Refusal::TooLarge),
            _ => {}
        }
        let lean = quick::is_lean(&tokens, backend);
        let own = names::own_in(&tokens);
        let mut parser = Parser::new(dialect).with_recursion_limit(PARSER_DEPTH).with_tokens(tokens);
        let mut statements = parser.parse_statements().map_err(|error| match error {
            sqlparser::parser::ParserError::RecursionLimitExceeded => Refusal::TooLarge,
            other => syntax(other.to_string()),
        })?;
        match (statements.pop(), statements.is_empty()) {
            (None, _) => Err(Refusal::Empty),
            (Some(ast), true) => Ok(Self { ast, backend, lean, own }),
            (Some(_), false) => Err(Refusal::Several),
        }
    }

    /// Names that may be those of own tables: their columns have to be known.
    pub fn own_tables(&self) -> &[String] {
        &self.own
    }

    /// Whether it only reads.
    pub fn is_select(&self) -> bool {
        matches!(self.ast, Ast::Query(_))
    }

    /// Whether it changes rows, and no tables.
    pub fn is_write(&self) -> bool {
        matches!(self.ast, Ast::Insert(_) | Ast::Update(_) | Ast::Delete(_))
    }

    /// Checks the statement and writes it.
    ///
    /// # Errors
    /// [`Refusal`], in words for the script's author.
    pub fn write(&self, params: &[Value], catalog: &Catalog) -> Result<Statement, Refusal> {
        let is_long = |value: &Value| value.as_str().is_some_and(|text| text.len() > MAX_PARAM_BYTES);
        if params.len() > MAX_PARAMS || params.iter().any(is_long) {
            return Err(Refusal::TooLarge);
        }
        let mut emit = Emit::new(self.backend, params, catalog);
        emit.lean = self.lean;
        let kind = match &self.ast {
            Ast::Query(query) => {
                emit.query(query)?;
                Kind::Select
            }
            Ast::Insert(insert) => Kind::Write { rows: emit.insert(insert)? },
            Ast::Update(update) => Kind::Write { rows: emit.update(update)? },
            Ast::Delete(delete) => Kind::Write { rows: emit.delete(delete)? },
            other => Kind::Define { makes: emit.definition(other)? },
        };
        if emit.highest != params.len() {
            return Err(Refusal::Parameters { has: emit.highest, given: params.len() });
        }
        Ok(Statement { sql: emit.out, kind, binds: emit.binds })
    }
}

/// `?` becomes `$1`, `$2` in the order of the text, which is the order that its author counts in.
fn number_parameters(tokens: &mut Vec<Token>) -> Result<(), Refusal> {
    // A comment may hide what belongs together from a reader; it says nothing to the parser.
    for token in tokens.iter_mut() {
        if matches!(token, Token::Whitespace(_)) {
            *token = Token::Whitespace(Whitespace::Space);
        }
    }
    let (mut next, mut named) = (0, false);
    for token in tokens {
        if let Token::Placeholder(name) = token {
            if name == "?" {
                next += 1;
                *name = format!("${next}");
            } else {
                named = true;
            }
        }
    }
    if named && next > 0 {
        return Err(Refusal::Unsupported("a mixture of ? and $1".to_owned()));
    }
    Ok(())
}

/// The statement being written.
struct Emit<'a> {
    backend: Backend,
    params: &'a [Value],
    catalog: &'a Catalog,
    out: String,
    binds: Vec<usize>,
    /// The highest parameter that was named.
    highest: usize,
    depth: u32,
    /// Aliases and names of common table expressions that were given.
    aliases: u32,
    /// What was written so far takes this.
    spent: Cost,
    /// The common table expressions that can be seen, innermost last.
    ctes: Vec<names::Cte>,
    /// What each SELECT that is being written sees, innermost last.
    scopes: Vec<Scope>,
    /// Whether `records` is written as its lean form.
    lean: bool,
}

impl<'a> Emit<'a> {
    fn new(backend: Backend, params: &'a [Value], catalog: &'a Catalog) -> Self {
        let (out, binds, ctes, scopes) = Default::default();
        let (highest, depth, aliases, lean) = (0, 0, 0, false);
        Self {
            backend,
            params,
            catalog,
            out,
            binds,
            highest,
            depth,
            aliases,
            spent: Cost::default(),
            ctes,
            scopes,
            lean,
        }
    }

    /// Counts something whose time depends on the size of a value.
    fn call(&mut self) -> Result<(), Refusal> {
        self.spend(Cost { nodes: 0, calls: 1 })
    }

    fn spend(&mut self, cost: Cost) -> Result<(), Refusal> {
        self.spent.nodes = self.spent.nodes.saturating_add(cost.nodes);
        self.spent.calls = self.spent.calls.saturating_add(cost.calls);
        if self.spent.calls > MAX_CALLS {
            return Err(Refusal::TooManyCalls);
        }
        if self.spent.nodes > MAX_NODES { Err(Refusal::TooLarge) } else { Ok(()) }
    }

    fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn is_postgres(&self) -> bool {
        self.backend == Backend::Postgres
    }

    /// Runs `write` one level deeper.
    fn deeper<T>(&mut self, write: impl FnOnce(&mut Self) -> Result<T, Refusal>) -> Result<T, Refusal> {
        self.depth += 1;
        self.spend(Cost { nodes: 1, calls: 0 })?;
        if self.depth > MAX_DEPTH {
            return Err(Refusal::TooLarge);
        }
        let result = write(self);
        self.depth -= 1;
        result
    }

    /// Items with commas between them.
    fn list<T>(
        &mut self,
        items: &[T],
        mut write: impl FnMut(&mut Self, &T) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.push(", ");
            }
            write(self, item)?;
        }
        Ok(())
    }
}

/// For what is neither known nor needed. `what` is never a whole expression: writing one out recurses.
fn unsupported<T>(what: impl std::fmt::Display) -> Result<T, Refusal> {
    Err(Refusal::Unsupported(what.to_string()))
}

/// Refuses when a clause is there that we don't write.
fn absent(clause: &str, is_there: bool) -> Result<(), Refusal> {
    if is_there { unsupported(clause) } else { Ok(()) }
}
