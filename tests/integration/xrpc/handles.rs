//! AT URIs that name the account by its handle, and cursors that are empty.

use crate::fixtures::World;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, LIST, NOTES};
use crate::oauth::device::{App, pds};
use crate::support::instance::query_lexicon;

const READ: &str = "com.example.read";

crate::in_both_worlds!(
    a_uri_may_name_its_account_by_the_handle,
    look_ups_of_handles_are_bounded,
    an_empty_cursor_is_the_first_page
);

async fn a_uri_may_name_its_account_by_the_handle(world: World) {
    let mut world = world.with_notes().await;
    world.plc.host(ALICE, "https://pds.example");
    world.plc.also_known_as(ALICE, &json!(["at://alice.example"]));
    world.server.dns.txt("_atproto.alice.example", &format!("did={ALICE}"));
    let uri = world.note(ALICE, "k", json!({ "text": "hello" })).await;
    let named = format!("at://Alice.example/{NOTES}/k");
    let server = &world.server;
    let read = server.xrpc(&format!("{LIST}?uri={named}")).await;
    assert_eq!((read.status.as_u16(), &read.body["record"]["uri"]), (200, &json!(uri)), "{}", read.text);

    server.upload(query_lexicon(READ), None).await;
    server.bind(READ, "function handle()
            local ok, error = pcall(db.get, 'at://nobody.example/com.example.note/k')
            return { got = db.get(params.uri).uri, loaded = Record.load(params.uri)._uri, ok = ok, code = error.code }
        end").await;
    let read = server.xrpc(&format!("{READ}?uri={named}")).await;
    let expected = json!({ "got": uri, "loaded": uri, "ok": false, "code": "bad-input" });
    assert_eq!(read.body, expected, "{}", read.text);
    let other = json!({ "text": "a reply", "about": uri });
    let reply = world.note(ALICE, "reply", other).await;
    world.wait_for(&reply, true).await;
    let server = &world.server;
    server.bind(READ, "function handle()
            local page = db.backlinks({ collection = 'com.example.note', uri = params.uri })
            local ok, error = pcall(db.backlinks, { collection = 'com.example.note', uri = 'at://nobody.example/com.example.note/k' })
            return { links = #page.records, first = page.records[1].uri, ok = ok, code = error.code }
        end").await;
    let read = server.xrpc(&format!("{READ}?uri={named}")).await;
    let expected = json!({ "links": 1, "first": reply, "ok": false, "code": "bad-input" });
    assert_eq!(read.body, expected, "{}", read.text);
    let why = server.admin(Method::GET, &format!("/admin/records/why?look=false&uri={named}"), None).await;
    assert_eq!((&why.body["uri"], &why.body["verdict"]), (&json!(uri), &json!("visible")), "{}", why.text);

    for (uri, reason) in [
        (format!("at://nobody.example/{NOTES}/k"), "the handle could not be resolved"),
        (format!("at://alice/{NOTES}/k"), "the authority is not a DID"),
        ("at://alice.example".to_owned(), "the collection is missing"),
    ] {
        let refused = server.xrpc(&format!("{LIST}?uri={uri}")).await;
        assert_eq!(refused.status, 400, "{uri} {}", refused.text);
        assert!(refused.error().contains(reason), "{uri} {}", refused.text);
    }
    // Writes and deletions name a record by the DID.
    let refused = server.admin(Method::DELETE, &format!("/admin/records?uri={named}"), None).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert!(refused.error().contains("is a handle: name the account by its DID"), "{}", refused.text);
}

/// Anyone with a client key can name handles, and each look-up costs the handle's domain a query and a request.
async fn look_ups_of_handles_are_bounded(world: World) {
    let world = world.with_notes().await;
    let server = &world.server;
    let read = async |uri: String| server.xrpc(&format!("{LIST}?uri={uri}")).await.status.as_u16();
    assert_eq!(read("at://x.other.example/com.example.other/k".to_owned()).await, 404, "another collection");
    assert_eq!(server.dns.queries("other.example"), 0, "nothing was looked up");
    for _ in 0..3 {
        assert_eq!(read(format!("at://nobody.example/{NOTES}/k")).await, 400);
    }
    assert_eq!(server.dns.queries("nobody.example"), 1, "the failure is cached");
    let pds = pds(&world, &[ALICE]).await;
    let device = App::confidential(server, "one").await.device(server, &pds, ALICE, json!({})).await;
    for (actor, status) in
        [("nobody.example", 404), ("@noone.example", 404), ("noone.example", 404), ("a b", 400)]
    {
        let path = format!("/xrpc/app.bsky.actor.getProfile?actor={}", actor.replace(' ', "%20"));
        let profile = device.request(server, Method::GET, &path, None).await;
        assert_eq!(profile.status, status, "{actor} {}", profile.text);
    }
    assert_eq!((server.dns.queries("nobody.example"), server.dns.queries("noone.example")), (1, 1));
    let mut statuses = Vec::new();
    for batch in 0..20 {
        let calls = (0..25).map(|n| read(format!("at://x{n}.{batch}.victim.example/{NOTES}/k")));
        statuses.extend(futures_util::future::join_all(calls).await);
        if statuses.contains(&429) {
            break;
        }
    }
    let looked_up = statuses.iter().filter(|status| **status == 400).count();
    assert!(statuses.contains(&429) && looked_up >= 50, "{statuses:?}");
    assert_eq!(server.dns.queries("victim.example"), looked_up, "{statuses:?}");
    // Handles that are known cost nothing.
    assert_eq!(read(format!("at://nobody.example/{NOTES}/k")).await, 400);
}

async fn an_empty_cursor_is_the_first_page(world: World) {
    let mut world = world.with_notes().await;
    let uri = world.note(ALICE, "k", json!({ "text": "hello" })).await;
    let server = &world.server;
    let first = server.xrpc(&format!("{LIST}?cursor=")).await;
    assert_eq!(
        (first.status.as_u16(), &first.body["records"][0]["uri"]),
        (200, &json!(uri)),
        "{}",
        first.text
    );
    server.upload(query_lexicon(READ), None).await;
    server.bind(READ, "function handle()
            local function page(more) more.collection, more.cursor = 'com.example.note', '' return #db.query(more).records end
            local links = db.backlinks({ collection = 'com.example.note', uri = 'at://did:plc:a/b.c.d/e', cursor = '' })
            return { page({}), page({ sort = 'text' }), page({ filter = {{ field = 'text', op = '=', value = 'hello' }} }), #links.records }
        end").await;
    assert_eq!(server.xrpc(READ).await.body, json!([1, 1, 1, 0]));
    let job = server.admin(Method::POST, "/admin/backfill", Some(&json!({ "collection": NOTES }))).await;
    let job: &Value = &job.body["id"];
    let job = job.as_str().unwrap();
    for path in [
        "/admin/records?collection=com.example.note&",
        "/admin/events?",
        "/admin/jobs?",
        "/admin/dead-letters?",
        "/admin/backfill/status?",
        &format!("/admin/backfill/{job}/errors?"),
    ] {
        let answer = server.admin(Method::GET, &format!("{path}cursor="), None).await;
        let without = server.admin(Method::GET, path.trim_end_matches(['?', '&']), None).await;
        assert_eq!((answer.status.as_u16(), without.status.as_u16()), (200, 200), "{path} {}", answer.text);
    }
}
