//! Tests of procedures whose scripts write.

use super::*;

crate::in_both_worlds!(
    a_script_writes_with_the_session_of_its_caller,
    a_v3_script_writes_checks_and_replaces_records,
    a_scripted_procedure_fails_as_a_built_in_one,
    a_scripted_procedure_asks_for_a_session_as_a_built_in_one
);

async fn a_script_writes_with_the_session_of_its_caller(world: World) {
    let world = world.with_notes().await;
    upload(&world, PUT, "upsert").await;
    world
        .server
        .bind_to(
            &format!("xrpc.procedure:{PUT}"),
            r"
            function handle()
                local r = Record(collection, { text = input.text })
                r:save()
                r.text = r.text .. '!'
                r:save()
                return { uri = r._uri, caller = caller_did }
            end",
        )
        .await;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(&world.server, "one").await;
    let device = app.device(&world.server, &pds, ALICE, json!({})).await;
    let other = app.device(&world.server, &pds, ALICE, json!({})).await;
    let done = call(&world, &device, PUT, json!({ "text": "hi" })).await;
    assert_eq!((done.status.as_u16(), &done.body["caller"]), (200, &json!(ALICE)), "{}", done.text);
    let uri = done.body["uri"].as_str().unwrap();
    assert_eq!(world.server.xrpc(&format!("{LIST}?uri={uri}")).await.body["record"]["text"], "hi!");
    // It uses the session of the proof, not the user's newest one.
    let tokens: Vec<_> =
        pds.requests("/xrpc/com.atproto.repo").iter().map(|a| a.headers["authorization"].clone()).collect();
    assert_eq!(tokens, [format!("DPoP {}", device.token), format!("DPoP {}", device.token)]);
    assert_ne!(device.token, other.token);
}

