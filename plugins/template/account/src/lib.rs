//! Links accounts with OAuth 2.0: authorization code with PKCE.

use belvedere_plugin::http::{self, Request};
use belvedere_plugin::{
    AccountPlugin, Callback, Expiry, Fault, Plugin, Profile, Start, Tokens, account_plugin, pkce, secrets,
    url,
};
use serde_json::Value;

const AUTHORIZE: &str = "https://example.com/oauth/authorize";
const TOKEN: &str = "https://api.example.com/oauth/token";
const PROFILE: &str = "https://api.example.com/me";

struct Template;

impl Plugin for Template {
    const MANIFEST: &'static str = include_str!("../manifest.json");
}

impl AccountPlugin for Template {
    fn authorize_url(start: &Start) -> Result<String, Fault> {
        let params = [
            ("response_type", "code"),
            ("client_id", &secrets::required("CLIENT_ID")?),
            ("redirect_uri", &start.redirect_uri),
            ("state", &start.state),
            ("code_challenge", &pkce::begin()?),
            ("code_challenge_method", "S256"),
        ];
        Ok(url::with_query(&http::service_url(AUTHORIZE), &params))
    }

    fn handle_callback(callback: &Callback) -> Result<Tokens, Fault> {
        let code = callback.param("code").ok_or_else(|| Fault::bad_input("the service sent no code"))?;
        request_tokens(&[
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &callback.redirect_uri),
            ("code_verifier", &pkce::verifier()?),
        ])
    }

    fn refresh(tokens: &Tokens, _config: &Value) -> Result<Tokens, Fault> {
        let refresh =
            tokens.refresh.as_deref().ok_or_else(|| Fault::needs_reauth("there is no refresh token"))?;
        request_tokens(&[("grant_type", "refresh_token"), ("refresh_token", refresh)])
    }

    fn profile(tokens: &Tokens, _config: &Value) -> Result<Profile, Fault> {
        let authorization = format!("Bearer {}", tokens.access);
        let user: Value = Request::get(PROFILE).header("authorization", &authorization).json()?;
        let id = user["id"].as_str().ok_or_else(|| Fault::upstream("the service named no account"))?;
        Ok(Profile {
            account_id: id.to_owned(),
            display_name: user["name"].as_str().map(str::to_owned),
            ..Profile::default()
        })
    }
}

account_plugin!(Template, "../../../wit/plugin");

fn request_tokens(params: &[(&str, &str)]) -> Result<Tokens, Fault> {
    let (id, secret) = (secrets::required("CLIENT_ID")?, secrets::required("CLIENT_SECRET")?);
    let mut form = vec![("client_id", id.as_str()), ("client_secret", secret.as_str())];
    form.extend_from_slice(params);
    tokens(&Request::post_form(TOKEN, &form).json()?)
}

fn tokens(answer: &Value) -> Result<Tokens, Fault> {
    let access =
        answer["access_token"].as_str().ok_or_else(|| Fault::upstream("the service sent no token"))?;
    let seconds = answer["expires_in"].as_u64().and_then(|seconds| u32::try_from(seconds).ok());
    Ok(Tokens {
        refresh: answer["refresh_token"].as_str().map(str::to_owned),
        expiry: seconds.map_or(Expiry::Never, Expiry::InSeconds),
        ..Tokens::lasting(access)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_become_tokens() {
        let found = tokens(&json!({"access_token": "a", "expires_in": 60})).unwrap();
        assert_eq!((found.access.as_str(), found.expiry), ("a", Expiry::InSeconds(60)));
        assert!(tokens(&json!({})).is_err());
    }
}
