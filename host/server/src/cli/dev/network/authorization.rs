//! The authorization server of all accounts: who logs in chooses an account from a list, without a password. Tokens name their account
//! and protect nothing.

use std::collections::HashMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use url::{Url, form_urlencoded};

use super::accounts::Accounts;
use super::answers::{json_answer, page};
use belvedere_protocol::crypto::sha256;
use belvedere_web::net::FetchedResponse;

/// Logins that are not completed. The oldest ones of a laptop are forgotten ones.
const MAX_PENDING: usize = 1_000;

const ACCESS: &str = "dev-access.";
const REFRESH: &str = "dev-refresh.";

/// Seconds for which an access token is said to be valid.
const TOKEN_SECONDS: u32 = 3_600;

type Parameters = HashMap<String, String>;

#[derive(Debug, Default)]
pub(super) struct Authorization {
    /// The pushed requests, by their URI.
    pushed: HashMap<String, Parameters>,
    /// Account and request of each code.
    codes: HashMap<String, (String, Parameters)>,
    count: u64,
}

/// The token of an account for its PDS.
pub(super) fn access_token(did: &str) -> String {
    format!("{ACCESS}{did}")
}

/// The account whose token a request has.
pub(super) fn caller(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let token = value.strip_prefix("DPoP ").or_else(|| value.strip_prefix("Bearer "))?;
    token.strip_prefix(ACCESS)
}

