//! Linked repos: grants, invites, the pages, and writes by scripts.

use std::collections::HashMap;

use belvedere_standins::jetstream::Frame;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, LIST, NOTES, World};
use crate::support::instance::{Answer, keyed_lexicon, query_lexicon};
use crate::support::oauth_pds::OauthPds;

const SCOPES: &str = "repo:com.example.note blob:image/*";
const TRIGGER: &str = "xrpc.query:com.example.use";

async fn pds(world: &World) -> OauthPds {
    let pds = OauthPds::start().await;
    for did in [ALICE, BOB] {
        world.plc.host(did, &pds.url());
    }
    pds
}

async fn post(world: &World, path: &str, body: Value) -> Answer {
    world.server.admin(Method::POST, &format!("/admin/linked-repos{path}"), Some(&body)).await
}

async fn get(world: &World, path: &str) -> Answer {
    world.server.request(Method::GET, path, &[], None).await
}

/// Like [`get`], by a client that asks for JSON.
async fn get_json(world: &World, path: &str) -> Answer {
    world.server.request(Method::GET, path, &[("accept", "application/json")], None).await
}

/// The text of an error page.
async fn error_page(world: &World, path: &str, status: u16) -> String {
    let accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let page = world.server.request(Method::GET, path, &[("accept", accept)], None).await;
    assert_eq!(page.status, status, "{path} {}", page.text);
    assert!(page.headers["content-type"].to_str().unwrap().starts_with("text/html"), "{path} {}", page.text);
    assert!(page.headers["content-security-policy"].to_str().unwrap().contains("default-src 'none'"));
    page.text
}

/// Creates a grant. Returns its id.
async fn grant(world: &World, body: Value) -> String {
    let made = post(world, "", body).await;
    assert_eq!(made.status, 200, "{}", made.text);
    made.body["id"].as_str().unwrap().to_owned()
}

async fn status_of(world: &World, id: &str) -> Value {
    let listed = world.server.admin(Method::GET, "/admin/linked-repos", None).await.body;
    listed["linked_repos"]
        .as_array()
        .unwrap()
        .iter()
        .find(|grant| grant["id"] == id)
        .cloned()
        .unwrap_or_default()
}

fn location(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text);
    answer.headers["location"].to_str().unwrap().to_owned()
}

/// Creates an invite. Returns the path of its link.
async fn invite(world: &World, id: &str) -> String {
    let made = post(world, &format!("/{id}/invite"), json!({})).await;
    assert_eq!(made.status, 200, "{}", made.text);
    let url = made.body["invite_url"].as_str().unwrap();
    url.replace(&format!("http://{}", world.server.address), "")
}

fn callback(back: &HashMap<String, String>) -> String {
    format!(
        "/auth/callback?{}",
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(back).finish()
    )
}

/// Follows an invite link as an account that consents. Returns the final redirect.
async fn follow(world: &World, pds: &OauthPds, link: &str, did: &str) -> String {
    let to = location(&get(world, &format!("{link}&handle={did}")).await);
    location(&get(world, &callback(&pds.consent(did, &to))).await)
}

async fn linked(world: &World, pds: &OauthPds, body: Value) -> String {
    let id = grant(world, body).await;
    let link = invite(world, &id).await;
    assert_eq!(follow(world, pds, &link, ALICE).await, "/link/result?status=success");
    id
}

crate::in_both_worlds!(
    a_repo_is_linked_by_its_owner,
    an_invite_is_valid_only_for_its_account,
    a_mistyped_handle_leads_back_to_the_invite,
    invalid_grants_are_refused_with_the_reason,
    invalid_records_are_refused_unless_the_script_opts_out,
    a_grant_ends_when_its_account_moves,
    scripts_write_within_the_grant
);

