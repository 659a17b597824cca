//! Makes the users and keys of the server.

use serde::Deserialize;
use serde_json::json;

use super::super::admin::create_key;
use super::super::remote::{Remote, Server};
use super::network::Account;
use crate::app::App;
use belvedere_instance::config::Config;
use belvedere_protocol::atproto::Did;

/// The name of the keys.
const NAME: &str = "belvedere dev";

/// The metadata of the API client. No server is asked for it: the scheme of browsers' own pages needs none.
const CLIENT_ID: &str = "http://localhost/belvedere-dev";

/// A new admin API key of the super user, who is the first account.
pub(super) async fn admin_key(app: &App, did: &str) -> anyhow::Result<String> {
    let did = Did::try_from(did)?;
    let key = create_key(&app.db, &app.events, &app.random, app.clock.now(), &did, NAME, None).await?;
    Ok(key.reveal().to_owned())
}

#[derive(Deserialize)]
struct Client {
    client_key: String,
    client_id_url: String,
}

#[derive(Deserialize)]
struct User {
    did: String,
}

/// Makes the other accounts users without permissions, so that they can log in to the server, and registers the API client unless
/// there is one. Returns its key.
pub(super) async fn prepare(
    server: &Server,
    accounts: &[Account],
    config: &Config,
) -> anyhow::Result<String> {
    let remote = Remote::new(server, "all permissions", config)?;
    let users: Vec<User> = remote.get("/admin/users").await?;
    for Account { did, .. } in
        accounts.iter().filter(|account| !users.iter().any(|user| user.did == account.did))
    {
        let user = json!({ "did": did, "permissions": [], "unchecked": true });
        remote.send(http::Method::POST, "/admin/users", Some(user)).await?;
    }
    let clients: Vec<Client> = remote.get("/admin/api-clients").await?;
    if let Some(client) = clients.into_iter().find(|client| client.client_id_url == CLIENT_ID) {
        return Ok(client.client_key);
    }
    let client = json!({
        "name": NAME, "client_id_url": CLIENT_ID, "client_uri": "http://localhost/", "client_type": "public",
        "redirect_uris": ["http://127.0.0.1/"], "scopes": "atproto transition:generic",
    });
    let Client { client_key, .. } = remote.post("/admin/api-clients", &client).await?;
    Ok(client_key)
}
