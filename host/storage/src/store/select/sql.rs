//! A statement that is written at run time, with its values.

use std::fmt::{self, Write as _};

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

/// Longer statements are not kept prepared: connections keep some hundred, and those of large filters differ.
const MAX_KEPT_BYTES: usize = 8_192;

/// A statement being written. If its text is known already, only the values are collected, and nothing is formatted.
#[derive(Debug)]
pub(in crate::store) struct Sql {
    text: Text,
    values: Vec<Value>,
}

#[derive(Debug)]
enum Text {
    Known(&'static str),
    New(String),
}

/// A value to bind.
#[derive(Debug)]
pub(in crate::store) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
}

/// A value's place in the text: `$1` is the first.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Placeholder(usize);

impl fmt::Display for Placeholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${}", self.0)
    }
}

impl Sql {
    pub(in crate::store) fn new() -> Self {
        Self { text: Text::New(String::with_capacity(1_024)), values: Vec::with_capacity(8) }
    }

    /// A statement whose text is known; its values follow.
    pub(super) fn known(text: &'static str) -> Self {
        Self { text: Text::Known(text), values: Vec::with_capacity(8) }
    }

    /// Adds a value.
    pub(in crate::store) fn bind(&mut self, value: Value) -> Placeholder {
        self.values.push(value);
        Placeholder(self.values.len())
    }

    /// Adds a part of the text.
    pub(in crate::store) fn push(&mut self, part: fmt::Arguments<'_>) {
        if let Text::New(text) = &mut self.text {
            // Writing to a String never fails.
            let _ = text.write_fmt(part);
        }
    }

    #[cfg(test)]
    pub(in crate::store) fn with_prefix(self, word: &str) -> Self {
        Self { text: Text::New(format!("{word} {}", self.text())), ..self }
    }

    pub(in crate::store) fn text(&self) -> &str {
        match &self.text {
            Text::Known(text) => text,
            Text::New(text) => text,
        }
    }

    pub(in crate::store) fn values(&self) -> &[Value] {
        &self.values
    }

    /// The text, whether connections keep it prepared, and the values.
    pub(in crate::store) fn into_parts(self) -> (SqlStr, bool, Vec<Value>) {
        let is_kept = self.text().len() <= MAX_KEPT_BYTES;
        let text = match self.text {
            Text::Known(text) => text.into_sql_str(),
            Text::New(text) => AssertSqlSafe(text).into_sql_str(),
        };
        (text, is_kept, self.values)
    }
}

/// Escapes the text for LIKE, so that it matches only itself.
pub(in crate::store) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '%' | '_' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Creates the sqlx query of a [`Sql`], with its values bound.
macro_rules! bound {
    ($sql:expr) => {{
        let (text, is_kept, values) = $sql.into_parts();
        let mut query = sqlx::query(text).persistent(is_kept);
        for value in values {
            query = match value {
                $crate::store::select::Value::Text(text) => query.bind(text),
                $crate::store::select::Value::Integer(n) => query.bind(n),
                $crate::store::select::Value::Float(n) => query.bind(n),
                $crate::store::select::Value::Boolean(b) => query.bind(b),
            };
        }
        query
    }};
}
pub(in crate::store) use bound;
