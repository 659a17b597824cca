//! `belvedere import happyview`, against a running server.

use std::path::Path;
use std::process::Output;

use http::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use crate::fixtures::{ALICE, BOB, LIST, NOTES, World};
use crate::support::instance::{Instance, query_lexicon, record_lexicon};

const KEY: &str = "hvc_00112233445566778899aabbccddeeff";
const SECRET: &str = "hvs_00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const SCRIPT: &str = "function handle() return { of = env.LIST } end";
const HOOK: &str = "function handle() record.seen = true return record end";

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The tables of an instance that are read, with one row or two each.
async fn instance(file: &Path) {
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let mut db = options.connect().await.unwrap();
    let tables = "
        CREATE TABLE lexicons (id TEXT PRIMARY KEY, revision INTEGER, lexicon_json TEXT, backfill INTEGER, target_collection TEXT,
            action TEXT, token_cost INTEGER, source TEXT, script TEXT, index_hook TEXT);
        CREATE TABLE script_variables (key TEXT PRIMARY KEY, value TEXT);
        CREATE TABLE domains (id TEXT, url TEXT, is_primary INTEGER);
        CREATE TABLE instance_settings (key TEXT PRIMARY KEY, value TEXT);
        CREATE TABLE labeler_subscriptions (did TEXT PRIMARY KEY, cursor INTEGER, status TEXT);
        CREATE TABLE users (id TEXT PRIMARY KEY, did TEXT, is_super INTEGER);
        CREATE TABLE user_permissions (user_id TEXT, permission TEXT);
        CREATE TABLE api_keys (id TEXT, user_id TEXT, name TEXT, key_hash TEXT, key_prefix TEXT, revoked_at TEXT);
        CREATE TABLE api_clients (id TEXT PRIMARY KEY, client_key TEXT, client_secret_hash TEXT, name TEXT, client_id_url TEXT,
            client_uri TEXT, redirect_uris TEXT, scopes TEXT, rate_limit_capacity INTEGER, rate_limit_refill_rate REAL,
            is_active INTEGER, client_type TEXT, allowed_origins TEXT, parent_client_id TEXT, owner_did TEXT);
        CREATE TABLE plugins (id TEXT);
        INSERT INTO plugins VALUES ('steam');
        INSERT INTO script_variables VALUES ('LIST', 'notes');
        INSERT INTO domains VALUES ('1', 'https://apps.example.com', 1);
        INSERT INTO instance_settings VALUES ('app_name', 'Notes'), ('logo_data', 'AAAA'), ('tos_uri', 'nonsense');
        INSERT INTO api_keys VALUES ('1', '1', 'CI', 'x', 'hv_00112233', NULL), ('2', '1', 'old', 'x', 'hv_44556677', '2026-01-01');
        INSERT INTO user_permissions VALUES ('2', 'lexicons:read'), ('2', 'network-lexicons:create');
    ";
    sqlx::raw_sql(tables).execute(&mut db).await.unwrap();
    let lexicon = "INSERT INTO lexicons VALUES ($1, 1, $2, 1, $3, $4, $5, 'manual', $6, $7)";
    for (document, target, cost, script, hook) in [
        (record_lexicon(NOTES), None, None, None, Some(HOOK)),
        (query_lexicon(LIST), Some(NOTES), Some(3), Some(SCRIPT), None),
        (query_lexicon("com.example.broken"), None, None, Some("function handle("), None),
    ] {
        sqlx::query(lexicon)
            .bind(document["id"].as_str())
            .bind(document.to_string())
            .bind(target)
            .bind(None::<&str>)
            .bind(cost)
            .bind(script)
            .bind(hook)
            .execute(&mut db)
            .await
            .unwrap();
    }
    let users = "INSERT INTO users VALUES ('1', $1, 1), ('2', $2, 0)";
    sqlx::query(users).bind(ALICE).bind(BOB).execute(&mut db).await.unwrap();
    sqlx::query("INSERT INTO labeler_subscriptions VALUES ($1, 7, 'paused')")
        .bind(BOB)
        .execute(&mut db)
        .await
        .unwrap();
    let client = "INSERT INTO api_clients VALUES ($1, $2, $3, $4, $5, 'https://app.example', '[\"https://app.example/c\"]', 'atproto', \
                  $6, NULL, $7, $8, $9, NULL, NULL)";
    let hash = hex::encode(Sha256::digest(SECRET.as_bytes()));
    for (id, key, hash, active, kind) in
        [("1", KEY, hash.as_str(), 1, "confidential"), ("2", "hvc_of_the_page_000", "", 0, "public")]
    {
        sqlx::query(client)
            .bind(id)
            .bind(key)
            .bind(hash)
            .bind(format!("App {id}"))
            .bind(format!("https://app.example/{id}.json"))
            .bind(50)
            .bind(active)
            .bind(kind)
            .bind("[\"https://app.example\"]")
            .execute(&mut db)
            .await
            .unwrap();
    }
    db.close().await.unwrap();
}

