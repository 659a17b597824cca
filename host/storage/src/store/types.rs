//! Maps the server's own types to SQL types.

use serde::de::DeserializeOwned;
use sqlx::error::BoxDynError;
use sqlx::{Database, Decode, Type};

/// A value as JSON in a TEXT column, also in one that may be NULL (then `T` is an `Option`). sqlx's own `Json` takes
/// columns of PostgreSQL's JSON types only.
#[derive(Clone, Debug)]
pub(super) struct JsonText<T>(T);

/// The JSON text of a list, to bind.
pub(super) fn to_json_text<S: serde::Serialize>(items: &[S]) -> String {
    // Lists of strings always serialize.
    serde_json::to_string(items).unwrap_or_else(|_| "[]".to_owned())
}

/// SQL: the elements of a JSON list in a parameter, as the table `v` with the column `value`; `->>` reads their fields.
macro_rules! json_rows {
    (sqlite, $parameter:literal) => {
        concat!("json_each(", $parameter, ") AS v")
    };
    (postgres, $parameter:literal) => {
        concat!("json_array_elements(", $parameter, "::json) AS v (value)")
    };
}
pub(super) use json_rows;

impl From<JsonText<Self>> for Vec<String> {
    fn from(text: JsonText<Self>) -> Self {
        text.0
    }
}

impl From<JsonText<Self>> for Option<Vec<String>> {
    fn from(text: JsonText<Self>) -> Self {
        text.0
    }
}

impl<T, DB: Database> Type<DB> for JsonText<T>
where
    String: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        String::type_info()
    }

    fn compatible(ty: &DB::TypeInfo) -> bool {
        String::compatible(ty)
    }
}

impl<'r, T: DeserializeOwned, DB: Database> Decode<'r, DB> for JsonText<T>
where
    String: Decode<'r, DB>,
    Option<String>: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
        let text = Option::<String>::decode(value)?;
        Ok(Self(serde_json::from_str(text.as_deref().unwrap_or("null"))?))
    }
}
