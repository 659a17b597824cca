//! Query parameters as scripts see them.

use serde_json::{Map, Value};

use crate::http::Request;

/// The parameter that identifies the client. It is ours, never the method's.
const CLIENT_KEY: &str = "client_key";

/// Strings, always; a repeated key becomes an array of strings, and a key without `=` an empty string.
pub(super) fn collect(request: &Request) -> Map<String, Value> {
    let mut params = Map::new();
    for (name, value) in request.query_pairs().filter(|(name, _)| name != CLIENT_KEY) {
        let value = Value::String(value.into_owned());
        match params.get_mut(name.as_ref()) {
            None => {
                params.insert(name.into_owned(), value);
            }
            Some(Value::Array(values)) => values.push(value),
            Some(first) => *first = Value::Array(vec![first.take(), value]),
        }
    }
    params
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_is_a_string_and_repeats_are_arrays() {
        let uri = "/xrpc/a.b.c?limit=5&tag=a&tag=b&tag=c&flag&sp=a+b%26&client_key=bvc_1";
        let (head, ()) = http::Request::get(uri).body(()).unwrap().into_parts();
        let request = Request { head, body: Bytes::new(), params: Vec::new(), id: String::new() };
        assert_eq!(
            Value::Object(collect(&request)),
            json!({ "limit": "5", "tag": ["a", "b", "c"], "flag": "", "sp": "a b&" })
        );
    }
}
