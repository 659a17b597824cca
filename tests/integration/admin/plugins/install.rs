//! Installing a plugin from a URL or an upload, and removing it.

use crate::fixtures::World;
use belvedere_standins::files::FileServer;
use http::Method;
use serde_json::{Value, json};

use super::{ALL, HOST, PATH, events, install, list, post, refused, summary};
use crate::support::plugins::{PluginFiles, upload};

fn texts(permissions: &Value) -> Vec<&str> {
    let permissions = permissions.as_array().unwrap().iter();
    permissions.map(|permission| permission["permission"].as_str().unwrap()).collect()
}

crate::in_both_worlds!(
    a_plugin_is_previewed_installed_and_removed,
    an_upload_is_installed_and_low_risk_needs_no_consent,
    a_manifest_that_lies_is_refused,
    a_module_that_is_no_plugin_is_refused,
    a_module_that_loops_when_it_is_asked_what_it_is_is_refused,
    a_replacement_from_another_place_needs_consent,
    a_broken_upload_is_an_event_with_the_id_of_its_manifest,
    broken_fields_are_a_400,
    two_admins_install_at_once
);

async fn a_plugin_is_previewed_installed_and_removed(mut world: World) {
    let (files, site) = (PluginFiles::adaptable(&json!({})), FileServer::start().await);
    let url = files.publish(&site, "/adaptable");
    let preview = post(&world.server, "/preview", &json!({ "url": format!("{url}/plugin.wasm") })).await;
    assert_eq!(preview.status, 200, "{}", preview.text);
    let seen = &preview.body;
    assert_eq!(seen["manifest_url"], format!("{url}/manifest.json"));
    assert_eq!(seen["wasm_url"], format!("{url}/plugin.wasm"));
    assert_eq!(
        (&seen["id"], &seen["version"], &seen["auth_type"]),
        (&json!("adaptable"), &json!("1.0.0"), &json!("none"))
    );
    assert_eq!((&seen["sha256"], texts(&seen["permissions"])), (&json!(files.sha256()), ALL.to_vec()));
    assert_eq!(seen["permissions"][0]["sentence"], "may call adaptable.example");
    assert_eq!(
        (&seen["permissions"][0]["risk"], &seen["permissions"][1]["risk"]),
        (&json!("medium"), &json!("low"))
    );
    assert!(seen["note"].as_str().unwrap().contains("when it is installed"), "nothing was compiled: {seen}");

    let costs = &seen["compilation"];
    assert_eq!((costs["needed"].is_boolean(), &costs["module_bytes"]), (true, &json!(files.module.len())));
    assert_eq!(costs["max_seconds"], 60);
    assert!(
        (1..=1024).contains(&costs["max_memory_mib"].as_u64().unwrap()),
        "half of the server's at most: {costs}"
    );
    assert!(costs["functions"].as_u64().unwrap() > 10, "{costs}");

    // A custom section makes it a module that is not in the cache.
    let mut other = PluginFiles::adaptable(&json!({}));
    other.module.extend(b"\0\x05\x04none");
    let new = other.upload(&world.server, &format!("{PATH}/preview"), &[]).await;
    assert_eq!(new.body["compilation"]["needed"], true, "{}", new.text);

    // Without consent nothing is stored.
    let asked = post(&world.server, "", &json!({ "url": url })).await;
    assert_eq!((asked.status.as_u16(), asked.error()), (400, "ConsentRequired"));
    assert!(asked.body["message"].as_str().unwrap().contains("accepted_capabilities"));
    assert_eq!(texts(&asked.body["permissions"]), ALL);
    assert_eq!(list(&world.server).await, [Value::Null; 0]);

    let upper = files.sha256().to_uppercase();
    let body = json!({ "url": url, "sha256": upper, "accepted_capabilities": ALL });
    let installed = post(&world.server, "", &body).await;
    assert_eq!(installed.status, 200, "{}", installed.text);
    let plugin = summary(&world.server, "adaptable").await.unwrap();
    assert_eq!(installed.body, plugin);
    for (field, value) in [
        ("name", json!("Adaptable")),
        ("version", json!("1.0.0")),
        ("source", json!("url")),
        ("url", json!(url)),
        ("sha256", json!(files.sha256())),
        ("pinned", json!(true)),
        ("enabled", json!(true)),
        ("status", json!("active")),
        ("secrets_configured", json!(false)),
        ("update_available", json!(false)),
        ("pending_releases", json!([])),
        ("last_error", json!(null)),
        ("installed_by", json!(crate::support::instance::OPERATOR)),
    ] {
        assert_eq!(plugin[field], value, "{field}");
    }
    assert_eq!(plugin["permissions"][0]["granted"], true);
    let again = post(&world.server, "/preview", &json!({ "url": url })).await;
    assert_eq!(again.body["compilation"]["needed"], false, "its machine code is kept");
    assert_eq!(
        plugin["functions"][0],
        json!({ "name": "secret", "params": ["name: string"], "help": "Returns a secret." })
    );

    // A restart downloads nothing.
    let requests = site.requested().len();
    world.server.stop();
    world.server.start_again().await;
    assert_eq!(summary(&world.server, "adaptable").await.unwrap(), plugin);
    assert_eq!(site.requested().len(), requests);

    let delete = async || world.server.admin(Method::DELETE, &format!("{PATH}/adaptable"), None).await;
    assert_eq!(delete().await.status, 204);
    assert_eq!(list(&world.server).await, [Value::Null; 0]);
    assert_eq!((delete().await.status.as_u16(), delete().await.error()), (404, "plugin not found"));
    let seen: Vec<_> =
        events(&world.server).await.into_iter().map(|(kind, subject, _)| (kind, subject)).collect();
    let subject = json!("adaptable");
    assert_eq!(seen, [("plugin.added".to_owned(), subject.clone()), ("plugin.removed".to_owned(), subject)]);
}

