//! `belvedere dev`: the server for the app in a folder, without a network.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use belvedere_standins::http_client::send;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixtures::NOTES;
use crate::support::instance::{procedure_lexicon, query_lexicon, record_lexicon};
use crate::support::plugins::PluginFiles;
use crate::support::process::Process;

const LIST: &str = "com.example.list";
const ADD: &str = "com.example.add";

/// The script of the query; `text` is in its answer.
fn list(text: &str) -> String {
    format!(
        "function handle()
  local texts = toarray({{}})
  for i, note in ipairs(db.query({{ collection = 'com.example.note' }}).records) do texts[i] = note.text end
  return {{ version = '{text}', texts = texts }}
end
"
    )
}

const ADD_SCRIPT: &str = "function handle()
  local note = Record('com.example.note', { text = input.text })
  note:save()
  return { uri = note._uri }
end
";

/// The time in which a change must be seen. It is a matter of milliseconds, but the machine of the tests is busy.
const WITHIN: Duration = Duration::from_secs(30);

struct Dev {
    process: Process,
    folder: TempDir,
    client_key: String,
    network: SocketAddr,
}

impl Dev {
    async fn start(write: impl FnOnce(&dyn Fn(&str, &str))) -> Self {
        Self::start_on("127.0.0.1", write).await
    }

