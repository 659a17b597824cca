//! The plugins of this repository on the real network: an operator installs them with consent, a user links accounts at
//! stand-ins of the services and syncs them into a real repo, and a script calls a library.

use belvedere_base::clock::Clock;
use std::path::{Path, PathBuf};

use belvedere_standins::itchio::{self, Itchio};
use belvedere_standins::microsoft::{self, Microsoft};
use belvedere_standins::steam::{self, Steam};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};

use crate::app::{App, Device};
use crate::database::Database;
use crate::index::add_query;
use crate::network::network;
use crate::oauth::browser;
use crate::pds::Account;
use crate::server::{Server, expect};
use crate::wait::until;

const SCOPES: &str = "atproto transition:generic";
const OWNERSHIP: &str = "dev.games.actor.ownership";
const STATS: &str = "dev.games.actor.stats";
const RENDER: &str = "com.example.plugins.render";

/// A plugin and its service.
struct Linked<'a> {
    plugin: &'a str,
    secrets: Value,
    collections: &'a [(&'a str, usize)],
    account: &'a str,
}

/// A file of a plugin that `dev/plugins.sh` has built.
fn built(plugin: &str, file: &str) -> Vec<u8> {
    let path: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../plugins").join(plugin).join(file);
    std::fs::read(&path)
        .unwrap_or_else(|_| panic!("build the plugins first: sh dev/plugins.sh ({})", path.display()))
}

/// The manifest, with `localhost` in place of the service's hosts.
fn local_manifest(plugin: &str) -> Value {
    let mut manifest: Value = serde_json::from_slice(&built(plugin, "manifest.json")).unwrap();
    if manifest.get("hosts").is_some() {
        manifest["hosts"] = json!(["localhost"]);
    }
    manifest
}

