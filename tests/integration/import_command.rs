//! `belvedere import happyview`, against a running server.

use std::path::Path;
use std::process::Output;

use http::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};

use crate::fixtures::{ALICE, BOB, LIST, NOTES, World};
use crate::support::instance::{Instance, query_lexicon, record_lexicon};

const KEY: &str = "hvc_00112233445566778899aabbccddeeff";
const SECRET: &str = "hvs_00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
/// The secret of no application: an admin API key of BOB.
const ADMIN_KEY: &str = "hv_00112233445566778899aabbccddeeff";
const CHILD_KEY: &str = "hvc_of_a_child_000";
const SCRIPT: &str = "function handle() return { of = env.LIST } end";
const HOOK: &str = "function handle() record.seen = true return record end";

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The tables of an instance that are read, with one row or two each. `prefix`: what their names begin with.
async fn instance(file: &Path, prefix: &str) {
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let mut db = options.connect().await.unwrap();
    let tables = "
        CREATE TABLE {}lexicons (id TEXT PRIMARY KEY, revision INTEGER, lexicon_json TEXT, backfill INTEGER, target_collection TEXT,
            action TEXT, token_cost INTEGER, source TEXT, script TEXT, index_hook TEXT);
        CREATE TABLE {}scripts (id TEXT PRIMARY KEY, body TEXT, description TEXT, script_type TEXT);
        CREATE TABLE {}script_variables (key TEXT PRIMARY KEY, value TEXT);
        CREATE TABLE {}domains (id TEXT, url TEXT, is_primary INTEGER);
        CREATE TABLE {}instance_settings (key TEXT PRIMARY KEY, value TEXT);
        CREATE TABLE {}labeler_subscriptions (did TEXT PRIMARY KEY, cursor INTEGER, status TEXT);
        CREATE TABLE {}users (id TEXT PRIMARY KEY, did TEXT, is_super INTEGER);
        CREATE TABLE {}user_permissions (user_id TEXT, permission TEXT);
        CREATE TABLE {}api_keys (id TEXT, user_id TEXT, name TEXT, key_hash TEXT, key_prefix TEXT, permissions TEXT, revoked_at TEXT);
        CREATE TABLE {}service_entries (id INTEGER PRIMARY KEY, fragment_id TEXT, service_type TEXT, access_mode TEXT);
        CREATE TABLE {}service_entry_xrpcs (service_entry_id INTEGER, lexicon_id TEXT);
        CREATE TABLE {}linked_repos (id TEXT, did TEXT, handle TEXT, label TEXT, scopes TEXT, status TEXT);
        CREATE TABLE {}api_clients (id TEXT PRIMARY KEY, client_key TEXT, client_secret_hash TEXT, name TEXT, client_id_url TEXT,
            client_uri TEXT, redirect_uris TEXT, scopes TEXT, rate_limit_capacity INTEGER, rate_limit_refill_rate REAL,
            is_active INTEGER, client_type TEXT, allowed_origins TEXT, parent_client_id TEXT, owner_did TEXT);
        CREATE TABLE {}plugins (id TEXT);
        INSERT INTO {}plugins VALUES ('steam');
        INSERT INTO {}script_variables VALUES ('LIST', 'notes');
        INSERT INTO {}domains VALUES ('1', 'https://apps.example.com', 1);
        INSERT INTO {}instance_settings VALUES ('app_name', 'Notes'), ('logo_data', 'AAAA'),
            ('xrpc_proxy_config', '{\"mode\":\"disabled\",\"nsids\":[]}'), ('attestation_private_key', '00ff');
        INSERT INTO {}scripts VALUES ('job.run:clean', 'function handle() end', 'At night', 'lua'),
            ('job.run:page', 'export default () => 1', NULL, 'javascript');
        INSERT INTO {}api_keys VALUES ('2', '2', 'old', 'x', 'hv_44556677', '[]', '2026-01-01');
        INSERT INTO {}user_permissions VALUES ('2', 'lexicons:read'), ('2', 'network-lexicons:create'), ('2', 'wishes:grant');
        INSERT INTO {}service_entries VALUES (7, '#notes', 'NoteService', 'specific');
        INSERT INTO {}linked_repos VALUES ('1', NULL, NULL, 'Releases', 'atproto blob:*/*', 'pending');
    "
    .replace("{}", prefix);
    sqlx::raw_sql(AssertSqlSafe(tables)).execute(&mut db).await.unwrap();
    let mut insert = async |table: &str, values: &[Value]| {
        let places: Vec<String> = (1..=values.len()).map(|at| format!("${at}")).collect();
        let sql = format!("INSERT INTO {prefix}{table} VALUES ({})", places.join(", "));
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for value in values {
            query = match value {
                Value::Null => query.bind(None::<String>),
                Value::Number(number) => query.bind(number.as_i64()),
                Value::String(text) => query.bind(text.clone()),
                other => query.bind(other.to_string()),
            };
        }
        query.execute(&mut db).await.unwrap();
    };
    for (document, target, cost, script, hook) in [
        (record_lexicon(NOTES), None, None, None, Some(HOOK)),
        (query_lexicon(LIST), Some(NOTES), Some(3), Some(SCRIPT), None),
    ] {
        let text = document.to_string();
        let row = json!([document["id"], 1, text, 1, target, null, cost, "manual", script, hook]);
        insert("lexicons", row.as_array().unwrap()).await;
    }
    insert("service_entry_xrpcs", &[json!(7), json!(LIST)]).await;
    insert("users", &[json!("1"), json!(ALICE), json!(1)]).await;
    insert("users", &[json!("2"), json!(BOB), json!(0)]).await;
    insert("labeler_subscriptions", &[json!(BOB), json!(7), json!("paused")]).await;
    let hash = |secret: &str| hex::encode(Sha256::digest(secret.as_bytes()));
    let key = json!(["1", "2", "CI", hash(ADMIN_KEY), ADMIN_KEY[..11], ["lexicons:read"], null]);
    insert("api_keys", key.as_array().unwrap()).await;
    for (id, key, hash, active, kind, parent) in [
        ("1", KEY, hash(SECRET), 1, "confidential", None),
        ("2", "hvc_of_the_page_000", String::new(), 0, "public", None),
        ("0", CHILD_KEY, String::new(), 1, "public", Some("1")),
    ] {
        let row = json!([
            id,
            key,
            hash,
            format!("App {id}"),
            format!("https://app.example/{id}.json"),
            "https://app.example",
            ["https://app.example/c"],
            "atproto",
            50,
            null,
            active,
            kind,
            ["https://app.example"],
            parent,
            parent.map(|_| ALICE)
        ]);
        insert("api_clients", row.as_array().unwrap()).await;
    }
    db.close().await.unwrap();
}

