//! Methods that the server answers itself, and scripts for them.

use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, World};
use crate::oauth::device::{App, pds};
use crate::support::instance::{Answer, procedure_lexicon, query_lexicon};

const PROFILE: &str = "app.bsky.actor.getProfile";
const DESCRIBE: &str = "com.atproto.server.describeServer";

async fn save(world: &World, id: &str, body: &str) -> Answer {
    let body = json!({ "id": id, "body": body });
    world.server.admin(Method::POST, "/admin/scripts", Some(&body)).await
}

crate::in_both_worlds!(
    a_script_replaces_what_the_server_answers_itself,
    a_script_that_could_never_run_is_refused_or_warned_of,
    the_methods_of_spaces_are_switched_off
);

async fn a_script_replaces_what_the_server_answers_itself(world: World) {
    let server = &world.server;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(server, "one").await;
    let device = app.device(server, &pds, ALICE, json!({})).await;
    let profile =
        async || device.request(server, Method::GET, &format!("/xrpc/{PROFILE}?actor=x"), None).await;
    for (nsid, text) in [(PROFILE, "profile"), (DESCRIBE, "server")] {
        let source = format!(
            "function handle() return {{ of = '{text}', actor = params.actor, caller = caller_did }} end"
        );
        let saved = save(&world, &format!("xrpc.query:{nsid}"), &source).await;
        let warning = format!("the script replaces the server's own answer to {nsid}");
        assert_eq!(
            (saved.status.as_u16(), &saved.body["warnings"]),
            (201, &json!([warning])),
            "{}",
            saved.text
        );
    }
    assert_eq!(profile().await.body, json!({ "of": "profile", "actor": "x", "caller": ALICE }));
    let described = async || server.request(Method::GET, &format!("/xrpc/{DESCRIBE}"), &[], None).await;
    assert_eq!(described().await.body, json!({ "of": "server" }));
    // Other scripts call them, with and without a lexicon.
    server.upload(query_lexicon("com.example.outer"), None).await;
    server.bind("com.example.outer", &format!("function handle()
            return {{ json.decode(xrpc.query('{PROFILE}', {{ actor = 'y' }}).body).actor, json.decode(xrpc.query('{DESCRIBE}').body).of }} end")).await;
    assert_eq!(server.xrpc("com.example.outer").await.body, json!(["y", "server"]));
    server.upload(query_lexicon(PROFILE), None).await;
    assert_eq!(profile().await.body["of"], "profile");
    // Whatever lexicon the name has: the same over HTTP and in a script.
    server.upload(procedure_lexicon(DESCRIBE), None).await;
    assert_eq!(described().await.body, json!({ "of": "server" }));
    assert_eq!(server.xrpc("com.example.outer").await.body, json!(["y", "server"]));
    // Without the script the server answers again.
    for nsid in [PROFILE, DESCRIBE] {
        assert_eq!(
            server.admin(Method::DELETE, &format!("/admin/scripts/xrpc.query:{nsid}"), None).await.status,
            204
        );
    }
    assert_eq!(described().await.body["did"], server.did());
    let own = device.request(server, Method::GET, &format!("/xrpc/{PROFILE}"), None).await;
    assert_eq!(own.body, json!({ "did": ALICE, "handle": ALICE }), "{}", own.text);
}

async fn a_script_that_could_never_run_is_refused_or_warned_of(world: World) {
    let handle = "function handle() return {} end";
    for (id, reason) in [
        ("xrpc.procedure:com.atproto.repo.uploadBlob", "it streams a file"),
        ("xrpc.procedure:dev.service.createApiClient", "it manages API clients"),
        ("xrpc.query:dev.service.delegation.listAccounts", "it manages API clients"),
        ("xrpc.procedure:app.bsky.actor.getProfile", "it is a query"),
        ("xrpc.query:com.atproto.space.getRecord", "it is a method of spaces"),
    ] {
        let refused = save(&world, id, handle).await;
        assert_eq!(refused.status, 400, "{id} {}", refused.text);
        assert!(
            refused.error().contains("no script can answer") && refused.error().contains(reason),
            "{id} {}",
            refused.text
        );
        let body = json!({ "id": id, "body": handle });
        let checked = world.server.admin(Method::POST, "/admin/scripts/check", Some(&body)).await;
        assert_eq!((checked.status.as_u16(), checked.error()), (400, refused.error()), "{id}");
    }
    let early = save(&world, "xrpc.query:com.example.early", handle).await;
    let warning = "com.example.early has no lexicon here, so the script will not run: upload its lexicon";
    assert_eq!(early.body["warnings"], json!([warning]), "{}", early.text);
    world.server.upload(query_lexicon("com.example.early"), None).await;
    let ready = save(&world, "xrpc.query:com.example.early", handle).await;
    assert_eq!((ready.status.as_u16(), &ready.body["warnings"]), (200, &Value::Null), "{}", ready.text);
}

/// Every method and path of `spaces.md` §5, by every verb, for every caller.
async fn the_methods_of_spaces_are_switched_off(world: World) {
    let server = &world.server;
    let methods = [
        "com.atproto.simplespace.createSpace",
        "com.atproto.simplespace.getSpace",
        "com.atproto.simplespace.putMember",
        "com.atproto.space.getSpace",
        "com.atproto.space.createRecord",
        "com.atproto.space.applyWrites",
        "com.atproto.space.getRepoState",
        "com.atproto.space.getRepo",
        "com.atproto.space.getDelegationToken",
        "com.atproto.space.getSpaceCredential",
        "com.atproto.space.notifyWrite",
        "com.atproto.space.notifySpaceDeleted",
        "dev.service.space.createInvite",
        "dev.service.space.listInvites",
        "dev.service.space.getMemberGrant",
    ];
    let paths = methods.map(|method| format!("/xrpc/{method}")).into_iter().chain(
        [
            "/admin/spaces",
            "/admin/spaces/did:plc:a/com.example.group/main",
            "/admin/spaces/did:plc:a/com.example.group/main/members",
            "/admin/spaces/did:plc:a/com.example.group/main/records",
            "/admin/spaces/inspections",
            "/admin/accounts/did:plc:a/spaces",
            "/admin/accounts/did:plc:a/space-records",
        ]
        .map(str::to_owned),
    );
    let paths: Vec<String> = paths.collect();
    let all = async |status: u16, expected: &Value| {
        for path in &paths {
            let is_admin = path.starts_with("/admin");
            for method in [Method::GET, Method::POST].into_iter().take(if is_admin { 1 } else { 2 }) {
                let anonymous = server.request(method.clone(), path, &[], None).await;
                assert_eq!(
                    (anonymous.status.as_u16(), &anonymous.body),
                    (status, expected),
                    "{method} {path}"
                );
            }
            let key = server.admin(Method::GET, path, None).await;
            assert_eq!((key.status.as_u16(), &key.body), (status, expected), "{path}");
        }
    };
    let off = json!({ "error": "FeatureDisabled",
        "message": "The feature 'feature.spaces_enabled' is not currently enabled on this instance" });
    all(404, &off).await;
    server.upload(query_lexicon("com.example.outer"), None).await;
    server
        .bind(
            "com.example.outer",
            "function handle() return { status = xrpc.query('com.atproto.space.listSpaces').status } end",
        )
        .await;
    assert_eq!(server.xrpc("com.example.outer").await.body, json!({ "status": 404 }));
    let flag = json!({ "value": "true" });
    assert_eq!(
        server.admin(Method::PUT, "/admin/settings/feature.spaces_enabled", Some(&flag)).await.status,
        204
    );
    // Then each method has its own rules (`spaces`).
    let list = server.xrpc("com.atproto.space.listSpaces").await;
    assert_eq!(list.status, 401, "{}", list.text);
    let list = server.admin(Method::GET, "/admin/spaces", None).await;
    assert_eq!(list.body, json!({ "spaces": [], "cursor": null }), "{}", list.text);
}
