//! Tickets: a user's WebSocket from a browser.

use belvedere_protocol::crypto::Algorithm;
use belvedere_standins::websocket::{Received, WebSocket};
use http::Method;
use serde_json::{Value, json};

use super::live::Page;
use super::subscriptions::{WATCH, lexicon, next};
use crate::fixtures::{ALICE, NOTES, World};
use crate::oauth::device::{App, Device, pds};
use crate::support::instance::{Answer, Instance};

const MINE: &str = "com.example.mine";

crate::in_both_worlds!(a_ticket_opens_one_connection_of_its_user, handles_name_accounts);

async fn ticket(server: &Instance, device: &Device, method: &str) -> Answer {
    let body = json!({ "method": method });
    device.request(server, Method::POST, "/xrpc/dev.service.createTicket", Some(&body)).await
}

async fn a_ticket_opens_one_connection_of_its_user(world: World) {
    let mut world = world.with_notes().await;
    let lexicon = json!({ "lexicon": 1, "id": MINE, "defs": { "main": { "type": "query",
        "parameters": { "type": "params", "properties": { "limit": { "type": "integer" } } },
        "output": { "encoding": "application/json", "schema": { "type": "object", "properties": {
            "notes": { "type": "array", "items": { "type": "unknown" } } } } } } } });
    world.server.upload(lexicon, None).await;
    let view = json!({ "view": 1, "from": { "collection": NOTES, "did": "$viewer" },
        "output": { "notes": [{ "uri": "@uri" }] } });
    world.server.bind_to(&format!("xrpc.view:{MINE}"), &view.to_string()).await;
    world.plc.person(ALICE, Algorithm::Es256k);
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(&world.server, "app").await;
    let device = app.device(&world.server, &pds, ALICE, json!({})).await;
    let anonymous = Page::open(&world.server, MINE).await;
    assert_eq!(anonymous.err().unwrap(), 401, "the view needs a viewer");

    let issued = ticket(&world.server, &device, MINE).await;
    assert_eq!(issued.status, 200, "{}", issued.text);
    let issued = issued.body["ticket"].as_str().unwrap().to_owned();
    let url = |key: &str, ticket: &str| format!("/xrpc/{MINE}?client_key={key}&ticket={ticket}");
    let of_another_client = url(&world.server.client_key, &issued);
    let refused = WebSocket::connect(world.server.address, &of_another_client, &[]).await;
    assert_eq!(refused.unwrap_err(), 401, "another client");
    let mut socket = WebSocket::connect(world.server.address, &url(&app.key, &issued), &[]).await.unwrap();
    let first = page(&mut socket).await;
    assert_eq!(first["page"], json!({ "notes": [] }));
    let uri = world.note(ALICE, "a", json!({ "text": "x" })).await;
    let second = page(&mut socket).await;
    assert!(second.to_string().contains(&uri), "{second}");

    for (key, bad, why) in [
        (&app.key, issued.clone(), "used"),
        (&app.key, "AAAA".to_owned(), "no ticket"),
        (&app.key, ticket_for_another_method(&world.server, &device).await, "another method"),
    ] {
        let refused = WebSocket::connect(world.server.address, &url(key, &bad), &[]).await;
        assert_eq!(refused.unwrap_err(), 401, "{why}");
    }
    // Only a WebSocket takes a ticket.
    let plain = world.server.xrpc(&format!("{MINE}?ticket={issued}")).await;
    assert_eq!(plain.status, 401, "{}", plain.text);
    let named = ticket(&world.server, &device, "no nsid").await;
    assert_eq!(named.status, 400, "{}", named.text);
}

async fn ticket_for_another_method(server: &Instance, device: &Device) -> String {
    ticket(server, device, NOTES).await.body["ticket"].as_str().unwrap().to_owned()
}

async fn page(socket: &mut WebSocket) -> Value {
    let received = socket.receive().await;
    let Received::Json(frame) = received else { panic!("{received:?}") };
    frame["payload"].clone()
}

async fn handles_name_accounts(world: World) {
    let mut world = world.with_notes().await;
    world.plc.person(ALICE, Algorithm::Es256k);
    let mut lexicon = lexicon();
    lexicon["defs"]["main"]["parameters"]["properties"]["did"]["items"]["format"] = json!("at-identifier");
    world.server.upload(lexicon, Some(NOTES)).await;
    let path = |account: &str| format!("/xrpc/{WATCH}?client_key={}&did={account}", world.server.client_key);
    let unknown = WebSocket::connect(world.server.address, &path("nobody.example"), &[]).await.unwrap_err();
    assert!(unknown.is_client_error() || unknown == 502, "{unknown}");
    let mut socket = WebSocket::connect(world.server.address, &path(ALICE), &[]).await.unwrap();
    let uri = world.note(ALICE, "a", json!({ "text": "x" })).await;
    assert_eq!(next(&mut socket).await.1["uri"], json!(uri));
}
