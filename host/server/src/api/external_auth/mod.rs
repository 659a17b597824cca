//! `/external-auth/*`: users link their accounts at other services through plugins (plugins.md §6).

pub mod accounts;
pub mod authorize;
pub mod callback;
pub mod connect;
pub mod providers;
pub mod refresh;
pub mod start;
pub mod sync;
pub mod unlink;

use crate::app::App;

/// The address to which a service redirects users back. It is registered there, so it does not depend on the request.
fn callback_url(app: &App, plugin: &str) -> String {
    format!("{}/external-auth/{plugin}/callback", app.access.origins.primary())
}
