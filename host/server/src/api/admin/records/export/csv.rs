//! Writes records as CSV (RFC 4180), for spreadsheets too.

use serde_json::Value;

use crate::api::admin::records::listing::IndexedRecord;
use belvedere_protocol::atproto::lexicon::RecordField;

/// A column that every record has, whatever its lexicon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metadata {
    Uri,
    Cid,
    Did,
    Rkey,
    IndexedAt,
}

/// They come before those of the fields.
const METADATA: [(&str, Metadata); 5] = [
    ("uri", Metadata::Uri),
    ("cid", Metadata::Cid),
    ("did", Metadata::Did),
    ("rkey", Metadata::Rkey),
    ("indexedAt", Metadata::IndexedAt),
];

/// Characters by which spreadsheets know a formula, with the wide forms that some of them read alike. A text that begins with
/// one gets an apostrophe before it: records come from any repo of the network.
const FORMULAS: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];

/// A table of records.
pub(super) struct Csv {
    columns: Vec<Column>,
}

struct Column {
    name: String,
    value: ColumnValue,
}

enum ColumnValue {
    Metadata(Metadata),
    /// The names from the record down to a field.
    Field(Vec<String>),
}

/// A list of columns is invalid for this reason.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum InvalidColumns {
    #[error(
        "columns: {0:?} is none of uri, cid, did, rkey, indexedAt and the fields that GET /admin/records/fields lists"
    )]
    Unknown(String),
    #[error("columns: {0:?} is named twice")]
    Twice(String),
}

impl Csv {
    /// A column for each field.
    pub(super) fn new(fields: &[RecordField]) -> Self {
        let metadata =
            METADATA.map(|(name, of)| Column { name: name.to_owned(), value: ColumnValue::Metadata(of) });
        let fields = fields.iter().map(|field| {
            let name = field.path.join(".");
            // One with the name of a column of every export.
            let is_taken = METADATA.iter().any(|(taken, _)| *taken == name);
            let name = if is_taken { format!("record.{name}") } else { name };
            Column { name, value: ColumnValue::Field(field.path.clone()) }
        });
        Self { columns: metadata.into_iter().chain(fields).collect() }
    }

    /// Only these of the columns, by their names and in this order.
    ///
    /// # Errors
    /// Names the first that is not a column, or is named twice: a row must not become longer than its record.
    pub(super) fn with_columns<'n>(
        mut self,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<Self, InvalidColumns> {
        let mut chosen = Vec::<Column>::new();
        for name in names {
            if chosen.iter().any(|column| column.name == name) {
                return Err(InvalidColumns::Twice(name.to_owned()));
            }
            let found = self.columns.iter().position(|column| column.name == name);
            chosen.push(
                self.columns.swap_remove(found.ok_or_else(|| InvalidColumns::Unknown(name.to_owned()))?),
            );
        }
        Ok(Self { columns: chosen })
    }

    /// The names of the columns.
    pub(super) fn header(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        row(&mut bytes, self.columns.iter().map(|column| guarded(&column.name)));
        bytes
    }

    /// Appends the row of a record. A value that is a list or an object is JSON text; a missing one is empty.
    pub(super) fn write(&self, bytes: &mut Vec<u8>, of: &IndexedRecord) -> Result<(), serde_json::Error> {
        let record: Value = serde_json::from_str(of.record.get())?;
        let cells = self.columns.iter().map(|column| match &column.value {
            ColumnValue::Metadata(Metadata::Uri) => guarded(&of.uri),
            ColumnValue::Metadata(Metadata::Cid) => guarded(of.cid.as_deref().unwrap_or_default()),
            ColumnValue::Metadata(Metadata::Did) => guarded(&of.did),
            ColumnValue::Metadata(Metadata::Rkey) => guarded(&of.rkey),
            ColumnValue::Metadata(Metadata::IndexedAt) => guarded(&of.indexed_at.to_string()),
            ColumnValue::Field(path) => {
                cell(path.iter().try_fold(&record, |value, name| value.get(name)).unwrap_or(&Value::Null))
            }
        });
        row(bytes, cells);
        Ok(())
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => guarded(text),
        value => value.to_string(),
    }
}

