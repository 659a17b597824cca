//! Lists the functions, operators and types that scripts may use. Left out are functions that access files, settings,
//! other sessions or the catalog, that sleep, or that create large values from small ones (`repeat`, `lpad`, `zeroblob`,
//! `printf`, `generate_series`). Arguments that can make a call slow are limited in length.

use sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName,
};

use super::super::{SQLITE_LENGTH_CHECK, VIEW_SCHEMA};
use super::GuardError;
use super::idents::shown;
use crate::store::Backend;

/// Functions of both databases.
pub(super) const BOTH: &str = "abs avg coalesce concat concat_ws count cume_dist dense_rank exp first_value json_object lag \
    last_value lead length ln log lower ltrim max min nth_value ntile nullif octet_length percent_rank pow power random \
    rank replace round row_number rtrim sign sqrt substr substring sum trim upper";

pub(super) const SQLITE: &str = "char date datetime glob group_concat hex ifnull iif instr json json_array \
    json_array_length json_extract json_group_array json_group_object json_insert json_patch json_quote json_remove \
    json_replace json_set json_type json_valid julianday likelihood likely quote strftime string_agg time timediff total \
    typeof unicode unixepoch unlikely";

/// Without aggregates that collect rows into one value, and without JSON path: PostgreSQL limits the memory of neither,
/// and one statement used gigabytes before its deadline. Scripts can collect rows in Lua, where memory is limited.
pub(super) const POSTGRES: &str = "age array_length array_to_string ascii bit_and bit_or bool_and bool_or btrim ceil \
    ceiling char_length character_length chr date_part date_trunc every floor greatest initcap json_array_length \
    json_build_array json_build_object json_extract_path json_extract_path_text json_typeof jsonb_array_length \
    jsonb_build_array jsonb_build_object jsonb_extract_path jsonb_extract_path_text jsonb_set jsonb_strip_nulls \
    jsonb_typeof least left make_date md5 mod now regexp_replace reverse right split_part starts_with stddev \
    strpos to_char to_date to_json to_jsonb to_timestamp translate trunc variance";

/// Functions after FROM.
pub(super) const TABLE_SQLITE: &str = "json_each json_tree";
pub(super) const TABLE_POSTGRES: &str = "json_array_elements json_array_elements_text json_each json_each_text \
    jsonb_array_elements jsonb_array_elements_text jsonb_each jsonb_each_text jsonb_object_keys unnest";

/// Functions that are called without parentheses.
pub(super) const WITHOUT_PARENTHESES: &str = "current_date current_time current_timestamp";

/// Functions whose time does not depend on the size of a value, and that return no larger value.
pub(super) const CHEAP: &str = "abs avg ceil ceiling coalesce count cume_dist dense_rank exp first_value floor greatest \
    ifnull iif lag last_value lead least likelihood likely ln log max min mod now nth_value ntile nullif percent_rank pow \
    power random rank round row_number sign sqrt sum total trunc typeof unlikely";

/// Functions that return a text whatever their arguments are.
pub(super) const TEXT: &str =
    "lower upper replace substr substring ltrim rtrim btrim concat reverse left right";
/// Functions that PostgreSQL computes to thousands of digits for `numeric`; their arguments are cast to double.
pub(super) const NEEDS_DOUBLE: &str = "exp ln log pow power sqrt";

/// Functions of SQLite that return JSON, for which it has no type.
pub(super) const RETURN_JSON: &str = "json json_array json_group_array json_group_object json_insert json_object json_patch \
    json_quote json_remove json_replace json_set";
/// Functions that return one of their arguments, or the value that the first has in another row.
pub(super) const RETURN_ARGUMENT: &str = "coalesce first_value ifnull lag last_value lead nth_value nullif";

/// Whether a name, in any case, is on a list.
pub(super) fn is_in(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|known| known.eq_ignore_ascii_case(name))
}

/// The call of a function.
pub(super) fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        within_group: Vec::new(),
        filter: None,
        null_treatment: None,
        over: None,
    })
}

/// The maximum length of an argument, for functions and operators whose time grows with two arguments or whose result is
/// larger than their arguments. Neither database checks the deadline during a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) what: &'static str,
    pub(super) max_bytes: usize,
}

