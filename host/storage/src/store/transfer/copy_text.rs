//! Rows in the text format of PostgreSQL's COPY.

use super::value::{Column, Kind, Row, Value, compact};

/// Appends a row.
pub(super) fn write<'a>(row: impl Iterator<Item = (&'a Column, &'a Value)>, out: &mut Vec<u8>) {
    for (index, (column, value)) in row.enumerate() {
        if index > 0 {
            out.push(b'\t');
        }
        match value {
            Value::Null => out.extend(b"\\N"),
            Value::Int(n) if column.kind == Kind::Bool => out.push(if *n == 0 { b'f' } else { b't' }),
            Value::Int(n) => out.extend(n.to_string().as_bytes()),
            Value::Float(x) => out.extend(x.to_string().as_bytes()),
            Value::Text(text) => escape(text.as_bytes(), out),
            Value::Bytes(bytes) => {
                out.extend(b"\\\\x");
                out.extend(hex::encode(bytes).as_bytes());
            }
        }
    }
    out.push(b'\n');
}

fn escape(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'\\' => out.extend(b"\\\\"),
            b'\t' => out.extend(b"\\t"),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            other => out.push(*other),
        }
    }
}

/// Reads a row, without the line's end. `None` when it is not one of these columns.
pub(super) fn parse(columns: &[Column], line: &[u8]) -> Option<Row> {
    let mut fields = line.split(|byte| *byte == b'\t');
    let row = columns.iter().map(|column| value(column.kind, fields.next()?)).collect::<Option<Row>>()?;
    fields.next().is_none().then_some(row)
}

fn value(kind: Kind, field: &[u8]) -> Option<Value> {
    if field == b"\\N" {
        return Some(Value::Null);
    }
    let text = String::from_utf8(unescape(field)).ok()?;
    Some(match kind {
        Kind::Bool => Value::Int(i64::from(text == "t")),
        Kind::Int => Value::Int(text.parse().ok()?),
        Kind::Float => Value::Float(text.parse().ok()?),
        Kind::Numeric => match text.parse() {
            Ok(n) => Value::Int(n),
            Err(_) => Value::Float(text.parse().ok()?).into_kind(Kind::Numeric)?,
        },
        Kind::Text => Value::Text(text),
        Kind::Json => Value::Text(compact(&text)),
        Kind::Bytes => Value::Bytes(hex::decode(text.strip_prefix("\\x")?).ok()?),
    })
}

fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut bytes = field.iter();
    while let Some(byte) = bytes.next() {
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        match bytes.next() {
            Some(b't') => out.push(b'\t'),
            Some(b'n') => out.push(b'\n'),
            Some(b'r') => out.push(b'\r'),
            Some(b'b') => out.push(8),
            Some(b'f') => out.push(12),
            Some(b'v') => out.push(11),
            Some(other) => out.push(*other),
            None => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_were() {
        let columns: Vec<Column> =
            [Kind::Bool, Kind::Int, Kind::Float, Kind::Text, Kind::Bytes, Kind::Json, Kind::Text]
                .into_iter()
                .map(|kind| Column { name: "x".to_owned(), kind })
                .collect();
        let text = |text: &str| Value::Text(text.to_owned());
        for row in [
            vec![
                Value::Int(1),
                Value::Int(i64::MIN),
                Value::Float(0.1),
                text("tab\tline\n\r back\\slash \\N \\t é"),
                Value::Bytes(vec![0, 255, 9]),
                text(r#"{"a":"\n \\"}"#),
                text("\\N"),
            ],
            vec![
                Value::Int(0),
                Value::Null,
                Value::Float(1e300),
                text(""),
                Value::Bytes(vec![]),
                text("[]"),
                Value::Null,
            ],
        ] {
            let mut line = Vec::new();
            write(columns.iter().zip(&row), &mut line);
            assert_eq!(line.pop(), Some(b'\n'));
            assert!(!line.contains(&b'\n'));
            assert_eq!(parse(&columns, &line), Some(row));
            line.extend(b"\tmore");
            assert_eq!(parse(&columns, &line), None);
        }
        assert_eq!(parse(&columns, b"t\t1"), None);
    }
}