/// The metadata of the server, and of the PDS that it protects; `None` for another path.
pub(super) fn metadata(path: &str, origin: &str) -> Option<FetchedResponse> {
    let document = match path {
        "/.well-known/oauth-protected-resource" => {
            json!({ "resource": origin, "authorization_servers": [origin] })
        }
        "/.well-known/oauth-authorization-server" => json!({
            "issuer": origin,
            "authorization_endpoint": format!("{origin}/oauth/authorize"),
            "token_endpoint": format!("{origin}/oauth/token"),
            "pushed_authorization_request_endpoint": format!("{origin}/oauth/par"),
            "revocation_endpoint": format!("{origin}/oauth/revoke"),
            "require_pushed_authorization_requests": true,
            "scopes_supported": ["atproto", "transition:generic", "transition:email", "transition:chat.bsky"],
            "response_types_supported": ["code"],
            "response_modes_supported": ["query", "fragment"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
            "token_endpoint_auth_signing_alg_values_supported": ["ES256"],
            "dpop_signing_alg_values_supported": ["ES256", "ES256K"],
            "authorization_response_iss_parameter_supported": true,
            "client_id_metadata_document_supported": true,
        }),
        _ => return None,
    };
    Some(json_answer(StatusCode::OK, &document))
}

impl Authorization {
    /// Answers an endpoint; `None` for another path.
    pub(super) fn answer(
        &mut self,
        url: &Url,
        body: &[u8],
        accounts: &Accounts,
        origin: &str,
    ) -> Option<FetchedResponse> {
        let form = || form_urlencoded::parse(body).into_owned().collect::<Parameters>();
        Some(match url.path() {
            "/oauth/par" => self.push(form()),
            "/oauth/authorize" => self.authorize(url.query_pairs().into_owned().collect(), accounts, origin),
            "/oauth/token" => self.token(&form()),
            "/oauth/revoke" => json_answer(StatusCode::OK, &json!({})),
            _ => return None,
        })
    }

    fn push(&mut self, parameters: Parameters) -> FetchedResponse {
        if self.pushed.len() >= MAX_PENDING {
            self.pushed.clear();
        }
        self.count += 1;
        let uri = format!("urn:ietf:params:oauth:request_uri:dev-{}", self.count);
        self.pushed.insert(uri.clone(), parameters);
        json_answer(StatusCode::CREATED, &json!({ "request_uri": uri, "expires_in": 300 }))
    }

    /// The page with the accounts, or the redirect after one was chosen.
    fn authorize(&mut self, query: Parameters, accounts: &Accounts, origin: &str) -> FetchedResponse {
        let uri = query.get("request_uri").map_or("", String::as_str);
        let Some(request) = self.pushed.get(uri) else {
            return page("Log in", "<p>This login is unknown or too old. Begin again in the app.</p>");
        };
        if let Some(account) = query.get("account").and_then(|name| accounts.find(name)) {
            let did = account.did.clone();
            return self.redirect(uri, &did, origin);
        }
        let hint = request.get("login_hint").filter(|hint| accounts.find(hint).is_some());
        let mut list = String::from("<ul>");
        for account in accounts.all() {
            if hint.is_none_or(|hint| *hint == account.did || *hint == account.handle) {
                let query = form_urlencoded::Serializer::new(String::new())
                    .extend_pairs([("request_uri", uri), ("account", account.did.as_str())])
                    .finish();
                // A handle has no character of HTML, and the query is encoded.
                let _ = write!(
                    list,
                    "<li><a href=\"/oauth/authorize?{}\">{}</a></li>",
                    query.replace('&', "&amp;"),
                    account.handle
                );
            }
        }
        list.push_str("</ul><p>These are the accounts of seed/accounts.json. They have no passwords.</p>");
        page("Log in as", &list)
    }

    fn redirect(&mut self, uri: &str, did: &str, origin: &str) -> FetchedResponse {
        let request = self.pushed.remove(uri).unwrap_or_default();
        let to = request.get("redirect_uri").and_then(|to| Url::parse(to).ok());
        let Some(mut to) = to else {
            return page("Log in", "<p>The app sent no redirect_uri.</p>");
        };
        if self.codes.len() >= MAX_PENDING {
            self.codes.clear();
        }
        self.count += 1;
        let code = format!("dev-code-{}", self.count);
        let mut pairs = vec![("code", code.clone()), ("iss", origin.to_owned())];
        pairs.extend(request.get("state").map(|state| ("state", state.clone())));
        if request.get("response_mode").is_some_and(|mode| mode == "fragment") {
            let text = form_urlencoded::Serializer::new(String::new()).extend_pairs(&pairs).finish();
            to.set_fragment(Some(&text));
        } else {
            to.query_pairs_mut().extend_pairs(&pairs);
        }
        self.codes.insert(code, (did.to_owned(), request));
        let mut answer = page("Log in", "");
        answer.status = StatusCode::SEE_OTHER;
        if let Ok(to) = HeaderValue::from_str(to.as_str()) {
            answer.headers.insert(header::LOCATION, to);
        }
        answer
    }

    fn token(&mut self, form: &Parameters) -> FetchedResponse {
        let field = |name: &str| form.get(name).map_or("", String::as_str);
        let granted = match field("grant_type") {
            "authorization_code" => self.exchange(form),
            _ => field("refresh_token").strip_prefix(REFRESH).and_then(|rest| {
                let (scope, did) = rest.split_once('.')?;
                let scope =
                    URL_SAFE_NO_PAD.decode(scope).ok().and_then(|text| String::from_utf8(text).ok())?;
                Some((did.to_owned(), scope))
            }),
        };
        let Some((did, scope)) = granted else { return refused("invalid_grant") };
        json_answer(
            StatusCode::OK,
            &json!({
                "access_token": access_token(&did),
                "refresh_token": format!("{REFRESH}{}.{did}", URL_SAFE_NO_PAD.encode(&scope)),
                "token_type": "DPoP", "expires_in": TOKEN_SECONDS, "scope": scope, "sub": did,
            }),
        )
    }

    /// Account and scopes of a code, if the client has the verifier of the request.
    fn exchange(&mut self, form: &Parameters) -> Option<(String, String)> {
        let (did, request) = self.codes.remove(form.get("code")?)?;
        let challenge = URL_SAFE_NO_PAD.encode(sha256(form.get("code_verifier")?.as_bytes()));
        let is_same = |name: &str| request.get(name) == form.get(name);
        let proved = request.get("code_challenge") == Some(&challenge);
        let scope = request.get("scope").cloned().unwrap_or_else(|| "atproto".to_owned());
        (proved && is_same("redirect_uri") && is_same("client_id")).then_some((did, scope))
    }
}

fn refused(error: &str) -> FetchedResponse {
    json_answer(StatusCode::BAD_REQUEST, &Value::from_iter([("error", error)]))
}

#[cfg(test)]
mod tests {
    use super::super::accounts::{Account, did_of};
    use super::*;

    const ORIGIN: &str = "http://127.0.0.1:3001";

    fn json(answer: &FetchedResponse) -> Value {
        serde_json::from_slice(&answer.body).unwrap()
    }

    #[test]
    fn a_login_needs_the_choice_of_an_account_and_the_verifier_but_no_password() {
        let mut accounts = Accounts::default();
        for handle in ["alice.test", "bob.test"] {
            accounts.put(Account { did: did_of(handle), handle: handle.to_owned() });
        }
        let mut server = Authorization::default();
        let mut ask = |path: &str, body: &str| {
            let url = Url::parse(&format!("{ORIGIN}{path}")).unwrap();
            server.answer(&url, body.as_bytes(), &accounts, ORIGIN).unwrap()
        };
        let challenge = URL_SAFE_NO_PAD.encode(sha256(b"verifier"));
        let request = format!(
            "client_id=c&redirect_uri=http://127.0.0.1/back&state=s&scope=atproto&code_challenge={challenge}"
        );
        for (verifier, status) in [("verifier", 200), ("another", 400)] {
            let pushed = json(&ask("/oauth/par", &request));
            let uri = pushed["request_uri"].as_str().unwrap();
            let list = ask(&format!("/oauth/authorize?client_id=c&request_uri={uri}"), "");
            let list = String::from_utf8_lossy(&list.body).into_owned();
            assert!(list.contains(">alice.test<") && list.contains(">bob.test<"), "{list}");
            let chosen =
                ask(&format!("/oauth/authorize?request_uri={uri}&account={}", did_of("bob.test")), "");
            let back = Url::parse(chosen.headers["location"].to_str().unwrap()).unwrap();
            let back: Parameters = back.query_pairs().into_owned().collect();
            assert_eq!((&*back["state"], &*back["iss"]), ("s", ORIGIN));
            let form = format!(
                "grant_type=authorization_code&client_id=c&redirect_uri=http://127.0.0.1/back&code={}&code_verifier={verifier}",
                back["code"]
            );
            let tokens = ask("/oauth/token", &form);
            assert_eq!(tokens.status.as_u16(), status);
            if status == 200 {
                let tokens = json(&tokens);
                assert_eq!(tokens["sub"], did_of("bob.test").as_str());
                let refresh = tokens["refresh_token"].as_str().unwrap();
                let renewed =
                    ask("/oauth/token", &format!("grant_type=refresh_token&refresh_token={refresh}"));
                assert_eq!(json(&renewed)["scope"], "atproto");
            }
        }
    }
}
