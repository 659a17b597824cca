//! Query parameters as scripts see them.

use crate::http::Request;

/// The parameter that identifies the client. It is ours, never the method's.
const CLIENT_KEY: &str = "client_key";

/// Names and values in order, decoded; a key without `=` has an empty value.
pub(super) fn collect(request: &Request) -> Vec<(String, String)> {
    request
        .query_pairs()
        .filter(|(name, _)| name != CLIENT_KEY)
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::http::request::NO_PEER;

    #[test]
    fn everything_is_a_string_and_the_client_key_stays_here() {
        let uri = "/xrpc/a.b.c?limit=5&tag=a&tag=b&flag&sp=a+b%26&client_key=bvc_1";
        let (head, ()) = http::Request::get(uri).body(()).unwrap().into_parts();
        let request =
            Request { head, body: Bytes::new(), params: Vec::new(), id: String::new(), peer: NO_PEER };
        let params = collect(&request);
        let params: Vec<(&str, &str)> = params.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(params, [("limit", "5"), ("tag", "a"), ("tag", "b"), ("flag", ""), ("sp", "a b&")]);
    }
}
