//! Writes records as CSV (RFC 4180), for spreadsheets too.

use serde_json::Value;

use crate::api::admin::records::listing::IndexedRecord;
use belvedere_protocol::atproto::lexicon::RecordField;

/// The columns before those of the fields.
const METADATA: [&str; 5] = ["uri", "cid", "did", "rkey", "indexedAt"];

/// Characters by which spreadsheets know a formula, with the wide forms that some of them read alike. A text that begins with
/// one gets an apostrophe before it: records come from any repo of the network.
const FORMULAS: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];

/// A table with a column for each field.
pub(super) struct Csv {
    /// The names from the record down to each field.
    paths: Vec<Vec<String>>,
}

impl Csv {
    pub(super) fn new(fields: &[RecordField]) -> Self {
        Self { paths: fields.iter().map(|field| field.path.clone()).collect() }
    }

    /// The names of the columns. A field with the name of a column of every export begins with `record.`.
    pub(super) fn header(&self) -> Vec<u8> {
        let names = self.paths.iter().map(|path| {
            let name = path.join(".");
            if METADATA.contains(&&*name) { format!("record.{name}") } else { name }
        });
        let mut bytes = Vec::new();
        row(
            &mut bytes,
            METADATA.iter().map(|name| (*name).to_owned()).chain(names).map(|name| guarded(&name)),
        );
        bytes
    }

    /// Appends the row of a record. A value that is a list or an object is JSON text; a missing one is empty.
    pub(super) fn write(&self, bytes: &mut Vec<u8>, of: &IndexedRecord) -> Result<(), serde_json::Error> {
        let record: Value = serde_json::from_str(of.record.get())?;
        let (cid, indexed_at) = (of.cid.as_deref().unwrap_or_default(), of.indexed_at.to_string());
        let metadata = [&of.uri, cid, &of.did, &of.rkey, &indexed_at].map(guarded);
        let fields = self.paths.iter().map(|path| {
            cell(path.iter().try_fold(&record, |value, name| value.get(name)).unwrap_or(&Value::Null))
        });
        row(bytes, metadata.into_iter().chain(fields));
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