/// Changes rows of an instance.
async fn change(file: &Path, sql: &str) {
    let mut db = SqliteConnectOptions::new().filename(file).connect().await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut db).await.unwrap();
    db.close().await.unwrap();
}

crate::in_both_worlds!(an_instance_is_copied_and_what_can_not_be_is_named, an_import_can_be_repeated);

/// Runs the import of a file.
fn import(server: &Instance, file: &Path, more: &[&str]) -> Output {
    let (path, url) = (file.display().to_string(), format!("http://{}", server.address));
    let start = ["import", "happyview", &path, "--url", &url, "--key", &server.admin_key];
    server.run(&[&start[..], more].concat())
}

async fn an_instance_is_copied_and_what_can_not_be_is_named(world: World) {
    let server = &world.server;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("happyview.db");
    let go = |server: &Instance, more: &[&str]| import(server, &file, more);
    assert!(err(&go(server, &[])).contains("happyview.db"), "{}", err(&go(server, &[])));
    assert!(!file.exists(), "an instance that is not there is not made");
    instance(&file, "").await;
    let broken = query_lexicon("com.example.broken").to_string().replace('\'', "''");
    let sql = format!(
        "INSERT INTO lexicons (id, lexicon_json, source, script) VALUES ('com.example.broken', '{broken}', 'manual', 'function handle('); \
         INSERT INTO instance_settings VALUES ('tos_uri', 'nonsense')"
    );
    change(&file, &sql).await;
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
        "not copied: the setting logo_data",
        "not copied: the setting attestation_private_key: start this server with it",
        "not copied: the script job.run:page: it is in javascript",
        &format!("not copied: the permission wishes:grant of {BOB}"),
        "not copied: tokens of linked repos",
        &format!("not copied: that {ALICE} is the super user"),
        "not copied: that https://apps.example.com is the primary domain",
    ] {
        assert!(out(&copied).contains(reason), "{reason}: {}", out(&copied));
    }
    assert!(!out(&copied).contains("hv_44556677"), "a revoked key is no loss");
    let summary = "1 script variable, 1 domain, 2 settings, 2 users, 1 admin API key, 3 lexicons, 3 scripts, 1 labeler, 1 service, \
                   3 applications, 1 linked repo copied, 0 there already, 0 of them different, 2 refused";
    assert!(out(&copied).contains(summary), "{}", out(&copied));

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
    let of_page = |client: &&Value| client["client_type"] == "public" && client["parent_client_id"].is_null();
    let of_page: Vec<&Value> = clients.as_array().unwrap().iter().filter(of_page).collect();
    assert_eq!((of_page.len(), &of_page[0]["is_active"]), (1, &json!(false)), "{clients}");
    let lexicon = server.admin(Method::GET, &format!("/admin/lexicons/{LIST}"), None).await.body;
    assert_eq!((&lexicon["target_collection"], &lexicon["token_cost"]), (&json!(NOTES), &json!(3)));
    let hook = server.admin(Method::GET, &format!("/admin/scripts/record.index:{NOTES}"), None).await.body;
    assert_eq!(hook["body"], HOOK);
    let users = server.admin(Method::GET, "/admin/users", None).await.text;
    assert!(users.contains(BOB) && users.contains("lexicons:create"), "{users}");
    let labelers = server.admin(Method::GET, "/admin/labelers", None).await.text;
    assert!(labelers.contains("paused"), "{labelers}");
    let bearer = format!("Bearer {ADMIN_KEY}");
    let by_key = async |path: &str| {
        server.request(Method::GET, path, &[("authorization", &bearer)], None).await.status.as_u16()
    };
    assert_eq!((by_key("/admin/lexicons").await, by_key("/admin/users").await), (200, 403));
    let children = server.admin(Method::GET, "/admin/api-clients", None).await.body;
    let child = children.as_array().unwrap().iter().find(|client| client["client_key"] == CHILD_KEY).unwrap();
    assert!(child["parent_client_id"].is_string() && child["owner_did"] == ALICE, "{child}");
    let services = server.admin(Method::GET, "/admin/service-entries", None).await.body;
    assert_eq!(services[0]["access_mode"], "allowlist", "{services}");
    let methods = format!("/admin/service-entries/{}/xrpcs", services[0]["id"]);
    assert_eq!(server.admin(Method::GET, &methods, None).await.body, json!([LIST]));
    let rules = server.admin(Method::GET, "/admin/settings/xrpc-proxy", None).await.body;
    assert_eq!(rules["mode"], "disabled");
    let repos = server.admin(Method::GET, "/admin/linked-repos", None).await.body;
    let repo = &repos["linked_repos"][0];
    assert_eq!((&repo["reason"], &repo["status"]), (&json!("Releases"), &json!("pending")), "{repos}");
}