async fn a_repo_is_linked_by_its_owner(world: World) {
    let pds = pds(&world).await;
    let id = grant(&world, json!({ "scopes": SCOPES, "reason": "We <write> for you" })).await;
    let open = status_of(&world, &id).await;
    assert_eq!(
        (&open["did"], &open["status"], &open["scopes"]),
        (&json!(null), &json!("pending"), &json!(format!("atproto {SCOPES}")))
    );
    let refused = post(&world, &format!("/{id}/authorize"), json!({})).await;
    assert_eq!(
        (refused.status.as_u16(), refused.error()),
        (400, "an open grant is authorized through an invite")
    );

    let (link, other) = (invite(&world, &id).await, invite(&world, &id).await);
    let token = link.split("token=").nth(1).unwrap();
    let info = get(&world, &format!("/auth/linked-repo/info?token={token}")).await.body;
    assert_eq!(
        (&info["valid"], &info["reason"], &info["pinned_identifier"]),
        (&json!(true), &json!("We <write> for you"), &json!(null))
    );
    let to = location(&get(&world, &link).await);
    assert_eq!(to, format!("/link/start?token={token}"));
    let page = get(&world, &to).await;
    assert!(page.headers["content-type"].to_str().unwrap().starts_with("text/html"));
    assert!(page.headers["content-security-policy"].to_str().unwrap().contains("default-src 'none'"));
    assert!(
        page.text.contains("We &#60;write&#62; for you") && page.text.contains("repo:com.example.note"),
        "{}",
        page.text
    );

    assert_eq!(follow(&world, &pds, &link, ALICE).await, "/link/result?status=success");
    let done = get(&world, "/link/result?status=success").await;
    assert!(done.text.contains("Your repo is linked"), "{}", done.text);
    let active = status_of(&world, &id).await;
    assert_eq!(
        (&active["did"], &active["status"], &active["last_error"]),
        (&json!(ALICE), &json!("active"), &json!(null))
    );
    assert!(active["authorized_at"].is_string() && active.get("session_id").is_none());
    // All invites of the grant are invalid.
    for link in [&link, &other] {
        let dead = get_json(&world, &format!("{link}&handle={ALICE}")).await;
        let error = "the link has been used, was revoked, or has expired: ask its sender for another one";
        assert_eq!((dead.status.as_u16(), dead.error()), (400, error));
        assert!(
            error_page(&world, link, 400)
                .await
                .contains("The link has been used, was revoked, or has expired")
        );
    }
    assert_eq!(
        get(&world, &format!("/auth/linked-repo/info?token={token}")).await.body,
        json!({ "valid": false })
    );
    assert!(
        error_page(&world, &format!("/link/start?token={token}"), 400)
            .await
            .contains("The link has been used")
    );
    // The scopes that the owner consented to are in the client metadata.
    let declared = get(&world, "/oauth-client-metadata.json").await.body;
    assert!(declared["scope"].as_str().unwrap().contains("blob:image/*"), "{declared}");
    // Linking does not log the owner in.
    assert!(get(&world, "/auth/me").await.status == 401);
    let deleted = world.server.admin(Method::DELETE, &format!("/admin/linked-repos/{id}"), None).await;
    assert_eq!(deleted.body, json!({ "deleted": true }));
    assert_eq!(
        world.server.admin(Method::DELETE, &format!("/admin/linked-repos/{id}"), None).await.status,
        404
    );
}

