//! Handles of accounts in scripts, and accounts that are named by their handles.

use crate::fixtures::World;
use belvedere_standins::jetstream::Frame;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, LIST, NOTES};
use crate::support::instance::{Instance, query_lexicon};

const READ: &str = "com.example.read";
const CAROL: &str = "did:plc:carolcarolcarolcarolcaro";

crate::in_both_worlds!(
    handles_are_verified_both_ways,
    a_directory_that_is_down_is_no_answer,
    look_ups_of_scripts_are_charged,
    a_dry_run_asks_only_with_the_network,
    accounts_may_be_named_by_their_handles,
    profiles_are_read_in_one_call,
    handles_of_shown_accounts_are_known_later,
    handles_are_kept_and_follow_identity_events
);

/// Alice has a handle, the handle that Bob claims is Carol's, and Carol claims none.
fn people(world: &World) {
    for did in [ALICE, BOB, CAROL] {
        world.plc.host(did, "https://pds.example");
    }
    world.plc.also_known_as(ALICE, &json!(["at://Alice.example"]));
    world.plc.also_known_as(BOB, &json!(["at://bob.example"]));
    world.server.dns.txt("_atproto.alice.example", &format!("did={ALICE}"));
    world.server.dns.txt("_atproto.bob.example", &format!("did={CAROL}"));
}