/// A request with a multipart form.
fn upload(request: RequestBuilder, parts: &[(&str, Vec<u8>)]) -> RequestBuilder {
    let boundary = "a-boundary-that-no-part-contains";
    let mut body = Vec::new();
    for (name, content) in parts {
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{name}\"\r\n\r\n"
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    request.header("content-type", format!("multipart/form-data; boundary={boundary}")).body(body)
}

/// Installs a plugin and grants everything that it asks for. Returns the sentences that the operator read.
async fn install(server: &Server, key: &str, plugin: &str) -> Vec<String> {
    let post = || server.request(Method::POST, "/admin/plugins").bearer_auth(key);
    let parts = [
        ("manifest", local_manifest(plugin).to_string().into_bytes()),
        ("module", built(plugin, "plugin.wasm")),
    ];
    let preview = server.request(Method::POST, "/admin/plugins/preview").bearer_auth(key);
    let preview = expect(200, upload(preview, &parts)).await;
    let asked = preview["permissions"].as_array().unwrap_or_else(|| panic!("{preview}")).clone();
    let texts =
        |field: &str| asked.iter().map(|one| one[field].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    if asked.iter().any(|one| one["risk"] != "low") {
        let refused = expect(400, upload(post(), &parts)).await;
        assert_eq!(refused["error"], "ConsentRequired", "{refused}");
        let listed = expect(200, server.request(Method::GET, "/admin/plugins").bearer_auth(key)).await;
        assert!(
            listed["plugins"].as_array().unwrap().iter().all(|one| one["id"] != plugin),
            "nothing is stored"
        );
    }
    let [manifest, module] = parts;
    let granted = ("accepted_capabilities", json!(texts("permission")).to_string().into_bytes());
    let installed = expect(200, upload(post(), &[manifest, module, granted])).await;
    assert_eq!((&installed["id"], &installed["status"]), (&json!(plugin), &json!("active")), "{installed}");
    texts("sentence")
}

fn location(answer: &Response) -> String {
    assert_eq!(answer.status(), 303, "{}", answer.url());
    answer.headers()["location"].to_str().unwrap().to_owned()
}

/// Links an account: the application begins, the user consents in a browser and signs in at the service.
async fn link(server: &Server, app: &App, phone: &Device, alice: &Account, plugin: &str) {
    let path = format!("/external-auth/{plugin}/authorize?redirect_uri={}", app.redirect);
    let begun = expect(200, phone.request(server, Method::GET, &path)).await;
    let page = begun["authorize_url"].as_str().unwrap();
    let shown = browser().get(page).send().await.unwrap().text().await.unwrap();
    assert!(shown.contains(&alice.did) && shown.contains(OWNERSHIP), "{shown}");
    let consented = browser().post(page).header("origin", &server.url).send().await.unwrap();
    let cookie = consented.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let at_service = browser().get(location(&consented)).send().await.unwrap();
    let back = at_service.headers()["location"].to_str().unwrap().to_owned();
    assert!(back.starts_with(&server.url), "{back}");
    // Another browser does not get through, and uses nothing up.
    let stranger = browser().get(&back).send().await.unwrap();
    assert_eq!(stranger.status(), 400);
    let completed = browser().get(&back).header("cookie", &cookie).send().await.unwrap();
    assert_eq!(location(&completed), format!("{}?auth=success", app.redirect));
    let replayed = browser().get(&back).header("cookie", &cookie).send().await.unwrap();
    assert_eq!(replayed.status(), 400);
}

async fn accounts(server: &Server, phone: &Device) -> Value {
    expect(200, phone.request(server, Method::GET, "/external-auth/accounts")).await
}

crate::on_both!(plugins_link_sync_and_unlink);
async fn plugins_link_sync_and_unlink(database: Database) {
    let network = network().await;
    let (admin, alice) = (network.account().await, network.account().await);
    let mut server = Server::new(network, database);
    server.start().await;
    let key = server.create_key(&admin.did);
    for lexicon in ["game.json", "actor/ownership.json", "actor/stats.json"] {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/lexicons/dev/games").join(lexicon);
        let document: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let body = json!({ "lexicon_json": document, "backfill": false });
        expect(201, server.request(Method::POST, "/admin/lexicons").bearer_auth(&key).json(&body)).await;
    }
    let app = App::register(&server, &key, SCOPES).await;
    let phone = app.log_in(&server, network, &alice, json!({})).await;

    // Steam's nonces have no fractions of a second.
    let now = format!("{:.19}Z", Clock::system().now().to_string());
    let (steam, itchio, microsoft) =
        (Steam::start(&now).await, Itchio::start().await, Microsoft::start().await);
    steam.set_games(Some(120));
    itchio.set_games(60);
    microsoft.set_titles(30);
    let services = [
        Linked {
            plugin: "steam",
            secrets: json!({ "PLUGIN_STEAM_API_KEY": steam::API_KEY, "PLUGIN_STEAM_PROXY_URL": steam.proxy_url() }),
            collections: &[(OWNERSHIP, 120), (STATS, 120)],
            account: steam::STEAM_ID,
        },
        Linked {
            plugin: "itchio",
            secrets: json!({ "PLUGIN_ITCHIO_CLIENT_ID": itchio::CLIENT_ID, "PLUGIN_ITCHIO_PROXY_URL": itchio.proxy_url() }),
            collections: &[(OWNERSHIP, 60)],
            account: "4711",
        },
        Linked {
            plugin: "xbox",
            secrets: json!({
                "PLUGIN_XBOX_CLIENT_ID": microsoft::CLIENT_ID, "PLUGIN_XBOX_CLIENT_SECRET": microsoft::CLIENT_SECRET,
                "PLUGIN_XBOX_PROXY_URL": microsoft.proxy_url(),
            }),
            collections: &[(OWNERSHIP, 30)],
            account: microsoft::XUID,
        },
    ];
    let mut on_pds = alice.records(OWNERSHIP).await.len();
    for service in &services {
        let plugin = service.plugin;
        let sentences = install(&server, &key, plugin).await;
        assert!(sentences.iter().any(|one| one == "may call localhost"), "{sentences:?}");
        let path = format!("/admin/plugins/{plugin}/secrets");
        let secrets = json!({ "secrets": service.secrets });
        let put = server.request(Method::PUT, &path).bearer_auth(&key).json(&secrets).send().await.unwrap();
        assert_eq!(put.status(), 204);

        link(&server, &app, &phone, &alice, plugin).await;
        let linked = accounts(&server, &phone).await;
        assert_eq!(
            (&linked[0]["plugin_id"], &linked[0]["account_id"]),
            (&json!(plugin), &json!(service.account)),
            "{linked}"
        );

        // The sync goes on in the background when it takes longer than a request may.
        let sync = format!("/external-auth/{plugin}/sync");
        let total: usize = service.collections.iter().map(|(_, count)| count).sum();
        let begun = phone.request(&server, Method::POST, &sync).send().await.unwrap();
        assert!(matches!(begun.status().as_u16(), 200 | 202), "{}", begun.text().await.unwrap());
        until("the sync has ended", || async {
            let listed = accounts(&server, &phone).await;
            if listed[0]["sync"]["status"] == "idle" { Ok(()) } else { Err(listed.to_string()) }
        })
        .await;
        let again = expect(200, phone.request(&server, Method::POST, &sync)).await;
        assert_eq!((&again["processed"], &again["written"]), (&json!(total), &json!(0)), "{plugin}: {again}");
        on_pds += service.collections[0].1;
        let owned = alice.records(OWNERSHIP).await;
        assert_eq!(owned.len(), on_pds, "{plugin}");
        assert!(owned.values().all(|(_, record)| record["signatures"][0]["signature"]["$bytes"].is_string()));
    }
    assert_eq!(alice.records(STATS).await.len(), 120);

    for service in &services {
        let unlink = format!("/external-auth/{}/unlink", service.plugin);
        let unlinked = expect(200, phone.request(&server, Method::POST, &unlink)).await;
        assert_eq!(unlinked["was_linked"], true);
        let path = format!("/admin/plugins/{}", service.plugin);
        let deleted = server.request(Method::DELETE, &path).bearer_auth(&key).send().await.unwrap();
        assert_eq!(deleted.status(), 204);
    }
    assert_eq!(accounts(&server, &phone).await, json!([]));
    server.stop().await;
}

crate::on_both!(a_script_calls_a_library);
async fn a_script_calls_a_library(database: Database) {
    let network = network().await;
    let alice = network.account().await;
    let mut server = Server::new(network, database);
    server.start().await;
    let key = server.create_key(&alice.did);
    assert!(install(&server, &key, "markdown").await.is_empty());
    add_query(&server, &key, RENDER, "com.example.plugins.note").await;
    let source = "function handle() return { html = plugin.markdown.render(params.text) } end";
    let script = json!({ "id": format!("xrpc.query:{RENDER}"), "body": source });
    expect(201, server.request(Method::POST, "/admin/scripts").bearer_auth(&key).json(&script)).await;
    let client = crate::index::add_client(&server, &key).await;
    let render = async |server: &Server| {
        let request = server.request(Method::GET, &format!("/xrpc/{RENDER}"));
        let request = request.query(&[("text", "**hi** <script>alert(1)</script>")]);
        expect(200, request.header("x-client-key", &client)).await
    };
    let html = render(&server).await["html"].as_str().unwrap().to_owned();
    assert!(html.contains("<strong>hi</strong>") && !html.contains("<script"), "{html}");
    // The module is in the database: a restart downloads nothing.
    server.stop().await;
    server.start().await;
    assert_eq!(render(&server).await["html"], html.as_str());
    server.stop().await;
}
