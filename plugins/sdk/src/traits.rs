//! The traits that a plugin implements.

use serde_json::Value;

use crate::{Callback, Context, Fault, Function, Page, Profile, Start, Tokens};

/// Every plugin.
pub trait Plugin {
    /// The text of `manifest.json`. The plugin's description of itself is read from it, so the two always agree.
    const MANIFEST: &'static str;
}

/// Links users' accounts at a service. A plugin with `auth_type` `oauth2` or `openid` implements `authorize_url` and
/// `handle_callback`, one with `api_key` implements `connect`.
pub trait AccountPlugin: Plugin {
    /// The URL at which the user signs in.
    fn authorize_url(start: &Start) -> Result<String, Fault> {
        let _ = start;
        Err(Fault::unsupported("this plugin has no sign-in page"))
    }

    /// Exchanges what the service's redirect brought.
    fn handle_callback(callback: &Callback) -> Result<Tokens, Fault> {
        let _ = callback;
        Err(Fault::unsupported("this plugin has no sign-in page"))
    }

    /// Checks what the user typed.
    fn connect(config: &Value) -> Result<Tokens, Fault> {
        let _ = config;
        Err(Fault::unsupported("this plugin links accounts on a sign-in page"))
    }

    /// New tokens. The old refresh token stays in use when none comes back.
    fn refresh(tokens: &Tokens, config: &Value) -> Result<Tokens, Fault> {
        let _ = (tokens, config);
        Err(Fault::unsupported("the tokens of this plugin can't be refreshed"))
    }

    fn profile(tokens: &Tokens, config: &Value) -> Result<Profile, Fault>;

    /// Ends the tokens at the service.
    fn revoke(tokens: &Tokens) -> Result<(), Fault> {
        let _ = tokens;
        Err(Fault::unsupported("the service has no call that ends tokens"))
    }
}

/// Writes records of the account into the user's repo.
pub trait SyncPlugin: AccountPlugin {
    /// The page at `cursor`, the first one without it.
    fn pull(tokens: &Tokens, config: &Value, cursor: Option<&str>) -> Result<Page, Fault>;
}

/// Offers functions to scripts.
pub trait LibraryPlugin: Plugin {
    /// The same at each call.
    fn functions() -> Vec<Function>;

    fn call(name: &str, args: &[Value], context: &Context) -> Result<Value, Fault>;
}