async fn an_upload_is_installed_and_low_risk_needs_no_consent(world: World) {
    let files = PluginFiles::built("minimal");
    let preview = files.upload(&world.server, &format!("{PATH}/preview"), &[]).await;
    assert_eq!(
        (preview.status.as_u16(), &preview.body["manifest_url"]),
        (200, &Value::Null),
        "{}",
        preview.text
    );
    let installed = files.upload(&world.server, PATH, &[]).await;
    assert_eq!(installed.status, 200, "{}", installed.text);
    assert_eq!((&installed.body["source"], &installed.body["url"]), (&json!("upload"), &Value::Null));
    // Low risk: its own secrets and values.
    let adaptable = PluginFiles::adaptable(&json!({}));
    let consent = adaptable.upload(&world.server, PATH, &[]).await;
    assert_eq!(consent.error(), "ConsentRequired");
    let accepted = json!(ALL).to_string();
    let more =
        [("accepted_capabilities", accepted.as_bytes()), ("sha256", adaptable.sha256().leak().as_bytes())];
    let installed = adaptable.upload(&world.server, PATH, &more).await;
    assert_eq!(
        (installed.status.as_u16(), &installed.body["pinned"]),
        (200, &json!(true)),
        "{}",
        installed.text
    );
    // A second installation replaces the first and asks again.
    let again = adaptable.upload(&world.server, PATH, &[]).await;
    assert_eq!((again.error(), texts(&again.body["permissions"])), ("ConsentRequired", ALL.to_vec()));
    assert_eq!(list(&world.server).await.len(), 2);
    // Without a URL there is nothing to reload.
    let reload = post(&world.server, "/minimal/reload", &json!({})).await;
    refused("a reload", &reload, "uploaded");
}

async fn a_manifest_that_lies_is_refused(world: World) {
    let files = PluginFiles::adaptable(&json!({}));
    let site = FileServer::start().await;
    let refuse_at = async |paths: &[&str], what: &str, files: &PluginFiles, text: &str| {
        let url = files.publish(&site, "/lie");
        for path in paths {
            let answer = post(&world.server, path, &json!({ "url": url, "accepted_capabilities": [] })).await;
            refused(what, &answer, text);
        }
    };
    // The module's own description shows when it is compiled.
    let installed = [""];
    refuse_at(
        &installed,
        "id",
        &files.lying(&json!({ "id": "other", "required_secrets": [] })),
        "the id \"other\"",
    )
    .await;
    refuse_at(&installed, "version", &files.lying(&json!({ "version": "1.0.1" })), "the version \"1.0.1\"")
        .await;
    refuse_at(&installed, "secrets", &files.lying(&json!({ "required_secrets": [] })), "the secrets").await;
    let refuse = async |what: &str, files: &PluginFiles, text: &str| {
        refuse_at(&["/preview", ""], what, files, text).await;
    };
    refuse("auth", &files.lying(&json!({ "auth_type": "oauth2" })), "does not export linking").await;
    refuse("hosts", &files.lying(&json!({ "hosts": [] })), "imports http").await;
    refuse(
        "collections",
        &files.lying(&json!({ "collections": ["com.example.note"] })),
        "does not export sync",
    )
    .await;
    refuse("api", &files.lying(&json!({ "api_version": "2" })), "api_version").await;
    refuse(
        "missing file",
        &files.lying(&json!({ "wasm_file": "other.wasm" })),
        "other.wasm could not be downloaded",
    )
    .await;
    refuse("above its folder", &files.lying(&json!({ "wasm_file": "../x.wasm" })), "wasm_file").await;
    let mut broken = files.clone();
    "{".clone_into(&mut broken.manifest);
    refuse("no JSON", &broken, "manifest.json").await;
    broken.manifest = files.manifest.replace("\"name\":\"Adaptable\"", "\"name\":\"a\\u0000b\"");
    refuse("NUL", &broken, "manifest.json").await;
    broken.manifest =
        files.manifest.replace("\"name\":\"Adaptable\"", "\"name\":\"Adaptable\",\"else\":\"\\u0000\"");
    refuse("NUL in a field that is ignored", &broken, "NUL").await;
    broken.manifest = " ".repeat(65 * 1024);
    refuse("a large one", &broken, "larger than 65536").await;
    assert_eq!(list(&world.server).await, [Value::Null; 0]);
    let events = events(&world.server).await;
    assert!(events.iter().all(|(kind, ..)| kind == "plugin.refused"), "{events:?}");
    assert!(events[0].2["error"].as_str().unwrap().contains("the id"), "{events:?}");
}

