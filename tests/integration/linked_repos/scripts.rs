//! Tests of what scripts do with linked repos.

use super::*;

crate::in_both_worlds!(
    invalid_records_are_refused_unless_the_script_opts_out,
    scripts_write_within_the_grant,
    v3_scripts_write_within_the_grant
);

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

async fn v3_scripts_write_within_the_grant(world: World) {
    let world = world.with_notes().await;
    let pds = pds(&world).await;
    let id = linked(&world, &pds, json!({ "scopes": SCOPES, "scripts": [TRIGGER] })).await;
    world.server.upload(query_lexicon("com.example.use"), None).await;
    let source = "local linked_repos = require('happyview.linked_repos')
        local function failure(run, ...) local ok, e = pcall(run, ...) return ok and 'none' or e.code end
        function handle(input, ctx)
            local repo, other = linked_repos.get('ALICE'), linked_repos.get('BOB')
            local note = { collection = 'com.example.note', rkey = 'k', record = { text = 'ours' } }
            local made = repo:create_record(note)
            note.swap_cid = made.cid
            return { made = made, put = repo:put_record(note), size = repo:upload_blob('\\0\\255', 'image/png').size,
                who = repo:call('com.atproto.server.getSession').did, all = linked_repos.list(),
                gone = repo:delete_record({ collection = 'com.example.note', rkey = 'k' }), other = failure(other.create_record, other, note) }
        end";
    let source = source.replace("ALICE", ALICE).replace("BOB", BOB);
    world.server.bind_to(TRIGGER, &source).await;
    let done = world.server.xrpc("com.example.use").await;
    assert_eq!(done.status, 200, "{}", done.text);
    let body = &done.body;
    let uri = json!(format!("at://{ALICE}/{NOTES}/k"));
    assert_eq!((&body["made"]["uri"], &body["put"]["uri"]), (&uri, &uri), "{body}");
    assert_eq!(
        (&body["size"], &body["who"], &body["gone"]),
        (&json!(2), &json!(ALICE), &json!(true)),
        "{body}"
    );
    assert_eq!((&body["all"][0]["id"], &body["other"]), (&json!(id), &json!("NOT_LINKED")), "{body}");
}
