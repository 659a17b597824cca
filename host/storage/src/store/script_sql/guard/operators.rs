//! Lists the operators that scripts may use.

use sqlparser::ast::BinaryOperator as Op;

use super::super::super::Backend;
use super::{GuardError, unsupported};

/// The SQL of an operator.
pub(super) fn word(op: &Op, backend: Backend) -> Result<&'static str, GuardError> {
    let common = match op {
        Op::Plus => "+",
        Op::Minus => "-",
        Op::Multiply => "*",
        Op::Divide => "/",
        Op::Modulo => "%",
        Op::StringConcat => "||",
        Op::Gt => ">",
        Op::Lt => "<",
        Op::GtEq => ">=",
        Op::LtEq => "<=",
        Op::Eq => "=",
        Op::NotEq => "<>",
        Op::And => "AND",
        Op::Or => "OR",
        Op::BitwiseOr => "|",
        Op::BitwiseAnd => "&",
        Op::Arrow => "->",
        Op::LongArrow => "->>",
        _ => "",
    };
    if !common.is_empty() {
        return Ok(common);
    }
    match (backend, op) {
        (Backend::Sqlite, Op::Glob) => Ok("GLOB"),
        (_, Op::PGBitwiseShiftLeft) => Ok("<<"),
        (_, Op::PGBitwiseShiftRight) => Ok(">>"),
        (Backend::Postgres, Op::HashArrow) => Ok("#>"),
        (Backend::Postgres, Op::HashLongArrow) => Ok("#>>"),
        (Backend::Postgres, Op::AtArrow) => Ok("@>"),
        (Backend::Postgres, Op::ArrowAt) => Ok("<@"),
        (Backend::Postgres, Op::Question) => Ok("?"),
        (Backend::Postgres, Op::QuestionAnd) => Ok("?&"),
        (Backend::Postgres, Op::QuestionPipe) => Ok("?|"),
        (Backend::Postgres, Op::PGOverlap) => Ok("&&"),
        (Backend::Postgres, Op::PGRegexMatch) => Ok("~"),
        (Backend::Postgres, Op::PGRegexIMatch) => Ok("~*"),
        (Backend::Postgres, Op::PGRegexNotMatch) => Ok("!~"),
        (Backend::Postgres, Op::PGRegexNotIMatch) => Ok("!~*"),
        _ => unsupported("this operator"),
    }
}

/// The SQL of an operator before ANY or ALL. Pattern operators are refused: each element would be a pattern.
pub(super) fn comparison(op: &Op) -> Result<&'static str, GuardError> {
    Ok(match op {
        Op::Gt => ">",
        Op::Lt => "<",
        Op::GtEq => ">=",
        Op::LtEq => "<=",
        Op::Eq => "=",
        Op::NotEq => "<>",
        _ => return unsupported("this operator before ANY or ALL"),
    })
}
