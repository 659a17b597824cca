//! OAuth 2.0's authorization code with PKCE (RFC 6749 §4.1, RFC 7636), as services implement it: the part that several
//! stand-ins share.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use http::Response;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::form_urlencoded;

use crate::upstream::{ReceivedRequest, respond};

/// The parameters of a query or of a form.
pub(crate) fn parameters(text: &[u8]) -> BTreeMap<String, String> {
    form_urlencoded::parse(text).into_owned().collect()
}

/// The parameters of a request's query.
pub(crate) fn query(request: &ReceivedRequest) -> BTreeMap<String, String> {
    parameters(request.path_and_query.split_once('?').map_or("", |(_, query)| query).as_bytes())
}

/// The URL with more parameters in its query.
pub(crate) fn with_query(url: &str, params: &[(&str, &str)]) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(params).finish();
    format!("{url}{}{query}", if url.contains('?') { '&' } else { '?' })
}

pub(crate) fn json_response(status: u16, body: &Value) -> Response<Bytes> {
    respond(status, "application/json", body.to_string())
}

/// Sends the browser elsewhere.
pub(crate) fn redirect(url: &str) -> Response<Bytes> {
    let mut response = respond(302, "text/html", "");
    response.headers_mut().insert("location", url.parse().expect("an encoded URL"));
    response
}

/// Codes and tokens that were issued.
#[derive(Debug)]
pub(crate) struct CodeFlow {
    client_id: &'static str,
    /// None for public clients.
    client_secret: Option<&'static str>,
    /// Challenge and redirect URI of each code that was not used.
    codes: BTreeMap<String, (String, String)>,
    access: BTreeSet<String>,
    refresh: BTreeSet<String>,
    issued: u32,
}

impl CodeFlow {
    pub(crate) fn new(client_id: &'static str, client_secret: Option<&'static str>) -> Self {
        let (codes, access, refresh) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { client_id, client_secret, codes, access, refresh, issued: 0 }
    }

    /// A user who is signed in and consents at once.
    pub(crate) fn authorize(&mut self, request: &ReceivedRequest, scope: &str) -> Response<Bytes> {
        let query = query(request);
        let get = |name: &str| query.get(name).cloned().unwrap_or_default();
        let expected = [
            ("response_type", "code"),
            ("client_id", self.client_id),
            ("scope", scope),
            ("code_challenge_method", "S256"),
        ];
        if let Some((name, _)) = expected.iter().find(|(name, value)| get(name) != *value) {
            return respond(400, "text/plain", format!("wrong {name}"));
        }
        let code = self.next("code");
        self.codes.insert(code.clone(), (get("code_challenge"), get("redirect_uri")));
        redirect(&with_query(&get("redirect_uri"), &[("code", &code), ("state", &get("state"))]))
    }

    /// The token endpoint. Codes and refresh tokens work once.
    pub(crate) fn token(&mut self, request: &ReceivedRequest) -> Response<Bytes> {
        let form = parameters(&request.body);
        let get = |name: &str| form.get(name).map_or("", String::as_str);
        if get("client_id") != self.client_id
            || self.client_secret.is_some_and(|secret| get("client_secret") != secret)
        {
            return json_response(401, &json!({"error": "invalid_client"}));
        }
        let is_valid = match get("grant_type") {
            "authorization_code" => {
                self.codes.remove(get("code")).is_some_and(|(challenge, redirect_uri)| {
                    let verifier = Sha256::digest(get("code_verifier").as_bytes());
                    BASE64URL_NOPAD.encode(&verifier) == challenge && get("redirect_uri") == redirect_uri
                })
            }
            "refresh_token" => self.refresh.remove(get("refresh_token")),
            _ => return json_response(400, &json!({"error": "unsupported_grant_type"})),
        };
        if !is_valid {
            return json_response(400, &json!({"error": "invalid_grant"}));
        }
        let (access, refresh) = (self.next("access"), self.next("refresh"));
        self.access.insert(access.clone());
        self.refresh.insert(refresh.clone());
        let body = json!({"token_type": "Bearer", "expires_in": 3600, "access_token": access, "refresh_token": refresh});
        json_response(200, &body)
    }

    pub(crate) fn accepts(&self, access_token: &str) -> bool {
        self.access.contains(access_token)
    }

    /// Lets all access tokens expire.
    pub(crate) fn expire(&mut self) {
        self.access.clear();
    }

    /// Ends all sign-ins.
    pub(crate) fn end(&mut self) {
        self.access.clear();
        self.refresh.clear();
    }

    fn next(&mut self, kind: &str) -> String {
        self.issued += 1;
        format!("{kind}-{}", self.issued)
    }
}
