//! Reads the query parameters of lists: `limit`, and parameters that are required.

use crate::http::{Error, Request};

/// Default and maximum page size of a list. The specification gives one default for records and one for logs, and one
/// maximum for all, which bounds the cost of a page.
#[derive(Clone, Copy, Debug)]
pub struct PageSize {
    pub default: u32,
    pub max: u32,
}

/// XRPC lists and admin records.
pub const RECORDS: PageSize = PageSize { default: 20, max: 100 };
/// The event log and other logs.
pub const LOGS: PageSize = PageSize { default: 50, max: 100 };

/// Reads `limit`, clamped to the allowed range.
///
/// # Errors
/// 400 when it is not a number.
pub fn limit(request: &Request, size: PageSize) -> Result<u32, Error> {
    let Some(text) = request.query("limit") else { return Ok(size.default) };
    let number: i64 = text
        .parse()
        .map_err(|_| Error::bad_request(format!("limit must be a number from 1 to {}", size.max)))?;
    Ok(u32::try_from(number.clamp(1, i64::from(size.max))).unwrap_or(size.default))
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::http::request::NO_PEER;

    fn request(query: &str) -> Request {
        let (head, ()) = http::Request::get(format!("/x?{query}")).body(()).unwrap().into_parts();
        Request { head, body: Bytes::new(), params: Vec::new(), id: String::new(), peer: NO_PEER }
    }

    #[test]
    fn limits_are_clamped_and_must_be_numbers() {
        for (query, expected) in
            [("", 20), ("limit=7", 7), ("limit=0", 1), ("limit=-5", 1), ("limit=5000", 100)]
        {
            assert_eq!(limit(&request(query), RECORDS).unwrap(), expected, "{query}");
        }
        for query in ["limit=", "limit=ten", "limit=1.5", "limit=99999999999999999999"] {
            assert_eq!(limit(&request(query), RECORDS).unwrap_err().status, 400, "{query}");
        }
    }

    #[test]
    fn required_parameters_may_not_be_blank() {
        assert_eq!(required(&request("uri=a"), "uri").unwrap(), "a");
        assert!(required(&request("uri=%20"), "uri").unwrap_err().error.contains("uri"));
        assert!(required(&request(""), "uri").is_err());
    }
}