crate::in_both_worlds!(an_instance_is_copied_and_what_can_not_be_is_named);

async fn an_instance_is_copied_and_what_can_not_be_is_named(world: World) {
    let server = &world.server;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("happyview.db");
    let path = file.display().to_string();
    let go = |server: &Instance, more: &[&str]| {
        let url = format!("http://{}", server.address);
        let start = ["import", "happyview", &path, "--url", &url, "--key", &server.admin_key];
        server.run(&[&start[..], more].concat())
    };
    assert!(err(&go(server, &[])).contains("happyview.db"), "{}", err(&go(server, &[])));
    assert!(!file.exists(), "an instance that is not there is not made");
    instance(&file).await;
    let before = std::fs::read(&file).unwrap();

    let shown = go(server, &["--dry-run"]);
    assert!(shown.status.success(), "{}{}", out(&shown), err(&shown));
    assert!(out(&shown).contains(&format!("would be copied: lexicon {NOTES}\n")), "{}", out(&shown));
    assert_eq!(server.admin(Method::GET, "/admin/lexicons", None).await.body, json!([]));

    let copied = go(server, &["--no-backfill"]);
    assert_eq!(copied.status.code(), Some(1), "{}{}", out(&copied), err(&copied));
    assert_eq!(std::fs::read(&file).unwrap(), before, "the database is only read");
    for reason in [
        "refused: script xrpc.query:com.example.broken: the script does not load",
        "refused: setting tos_uri: ",
    ] {
        assert!(err(&copied).contains(reason), "{reason}: {}", err(&copied));
    }
    for reason in [
        "not copied: 1 of plugins: install them again",
        "not copied: the admin API key CI (hv_00112233…): create another one",
        "not copied: the setting logo_data",
        &format!("not copied: that {ALICE} is the super user"),
        "not copied: that https://apps.example.com is the primary domain",
    ] {
        assert!(out(&copied).contains(reason), "{reason}: {}", out(&copied));
    }
    assert!(!out(&copied).contains("hv_44556677"), "a revoked key is no loss");
    assert!(
        out(&copied).contains("2 applications, 1 domain, 1 labeler, 3 lexicons, 2 scripts copied, 2 refused")
            || out(&copied).contains(" 2 refused"),
        "{}",
        out(&copied)
    );

    // The application goes on with the key and the secret that it has.
    let call = async |secret: &str| {
        let headers = [("x-client-key", KEY), ("x-client-secret", secret)];
        server.request(Method::GET, &format!("/xrpc/{LIST}"), &headers, None).await
    };
    let answer = call(SECRET).await;
    assert_eq!((answer.status.as_u16(), &answer.body), (200, &json!({ "of": "notes" })), "{}", answer.text);
    let key = async |secret: &str| {
        let headers = [("x-client-key", KEY), ("x-client-secret", secret)];
        server
            .request(Method::POST, "/oauth/dpop-keys", &headers, Some("{}".to_owned()))
            .await
            .status
            .as_u16()
    };
    assert_eq!((key(SECRET).await, key("hvs_wrong").await), (201, 401));
    let clients = server.admin(Method::GET, "/admin/api-clients", None).await.body;
    let of_page = clients["clients"].as_array().unwrap_or_else(|| clients.as_array().unwrap()).clone();
    let of_page: Vec<&Value> = of_page.iter().filter(|client| client["client_type"] == "public").collect();
    assert_eq!((of_page.len(), &of_page[0]["is_active"]), (1, &json!(false)), "{clients}");
    let lexicon = server.admin(Method::GET, &format!("/admin/lexicons/{LIST}"), None).await.body;
    assert_eq!((&lexicon["target_collection"], &lexicon["token_cost"]), (&json!(NOTES), &json!(3)));
    let hook = server.admin(Method::GET, &format!("/admin/scripts/record.index:{NOTES}"), None).await.body;
    assert_eq!(hook["body"], HOOK);
    let users = server.admin(Method::GET, "/admin/users", None).await.text;
    assert!(users.contains(BOB) && users.contains("lexicons:create"), "{users}");
    let labelers = server.admin(Method::GET, "/admin/labelers", None).await.text;
    assert!(labelers.contains("paused"), "{labelers}");
}