async fn a_scripted_procedure_fails_as_a_built_in_one(world: World) {
    let world = world.with_notes().await;
    let (server, scripted) = (&world.server, "com.example.scriptedNote");
    for nsid in [PUT, scripted, "com.example.careful"] {
        upload(&world, nsid, "upsert").await;
    }
    server.bind_to(&format!("xrpc.procedure:{scripted}"),
        "function handle() return coroutine.wrap(function() return Record(collection, { text = input.text }):save() end)() end").await;
    server.bind_to("xrpc.procedure:com.example.careful", "function handle()
            local ok, e = pcall(function() Record(collection, { text = input.text }):save() end)
            return { ok = ok, code = e and e.code, nested = xrpc.procedure('com.example.scriptedNote', input).status } end").await;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(server, "one").await;
    let create = "/xrpc/com.atproto.repo.createRecord";
    for (case, status, error, code) in [
        ("ended", 401, "session expired, please re-authenticate", "no-session"),
        ("refused", 418, "Teapot", "upstream"),
        ("invalid", 502, "the PDS's response is invalid", "upstream"),
        ("down", 502, "the PDS does not answer", "unavailable"),
    ] {
        // A session that has ended is deleted, so each call has one of its own.
        let built_in = app.device(server, &pds, ALICE, json!({})).await;
        let script = app.device(server, &pds, ALICE, json!({})).await;
        let careful = app.device(server, &pds, ALICE, json!({})).await;
        match case {
            "ended" => pds.revoke_all(),
            "refused" => pds.respond_with(create, 418, json!({ "error": "Teapot", "message": "no" })),
            "invalid" => pds.respond_with(create, 200, json!({ "uri": 7 })),
            _ => {
                world.plc.host(ALICE, "http://127.0.0.1:9");
                world.execute("UPDATE oauth_sessions SET pds = 'http://127.0.0.1:9'").await;
            }
        }
        let built_in = call(&world, &built_in, PUT, json!({ "text": "a" })).await;
        assert_eq!((built_in.status.as_u16(), built_in.error()), (status, error), "{case} {}", built_in.text);
        let answer = call(&world, &script, scripted, json!({ "text": "a" })).await;
        assert_eq!((answer.status, &answer.body), (built_in.status, &built_in.body), "{case}");
        let caught = call(&world, &careful, "com.example.careful", json!({ "text": "a" })).await;
        assert_eq!(
            (caught.status.as_u16(), &caught.body["ok"], &caught.body["code"]),
            (200, &json!(false), &json!(code)),
            "{case} {}",
            caught.text
        );
        assert_eq!(
            caught.body["nested"], status,
            "{case}: a script sees the status of a method that it calls"
        );
    }
    let events = server.admin(Method::GET, "/admin/events?event_type=script.error", None).await;
    assert_eq!(events.body["events"], json!([]), "{}", events.text);
    assert_eq!(server.records().await, 0);
}

async fn a_scripted_procedure_asks_for_a_session_as_a_built_in_one(world: World) {
    let world = world.with_notes().await;
    let (server, scripted) = (&world.server, "com.example.scriptedNote");
    upload(&world, PUT, "upsert").await;
    upload(&world, scripted, "upsert").await;
    server
        .bind_to(
            &format!("xrpc.procedure:{scripted}"),
            "function handle() return Record(collection, { text = input.text }):save() end",
        )
        .await;
    let alice = world.plc.person(ALICE, Algorithm::Es256k);
    for nsid in [PUT, scripted] {
        let answer =
            server.procedure(nsid, &alice.token(&server.did(), json!({})), &json!({ "text": "a" })).await;
        let text = "calls to a PDS take a proof of a session: authenticate with DPoP";
        assert_eq!((answer.status.as_u16(), answer.error()), (401, text), "{nsid}");
    }
    // A query has no session, with any caller: that is the script's mistake.
    server.upload(query_lexicon("com.example.asks"), Some(NOTES)).await;
    server
        .bind("com.example.asks", "function handle() return Record(collection, { text = 'a' }):save() end")
        .await;
    let answer = server.xrpc("com.example.asks").await;
    assert_eq!((answer.status.as_u16(), answer.error()), (500, "script execution failed"));
}

async fn a_v3_script_writes_checks_and_replaces_records(world: World) {
    let world = world.with_notes().await;
    upload(&world, PUT, "upsert").await;
    let source = r#"
        local db, record = require("happyview.db"), require("happyview.record")

        local function failure(run, ...)
          local ok, e = pcall(run, ...)
          return ok and "none" or e.code .. " " .. e.message
        end

        function handle(input, ctx)
          local made = record.create(ctx.collection, { text = input.text }, { rkey = "3jui7kd54zh2y" })
          local first = db.get(made.uri)
          local put = record.put(made.uri, { text = "second" }, { swap_cid = made.cid })
          local second = record.load(made.uri).record.text
          local blob = record.upload_blob({ 0, 255 }, "image/png")
          local here = record.save_local(ctx.collection, "3jui7kd54zh2z", { text = "here" })
          local there, gone = record.load(here.uri), record.delete_local(here.uri)
          return {
            made = made, first = first, put = put, second = second, blob = blob, here = there.record.text, cid = there.cid == nil, gone = gone,
            valid = record.validate(ctx.collection, { text = "x" }), key = record.lexicon(ctx.collection).defs.main.key,
            invalid = failure(record.validate, ctx.collection, { text = 7 }),
            refused = failure(record.create, ctx.collection, { text = 7 }),
            other = failure(record.put, "at://did:plc:bobbobbobbobbobbobbobbob/com.example.note/1", { text = "x" }),
          }
        end"#;
    world.server.bind_to(&format!("xrpc.procedure:{PUT}"), source).await;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(&world.server, "one").await;
    let device = app.device(&world.server, &pds, ALICE, json!({})).await;
    let done = call(&world, &device, PUT, json!({ "text": "first" })).await;
    assert_eq!(done.status, 200, "{}", done.text);
    let body = &done.body;
    let uri = format!("at://{ALICE}/{NOTES}/3jui7kd54zh2y");
    assert_eq!((&body["made"]["uri"], &body["put"]["uri"]), (&json!(uri), &json!(uri)), "{body}");
    assert_eq!(
        (&body["first"]["record"]["text"], &body["first"]["cid"]),
        (&json!("first"), &body["made"]["cid"])
    );
    let sent: Value =
        serde_json::from_slice(&pds.requests("/xrpc/com.atproto.repo.putRecord")[0].body).unwrap();
    assert_eq!(
        (&sent["swapRecord"], &sent["record"]["$type"]),
        (&body["made"]["cid"], &json!(NOTES)),
        "{sent}"
    );
    assert_eq!(
        (&body["second"], &body["blob"]["size"], &body["blob"]["$type"]),
        (&json!("second"), &json!(2), &json!("blob"))
    );
    for field in ["cid", "gone"] {
        assert_eq!(body[field], true, "{field}: {body}");
    }
    assert_eq!((&body["here"], &body["valid"]), (&json!("here"), &json!({ "$type": NOTES, "text": "x" })));
    assert!(body["key"].is_string(), "{body}");
    for (field, start) in
        [("invalid", "INVALID_RECORD "), ("refused", "INVALID_RECORD "), ("other", "FORBIDDEN ")]
    {
        assert!(body[field].as_str().unwrap().starts_with(start), "{field}: {body}");
    }
    assert_eq!(pds.requests("/xrpc/com.atproto.repo.createRecord").len(), 1, "what is invalid is not sent");
}
