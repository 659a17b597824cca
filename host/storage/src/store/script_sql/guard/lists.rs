//! Lists the functions that scripts may call. Left out are functions that access files, settings, other sessions or the
//! catalog, that sleep, or that create large values from small ones (`repeat`, `lpad`, `zeroblob`, `printf`,
//! `generate_series`). Arguments that can make a call slow are limited in length.

use sqlparser::ast::{FunctionArg, FunctionArgExpr};

use super::bounds::{self, Bound};

pub(super) const BOTH: &[&str] = &[
    "abs",
    "avg",
    "coalesce",
    "concat",
    "concat_ws",
    "count",
    "cume_dist",
    "dense_rank",
    "first_value",
    "json_object",
    "lag",
    "last_value",
    "lead",
    "length",
    "lower",
    "ltrim",
    "max",
    "min",
    "nth_value",
    "ntile",
    "nullif",
    "octet_length",
    "percent_rank",
    "random",
    "rank",
    "replace",
    "round",
    "row_number",
    "rtrim",
    "sign",
    "substr",
    "substring",
    "sum",
    "trim",
    "upper",
];

pub(super) const SQLITE: &[&str] = &[
    "char",
    "date",
    "datetime",
    "glob",
    "group_concat",
    "hex",
    "ifnull",
    "iif",
    "instr",
    "json",
    "json_array",
    "json_array_length",
    "json_extract",
    "json_group_array",
    "json_group_object",
    "json_insert",
    "json_patch",
    "json_quote",
    "json_remove",
    "json_replace",
    "json_set",
    "json_type",
    "json_valid",
    "julianday",
    "likelihood",
    "likely",
    "quote",
    "strftime",
    "string_agg",
    "time",
    "timediff",
    "total",
    "typeof",
    "unicode",
    "unixepoch",
    "unlikely",
];

/// Without aggregates that collect rows into one value, and without JSON path: PostgreSQL limits the memory of neither,
/// and one statement used gigabytes before its deadline. Scripts can collect rows in Lua, where memory is limited.
pub(super) const POSTGRES: &[&str] = &[
    "age",
    "array_length",
    "array_to_string",
    "ascii",
    "bit_and",
    "bit_or",
    "bool_and",
    "bool_or",
    "btrim",
    "ceil",
    "ceiling",
    "char_length",
    "character_length",
    "chr",
    "date_part",
    "date_trunc",
    "every",
    "floor",
    "greatest",
    "initcap",
    "json_array_length",
    "json_build_array",
    "json_build_object",
    "json_extract_path",
    "json_extract_path_text",
    "json_typeof",
    "jsonb_array_length",
    "jsonb_build_array",
    "jsonb_build_object",
    "jsonb_extract_path",
    "jsonb_extract_path_text",
    "jsonb_set",
    "jsonb_strip_nulls",
    "jsonb_typeof",
    "least",
    "left",
    "make_date",
    "md5",
    "mod",
    "now",
    "power",
    "regexp_replace",
    "reverse",
    "right",
    "split_part",
    "sqrt",
    "starts_with",
    "stddev",
    "strpos",
    "to_char",
    "to_date",
    "to_json",
    "to_jsonb",
    "to_timestamp",
    "translate",
    "trunc",
    "variance",
];

/// Functions after FROM.
pub(super) const TABLE_SQLITE: &[&str] = &["json_each", "json_tree"];
pub(super) const TABLE_POSTGRES: &[&str] = &[
    "json_array_elements",
    "json_array_elements_text",
    "json_each",
    "json_each_text",
    "jsonb_array_elements",
    "jsonb_array_elements_text",
    "jsonb_each",
    "jsonb_each_text",
    "jsonb_object_keys",
    "unnest",
];

/// Functions that are called without parentheses.
pub(super) const WITHOUT_PARENTHESES: &[&str] = &["current_date", "current_time", "current_timestamp"];

/// Functions whose time does not depend on the size of a value, and that return no larger value.
pub(super) const CHEAP: &[&str] = &[
    "abs",
    "avg",
    "ceil",
    "ceiling",
    "coalesce",
    "count",
    "cume_dist",
    "dense_rank",
    "first_value",
    "floor",
    "greatest",
    "ifnull",
    "iif",
    "lag",
    "last_value",
    "lead",
    "least",
    "likelihood",
    "likely",
    "max",
    "min",
    "mod",
    "now",
    "nth_value",
    "ntile",
    "nullif",
    "percent_rank",
    "random",
    "rank",
    "round",
    "row_number",
    "sign",
    "sum",
    "total",
    "trunc",
    "typeof",
    "unlikely",
];

/// Functions that return a text whatever their arguments are.
pub(super) const TEXT: &[&str] = &[
    "lower",
    "upper",
    "replace",
    "substr",
    "substring",
    "ltrim",
    "rtrim",
    "btrim",
    "concat",
    "reverse",
    "left",
    "right",
];
/// Functions that PostgreSQL computes to thousands of digits for `numeric`; their arguments are cast to double.
pub(super) const NEEDS_DOUBLE: &[&str] = &["power", "sqrt"];

/// The limit of the argument at a position, counted from 1.
pub(super) fn argument_bound(name: &str, position: usize) -> Option<Bound> {
    match (name, position) {
        ("btrim" | "ltrim" | "rtrim" | "trim", 2) => Some(bounds::TRIM_SET),
        ("instr" | "replace" | "split_part" | "strpos", 2) => Some(bounds::NEEDLE),
        ("translate", 2) => Some(bounds::ALPHABET),
        ("glob", 1) | ("regexp_replace", 2) => Some(bounds::PATTERN),
        ("json_patch", 2) => Some(bounds::PART),
        ("array_to_string", 2) => Some(bounds::SEPARATOR),
        _ => None,
    }
}

pub(super) fn is_star(arg: &FunctionArg) -> bool {
    matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::Wildcard))
}

/// The columns of a function after FROM. Empty for a function that returns single values: its column has the name of
/// the function, or of its alias.
pub(super) fn columns_of(name: &str) -> &'static [&'static str] {
    match name {
        "json_array_elements"
        | "json_array_elements_text"
        | "jsonb_array_elements"
        | "jsonb_array_elements_text" => &["value"],
        "json_each" | "json_each_text" | "jsonb_each" | "jsonb_each_text" => &["key", "value"],
        _ => &[],
    }
}

/// The columns of `json_each` and `json_tree` on SQLite.
pub(super) const JSON_TABLE: &[&str] = &["key", "value", "type", "atom", "id", "parent", "fullkey", "path"];
