//! Links Xbox accounts with OAuth 2.0 at Microsoft, and writes the games that a user has played.

mod api;
mod microsoft;
mod records;
mod xbox_live;

use belvedere_plugin::{
    AccountPlugin, Callback, Fault, Page, Plugin, Profile, Start, SyncPlugin, Tokens, sync_plugin,
};
use serde_json::Value;

struct Xbox;

impl Plugin for Xbox {
    const MANIFEST: &'static str = include_str!("../manifest.json");
}

/// The stored tokens are Microsoft's. Those of Xbox Live are made of them in each call: two requests, and nothing else to
/// keep secret.
impl AccountPlugin for Xbox {
    fn authorize_url(start: &Start) -> Result<String, Fault> {
        microsoft::authorize_url(start)
    }

    fn handle_callback(callback: &Callback) -> Result<Tokens, Fault> {
        microsoft::exchange(callback)
    }

    fn refresh(tokens: &Tokens, _config: &Value) -> Result<Tokens, Fault> {
        microsoft::refresh(tokens)
    }

    fn profile(tokens: &Tokens, _config: &Value) -> Result<Profile, Fault> {
        api::profile(&xbox_live::sign_in(&tokens.access)?)
    }
}

impl SyncPlugin for Xbox {
    fn pull(tokens: &Tokens, _config: &Value, cursor: Option<&str>) -> Result<Page, Fault> {
        records::page(api::titles(&xbox_live::sign_in(&tokens.access)?)?, cursor)
    }
}

sync_plugin!(Xbox, "../../wit/plugin");