async fn a_module_that_is_no_plugin_is_refused(world: World) {
    let files = PluginFiles::adaptable(&json!({}));
    let with = |module: &[u8]| PluginFiles { module: module.to_vec(), ..files.clone() };
    let half = &files.module[..files.module.len() / 2];
    for (what, module, text) in [
        ("nothing", &b""[..], "the module is empty"),
        ("text", b"hello", "not WebAssembly"),
        ("a core module", b"\0asm\x01\0\0\0", "core module"),
        ("a component of another world", b"\0asm\x0d\0\x01\0", "another world"),
        ("half of a module", half, "the module is damaged"),
    ] {
        for path in [PATH.to_owned(), format!("{PATH}/preview")] {
            refused(what, &with(module).upload(&world.server, &path, &[]).await, text);
        }
    }
    let wrong = [("sha256", &[b'0'; 64][..])];
    refused("a wrong hash", &files.upload(&world.server, PATH, &wrong).await, "SHA-256");
    let short = [("sha256", &b"00"[..])];
    refused("no hash", &files.upload(&world.server, PATH, &short).await, "64 hex digits");
    let large = vec![0; (32 << 20) + 1];
    refused("a large one", &with(&large).upload(&world.server, PATH, &[]).await, "larger");
    let larger = vec![0; 35 << 20];
    let answer = with(&larger).upload(&world.server, PATH, &[]).await;
    assert_eq!(answer.status, 413, "{}", answer.text);
    assert_eq!(list(&world.server).await, [Value::Null; 0]);
}

async fn a_module_that_loops_when_it_is_asked_what_it_is_is_refused(world: World) {
    const HONEST: &[u8] = b"describe=honest---------";
    let mut files = PluginFiles::built("hostile");
    let at = memchr::memmem::find(&files.module, HONEST).unwrap();
    files.module[at..at + HONEST.len()].copy_from_slice(b"describe=hang-----------");
    refused(
        "a loop",
        &files.upload(&world.server, PATH, &[]).await,
        "failed in describe: computed for more than",
    );
    let (kind, subject, detail) = events(&world.server).await.pop().unwrap();
    assert_eq!((kind.as_str(), subject), ("plugin.refused", json!("hostile")));
    assert!(detail["error"].as_str().unwrap().contains("describe"), "{detail}");
    assert_eq!(list(&world.server).await, [Value::Null; 0]);
}

async fn a_replacement_from_another_place_needs_consent(world: World) {
    let (files, site, other) =
        (PluginFiles::built("minimal"), FileServer::start().await, FileServer::start().await);
    let install = async |body: Value| post(&world.server, "", &body).await;
    let url = files.publish(&site, "/x");
    assert_eq!(install(json!({ "url": url })).await.status, 200);
    assert_eq!(install(json!({ "url": files.publish(&site, "/y") })).await.status, 200, "the same server");
    let url = files.publish(&other, "/x");
    let asked = install(json!({ "url": url })).await;
    assert_eq!((asked.status.as_u16(), asked.error()), (400, "ConsentRequired"));
    let origin = &asked.body["changes"]["origin"];
    assert_eq!(
        (origin["from"].as_str(), origin["to"].as_str()),
        (Some(&*site.url("")), Some(&*other.url("")))
    );
    let moved = post(&world.server, "/minimal/reload", &json!({ "url": url })).await;
    assert_eq!((moved.status.as_u16(), moved.error()), (400, "ConsentRequired"));
    let upload = files.upload(&world.server, PATH, &[]).await;
    assert_eq!(
        (upload.error(), &upload.body["changes"]["origin"]["to"]),
        ("ConsentRequired", &json!("upload"))
    );
    assert_eq!(summary(&world.server, "minimal").await.unwrap()["url"], site.url("/y"));
    assert_eq!(install(json!({ "url": url, "accepted_capabilities": [] })).await.status, 200);
}

