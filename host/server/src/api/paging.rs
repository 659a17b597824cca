//! Reads the query parameters of lists: `limit`, `valid`, times, and parameters that are required.

use belvedere_base::clock::Timestamp;
use belvedere_storage::query::{self, PageSize};
use belvedere_web::http::{Error, Request};

/// The page size that a request asks for.
///
/// # Errors
/// 400 when `limit` is not a number.
pub fn limit(request: &Request, size: PageSize) -> Result<u32, Error> {
    size.read(request.query("limit").as_deref()).map_err(|invalid| Error::bad_request(invalid.to_string()))
}

/// A query parameter that must be present and not blank.
///
/// # Errors
/// 400 naming it.
pub fn required(request: &Request, name: &'static str) -> Result<String, Error> {
    request
        .query(name)
        .filter(|value| !value.trim().is_empty())
        .ok_or_else(|| Error::bad_request(format!("missing query parameter {name}")))
}

/// A query parameter that is not blank.
pub fn optional(request: &Request, name: &str) -> Option<String> {
    request.query(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// A query parameter that is a time.
///
/// # Errors
/// 400 naming it, and the form of a time.
pub fn time(request: &Request, name: &'static str) -> Result<Option<Timestamp>, Error> {
    let parsed = optional(request, name).map(|text| Timestamp::parse(&text)).transpose();
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
    use bytes::Bytes;

    use super::*;
    use belvedere_web::http::request::NO_PEER;

    fn request(query: &str) -> Request {
        let (head, ()) = http::Request::get(format!("/x?{query}")).body(()).unwrap().into_parts();
        Request { head, body: Bytes::new(), params: Vec::new(), id: String::new(), peer: NO_PEER }
    }

    #[test]
    fn required_parameters_may_not_be_blank() {
        assert_eq!(required(&request("uri=a"), "uri").unwrap(), "a");
        assert!(required(&request("uri=%20"), "uri").unwrap_err().error.contains("uri"));
        assert!(required(&request(""), "uri").is_err());
    }
}