/// The answer of a script whose `code` is called by `try`: the value, or the code of its error.
async fn run(server: &Instance, code: &str) -> Value {
    server.upload(query_lexicon(READ), None).await;
    let source = format!(
        "local function try(f, ...)
            local ok, value, more = pcall(f, ...)
            if not ok then return value.code end
            return value == nil and 'nil' or value, more
        end
        function handle() {code} end"
    );
    server.bind(READ, &source).await;
    let answer = server.xrpc(READ).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

async fn handles_are_verified_both_ways(world: World) {
    people(&world);
    let server = &world.server;
    let code = format!(
        "local resolve, all = atproto.resolve_handle, {{ '{ALICE}', '{BOB}', '{CAROL}', '{ALICE}', 'did:plc:nobody' }}
        local handles, failed = atproto.handles(all)
        return {{ handles = handles, failed = failed == nil, resolved = {{ try(resolve, 'ALICE.example'), try(resolve, '{ALICE}'),
            try(resolve, 'bob.example'), try(resolve, 'nobody.example'), try(resolve, 'alice'), try(resolve, ''),
            (try(resolve, 'alice.example\\0')), (try(resolve)) }} }}"
    );
    let expected = json!({
        "handles": { ALICE: "alice.example" }, "failed": true,
        "resolved": [ALICE, ALICE, "nil", "nil", "bad-input", "bad-input", "bad-input", "bad-input"],
    });
    assert_eq!(run(server, &code).await, expected);
    assert_eq!(server.dns.queries("alice.example"), 1, "one look-up is enough for both functions");
    let code = "local function batch(n) local l = {} for i = 1, n do l[i] = 'did:example:a' .. i end return l end
        return { (try(atproto.handles, batch(101))), #(try(atproto.handles, batch(100))), (try(atproto.handles, { 'alice.example' })),
            (try(atproto.handles, { 'did:plc:a\\0' })), (try(atproto.handles, 'did:plc:a')), (try(atproto.handles, { 1 })),
            next((try(atproto.handles, {}))) == nil }";
    let expected = json!(["limit", 0, "bad-input", "bad-input", "bad-input", "bad-input", true]);
    assert_eq!(run(server, code).await, expected);
}

async fn a_directory_that_is_down_is_no_answer(world: World) {
    people(&world);
    let server = &world.server;
    let code = format!("local handles = atproto.handles({{ '{ALICE}' }}) return handles");
    assert_eq!(run(server, &code).await, json!({ ALICE: "alice.example" }));
    world.plc.set_down(true);
    world.server.dns.txt("_atproto.dan.example", "did=did:plc:dan");
    let code = format!(
        "local handles, failed = atproto.handles({{ '{ALICE}', 'did:plc:dan' }})
        return {{ handles = handles, failed = failed, alone = (try(atproto.handles, {{ 'did:plc:dan' }})),
            resolved = (try(atproto.resolve_handle, 'dan.example')) }}"
    );
    let expected = json!({
        "handles": { ALICE: "alice.example" }, "failed": ["did:plc:dan"],
        "alone": "unavailable", "resolved": "unavailable",
    });
    assert_eq!(run(server, &code).await, expected);
}

async fn look_ups_of_scripts_are_charged(world: World) {
    let world = world.with_notes().await;
    let server = &world.server;
    server.upload(query_lexicon(READ), None).await;
    server
        .bind(
            READ,
            "function handle()
            local codes = {}
            for n = 1, 45 do
                local name = n .. '.' .. params.batch .. '.victim.example'
                local ok, value = pcall(atproto.resolve_handle, name)
                local code = ok and 'nil' or value.code
                codes[code] = (codes[code] or 0) + 1
            end
            return codes
        end",
        )
        .await;
    let mut looked_up = 0;
    let mut refused = 0;
    for batch in 0..8 {
        let codes = server.xrpc(&format!("{READ}?batch=b{batch}")).await;
        looked_up += codes.body["nil"].as_u64().unwrap_or(0);
        refused += codes.body["limit"].as_u64().unwrap_or(0);
        if refused > 0 {
            break;
        }
    }
    assert!(refused > 0 && looked_up >= 90, "{looked_up} {refused}");
    assert_eq!(server.dns.queries("victim.example") as u64, looked_up);
    // Calls without a script pay from the same budget.
    let call = async |n: u32| server.xrpc(&format!("{LIST}?did=x{n}.victim.example")).await;
    let answers = futures_util::future::join_all((0..40).map(call)).await;
    assert!(answers.iter().any(|answer| answer.status == 429), "{:?}", answers[0].text);
}

async fn a_dry_run_asks_only_with_the_network(world: World) {
    people(&world);
    let server = &world.server;
    server.upload(query_lexicon(READ), None).await;
    let source = format!(
        "function handle()
            local _, a = pcall(atproto.handles, {{ '{ALICE}' }})
            local _, b = pcall(atproto.resolve_handle, 'alice.example')
            local _, c = pcall(db.query, {{ collection = '{NOTES}', did = 'alice.example' }})
            return {{ a.code or a, b.code or b, c.code or 'page' }}
        end"
    );
    let source = source.replace("b.code or b", "type(b) == 'table' and b.code or b");
    let dry_run = async |network: bool| {
        let body = json!({ "id": format!("xrpc.query:{READ}"), "body": source, "network": network,
            "event": { "type": "request" } });
        let answer = server.admin(Method::POST, "/admin/scripts/dry-run", Some(&body)).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.body["result"].clone()
    };
    assert_eq!(dry_run(false).await["body"], json!(["forbidden", "forbidden", "forbidden"]));
    assert_eq!(server.dns.queries("alice.example"), 0);
    assert_eq!(dry_run(true).await["body"], json!([{ ALICE: "alice.example" }, ALICE, "page"]));
}

async fn accounts_may_be_named_by_their_handles(world: World) {
    people(&world);
    let mut world = world.with_notes().await;
    let uri = world.note(ALICE, "k", json!({ "text": "hello", "about": format!("at://{BOB}") })).await;
    world.note(BOB, "k", json!({ "text": "hi", "about": format!("at://{ALICE}") })).await;
    let server = &world.server;
    let list = server.xrpc(&format!("{LIST}?did=Alice.example")).await;
    assert_eq!(list.body["records"][0]["uri"], json!(uri), "{}", list.text);
    assert_eq!(list.body["records"].as_array().map(Vec::len), Some(1), "{}", list.text);
    for (did, reason) in [
        ("nobody.example", "did: the handle could not be resolved"),
        ("bob.example", "whose DID document does not list it"),
        ("alice", "did is neither a DID nor a handle"),
    ] {
        let refused = server.xrpc(&format!("{LIST}?did={did}")).await;
        assert_eq!(refused.status, 400, "{did} {}", refused.text);
        assert!(refused.error().contains(reason), "{did} {}", refused.text);
    }
    world.server.dns.txt("_atproto.dan.example", "did=did:plc:dan");
    world.plc.set_down(true);
    let refused = server.xrpc(&format!("{LIST}?did=dan.example")).await;
    assert_eq!(refused.status, 502, "{}", refused.text);
    world.plc.set_down(false);

    let code = format!(
        "local notes = '{NOTES}'
        local function links(to) return #db.backlinks({{ collection = notes, uri = to }}).records end
        return {{ #db.query({{ collection = notes, did = 'alice.example' }}).records, db.count(notes, 'alice.example'),
            db.get('at://alice.example/{NOTES}/k').text, links('at://alice.example'),
            #db.backlinks({{ collection = notes, uri = 'at://{BOB}', did = 'alice.example' }}).records,
            (try(db.count, notes, 'nobody.example')), (try(db.query, {{ collection = notes, did = 'a b' }})),
            (try(links, 'at://nobody.example')), (try(db.query, {{ collection = notes, did = 'alice.example\\0' }})) }}"
    );
    let expected = json!([1, 1, "hello", 1, 1, "bad-input", "bad-input", "bad-input", "bad-input"]);
    assert_eq!(run(server, &code).await, expected);
}

async fn profiles_are_read_in_one_call(world: World) {
    people(&world);
    let mut world = world.with_notes().await;
    world.note(ALICE, "me", json!({ "text": "I am Alice", "n": 7 })).await;
    world.note(BOB, "me", json!({ "text": "I am Bob" })).await;
    world.note(CAROL, "other", json!({ "text": "no profile" })).await;
    let set = async |server: &Instance, key: &str, value: &str| {
        let path = format!("/admin/settings/{key}");
        server.admin(Method::PUT, &path, Some(&json!({ "value": value }))).await.status.as_u16()
    };
    let server = &world.server;
    let refused =
        "local ok, error = pcall(db.profiles, { 'did:plc:a' }) return { error.code, error.message }";
    let refused = run(server, refused).await;
    assert_eq!(refused[0], "bad-input", "{refused}");
    assert!(refused[1].as_str().unwrap().contains("the setting profile_collection names"), "{refused}");
    assert_eq!(set(server, "profile_collection", "nonsense").await, 400);
    assert_eq!(set(server, "profile_collection", NOTES).await, 204);
    assert_eq!(set(server, "profile_rkey", "me").await, 204);

    let code = format!(
        "atproto.handles({{ '{ALICE}' }})
        local profiles = db.profiles({{ '{ALICE}', '{BOB}', '{CAROL}', 'did:plc:nobody', '{ALICE}' }})
        for _, profile in pairs(profiles) do profile.cid = profile.cid and #profile.cid end
        return profiles"
    );
    let note = |did: &str, text: &str| {
        json!({ "did": did, "uri": format!("at://{did}/{NOTES}/me"), "cid": 59,
            "record": { "$type": NOTES, "text": text } })
    };
    let (mut alice, bob) = (note(ALICE, "I am Alice"), note(BOB, "I am Bob"));
    alice["handle"] = "alice.example".into();
    alice["record"]["n"] = 7.into();
    let mut expected = json!({ ALICE: alice, BOB: bob, CAROL: { "did": CAROL }, "did:plc:nobody": { "did": "did:plc:nobody" } });
    assert_eq!(run(server, &code).await, expected);
    let code_of_errors = "local many = {} for i = 1, 101 do many[i] = 'did:plc:a' .. i end
        return { (try(db.profiles, many)), (try(db.profiles, { 'alice.example' })), (try(db.profiles, 'x')),
            (try(db.profiles, { 'did:plc:\\0' })), next(db.profiles({})) == nil }";
    let errors = json!(["limit", "bad-input", "bad-input", "bad-input", true]);
    assert_eq!(run(server, code_of_errors).await, errors);

    world.account(BOB, Some("takendown"));
    world.wait_for(&format!("at://{BOB}/{NOTES}/me"), false).await;
    expected.as_object_mut().unwrap().remove(BOB);
    assert_eq!(run(&world.server, &code).await, expected, "hidden accounts are left out");
}

async fn handles_of_shown_accounts_are_known_later(world: World) {
    people(&world);
    let mut world = world.with_notes().await;
    for did in [ALICE, BOB] {
        world.note(did, "k", json!({ "text": "hello" })).await;
    }
    let set = json!({ "value": NOTES });
    world.server.admin(Method::PUT, "/admin/settings/profile_collection", Some(&set)).await;
    // The index has nothing of Dave: callers may name any account, and each look-up costs others something.
    let dave = "did:plc:davedavedavedavedavedave";
    world.plc.host(dave, "https://pds.example");
    world.plc.also_known_as(dave, &json!(["at://dave.example"]));
    world.server.dns.txt("_atproto.dave.example", &format!("did={dave}"));
    let profiles = format!("return db.profiles({{ '{dave}', '{ALICE}', '{BOB}' }})");
    let shown = |handle: Value| json!({ ALICE: handle, BOB: { "did": BOB }, dave: { "did": dave } });
    assert_eq!(run(&world.server, &profiles).await, shown(json!({ "did": ALICE })));
    let expected = shown(json!({ "did": ALICE, "handle": "alice.example" }));
    let is_known = async |server: &Instance| run(server, &profiles).await == expected;
    world.server.eventually("the handle is known", is_known).await;
    assert_eq!(world.server.dns.queries("dave.example"), 0);
}

async fn handles_are_kept_and_follow_identity_events(world: World) {
    people(&world);
    let mut world = world.with_notes().await;
    world.note(ALICE, "k", json!({ "text": "hello" })).await;
    world.note(BOB, "k", json!({ "text": "hi" })).await;
    let accounts = "return db.raw('SELECT did, handle, status, pds FROM accounts ORDER BY did')";
    let row = |did: &str, handle: Value| json!({ "did": did, "handle": handle, "status": "active", "pds": "https://pds.example" });
    let unknown = |did: &str| json!({ "did": did, "status": "active" });
    assert_eq!(run(&world.server, accounts).await, json!([unknown(ALICE), unknown(BOB)]));
    let ask = format!("return (atproto.handles({{ '{ALICE}', '{BOB}' }}))");
    assert_eq!(run(&world.server, &ask).await, json!({ ALICE: "alice.example" }));
    let mut bob = row(BOB, Value::Null);
    bob.as_object_mut().unwrap().remove("handle");
    assert_eq!(run(&world.server, accounts).await, json!([row(ALICE, "alice.example".into()), bob]));
    // After a restart nothing is in memory.
    let asked = world.server.dns.queries("alice.example");
    world.server.stop();
    world.server.start_again().await;
    world.plc.set_down(true);
    assert_eq!(run(&world.server, &ask).await, json!({ ALICE: "alice.example" }));
    let profile = format!("return db.profiles({{ '{ALICE}' }})['{ALICE}']");
    let set = json!({ "value": NOTES });
    world.server.admin(Method::PUT, "/admin/settings/profile_collection", Some(&set)).await;
    assert_eq!(run(&world.server, &profile).await, json!({ "did": ALICE, "handle": "alice.example" }));
    assert_eq!(world.server.dns.queries("alice.example"), asked, "the stored handle counts for a day");
    world.plc.set_down(false);

    world.wait_for_stream_of(NOTES).await;
    world.plc.also_known_as(ALICE, &json!(["at://new.example"]));
    world.server.dns.txt("_atproto.new.example", &format!("did={ALICE}"));
    world.push(|at, _| Frame::identity(at, ALICE, "new.example"));
    let expected = json!([row(ALICE, "new.example".into()), bob]);
    let is_renewed = async |server: &Instance| run(server, accounts).await == expected;
    world.server.eventually("the handle is verified again", is_renewed).await;
    assert_eq!(run(&world.server, &ask).await, json!({ ALICE: "new.example" }));
    // A handle that is no longer verified is forgotten.
    world.plc.also_known_as(ALICE, &json!(["at://stolen.example"]));
    world.push(|at, _| Frame::identity(at, ALICE, "stolen.example"));
    let mut alice = row(ALICE, Value::Null);
    alice.as_object_mut().unwrap().remove("handle");
    let is_forgotten = async |server: &Instance| run(server, accounts).await == json!([alice, bob]);
    world.server.eventually("the handle is forgotten", is_forgotten).await;
    assert_eq!(run(&world.server, &ask).await, json!({}));
}
