//! Reads the query parameters of lists: `limit`, `valid`, times, and parameters that are required.

use schemars::JsonSchema;
use serde::Deserialize;

use belvedere_base::clock::Timestamp;
use belvedere_storage::query::{self, PageSize};
use belvedere_web::http::Error;

/// The page of a list that a query asks for.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct Page {
    #[schemars(with = "Option<u32>")]
    pub limit: Option<String>,
    /// The cursor of the page before.
    pub cursor: Option<String>,
}

impl Page {
    /// The page size.
    ///
    /// # Errors
    /// 400 when `limit` is not a number.
    pub fn limit(&self, size: PageSize) -> Result<u32, Error> {
        size.read(self.limit.as_deref()).map_err(|invalid| Error::bad_request(invalid.to_string()))
    }

    /// The cursor; a blank one is none.
    pub fn cursor(&self) -> Option<String> {
        given(self.cursor.as_deref())
    }
}

/// The place of a row in a list by time. The id distinguishes rows of one microsecond.
#[derive(Debug)]
pub struct Keyset {
    pub time: Timestamp,
    pub id: String,
}

impl Keyset {
    /// The cursor of a page that ends with this row.
    pub fn cursor(time: Timestamp, id: &str) -> String {
        format!("{time}_{id}")
    }
}

impl Page {
    /// The cursor of a list by time.
    ///
    /// # Errors
    /// 400 when it is not one of [`Keyset::cursor`].
    pub fn keyset(&self) -> Result<Option<Keyset>, Error> {
        let Some(cursor) = self.cursor() else { return Ok(None) };
        let read = |text: &str| {
            let (time, id) = text.split_once('_')?;
            Some(Keyset { time: Timestamp::parse(time).ok()?, id: id.to_owned() })
        };
        let malformed = || Error::bad_request("cursor must be the cursor of an earlier answer");
        read(&cursor).map(Some).ok_or_else(malformed)
    }
}

/// A parameter without the blanks around it; `None` if nothing else is there.
pub fn given(text: Option<&str>) -> Option<String> {
    text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A query parameter that must be present and not blank.
///
/// # Errors
/// 400 naming it.
pub fn required(name: &'static str, value: Option<String>) -> Result<String, Error> {
    let value = value.filter(|value| !value.trim().is_empty());
    value.ok_or_else(|| Error::bad_request(format!("missing query parameter {name}")))
}

/// A query parameter that is `true` or `false`; `default` without one.
///
/// # Errors
/// 400 for anything else.
pub fn flag(name: &'static str, value: Option<&str>, default: bool) -> Result<bool, Error> {
    match value {
        None => Ok(default),
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(_) => Err(Error::bad_request(format!("{name} must be true or false"))),
    }
}

/// A query parameter that is a time.
///
/// # Errors
/// 400 naming it, and the form of a time.
pub fn time(name: &'static str, value: Option<&str>) -> Result<Option<Timestamp>, Error> {
    let parsed = given(value).map(|text| Timestamp::parse(&text)).transpose();
    parsed.map_err(|_| {
        Error::bad_request(format!("{name} must be an RFC 3339 time, like 2030-01-31T00:00:00Z"))
    })
}

/// The filter by validity; `None` for all records.
///
/// # Errors
/// 400 for anything but `true` and `false`.
pub fn valid(text: Option<&str>) -> Result<Option<bool>, Error> {
    query::valid(text).map_err(|invalid| Error::bad_request(invalid.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_parameters_may_not_be_blank() {
        let text = |value: &str| Some(value.to_owned());
        assert_eq!(required("uri", text("a")).unwrap(), "a");
        assert!(required("uri", text(" ")).unwrap_err().error.contains("uri"));
        assert!(required("uri", None).is_err());
    }
}