async fn a_broken_upload_is_an_event_with_the_id_of_its_manifest(world: World) {
    let files = PluginFiles::built("minimal");
    let parts =
        [("manifest", files.manifest.as_bytes()), ("module", &files.module[..]), ("sha256", &b"\xff"[..])];
    refused("no text", &upload(&world.server, PATH, &parts).await, "UTF-8");
    refused("one part", &upload(&world.server, PATH, &parts[..1]).await, "module is missing");
    refused("no part", &upload(&world.server, &format!("{PATH}/preview"), &[]).await, "manifest is missing");
    let long = json!({ "url": format!("https://x.test/{}", "a".repeat(3_000)), "sha256": "b".repeat(9_000) });
    let answer = post(&world.server, "", &long).await;
    assert!(answer.error().len() <= 500, "{}", answer.text);
    let seen: Vec<_> = events(&world.server).await.into_iter().map(|(kind, id, _)| (kind, id)).collect();
    let refusal = |id: Value| ("plugin.refused".to_owned(), id);
    let id = json!("minimal");
    assert_eq!(seen, [refusal(id.clone()), refusal(id), refusal(Value::Null), refusal(Value::Null)]);
}

async fn broken_fields_are_a_400(world: World) {
    for (body, text) in [
        (json!({}), "url"),
        (json!({ "url": 5 }), "string"),
        (json!({ "url": "nothing" }), "url must be"),
        (json!({ "url": "http://127.0.0.1:9/", "sha256": 5 }), "string"),
        (json!({ "url": "http://127.0.0.1:9/", "accepted_capabilities": "kv:use" }), "sequence"),
        (json!({ "url": "http://127.0.0.1:9/", "accepted_capabilities": ["everything"] }), "no permission"),
        (json!({ "url": "a\0b" }), "NUL"),
    ] {
        refused(&body.to_string(), &post(&world.server, "", &body).await, text);
    }
    let files = PluginFiles::built("minimal");
    let (manifest, module) = (files.manifest.as_bytes(), &files.module[..]);
    for (parts, text) in [
        (vec![], "manifest is missing"),
        (vec![("manifest", manifest)], "module is missing"),
        (vec![("manifest", &b"\xff\xfe"[..]), ("module", module)], "manifest.json"),
        (vec![("manifest", &b"\0"[..]), ("module", module)], "manifest.json"),
        (vec![("manifest", manifest), ("module", module), ("accepted_capabilities", &b"\xff"[..])], "UTF-8"),
        (vec![("manifest", manifest), ("module", module), ("sha256", &b"\0"[..])], "NUL"),
        (
            vec![
                ("manifest", manifest),
                ("module", module),
                ("accepted_capabilities", &b"[\"attest:sign\"]"[..]),
            ],
            "does not ask for attest:sign",
        ),
    ] {
        for path in ["", "/preview"] {
            if path.is_empty() || text != "does not ask for attest:sign" {
                refused(text, &upload(&world.server, &format!("{PATH}{path}"), &parts).await, text);
            }
        }
    }
    for path in ["reload", "resume", "check-update"] {
        let answer = post(&world.server, &format!("/none/{path}"), &json!({})).await;
        assert_eq!((answer.status.as_u16(), answer.error()), (404, "plugin not found"), "{path}");
    }
    assert_eq!(list(&world.server).await, [Value::Null; 0]);
}

async fn two_admins_install_at_once(world: World) {
    let site = FileServer::start().await;
    let versions = ["1.0.0", "2.0.0"].map(|version| PluginFiles::adaptable(&json!({ "version": version })));
    let urls = [versions[0].publish(&site, "/one"), versions[1].publish(&site, "/two")];
    for _ in 0..3 {
        let (one, two) = tokio::join!(install(&world.server, &urls[0]), install(&world.server, &urls[1]));
        assert_eq!((&one["version"], &two["version"]), (&json!("1.0.0"), &json!("2.0.0")));
        let plugins = list(&world.server).await;
        assert_eq!(plugins.len(), 1);
        let winner = usize::from(plugins[0]["version"] == "2.0.0");
        assert_eq!(plugins[0]["sha256"], versions[winner].sha256());
        assert_eq!((&plugins[0]["url"], &plugins[0]["status"]), (&json!(urls[winner]), &json!("active")));
    }
    assert_eq!(list(&world.server).await[0]["permissions"][0]["permission"], HOST);
}
