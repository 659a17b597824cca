//! OAuth 2.0 with Microsoft: authorization code with PKCE, for personal accounts.

use belvedere_plugin::http::{self, Request};
use belvedere_plugin::{Callback, Expiry, Fault, Start, Tokens, pkce, secrets, url};
use serde::Deserialize;

const AUTHORIZE: &str = "https://login.microsoftonline.com/consumers/oauth2/v2.0/authorize";
const TOKEN: &str = "https://login.microsoftonline.com/consumers/oauth2/v2.0/token";
/// Xbox Live in the user's name, with a refresh token.
const SCOPE: &str = "XboxLive.signin offline_access";

/// The answer of the token endpoint (RFC 6749 §5.1), and its errors (§5.2).
#[derive(Deserialize)]
struct TokenResponse {
    access_token: Option<String>,
    refresh_token: Option<String>,
    expires_in: Option<u32>,
    scope: Option<String>,
    error: Option<String>,
}

pub(crate) fn authorize_url(start: &Start) -> Result<String, Fault> {
    let (client_id, challenge) = (secrets::required("CLIENT_ID")?, pkce::begin()?);
    let params = [
        ("client_id", client_id.as_str()),
        ("response_type", "code"),
        ("redirect_uri", &start.redirect_uri),
        ("scope", SCOPE),
        ("state", &start.state),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        // Without it the browser's account is taken, and the user can't link another.
        ("prompt", "select_account"),
    ];
    Ok(url::with_query(&http::service_url(AUTHORIZE), &params))
}

pub(crate) fn exchange(callback: &Callback) -> Result<Tokens, Fault> {
    let code = callback.param("code").ok_or_else(|| Fault::bad_input("Microsoft sent no code"))?;
    let verifier = pkce::verifier()?;
    request(&[
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", &callback.redirect_uri),
        ("code_verifier", &verifier),
    ])
}

pub(crate) fn refresh(tokens: &Tokens) -> Result<Tokens, Fault> {
    let refresh = tokens.refresh.as_deref();
    let refresh = refresh.ok_or_else(|| Fault::needs_reauth("there is no refresh token"))?;
    request(&[("grant_type", "refresh_token"), ("refresh_token", refresh), ("scope", SCOPE)])
}

fn request(params: &[(&str, &str)]) -> Result<Tokens, Fault> {
    let (id, secret) = (secrets::required("CLIENT_ID")?, secrets::required("CLIENT_SECRET")?);
    let mut form = vec![("client_id", id.as_str()), ("client_secret", secret.as_str())];
    form.extend_from_slice(params);
    let response = Request::post_form(TOKEN, &form).send()?;
    // Errors of this endpoint are JSON with the status 400 or 401.
    if matches!(response.status(), 400 | 401) {
        return tokens(response.json()?);
    }
    tokens(response.successful()?.json()?)
}

fn tokens(response: TokenResponse) -> Result<Tokens, Fault> {
    match response {
        TokenResponse { access_token: Some(access), refresh_token, expires_in, scope, error: None } => {
            Ok(Tokens {
                access,
                refresh: refresh_token,
                token_type: "Bearer".to_owned(),
                scope,
                expiry: expires_in.map_or(Expiry::Never, Expiry::InSeconds),
            })
        }
        TokenResponse { error: Some(error), .. } => Err(match error.as_str() {
            "invalid_grant" | "interaction_required" | "consent_required" => {
                Fault::needs_reauth("Microsoft no longer accepts this sign-in")
            }
            "invalid_client" | "unauthorized_client" => {
                Fault::internal("Microsoft refuses the client id or secret; the operator must set others")
            }
            _ => Fault::upstream(format!("Microsoft answered with the error {error}")),
        }),
        _ => Err(Fault::upstream("Microsoft sent no token")),
    }
}

#[cfg(test)]
mod tests {
    use belvedere_plugin::FaultCode;
    use serde_json::{Value, json};

    use super::*;

    fn read(response: Value) -> Result<Tokens, Fault> {
        tokens(serde_json::from_value(response).unwrap())
    }

    #[test]
    fn answers_become_tokens() {
        let response =
            json!({"token_type": "Bearer", "expires_in": 3600, "access_token": "a", "refresh_token": "r"});
        let tokens = read(response).unwrap();
        assert_eq!((tokens.access.as_str(), tokens.refresh.as_deref()), ("a", Some("r")));
        assert_eq!(tokens.expiry, Expiry::InSeconds(3600));
    }

    #[test]
    fn errors_say_who_must_act() {
        for (error, code) in [
            ("invalid_grant", FaultCode::NeedsReauth),
            ("invalid_client", FaultCode::Internal),
            ("server_error", FaultCode::Upstream),
        ] {
            assert_eq!(read(json!({"error": error})).unwrap_err().code, code, "{error}");
        }
        assert_eq!(read(json!({})).unwrap_err().code, FaultCode::Upstream);
    }
}
