//! Sessions that end here end at the real PDS too.

use reqwest::Method;
use serde_json::json;

use crate::app::App;
use crate::database::Database;
use crate::network::network;
use crate::server::Server;
use crate::wait::until;

const SCOPES: &str = "atproto transition:generic";

crate::on_both!(deleting_an_application_ends_its_sessions_at_the_pds);
async fn deleting_an_application_ends_its_sessions_at_the_pds(database: Database) {
    let network = network().await;
    let (admin, alice) = (network.account().await, network.account().await);
    let mut server = Server::new(network, database);
    server.start().await;
    let key = server.create_key(&admin.did);
    let app = App::register(&server, &key, SCOPES).await;
    let other = App::register(&server, &key, SCOPES).await;
    let phone = app.log_in(&server, network, &alice, json!({})).await;
    let laptop = app.log_in(&server, network, &alice, json!({})).await;
    let elsewhere = other.log_in(&server, network, &alice, json!({})).await;
    let session = format!("{}/xrpc/com.atproto.server.getSession", network.pds);
    for device in [&phone, &laptop, &elsewhere] {
        assert_eq!(network.as_app(device, &session).await, 200);
    }

    let path = format!("/admin/api-clients/{}", app.id);
    let deleted = server.request(Method::DELETE, &path).bearer_auth(&key).send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    for device in [&phone, &laptop] {
        until("the PDS has ended the session", || async {
            match network.as_app(device, &session).await {
                401 => Ok(()),
                status => Err(format!("it answers {status}")),
            }
        })
        .await;
    }
    assert_eq!(network.as_app(&elsewhere, &session).await, 200, "of another application");

    // The same for a session that its user ends.
    let path = format!("/oauth/sessions/{}", alice.did);
    assert_eq!(elsewhere.request(&server, Method::DELETE, &path).send().await.unwrap().status(), 204);
    until("the PDS has ended this one too", || async {
        match network.as_app(&elsewhere, &session).await {
            401 => Ok(()),
            status => Err(format!("it answers {status}")),
        }
    })
    .await;
    server.stop().await;
}
