//! Links accounts of the service in `tests/support/linked_service.rs` (OAuth 2 with PKCE), and writes the items that it
//! lists.

use belvedere_plugin::http::{Request, service_url};
use belvedere_plugin::{
    AccountPlugin, Callback, Expiry, Fault, Item, Page, Plugin, Profile, Scope, Start, SyncPlugin, Tokens,
    kv, pkce, sync_plugin, url,
};
use serde::Deserialize;
use serde_json::Value;

struct Probe;

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    refresh_token: Option<String>,
    expires_in: Option<u32>,
}

#[derive(Deserialize)]
struct Me {
    id: String,
    name: String,
}

#[derive(Deserialize)]
struct Listed {
    items: Vec<ListedItem>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct ListedItem {
    collection: String,
    value: Value,
    key: Option<String>,
    #[serde(default)]
    sign: bool,
}

impl Plugin for Probe {
    const MANIFEST: &'static str = include_str!("../manifest.json");
}

fn token(params: &[(&str, &str)]) -> Result<Tokens, Fault> {
    let answer: TokenAnswer = Request::post_form("https://probe.example/token", params).json()?;
    Ok(Tokens {
        access: answer.access_token,
        refresh: answer.refresh_token,
        token_type: "Bearer".to_owned(),
        scope: None,
        expiry: answer.expires_in.map_or(Expiry::Never, Expiry::InSeconds),
    })
}

fn get(path: &str, tokens: &Tokens) -> Request {
    Request::get(&format!("https://probe.example/{path}"))
        .header("authorization", &format!("Bearer {}", tokens.access))
}

impl AccountPlugin for Probe {
    fn authorize_url(start: &Start) -> Result<String, Fault> {
        let challenge = pkce::begin()?;
        let page = service_url("https://probe.example/authorize");
        Ok(url::with_query(
            &page,
            &[("state", &start.state), ("redirect_uri", &start.redirect_uri), ("code_challenge", &challenge)],
        ))
    }

    fn handle_callback(callback: &Callback) -> Result<Tokens, Fault> {
        let code = callback.param("code").ok_or_else(|| Fault::bad_input("the service sent no code"))?;
        let verifier = pkce::verifier()?;
        let redirect_uri = callback.redirect_uri.as_str();
        token(&[("code", code), ("code_verifier", &verifier), ("redirect_uri", redirect_uri)])
    }

    fn refresh(tokens: &Tokens, _config: &Value) -> Result<Tokens, Fault> {
        let refresh = tokens.refresh.as_deref().unwrap_or_default();
        token(&[("refresh_token", refresh)])
    }

    fn profile(tokens: &Tokens, _config: &Value) -> Result<Profile, Fault> {
        let me: Me = get("me", tokens).json()?;
        Ok(Profile { account_id: me.id, display_name: Some(me.name), ..Profile::default() })
    }

    fn revoke(tokens: &Tokens) -> Result<(), Fault> {
        let form = [("token", tokens.access.as_str())];
        Request::post_form("https://probe.example/revoke", &form).send()?.successful().map(drop)
    }
}

impl SyncPlugin for Probe {
    fn pull(tokens: &Tokens, _config: &Value, cursor: Option<&str>) -> Result<Page, Fault> {
        // Shows in tests that values of an account are removed with it.
        kv::set(Scope::Account, "pulled", b"yes", None)?;
        let path = url::with_query("items", &[("cursor", cursor.unwrap_or_default())]);
        let listed: Listed = get(&path, tokens).json()?;
        let items = listed.items.into_iter().map(|item| Item {
            collection: item.collection,
            value: item.value,
            dedup_key: item.key,
            sign: item.sign,
        });
        Ok(Page { items: items.collect(), next: listed.next })
    }
}

sync_plugin!(Probe, "../../../wit/plugin");
