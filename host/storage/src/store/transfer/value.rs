//! Values that are moved from one database to the other, and the checksum of a table.

use std::borrow::Cow;

use serde_json::Value as Json;

use belvedere_protocol::crypto::hash::sha256;

/// The kind of a column's values on both databases. PostgreSQL's types decide; SQLite stores booleans as integers, and
/// JSON as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int,
    Float,
    /// PostgreSQL's `numeric`: an integer, or a float.
    Numeric,
    Text,
    Bytes,
    Json,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub name: String,
    pub kind: Kind,
}

/// A value in the form that its column's [`Kind`] has on both databases: booleans are 0 and 1, JSON is its text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Int(i64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
}

pub(super) type Row = Vec<Value>;

impl Value {
    /// Converts a stored value to the form of `kind`. `None` when the column can't hold it.
    pub(super) fn into_kind(self, kind: Kind) -> Option<Self> {
        Some(match (kind, self) {
            (_, Self::Null) => Self::Null,
            (Kind::Bool, Self::Int(n @ (0 | 1))) | (Kind::Int | Kind::Numeric, Self::Int(n)) => Self::Int(n),
            (Kind::Float, Self::Int(n)) => Self::Float(n as f64),
            (Kind::Float, Self::Float(x)) => Self::Float(x),
            (Kind::Numeric, Self::Float(x)) => whole(x).map_or(Self::Float(x), Self::Int),
            (Kind::Text | Kind::Json, Self::Int(n)) => Self::Text(n.to_string()),
            (Kind::Text | Kind::Json, Self::Float(x)) => Self::Text(x.to_string()),
            (Kind::Text | Kind::Json, Self::Text(text)) => Self::Text(text),
            (Kind::Bytes, Self::Bytes(bytes)) => Self::Bytes(bytes),
            (Kind::Bytes, Self::Text(text)) => Self::Bytes(text.into_bytes()),
            _ => return None,
        })
    }

    /// Bytes of memory, roughly.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Null | Self::Int(_) | Self::Float(_) => 8,
        }
    }
}

/// A float's integer, if it is one that floats represent exactly.
fn whole(x: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    (x.fract() == 0.0 && x.abs() <= EXACT).then_some(x as i64)
}

/// Replaces what PostgreSQL's text can't contain: U+0000, in JSON also as an escape. Returns whether there was any.
pub(super) fn without_nul(value: &mut Value, kind: Kind) -> bool {
    let Value::Text(text) = value else { return false };
    let mut found = false;
    if text.contains('\0') {
        *text = text.replace('\0', "\u{fffd}");
        found = true;
    }
    if kind == Kind::Json
        && let Cow::Owned(replaced) = without_nul_escapes(text)
    {
        *text = replaced;
        found = true;
    }
    found
}

/// Replaces the escape of U+0000 by that of U+FFFD. A backslash that is itself escaped begins none.
fn without_nul_escapes(json: &str) -> Cow<'_, str> {
    const NUL: &str = "\\u0000";
    if !json.contains(NUL) {
        return Cow::Borrowed(json);
    }
    let (mut out, mut rest, mut replaced) = (String::with_capacity(json.len()), json, false);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        if let Some(after) = escape.strip_prefix(NUL) {
            out.push_str("\\ufffd");
            (rest, replaced) = (after, true);
        } else {
            // The backslash and the character that it escapes.
            let end = escape.char_indices().nth(2).map_or(escape.len(), |(end, _)| end);
            out.push_str(&escape[..end]);
            rest = &escape[end..];
        }
    }
    out.push_str(rest);
    if replaced { Cow::Owned(out) } else { Cow::Borrowed(json) }
}

/// Removes the spaces that PostgreSQL writes between the tokens of JSON.
pub(super) fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut in_string, mut is_escaped) = (false, false);
    for c in json.chars() {
        if in_string || !c.is_ascii_whitespace() {
            out.push(c);
        }
        if is_escaped {
            is_escaped = false;
        } else if c == '\\' {
            is_escaped = in_string;
        } else if c == '"' {
            in_string = !in_string;
        }
    }
    out
}

/// The number of rows of a table, and a checksum of their contents that does not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub rows: u64,
    sum: u128,
}

impl Sum {
    pub(super) fn add(&mut self, columns: &[Column], row: &[Value], scratch: &mut Vec<u8>) {
        scratch.clear();
        for (column, value) in columns.iter().zip(row) {
            write_canonical(column.kind, value, scratch);
        }
        let hash = sha256(scratch).first_chunk().copied().map_or(0, u128::from_be_bytes);
        self.rows += 1;
        self.sum = self.sum.wrapping_add(hash);
    }
}

impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.sum)
    }
}

/// Appends a value so that equal values are equal bytes on both databases, and the end of each value is known.
fn write_canonical(kind: Kind, value: &Value, out: &mut Vec<u8>) {
    let mut write = |tag: u8, bytes: &[u8]| {
        out.push(tag);
        out.extend((bytes.len() as u64).to_be_bytes());
        out.extend(bytes);
    };
    match value {
        Value::Null => write(b'0', b""),
        Value::Int(n) => write(b'i', &n.to_be_bytes()),
        // The two zeros are equal.
        Value::Float(x) => write(b'f', &(x + 0.0).to_bits().to_be_bytes()),
        Value::Text(text) if kind == Kind::Json => write(b'j', canonical_json(text).as_bytes()),
        Value::Text(text) => write(b't', text.as_bytes()),
        Value::Bytes(bytes) => write(b'b', bytes),
    }
}