async fn an_invite_is_valid_only_for_its_account(world: World) {
    let pds = pds(&world).await;
    let id = grant(&world, json!({ "scopes": SCOPES, "handle": ALICE })).await;
    let link = invite(&world, &id).await;
    let wrong = get_json(&world, &format!("{link}&handle={BOB}")).await;
    assert_eq!((wrong.status.as_u16(), wrong.error()), (400, "this link was issued for a different account"));
    // Another account signs in at the PDS.
    let to = location(&get(&world, &format!("{link}&handle={ALICE}")).await);
    let back = callback(&pds.consent(BOB, &to));
    assert_eq!(location(&get(&world, &back).await), "/link/result?status=failed");
    // The grant is revoked while the owner is on the consent page.
    let to = location(&get(&world, &format!("{link}&handle={ALICE}")).await);
    let listed =
        world.server.admin(Method::GET, &format!("/admin/linked-repos/{id}/invites"), None).await.body;
    let invite_id = listed["invites"][0]["invite_id"].as_str().unwrap().to_owned();
    let path = format!("/admin/linked-repos/{id}/invites/{invite_id}");
    assert_eq!(world.server.admin(Method::DELETE, &path, None).await.body, json!({ "revoked": true }));
    assert_eq!(world.server.admin(Method::DELETE, &path, None).await.status, 404);
    assert_eq!(
        location(&get(&world, &callback(&pds.consent(ALICE, &to))).await),
        "/link/result?status=expired"
    );
    assert_eq!(status_of(&world, &id).await["status"], "pending");
    // A grant without an account can't be used by an account that already has a grant.
    let open = grant(&world, json!({ "scopes": SCOPES })).await;
    let link = invite(&world, &open).await;
    assert_eq!(follow(&world, &pds, &link, ALICE).await, "/link/result?status=already_linked");
    // An admin who owns the account can authorize without an invite.
    let url = post(&world, &format!("/{id}/authorize"), json!({})).await.body["authorize_url"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        location(&get(&world, &callback(&pds.consent(ALICE, &url))).await),
        format!("/dashboard/#/linked-repos/{id}")
    );
    assert_eq!(status_of(&world, &id).await["status"], "active");
}

async fn a_mistyped_handle_leads_back_to_the_invite(world: World) {
    let pds = pds(&world).await;
    let id = grant(&world, json!({ "scopes": SCOPES })).await;
    let link = invite(&world, &id).await;
    let first_page = location(&get(&world, &link).await);
    for (handle, status, text) in [
        ("not%20a%20handle", 400, "It is neither a handle nor a DID."),
        ("nobody.example", 400, "The handle could not be resolved."),
        ("did:plc:nobodynobodynobodynobody", 502, "could not"),
    ] {
        let path = format!("{link}&handle={handle}");
        let page = error_page(&world, &path, status).await;
        assert!(page.contains(text) && page.contains(&format!("href=\"{first_page}\"")), "{handle} {page}");
        let error = get_json(&world, &path).await;
        assert_eq!(error.status, status, "{handle}");
        assert!(!error.error().is_empty(), "{handle} {}", error.text);
    }
    assert!(get(&world, &first_page).await.text.contains("name=\"handle\""), "the invite is still valid");
    // The callback of a made-up authorization ends in the dashboard.
    let failed = location(&get(&world, "/auth/callback?state=made-up").await);
    assert_eq!(location(&get(&world, &failed).await), "dashboard/#/login?error=expired");
    assert_eq!(follow(&world, &pds, &link, ALICE).await, "/link/result?status=success");
}

async fn invalid_grants_are_refused_with_the_reason(world: World) {
    let _pds = pds(&world).await;
    grant(&world, json!({ "scopes": SCOPES, "handle": ALICE })).await;
    for (body, status) in [
        (json!({}), 400),
        (json!({ "scopes": " " }), 400),
        (json!({ "scopes": "repo:not an nsid" }), 400),
        (json!({ "scopes": "wish:all" }), 400),
        (json!({ "scopes": SCOPES, "handle": "nobody.example" }), 400),
        (json!({ "scopes": SCOPES, "scripts": ["no trigger"] }), 400),
        (json!({ "scopes": SCOPES, "handle": ALICE }), 409),
    ] {
        let answer = post(&world, "", body.clone()).await;
        assert_eq!(answer.status, status, "{body} {}", answer.text);
    }
    let id = grant(&world, json!({ "scopes": SCOPES })).await;
    for (seconds, status) in [
        (json!(59), 400),
        (json!(59.9), 400),
        (json!(2_592_001), 400),
        (json!("60"), 400),
        (json!(60), 200),
        (json!(86400.0), 200),
        (json!(90.5), 200),
        (json!(null), 200),
    ] {
        let answer = post(&world, &format!("/{id}/invite"), json!({ "expires_in": seconds })).await;
        assert_eq!(answer.status, status, "{seconds} {}", answer.text);
    }
    // Any white space separates scopes, and null is the same as absence.
    let body =
        json!({ "scopes": "blob:*/*\tatproto\n repo:com.example.note", "scripts": null, "handle": null });
    let id = grant(&world, body).await;
    let shown = status_of(&world, &id).await;
    assert_eq!(
        (&shown["scopes"], &shown["scripts"]),
        (&json!("atproto blob:*/* repo:com.example.note"), &json!([]))
    );
    assert_eq!(post(&world, "/unknown/invite", json!({})).await.status, 404);
    assert_eq!(post(&world, "/unknown/authorize", json!({})).await.status, 404);
}

