//! The `$type` of a record that is to be written: its collection.

use serde_json::{Map, Value};

/// A record has the `$type` of another collection.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("$type must be {0}, or be left out")]
pub struct WrongRecordType(String);

/// Adds `$type` to a record without one.
///
/// # Errors
/// When the record has another one: it was meant for another collection.
pub fn set_record_type(fields: &mut Map<String, Value>, collection: &str) -> Result<(), WrongRecordType> {
    match fields.get("$type") {
        None => {
            fields.insert("$type".to_owned(), collection.into());
            Ok(())
        }
        Some(kind) if kind == collection => Ok(()),
        Some(_) => Err(WrongRecordType(collection.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_has_the_type_of_its_collection() {
        let typed = |record: Value| {
            let Value::Object(mut fields) = record else { panic!("{record} is no record") };
            set_record_type(&mut fields, "com.example.note").map(|()| Value::Object(fields))
        };
        let note = json!({ "$type": "com.example.note", "a": 1 });
        assert_eq!(typed(json!({ "a": 1 })).unwrap(), note);
        assert_eq!(typed(note.clone()).unwrap(), note);
        for wrong in [json!("com.example.post"), json!("com.example.note#main"), json!(null), json!(1)] {
            let error = typed(json!({ "$type": wrong })).unwrap_err();
            assert_eq!(error.to_string(), "$type must be com.example.note, or be left out");
        }
    }
}