/// JSON with sorted keys, without spaces, with one form for each number. PostgreSQL keeps neither the order nor the
/// notation.
fn canonical_json(text: &str) -> Cow<'_, str> {
    let Ok(mut json) = serde_json::from_str::<Json>(text) else { return Cow::Borrowed(text) };
    unify_numbers(&mut json);
    // Maps of serde_json are sorted.
    Cow::Owned(json.to_string())
}

fn unify_numbers(json: &mut Json) {
    match json {
        Json::Number(number) if !number.is_i64() && !number.is_u64() => {
            if let Some(n) = number.as_f64().and_then(whole) {
                *json = n.into();
            }
        }
        Json::Array(items) => items.iter_mut().for_each(unify_numbers),
        Json::Object(members) => members.values_mut().for_each(unify_numbers),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    #[test]
    fn nul_is_replaced_and_nothing_else() {
        for (text, kind, expected) in [
            ("a\0b", Kind::Text, "a\u{fffd}b"),
            (r#"{"a":"\u0000"}"#, Kind::Text, r#"{"a":"\u0000"}"#),
            (r#"{"a":"\u0000x\u0000"}"#, Kind::Json, r#"{"a":"\ufffdx\ufffd"}"#),
            (r#"{"a":"\\u0000"}"#, Kind::Json, r#"{"a":"\\u0000"}"#),
            (r#"{"a":"\\\u0000"}"#, Kind::Json, r#"{"a":"\\\ufffd"}"#),
            (r#"{"é":"\né\u0000"}"#, Kind::Json, r#"{"é":"\né\ufffd"}"#),
        ] {
            let mut value = Value::Text(text.to_owned());
            assert_eq!(without_nul(&mut value, kind), text != expected, "{text}");
            assert_eq!(value, Value::Text(expected.to_owned()));
        }
    }

    #[test]
    fn json_is_compacted_outside_of_strings() {
        let spaced = r#"{"a": [1, "b, \" c: \\", {"d":  null}], "e f": "g"}"#;
        assert_eq!(compact(spaced), r#"{"a":[1,"b, \" c: \\",{"d":null}],"e f":"g"}"#);
    }

    fn sum(kind: Kind, rows: &[&[Value]]) -> Sum {
        let mut sum = Sum::default();
        for row in rows {
            let columns: Vec<Column> = row.iter().map(|_| Column { name: "x".to_owned(), kind }).collect();
            sum.add(&columns, row, &mut Vec::new());
        }
        sum
    }

    #[test]
    fn sums_ignore_order_and_notation_but_no_content() {
        let text = |text: &str| Value::Text(text.to_owned());
        let (a, b) = (text(r#"{"b":1.0,"a":[1e2]}"#), text(r#"{"a": [100], "b": 1}"#));
        assert_eq!(sum(Kind::Json, &[from_ref(&a)]), sum(Kind::Json, &[from_ref(&b)]));
        assert_ne!(sum(Kind::Text, &[&[a]]), sum(Kind::Text, &[&[b]]));
        let (one, two) = ([Value::Int(1)], [Value::Int(2)]);
        assert_eq!(sum(Kind::Int, &[&one, &two]), sum(Kind::Int, &[&two, &one]));
        assert_ne!(sum(Kind::Int, &[&one, &one]), sum(Kind::Int, &[&two, &two]));
        assert_ne!(sum(Kind::Int, &[&one]), sum(Kind::Int, &[&one, &one]));
        // The border between two values counts, and so does the difference between nothing and an empty text.
        assert_ne!(
            sum(Kind::Text, &[&[text("ab"), text("c")]]),
            sum(Kind::Text, &[&[text("a"), text("bc")]])
        );
        assert_ne!(sum(Kind::Text, &[&[Value::Null]]), sum(Kind::Text, &[&[text("")]]));
        assert_eq!(sum(Kind::Float, &[&[Value::Float(0.0)]]), sum(Kind::Float, &[&[Value::Float(-0.0)]]));
    }

    #[test]
    fn values_take_the_form_of_their_column() {
        for (value, kind, expected) in [
            (Value::Int(1), Kind::Bool, Some(Value::Int(1))),
            (Value::Int(2), Kind::Bool, None),
            (Value::Int(2), Kind::Float, Some(Value::Float(2.0))),
            (Value::Float(2.0), Kind::Numeric, Some(Value::Int(2))),
            (Value::Float(2.5), Kind::Int, None),
            (Value::Int(5), Kind::Json, Some(Value::Text("5".to_owned()))),
            (Value::Bytes(vec![1]), Kind::Text, None),
            (Value::Null, Kind::Int, Some(Value::Null)),
        ] {
            assert_eq!(value.clone().into_kind(kind), expected, "{value:?} as {kind:?}");
        }
    }
}