    async fn start_on(host: &str, write: impl FnOnce(&dyn Fn(&str, &str))) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write(&|path, text| write_file(&folder, path, text));
        let mut process = Process::new(&[("HOST", host)]);
        process.address.set_ip(host.parse().unwrap());
        process.spawn_command(&["dev", &folder.path().display().to_string(), "--network-port", "0"]);
        let mut dev =
            Self { process, folder, client_key: String::new(), network: ([127, 0, 0, 1], 0).into() };
        dev.eventually("the greeting", async |dev| dev.process.log().contains("It reloads what you edit"))
            .await;
        let log = dev.process.log();
        let word =
            |before: &str| log.split(before).nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
        dev.client_key = word("client key");
        dev.network = word("network     http://").trim_end_matches('/').parse().unwrap();
        dev
    }

    async fn eventually(&self, what: &str, mut holds: impl AsyncFnMut(&Self) -> bool) {
        let until = Instant::now() + WITHIN;
        while !holds(self).await {
            assert!(Instant::now() < until, "not in time: {what}\n{}", self.process.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn write(&self, path: &str, text: &str) {
        write_file(&self.folder, path, text);
    }

    async fn get(
        &self,
        address: SocketAddr,
        path: &str,
        headers: &[(&str, &str)],
    ) -> (u16, HeaderMap, String) {
        let (status, headers, body) = send(address, Method::GET, path, headers, None).await.unwrap();
        (status.as_u16(), headers, String::from_utf8_lossy(&body).into_owned())
    }

    async fn call(&self, nsid: &str) -> (u16, Value) {
        let path = format!("/xrpc/{nsid}");
        let (status, _, body) =
            self.get(self.process.address, &path, &[("x-client-key", &self.client_key)]).await;
        (status, serde_json::from_str(&body).unwrap_or_default())
    }

    /// Logs in as a browser does, and returns the cookie of the session.
    async fn log_in(&self, handle: &str) -> String {
        let server = self.process.address;
        let cookie = |headers: &HeaderMap| {
            let cookie = headers["set-cookie"].to_str().unwrap();
            cookie.split(';').next().unwrap().to_owned()
        };
        let path_of = |url: &str| {
            let url = url::Url::parse(url).unwrap();
            format!("{}?{}", url.path(), url.query().unwrap_or_default())
        };
        let (status, headers, body) = self.get(server, &format!("/auth/login?handle={handle}"), &[]).await;
        assert_eq!(status, 200, "{body}");
        let browser = cookie(&headers);
        let url: Value = serde_json::from_str(&body).unwrap();
        let (_, _, page) = self.get(self.network, &path_of(url["url"].as_str().unwrap()), &[]).await;
        let link = page.split("<a href=\"").nth(1).unwrap_or_else(|| panic!("{page}"));
        let link = link.split('"').next().unwrap().replace("&amp;", "&");
        let (_, headers, _) = self.get(self.network, &link, &[]).await;
        let back = path_of(headers["location"].to_str().unwrap());
        let (status, headers, body) = self.get(server, &back, &[("cookie", &browser)]).await;
        assert!((300..400).contains(&status), "{body} {headers:?}");
        cookie(&headers)
    }
}

fn write_file(folder: &TempDir, path: &str, text: &str) {
    let path = folder.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[tokio::test]
async fn an_app_is_served_reloaded_and_written_to_without_a_network() {
    let dev = Dev::start(|write| {
        write("lexicons/com/example/note.json", &record_lexicon(NOTES).to_string());
        write("lexicons/com/example/list.json", &query_lexicon(LIST).to_string());
        write("lexicons/com/example/add.json", &procedure_lexicon(ADD).to_string());
        write("scripts/xrpc.query/com.example.list.lua", &list("one"));
        write("scripts/xrpc.procedure/com.example.add.lua", ADD_SCRIPT);
        write("seed/accounts.json", r#"[{ "handle": "alice.test" }, { "handle": "bob.test" }]"#);
        write(
            "seed/notes.json",
            r#"[{ "uri": "at://bob.test/com.example.note/1", "record": { "text": "seeded" } }]"#,
        );
    })
    .await;
    dev.eventually("the seeded record", async |dev| {
        dev.call(LIST).await == (200, json!({ "version": "one", "texts": ["seeded"] }))
    })
    .await;

    dev.write("scripts/xrpc.query/com.example.list.lua", &list("two"));
    dev.eventually("the edited script", async |dev| dev.call(LIST).await.1["version"] == "two").await;

    // A file that is no script is reported, and the version before is served.
    dev.write("scripts/xrpc.query/com.example.list.lua", "function handle( end");
    dev.eventually("the error of the file", async |dev| {
        let log = dev.process.log();
        log.contains("scripts/xrpc.query/com.example.list.lua:1:") && log.contains("not all was reloaded")
    })
    .await;
    assert_eq!(dev.call(LIST).await.1["version"], "two");

    // A script that fails shows its stack to every caller and in the terminal.
    dev.write(
        "scripts/xrpc.query/com.example.list.lua",
        "local function inner() error('it broke') end\nfunction handle()\n  inner()\nend\n",
    );
    dev.eventually("the failure", async |dev| dev.call(LIST).await.0 == 500).await;
    let (_, failure) = dev.call(LIST).await;
    let message = failure["message"].as_str().unwrap_or_default();
    assert!(message.contains("com.example.list:1: it broke") && message.contains("traceback"), "{failure}");
    let log = dev.process.log();
    assert!(log.contains("scripts/xrpc.query/com.example.list.lua:1: it broke"), "{log}");
    assert!(log.contains("scripts/xrpc.query/com.example.list.lua:3: in"), "{log}");

    dev.write("scripts/xrpc.query/com.example.list.lua", &list("three"));
    dev.write(
        "seed/notes.json",
        r#"[{ "uri": "at://bob.test/com.example.note/1", "record": { "text": "changed" } }]"#,
    );
    dev.eventually("the changed seed", async |dev| {
        dev.call(LIST).await.1 == json!({ "version": "three", "texts": ["changed"] })
    })
    .await;

    // Each account logs in without a password, and writes to its repo on the stand-in PDS.
    for handle in ["alice.test", "bob.test"] {
        let cookie = dev.log_in(handle).await;
        let origin = format!("http://{}", dev.process.address);
        let headers = [("cookie", &*cookie), ("origin", &*origin), ("x-client-key", &*dev.client_key)];
        let body = json!({ "text": format!("of {handle}") }).to_string();
        let path = format!("/xrpc/{ADD}");
        let (status, _, answer) =
            send(dev.process.address, Method::POST, &path, &headers, Some(body)).await.unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(status.as_u16(), 200, "{answer}\n{}", dev.process.log());
        let uri = answer["uri"].as_str().unwrap().trim_start_matches("at://").to_owned();
        let [repo, collection, rkey] = uri.split('/').collect::<Vec<_>>().try_into().unwrap();
        let path =
            format!("/xrpc/com.atproto.repo.getRecord?repo={repo}&collection={collection}&rkey={rkey}");
        let (_, _, stored) = dev.get(dev.network, &path, &[]).await;
        assert!(stored.contains(&format!("of {handle}")), "{stored}");
    }
    let (_, page) = dev.call(LIST).await;
    let texts = page["texts"].to_string();
    assert!(texts.contains("of alice.test") && texts.contains("of bob.test"), "{page}");
}

#[tokio::test]
async fn records_that_apps_write_to_the_pds_come_by_the_stream() {
    let dev = Dev::start(|write| {
        write("lexicons/com/example/note.json", &record_lexicon(NOTES).to_string());
        write("lexicons/com/example/list.json", &query_lexicon(LIST).to_string());
        // Without a folder `scripts`, the triggers' folders are in the folder itself.
        write("xrpc.query/com.example.list.lua", &list("one"));
    })
    .await;
    assert_eq!(dev.call(LIST).await, (200, json!({ "version": "one", "texts": [] })));
    let post = async |nsid: &str, headers: &[(&str, &str)], body: Value| {
        let path = format!("/xrpc/{nsid}");
        let (status, _, body) =
            send(dev.network, Method::POST, &path, headers, Some(body.to_string())).await.unwrap();
        (status.as_u16(), serde_json::from_slice::<Value>(&body).unwrap())
    };
    let (_, session) =
        post("com.atproto.server.createSession", &[], json!({ "identifier": "dev.test" })).await;
    let (did, token) = (&session["did"], format!("Bearer {}", session["accessJwt"].as_str().unwrap()));
    let headers = [("authorization", &*token)];
    let note = json!({ "repo": did, "collection": NOTES, "record": { "$type": NOTES, "text": "written" } });
    let (status, written) = post("com.atproto.repo.createRecord", &headers, note.clone()).await;
    assert_eq!(status, 200, "{written}");
    let texts = async |dev: &Dev| dev.call(LIST).await.1["texts"].clone();
    dev.eventually("the record", async |dev| texts(dev).await == json!(["written"])).await;

    let rkey = written["uri"].as_str().unwrap().rsplit('/').next().unwrap();
    let deletion = json!({ "repo": did, "collection": NOTES, "rkey": rkey });
    assert_eq!(post("com.atproto.repo.deleteRecord", &headers, deletion).await.0, 200);
    dev.eventually("the deletion", async |dev| texts(dev).await == json!([])).await;
    assert_eq!(post("com.atproto.repo.createRecord", &[], note).await.0, 401);
}

const RENDER: &str = "com.example.render";

#[tokio::test]
async fn plugins_of_the_folder_are_loaded_replaced_and_removed() {
    let files = PluginFiles::built("minimal");
    let dev = Dev::start(|write| {
        write("lexicons/com/example/render.json", &query_lexicon(RENDER).to_string());
        write(
            "scripts/xrpc.query/com.example.render.lua",
            "function handle()
  local ok, value = pcall(function() return plugin.minimal.echo('x') end)
  return { ok = ok, value = ok and value or tostring(value) }
end
",
        );
        write("plugins/minimal/manifest.json", &files.manifest);
    })
    .await;
    let log = dev.process.log();
    assert!(log.contains("plugins/minimal") && log.contains("plugin.wasm can't be read"), "{log}");
    assert_eq!(dev.call(RENDER).await.1["ok"], false);
    fs::write(dev.folder.path().join("plugins/minimal/plugin.wasm"), &files.module).unwrap();
    dev.eventually("the plugin", async |dev| {
        dev.call(RENDER).await == (200, json!({ "ok": true, "value": ["x"] }))
    })
    .await;
    assert!(dev.process.log().contains("plugin minimal 1.0.0 was loaded"), "{}", dev.process.log());
    fs::write(dev.folder.path().join("plugins/minimal/plugin.wasm"), b"broken").unwrap();
    dev.eventually("the error", async |dev| dev.process.log().contains("not all was reloaded")).await;
    assert_eq!(dev.call(RENDER).await.1["ok"], true, "the version before stays");
    fs::remove_dir_all(dev.folder.path().join("plugins")).unwrap();
    dev.eventually("the removal", async |dev| dev.call(RENDER).await.1["ok"] == false).await;
}

#[tokio::test]
async fn other_machines_reach_it_by_the_address_that_is_named() {
    let dev = Dev::start_on("127.0.0.2", |write| {
        write("lexicons/com/example/note.json", &record_lexicon(NOTES).to_string());
        write("lexicons/com/example/list.json", &query_lexicon(LIST).to_string());
        write("scripts/xrpc.query/com.example.list.lua", &list("one"));
        write("seed/accounts.json", r#"[{ "handle": "alice.test" }]"#);
    })
    .await;
    assert_eq!(dev.network.ip(), dev.process.address.ip());
    assert!(dev.process.log().contains(&format!("http://{}/dashboard/", dev.process.address)));
    assert_eq!(dev.call(LIST).await.0, 200);
    let cookie = dev.log_in("alice.test").await;
    assert!(cookie.contains('='), "{cookie}");
}