async fn an_import_can_be_repeated(world: World) {
    let server = &world.server;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("happyview.db");
    instance(&file, "happyview_").await;
    let go = |more: &[&str]| import(server, &file, more);
    let first = go(&["--no-backfill"]);
    assert!(first.status.success(), "{}{}", out(&first), err(&first));
    let second = go(&[]);
    assert!(second.status.success(), "{}{}", out(&second), err(&second));
    let summary = "nothing copied, 18 there already, 0 of them different, 0 refused";
    assert!(out(&second).contains(summary), "{}", out(&second));

    // Parts that differ stay.
    let sql = format!(
        "UPDATE happyview_lexicons SET token_cost = 4 WHERE id = '{LIST}';
         UPDATE happyview_scripts SET body = 'function handle() return 1 end' WHERE id = 'job.run:clean';
         UPDATE happyview_script_variables SET value = 'other';
         UPDATE happyview_instance_settings SET value = 'Other' WHERE key = 'app_name';
         INSERT INTO happyview_user_permissions VALUES ('2', 'stats:read');
         DELETE FROM happyview_user_permissions WHERE permission = 'lexicons:read';
         UPDATE happyview_labeler_subscriptions SET status = 'active';
         UPDATE happyview_service_entries SET service_type = 'OtherService';
         UPDATE happyview_api_clients SET rate_limit_capacity = 60 WHERE id = '1';
         UPDATE happyview_api_keys SET name = 'Builds' WHERE id = '1';"
    );
    change(&file, &sql).await;
    let before = server.admin(Method::GET, "/admin/export", None).await.body;
    let third = go(&[]);
    assert_eq!(third.status.code(), Some(1), "{}{}", out(&third), err(&third));
    for line in [
        &format!(
            "there already, and different: lexicon {LIST} (--replace replaces it)\n  /token_cost: 3 → 4\n"
        ),
        "there already, and different: script job.run:clean (--replace replaces it)\n  from line 1 on",
        "there already, and different: script variable LIST",
        "there already, and different: setting app_name (--replace replaces it)\n  /value: \"Notes\" → \"Other\"\n",
        &format!("there already, and different: user {BOB}"),
        &format!("there already, and different: labeler {BOB}"),
        "there already, and different: service #notes",
        "there already, and different: application App 1 (--replace replaces it)\n  /rate_limit_capacity: 50 → 60\n",
        "there already, and different: admin API key Builds (hv_00112233…)",
        "nothing copied, 18 there already, 9 of them different, 0 refused",
    ] {
        assert!(out(&third).contains(line), "{line}: {}", out(&third));
    }
    let after = server.admin(Method::GET, "/admin/export", None).await.body;
    assert_eq!(
        (&before["lexicons"], &before["scripts"], &before["settings"]),
        (&after["lexicons"], &after["scripts"], &after["settings"])
    );

    let dry = go(&["--replace", "--dry-run"]);
    assert!(
        dry.status.success() && out(&dry).contains("would be replaced: setting app_name"),
        "{}",
        out(&dry)
    );
    let fourth = go(&["--replace"]);
    assert_eq!(fourth.status.code(), Some(1), "{}{}", out(&fourth), err(&fourth));
    assert!(out(&fourth).contains("9 there already, 0 of them different, 1 refused"), "{}", out(&fourth));
    assert!(
        err(&fourth).contains("refused: admin API key Builds (hv_00112233…): a key never changes"),
        "{}",
        err(&fourth)
    );
    let users = server.admin(Method::GET, "/admin/users", None).await.body;
    let bob = users.as_array().unwrap().iter().find(|user| user["did"] == BOB).unwrap();
    assert_eq!(bob["permissions"], json!(["lexicons:create", "stats:read"]));

    change(&file, "UPDATE happyview_api_keys SET name = 'CI' WHERE id = '1'").await;
    let last = go(&["--replace"]);
    assert!(last.status.success(), "{}{}", out(&last), err(&last));
    assert!(out(&last).contains(summary), "{}", out(&last));
}