/// Characters that `trim` removes: more than there are kinds of whitespace.
const TRIM_SET: Bound = Bound { what: "the second argument of trim", max_bytes: 32 };
/// A text to find in another one: as long as a sentence.
const NEEDLE: Bound = Bound { what: "a text to look for", max_bytes: 256 };
/// Characters that `translate` replaces: enough for the letters of a writing system.
const ALPHABET: Bound = Bound { what: "the second argument of translate", max_bytes: 128 };
/// A pattern of LIKE or GLOB, or a regular expression. On SQLite a limit of the connection enforces it for LIKE and
/// GLOB.
pub(super) const PATTERN: Bound = Bound { what: "a pattern", max_bytes: 250 };
/// JSON to find in another value, or to merge into one.
pub(super) const PART: Bound = Bound { what: "JSON to look for or to merge", max_bytes: 1 << 10 };
/// A separator of `array_to_string`.
const SEPARATOR: Bound = Bound { what: "a separator", max_bytes: 256 };

/// The limit of the argument at a position, counted from 1.
pub(super) fn argument_bound(name: &str, position: usize) -> Option<Bound> {
    match (name, position) {
        ("btrim" | "ltrim" | "rtrim" | "trim", 2) => Some(TRIM_SET),
        ("instr" | "replace" | "split_part" | "strpos", 2) => Some(NEEDLE),
        ("translate", 2) => Some(ALPHABET),
        ("glob", 1) | ("regexp_replace", 2) => Some(PATTERN),
        ("json_patch", 2) => Some(PART),
        ("array_to_string", 2) => Some(SEPARATOR),
        _ => None,
    }
}

/// The function that refuses a value above a length.
pub(super) fn length_check(backend: Backend) -> String {
    match backend {
        Backend::Sqlite => SQLITE_LENGTH_CHECK.to_owned(),
        Backend::Postgres => format!("{VIEW_SCHEMA}.short"),
    }
}

/// Operators that compare, also with ANY and ALL.
pub(super) const COMPARISONS: &str = "> < >= <= = <>";
const OPERATORS: &str = "+ - * / % || AND OR | & << >> -> ->>";
const POSTGRES_OPERATORS: &str = "#> #>> @> <@ && ? ?& ?| ~ ~* !~ !~*";
const SQLITE_OPERATORS: &str = "GLOB";

/// Whether scripts may use an operator.
pub(super) fn is_operator(op: &BinaryOperator, backend: Backend) -> bool {
    let own = if backend == Backend::Postgres { POSTGRES_OPERATORS } else { SQLITE_OPERATORS };
    [COMPARISONS, OPERATORS, own].iter().any(|list| is_in(list, &op.to_string()))
}

/// Fields of EXTRACT.
pub(super) const FIELDS: &str = "YEAR ISOYEAR QUARTER MONTH WEEK DAY DOW ISODOW DOY HOUR MINUTE SECOND EPOCH";

/// Types on both databases, in CAST and for columns of own tables. SQLite maps every type name to one of its five
/// affinities.
const TYPES: &str = "BIGINT/BOOL/BOOLEAN/CHAR/CHARACTER VARYING/DATE/DECIMAL/DOUBLE PRECISION/FLOAT/INT/INTEGER/JSON/\
    JSONB/NUMERIC/REAL/SMALLINT/TEXT/TIME/TIMESTAMP/TIMESTAMP WITH TIME ZONE/TIMESTAMPTZ/VARCHAR";
const POSTGRES_TYPES: &str =
    "BIGSERIAL/FLOAT4/FLOAT8/INT2/INT4/INT8/INTERVAL/SERIAL/TEXT[]/TIMESTAMP WITHOUT TIME ZONE/UUID";
const SQLITE_TYPES: &str = "ANY/BLOB/DOUBLE";

/// The SQL of a type.
pub(super) fn type_name(data_type: &DataType, backend: Backend) -> Result<String, GuardError> {
    // The text of a type may be long, but formatting it does not recurse.
    let text = data_type.to_string().to_ascii_uppercase();
    let (name, size) = match text.split_once('(') {
        Some((name, size)) => (name, Some(size)),
        None => (text.as_str(), None),
    };
    let own = if backend == Backend::Postgres { POSTGRES_TYPES } else { SQLITE_TYPES };
    let is_size = |size: &str| {
        size.strip_suffix(')').is_some_and(|inner| {
            inner.len() <= 8 && inner.bytes().all(|b| b.is_ascii_digit() || b == b',' || b == b' ')
        })
    };
    if TYPES.split('/').chain(own.split('/')).any(|known| known == name) && size.is_none_or(is_size) {
        return Ok(text);
    }
    Err(GuardError::Type(shown(&text)))
}
