//! Links of records: where they are, how many, and by whom.

use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, LIST, NOTES, World};

const FIRST: &str = "at://did:plc:alicealicealicealicealic/com.example.note/first";

use crate::support::instance::Instance;

/// The answer of a script that runs as the query of notes.
async fn run(world: &World, body: &str) -> Value {
    world.server.bind(LIST, &format!("function handle() {body} end")).await;
    let answer = world.server.xrpc(LIST).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

async fn with_links(world: World) -> World {
    let mut world = world.with_notes().await;
    world.note(ALICE, "first", json!({ "text": "first" })).await;
    world.note(BOB, "reply", json!({ "text": "r", "reply": { "parent": FIRST, "root": FIRST } })).await;
    world.note(BOB, "quote", json!({ "text": "q", "embeds": [{ "uri": FIRST }] })).await;
    world.note(ALICE, "mention", json!({ "text": "m", "to": BOB })).await;
    world
}

crate::in_both_worlds!(
    scripts_see_where_links_are,
    wrong_arguments_are_named,
    records_of_before_are_read_again
);

async fn scripts_see_where_links_are(world: World) {
    let world = with_links(world).await;
    let body = format!(
        "local function rkeys(options) \
             options.collection = collection local found = toarray({{}}) \
             for i, note in ipairs(db.backlinks(options).records) do found[i] = note.text end return found end \
         local kinds = {{ replies = {{ collection = collection, path = 'reply.parent' }}, \
             quotes = {{ collection = collection, path = 'embeds[].uri' }}, all = collection }} \
         return {{ parent = rkeys{{ target = '{FIRST}', path = 'reply.parent' }}, \
             quotes = rkeys{{ uri = '{FIRST}', path = 'embeds[].uri' }}, none = rkeys{{ target = '{FIRST}', path = 'embeds' }}, \
             all = rkeys{{ target = '{FIRST}' }}, mentions = rkeys{{ target = '{BOB}', path = 'to' }}, \
             counts = db.link_counts({{ '{FIRST}', '{BOB}' }}, kinds), bob = db.links_by('{BOB}', {{ '{FIRST}' }}, kinds), \
             alice = db.links_by('{ALICE}', {{ '{FIRST}' }}, kinds), \
             rows = db.raw('SELECT paths FROM record_refs WHERE target_uri = $1 ORDER BY paths', {{ '{FIRST}' }}) }}"
    );
    let reply = format!("at://{BOB}/{NOTES}/reply");
    let quote = format!("at://{BOB}/{NOTES}/quote");
    assert_eq!(
        run(&world, &body).await,
        json!({
            "parent": ["r"], "quotes": ["q"], "none": [], "all": ["q", "r"], "mentions": ["m"],
            "counts": { FIRST: { "replies": 1, "quotes": 1, "all": 2 }, BOB: { "replies": 0, "quotes": 0, "all": 1 } },
            "bob": { FIRST: { "replies": reply, "quotes": quote, "all": quote } }, "alice": { FIRST: {} },
            "rows": [{ "paths": "embeds[].uri" }, { "paths": "reply.parent reply.root" }],
        })
    );
}

async fn wrong_arguments_are_named(world: World) {
    let world = world.with_notes().await;
    let many = "local many = {} for i = 1, 101 do many[i] = 'at://' .. i end";
    for (call, error) in [
        ("db.link_counts('x', {})", "db.link_counts: targets: table expected, got string"),
        ("db.link_counts({ 'x' }, {})", "db.link_counts: target \"x\" is neither an AT URI nor a DID"),
        (
            "db.link_counts({ 'at://a\\0' }, {})",
            "db.link_counts: target \"at://a\\0\" is neither an AT URI nor a DID",
        ),
        ("db.link_counts({ 'at://a\\xff' }, {})", "db.link_counts: targets: not valid UTF-8"),
        ("db.link_counts(many, {})", "db.link_counts: at most 100 targets at once"),
        ("db.link_counts({}, { a = 'x' })", "db.link_counts: collection \"x\" is not an NSID"),
        (
            "db.link_counts({}, { a = { collection = 'a.b.c', path = '' } })",
            "db.link_counts: \"\" is not the path of a link, such as subject.uri",
        ),
        ("db.link_counts({}, { a = {} })", "db.link_counts: a: collection is required"),
        (
            "db.link_counts({}, { a = { colection = 'a.b.c' } })",
            "db.link_counts: a: unknown option \"colection\"; did you mean \"collection\"?",
        ),
        ("db.links_by('x', {}, {})", "db.links_by: did \"x\" is neither a DID nor a handle"),
        ("db.links_by(nil, {}, {})", "db.links_by: did is required"),
        (
            "db.backlinks{ collection = 'a.b.c', target = 'x' }",
            "db.backlinks: target \"x\" is neither an AT URI nor a DID",
        ),
        (
            "db.backlinks{ collection = 'a.b.c', target = 'at://x', path = 'a b' }",
            "db.backlinks: \"a b\" is not the path of a link, such as subject.uri",
        ),
    ] {
        let body =
            format!("{many} local ok, fault = pcall(function() return {call} end) return fault.message");
        let message = run(&world, &body).await;
        assert!(message.as_str().is_some_and(|message| message.ends_with(error)), "{call}: {message}");
    }
}

async fn records_of_before_are_read_again(world: World) {
    let world = with_links(world).await;
    let count = format!(
        "return db.link_counts({{ '{BOB}' }}, {{ n = {{ collection = collection, path = 'to' }} }})['{BOB}'].n"
    );
    assert_eq!(run(&world, &count).await, 1);
    // This is what the version before has stored.
    world
        .execute(
            "DELETE FROM record_refs WHERE target LIKE 'did:%'; UPDATE record_refs SET paths = NULL, did_id = NULL; \
             INSERT INTO unread_refs (collection_id, after_indexed_at, after_id) \
             SELECT id, -9223372036854775808, -9223372036854775808 FROM collections",
        )
        .await;
    assert_eq!(run(&world, &count).await, 0);
    let mut world = world;
    world.server.kill();
    world.server.start_again().await;
    let counted = async |server: &Instance| server.xrpc(LIST).await.body == json!(1);
    world.server.eventually("references are read again", counted).await;
    let all = format!(
        "return #db.backlinks{{ collection = collection, target = '{FIRST}', path = 'reply.root' }}.records"
    );
    assert_eq!(run(&world, &all).await, 1);
}
