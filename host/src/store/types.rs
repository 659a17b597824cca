//! Maps the server's own types to SQL types.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::{Database, Decode, Encode, Type};

use crate::clock::Timestamp;

use super::events::Severity;

/// Microseconds as BIGINT.
impl<DB: Database> Type<DB> for Timestamp
where
    i64: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        i64::type_info()
    }

    fn compatible(ty: &DB::TypeInfo) -> bool {
        i64::compatible(ty)
    }
}

impl<'r, DB: Database> Decode<'r, DB> for Timestamp
where
    i64: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
        i64::decode(value).map(Self)
    }
}

impl<'q, DB: Database> Encode<'q, DB> for Timestamp
where
    i64: Encode<'q, DB>,
{
    fn encode_by_ref(&self, buf: &mut DB::ArgumentBuffer) -> Result<IsNull, BoxDynError> {
        self.0.encode_by_ref(buf)
    }
}

/// A list of strings as a JSON array in a TEXT column.
#[derive(Clone, Debug)]
pub(super) struct List(pub(super) Vec<String>);

impl List {
    pub(super) fn to_json<S: serde::Serialize>(items: &[S]) -> String {
        // Strings always serialize.
        serde_json::to_string(items).unwrap_or_else(|_| "[]".to_owned())
    }
}

impl TryFrom<String> for List {
    type Error = serde_json::Error;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        serde_json::from_str(&text).map(Self)
    }
}

impl From<List> for Vec<String> {
    fn from(list: List) -> Self {
        list.0
    }
}

impl<DB: Database> Type<DB> for List
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

impl<'r, DB: Database> Decode<'r, DB> for List
where
    String: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
        Ok(String::decode(value)?.try_into()?)
    }
}

/// As [`List`], in a column that may be NULL.
#[derive(Clone, Debug)]
pub(super) struct OptionalList(Option<Vec<String>>);

impl From<OptionalList> for Option<Vec<String>> {
    fn from(list: OptionalList) -> Self {
        list.0
    }
}

impl<DB: Database> Type<DB> for OptionalList
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

impl<'r, DB: Database> Decode<'r, DB> for OptionalList
where
    String: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
        let text = Option::<String>::decode(value)?;
        Ok(Self(text.map(|text| serde_json::from_str(&text)).transpose()?))
    }
}

impl TryFrom<String> for Severity {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("unknown severity: {text:?}"))
    }
}
