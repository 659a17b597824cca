//! Links Steam accounts with OpenID 2.0, and writes the games that a user owns and their play time.

mod api;
mod openid;
mod records;

use belvedere_plugin::{
    AccountPlugin, Callback, Fault, Page, Plugin, Profile, Start, SyncPlugin, Tokens, sync_plugin,
};
use serde_json::Value;

struct Steam;

impl Plugin for Steam {
    const MANIFEST: &'static str = include_str!("../manifest.json");
}

impl AccountPlugin for Steam {
    fn authorize_url(start: &Start) -> Result<String, Fault> {
        openid::authorize_url(start)
    }

    /// Steam has no tokens: the verified Steam id stands for the account, and calls of the API need the operator's key.
    fn handle_callback(callback: &Callback) -> Result<Tokens, Fault> {
        let steam_id = openid::verify(callback)?;
        Ok(Tokens { token_type: "steamid".to_owned(), ..Tokens::lasting(steam_id) })
    }

    fn profile(tokens: &Tokens, _config: &Value) -> Result<Profile, Fault> {
        api::profile(&tokens.access)
    }
}

impl SyncPlugin for Steam {
    fn pull(tokens: &Tokens, _config: &Value, cursor: Option<&str>) -> Result<Page, Fault> {
        records::page(api::owned_games(&tokens.access)?, cursor)
    }
}

sync_plugin!(Steam, "../../wit/plugin");
