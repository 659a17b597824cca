//! `/admin/domains` and `/admin/settings/db-info`

use belvedere_standins::jetstream::FakeJetstream;
use belvedere_standins::postgres;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::World;
use crate::support::instance::Instance;

/// The URL of an invite, and the origin for an unknown host.
async fn bases(world: &World) -> [String; 2] {
    let server = &world.server;
    let grant =
        server.admin(Method::POST, "/admin/linked-repos", Some(&json!({ "scopes": "atproto" }))).await;
    let invite = format!("/admin/linked-repos/{}/invite", grant.body["id"].as_str().unwrap());
    let invite =
        server.admin(Method::POST, &invite, None).await.body["invite_url"].as_str().unwrap().to_owned();
    let path = "/oauth-client-metadata.json";
    let metadata = server.request(Method::GET, path, &[("host", "backend.internal")], None).await.body;
    let redirect = metadata["redirect_uris"][0].as_str().unwrap();
    [invite.split("/auth/").next().unwrap().to_owned(), redirect.replace("/auth/callback", "")]
}

crate::in_both_worlds!(
    domains_are_added_and_removed,
    the_primary_domain_is_the_base_of_links_and_survives_a_restart,
    the_database_is_described
);

async fn domains_are_added_and_removed(world: World) {
    let server = &world.server;
    let list = async || server.admin(Method::GET, "/admin/domains", None).await.body;
    let own = format!("http://{}", server.address);
    let first: Value = list().await;
    assert_eq!((&first[0]["url"], &first[0]["is_primary"]), (&json!(own), &json!(true)), "{first}");
    for url in [
        "",
        "second.example",
        "https://second.example/",
        "https://second.example/a",
        "ftp://second.example",
        "https://u@second.example",
        &own,
    ] {
        let answer = server.admin(Method::POST, "/admin/domains", Some(&json!({ "url": url }))).await;
        assert_eq!(answer.status, 400, "{url} {}", answer.text);
    }
    let made =
        server.admin(Method::POST, "/admin/domains", Some(&json!({ "url": "https://second.example" }))).await;
    assert_eq!((made.status.as_u16(), &made.body["is_primary"]), (201, &json!(false)), "{}", made.text);
    let (id, own_id) = (made.body["id"].as_str().unwrap(), first[0]["id"].as_str().unwrap());
    // Pages of the domain may send cookies.
    let credentials = async |origin: &str| {
        let answer = server.request(Method::GET, "/health", &[("origin", origin)], None).await;
        answer.headers.contains_key("access-control-allow-credentials")
    };
    assert!(credentials("https://second.example").await && !credentials("https://third.example").await);

    let primary = async |id: &str| {
        server.admin(Method::POST, &format!("/admin/domains/{id}/primary"), None).await.status.as_u16()
    };
    let delete = async |id: &str| server.admin(Method::DELETE, &format!("/admin/domains/{id}"), None).await;
    assert_eq!((primary("unknown").await, primary(id).await, primary(id).await), (404, 204, 204));
    let flags: Vec<Value> =
        list().await.as_array().unwrap().iter().map(|d| d["is_primary"].clone()).collect();
    assert_eq!(flags, [json!(false), json!(true)]);
    assert_eq!(delete(id).await.error(), "the primary domain can't be deleted");
    assert_eq!(primary(own_id).await, 204);
    assert_eq!((delete(id).await.status.as_u16(), delete(id).await.status.as_u16()), (204, 404));
    assert!(!credentials("https://second.example").await);
    let events = server.admin(Method::GET, "/admin/events?category=domain", None).await;
    let kinds: Vec<&str> =
        events.body["events"].as_array().unwrap().iter().map(|e| e["event_type"].as_str().unwrap()).collect();
    assert_eq!(kinds[0], "domain.deleted", "{}", events.text);
    assert!(kinds.contains(&"domain.created") && kinds.contains(&"domain.primary_changed"));
}

async fn the_primary_domain_is_the_base_of_links_and_survives_a_restart(mut world: World) {
    let own = format!("http://{}", world.server.address);
    let path = |id: &Value| format!("/admin/domains/{}", id.as_str().unwrap());
    assert_eq!(bases(&world).await, [own.clone(), own.clone()]);
    let second = "https://second.example";
    let made = world.server.admin(Method::POST, "/admin/domains", Some(&json!({ "url": second }))).await.body;
    let primary = format!("{}/primary", path(&made["id"]));
    assert_eq!(world.server.admin(Method::POST, &primary, None).await.status, 204);
    assert_eq!(bases(&world).await, [second, second]);

    world.server.stop();
    world.server.start_again().await;
    assert_eq!(bases(&world).await, [second, second]);
    let list = world.server.admin(Method::GET, "/admin/domains", None).await.body;
    let flags: Vec<_> = list.as_array().unwrap().iter().map(|d| json!([d["url"], d["is_primary"]])).collect();
    assert_eq!(flags, [json!([own, false]), json!([second, true])]);
    // PUBLIC_URL's own is not deleted, even when it is not the primary.
    let answer = world.server.admin(Method::DELETE, &path(&list[0]["id"]), None).await;
    assert_eq!((answer.status.as_u16(), answer.error()), (400, "the domain of PUBLIC_URL can't be deleted"));
}

async fn the_database_is_described(world: World) {
    let info = world.server.admin(Method::GET, "/admin/settings/db-info", None).await;
    let sqlite = info.body["backend"] == "sqlite";
    assert_eq!(info.body["server_max_connections"].is_null(), sqlite, "{}", info.text);
    assert_eq!(
        (&info.body["restart_recommended"], info.body["main_pool_size"].as_u64() > Some(0)),
        (&json!(false), true)
    );
    assert_eq!(info.body["backfill_pool_size"], 0, "backfills use the main pool");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_the_database_does_not_allow_is_pointed_out() {
    let (url, stream) = (postgres::create_database().await, FakeJetstream::start().await);
    let server = Instance::start_with(&url, &stream.url(), &[("DATABASE_MAX_CONNECTIONS", "1000")]).await;
    let info = server.admin(Method::GET, "/admin/settings/db-info", None).await;
    assert_eq!(
        (&info.body["main_pool_size"], &info.body["restart_recommended"]),
        (&json!(1000), &json!(true))
    );
    assert!(info.body["server_max_connections"].as_u64() < Some(1000), "{}", info.text);
}