fn guarded(text: &str) -> String {
    if text.starts_with(FORMULAS) { format!("'{text}") } else { text.to_owned() }
}

fn row(bytes: &mut Vec<u8>, cells: impl Iterator<Item = String>) {
    for (n, cell) in cells.enumerate() {
        if n > 0 {
            bytes.push(b',');
        }
        if cell.contains([',', '"', '\r', '\n']) || cell.starts_with(' ') || cell.ends_with(' ') {
            bytes.push(b'"');
            bytes.extend_from_slice(cell.replace('"', "\"\"").as_bytes());
            bytes.push(b'"');
        } else {
            bytes.extend_from_slice(cell.as_bytes());
        }
    }
    bytes.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use belvedere_protocol::atproto::lexicon::FieldKind;
    use serde_json::json;

    use super::*;

    fn field(path: &[&str]) -> RecordField {
        RecordField {
            path: path.iter().map(|name| (*name).to_owned()).collect(),
            kind: FieldKind::Text,
            format: None,
            values: Vec::new(),
            is_required: false,
        }
    }

    #[test]
    fn a_column_has_the_path_of_its_field() {
        let csv =
            Csv::new(&[field(&["text"]), field(&["subject", "uri"]), field(&["uri"]), field(&["a,\"b"])]);
        let header = String::from_utf8(csv.header()).unwrap();
        assert_eq!(header, "uri,cid,did,rkey,indexedAt,text,subject.uri,record.uri,\"a,\"\"b\"\r\n");
    }

    #[test]
    fn columns_are_chosen_by_their_names() {
        let csv = || Csv::new(&[field(&["text"]), field(&["subject", "uri"]), field(&["uri"])]);
        let chosen = |names: &str| {
            let csv = csv().with_columns(names.split(','))?;
            Ok(String::from_utf8(csv.header()).unwrap())
        };
        assert_eq!(
            chosen("record.uri,indexedAt,text,uri"),
            Ok("record.uri,indexedAt,text,uri\r\n".to_owned())
        );
        assert_eq!(chosen("subject.uri"), Ok("subject.uri\r\n".to_owned()));
        assert_eq!(chosen("text,txt"), Err(InvalidColumns::Unknown("txt".to_owned())));
        assert_eq!(chosen("text,text"), Err(InvalidColumns::Twice("text".to_owned())));
    }

    #[test]
    fn cells_are_quoted_and_formulas_are_not_run() {
        for (value, expected) in [
            (json!(null), ""),
            (json!("plain ä"), "plain ä"),
            (json!("a,b"), "\"a,b\""),
            (json!("say \"x\"\r\nthen"), "\"say \"\"x\"\"\r\nthen\""),
            (json!(" x"), "\" x\""),
            (json!("=1+1"), "'=1+1"),
            (json!("+1"), "'+1"),
            (json!("-1"), "'-1"),
            (json!("@SUM(A1)"), "'@SUM(A1)"),
            (json!("\t=1"), "'\t=1"),
            (json!("\r=1"), "\"'\r=1\""),
            (json!("＝1"), "'＝1"),
            (json!("=HYPERLINK(\"x\",\"y\")"), "\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\""),
            (json!(-5), "-5"),
            (json!(true), "true"),
            (json!(["a", 1]), "\"[\"\"a\"\",1]\""),
            (json!({ "a": null }), "\"{\"\"a\"\":null}\""),
        ] {
            let mut bytes = Vec::new();
            row(&mut bytes, [cell(&value)].into_iter());
            assert_eq!(String::from_utf8(bytes).unwrap(), format!("{expected}\r\n"), "{value}");
        }
    }
}