async fn invalid_records_are_refused_unless_the_script_opts_out(world: World) {
    let world = world.with_notes().await;
    let pds = pds(&world).await;
    linked(&world, &pds, json!({ "scopes": "repo:*", "scripts": [TRIGGER] })).await;
    world.server.upload(query_lexicon("com.example.use"), None).await;
    world.server.upload(keyed_lexicon("com.example.profile", "literal:self"), None).await;
    let run = async |call: &str| {
        let source = format!("function handle() return linked_repos.get('{ALICE}'):{call} end");
        world.server.bind_to(TRIGGER, &source).await;
        world.server.xrpc("com.example.use").await
    };
    let create = |record: &str| format!("create_record({{ collection = '{NOTES}', record = {record} }})");
    let wrong_key =
        "put_record({ collection = 'com.example.profile', rkey = 'other', record = { text = 'x' } })";
    let called = |more: &str| {
        format!(
            "call('com.atproto.repo.createRecord', {{ input = {{ repo = '{ALICE}',
            collection = '{NOTES}', record = {{ text = 7 }}{more} }} }})"
        )
    };
    for (call, reason) in [
        (create("{ text = 7 }"), "record.text"),
        (create(&format!("Record('{NOTES}', {{ text = 7 }})")), "record.text"),
        (wrong_key.to_owned(), "have the key \"self\""),
        (called(""), "record.text"),
    ] {
        let refused = run(&call).await;
        assert_eq!(
            (refused.status.as_u16(), refused.error()),
            (400, "InvalidRequest"),
            "{call} {}",
            refused.text
        );
        assert!(refused.body["message"].as_str().unwrap().contains(reason), "{call} {}", refused.text);
    }
    assert!(pds.requests("/xrpc/com.atproto.repo").is_empty());
    let opted_out = format!(
        "put_record({{ collection = '{NOTES}', rkey = 'k', record = {{ text = 7 }}, validate = false }})"
    );
    assert_eq!(run(&opted_out).await.status, 200);
    let found = world
        .server
        .admin(Method::GET, &format!("/admin/records?collection={NOTES}&valid=false"), None)
        .await;
    assert_eq!(found.body["records"][0]["rkey"], "k", "{}", found.text);
    assert_eq!(run(&called(", validate = false")).await.status, 200);
    // The only key of a collection need not be named.
    let profile = run("create_record({ collection = 'com.example.profile', record = { text = 'x' } })").await;
    assert_eq!(profile.body["uri"], format!("at://{ALICE}/com.example.profile/self"), "{}", profile.text);
}

async fn a_grant_ends_when_its_account_moves(world: World) {
    let mut world = world.with_notes().await;
    let first = pds(&world).await;
    let id = linked(&world, &first, json!({ "scopes": SCOPES, "scripts": [TRIGGER] })).await;
    world.server.upload(query_lexicon("com.example.use"), None).await;
    world.server.bind_to(TRIGGER, &format!("function handle()
            local repo = linked_repos.get('{ALICE}')
            local ok, error = pcall(repo.create_record, repo, {{ collection = 'com.example.note', record = {{ text = 'a' }} }})
            return {{ ok = ok, code = error and error.code }} end")).await;
    let second = pds(&world).await;
    // The document is read before the write, because nothing is cached after a restart.
    world.server.stop();
    world.server.start_again().await;
    let refused = world.server.xrpc("com.example.use").await;
    assert_eq!(refused.body, json!({ "ok": false, "code": "no-session" }), "{}", refused.text);
    let needs_reauth = |grant: &Value| {
        (&grant["status"], &grant["last_error"])
            == (&json!("needs_reauth"), &json!("the account has moved to another PDS"))
    };
    let grant = status_of(&world, &id).await;
    assert!(needs_reauth(&grant), "{grant}");
    assert!(first.requests("/xrpc/com.atproto.repo").is_empty() && second.requests("/xrpc").is_empty());
    assert_eq!(world.server.records().await, 0);

    // The owner authorizes it at the new PDS. The next move is an event of the stream, and no script runs after it.
    let link = invite(&world, &id).await;
    assert_eq!(follow(&world, &second, &link, ALICE).await, "/link/result?status=success");
    assert_eq!(world.server.xrpc("com.example.use").await.body["ok"], true);
    let _third = pds(&world).await;
    world.push(|at, _| Frame::identity(at, ALICE, "alice.example"));
    world
        .server
        .eventually("the grant has ended", async |_| needs_reauth(&status_of(&world, &id).await))
        .await;
}

async fn scripts_write_within_the_grant(world: World) {
    let world = world.with_notes().await;
    let pds = pds(&world).await;
    let id = linked(&world, &pds, json!({ "scopes": SCOPES, "scripts": [TRIGGER] })).await;
    world.server.upload(query_lexicon("com.example.use"), None).await;
    let run = async |source: &str| {
        let source = source.replace("ALICE", ALICE).replace("BOB", BOB);
        world.server.bind_to(TRIGGER, &format!("function handle() {source} end")).await;
        world.server.xrpc("com.example.use").await
    };
    let done = run("local repo = linked_repos.get('ALICE')
            local ours = Record('com.example.note', { text = 'ours', secretNote = 'not sent' })
            local made = repo:create_record({ collection = 'com.example.note', record = ours })
            local put = repo:put_record({ collection = 'com.example.note', rkey = 'k', record = { text = 'put' }, swap_cid = made.cid })
            local blob = repo:upload_blob('\\0\\255', 'image/png')
            local who = repo:call('com.atproto.server.getSession')
            return { made = made, uri = put.uri, size = blob.blob.size, who = who.did, status = repo.status,
                gone = repo:delete_record({ collection = 'com.example.note', rkey = 'k' }), nobody = linked_repos.get('BOB') == nil,
                all = linked_repos.list() }").await;
    assert_eq!(done.status, 200, "{}", done.text);
    assert_eq!(
        (
            &done.body["who"],
            &done.body["size"],
            &done.body["status"],
            &done.body["gone"],
            &done.body["nobody"]
        ),
        (&json!(ALICE), &json!(2), &json!("active"), &json!(true), &json!(true)),
        "{}",
        done.text
    );
    assert_eq!(done.body["all"][0]["id"], id.as_str());
    let uri = done.body["made"]["uri"].as_str().unwrap();
    let found = world.server.xrpc(&format!("{LIST}?uri={uri}")).await.body["record"].clone();
    assert_eq!((&found["text"], &found["secretNote"]), (&json!("ours"), &json!(null)), "{found}");
    let sent: Value =
        serde_json::from_slice(&pds.requests("/xrpc/com.atproto.repo.putRecord")[0].body).unwrap();
    assert_eq!((&sent["swapRecord"], &sent["record"]["$type"]), (&done.body["made"]["cid"], &json!(NOTES)));

    // A write beyond the grant is not sent, and the script gets an error.
    let before = pds.requests("/xrpc").len();
    for (source, expected) in [
        ("repo:create_record({ collection = 'com.example.other', record = {} })", "lacks the scope repo:com.example.other?action=create"),
        ("repo:upload_blob('x', 'video/mp4')", "lacks the scope blob:video/mp4"),
        ("repo:create_record({ collection = 'com.example.note', record = 'text' })", "record: table expected"),
        ("repo:create_record({ collection = 'com.example.note', rkey = 'a/b', record = {} })", "is not a record key"),
        ("repo:create_record({ collection = 'com.example.note', record = { ['$type'] = 'com.example.other' } })",
            "$type must be com.example.note, or be left out"),
        ("repo:call('com.atproto.repo.createRecord', { input = { repo = 'ALICE', collection = 'com.example.note', validate = false,
                record = { ['$type'] = 'com.example.other' } } })", "$type must be com.example.note, or be left out"),
    ] {
        let answer = run(&format!("local repo = linked_repos.get('ALICE')
                local ok, error = pcall(function() {source} end)
                return {{ ok = ok, error = tostring(error) }}")).await;
        assert_eq!(answer.body["ok"], false, "{source} {}", answer.text);
        assert!(answer.body["error"].as_str().unwrap().contains(expected), "{source} {}", answer.text);
    }
    assert_eq!(pds.requests("/xrpc").len(), before);

    // A script that is not on the grant's list, or was removed from it, does not see the grant.
    let scripts = |names: Value| json!({ "scripts": names });
    let patch = async |names: Value| {
        world.server.admin(Method::PATCH, &format!("/admin/linked-repos/{id}"), Some(&scripts(names))).await
    };
    let look = "return { found = linked_repos.get('ALICE') ~= nil, all = #linked_repos.list() }";
    for (names, found) in
        [(json!(["xrpc.query:com.example.other"]), false), (json!([]), false), (json!([TRIGGER]), true)]
    {
        assert_eq!(patch(names.clone()).await.status, 200);
        assert_eq!(run(look).await.body, json!({ "found": found, "all": i32::from(found) }), "{names}");
    }
    assert_eq!(patch(json!(["nothing"])).await.status, 400);

    // The owner revokes the session at their PDS: the grant's status shows it, even if the script catches the error.
    pds.revoke_all();
    let lost = run("local repo = linked_repos.get('ALICE')
            local ok, error = pcall(repo.call, repo, 'com.atproto.server.getSession')
            return { ok = ok, error = tostring(error), code = error.code }")
    .await;
    assert_eq!(
        (&lost.body["ok"], &lost.body["code"]),
        (&json!(false), &json!("no-session")),
        "{}",
        lost.text
    );
    let grant = status_of(&world, &id).await;
    assert_eq!(
        (&grant["status"], &grant["last_error"]),
        (&json!("needs_reauth"), &json!("its session has ended"))
    );
    let again =
        run("local ok, error = pcall(linked_repos.get, 'ALICE') return { error = tostring(error) }").await;
    assert!(again.body["error"].as_str().unwrap().contains("needs to be authorized again"), "{}", again.text);
    let uncaught = run("return linked_repos.get('ALICE')").await;
    assert_eq!(
        (uncaught.status.as_u16(), uncaught.error()),
        (500, "script execution failed"),
        "not a 401: the caller can't renew it"
    );
    // The owner can authorize it again.
    let link = invite(&world, &id).await;
    assert_eq!(follow(&world, &pds, &link, ALICE).await, "/link/result?status=success");
    assert_eq!(run(look).await.body["found"], true);
    // An answer of a PDS is mapped in queries as in procedures.
    for (status, body, expected) in [
        (418, json!({ "error": "Teapot", "message": "no" }), (418, "Teapot")),
        (200, json!({ "uri": 7 }), (502, "the PDS's response is invalid")),
    ] {
        pds.respond_with("/xrpc/com.atproto.repo.createRecord", status, body);
        let answer = run("return linked_repos.get('ALICE'):create_record({ collection = 'com.example.note', record = { text = 'x' } })").await;
        assert_eq!((answer.status.as_u16(), answer.error()), expected, "{}", answer.text);
    }
}
