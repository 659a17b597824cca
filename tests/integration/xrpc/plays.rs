//! The readings of a music service, in which each note is a play: top artists, plays per month, orders by several fields,
//! searches of several, and pages of SQL.

use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, LIST, World};

/// The answer of a script that runs as the query of notes.
async fn run(world: &World, body: &str) -> Value {
    world.server.bind(LIST, &format!("function handle() {body} end")).await;
    let answer = world.server.xrpc(LIST).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

/// Plays: the listener, the time, the artists and the title.
pub(super) const PLAYED: [(&str, &str, &[&str], &str); 8] = [
    (ALICE, "2025-12-31T23:30:00-01:00", &["Nina"], "Sea"),
    (ALICE, "2026-01-31T23:30:00Z", &["Nina"], "Sea"),
    (ALICE, "2026-02-01T00:30:00+01:00", &["Nina"], "Sky"),
    (ALICE, "2026-02-10T12:00:00.123Z", &["Nina", "Ola"], "Sea"),
    (ALICE, "2026-03-01T00:00:00Z", &["Ola"], "Sun"),
    (BOB, "2026-03-02T00:00:00Z", &["Ola"], "Sea"),
    (BOB, "2026-03-03T00:00:00Z", &["Ola"], "Sea"),
    (BOB, "yesterday", &["Ola"], "Seaside"),
];

async fn with_plays(world: World) -> World {
    let mut world = world.with_notes().await;
    for (n, (listener, at, artists, title)) in PLAYED.into_iter().enumerate() {
        let play = json!({ "text": "play", "playedAt": at, "artists": artists, "title": title, "n": n % 3 });
        world.note(listener, &format!("p{n}"), play).await;
    }
    world
}

crate::in_both_worlds!(plays_are_counted, orders_and_searches_have_pages);

async fn plays_are_counted(world: World) {
    let world = with_plays(world).await;
    let top_artists = format!(
        "return {{ rows = db.group{{ collection = collection, did = '{ALICE}', by = {{ 'artists' }}, limit = 10, \
             filter = {{ {{ field = 'playedAt', op = '>=', value = '2026' }}, \
                         {{ field = 'playedAt', op = '<', value = '2027' }} }} }} }}"
    );
    assert_eq!(
        run(&world, &top_artists).await["rows"],
        json!([
            { "artists": ["Nina"], "count": 2 },
            { "artists": ["Nina", "Ola"], "count": 1 },
            { "artists": ["Ola"], "count": 1 }
        ])
    );
    let top_tracks = "return { rows = db.group{ collection = collection, by = { 'title', { field = 'artists[0]', as = 'artist' } }, limit = 2 } }";
    assert_eq!(
        run(&world, top_tracks).await["rows"],
        json!([{ "title": "Sea", "artist": "Nina", "count": 3 }, { "title": "Sea", "artist": "Ola", "count": 2 }])
    );
    let per_month = "return { rows = db.group{ collection = collection, order = 'month', \
                         by = { { field = 'playedAt', bucket = 'month', as = 'month' } } } }";
    assert_eq!(
        run(&world, per_month).await["rows"],
        json!([
            { "month": "2026-01", "count": 3 },
            { "month": "2026-02", "count": 1 },
            { "month": "2026-03", "count": 3 },
            { "count": 1 }
        ])
    );
}

async fn orders_and_searches_have_pages(world: World) {
    let world = with_plays(world).await;
    let pages = |read: &str, values: &str| {
        format!(
            "local found, cursor = toarray({{}}), nil \
             repeat local page = {read} \
                 for _, row in ipairs({values}) do found[#found + 1] = row.title .. row.n end \
                 cursor = page.cursor until not cursor \
             return {{ found = found }}"
        )
    };
    let sorted = "db.query{ collection = collection, sort = { '-n', 'title' }, limit = 3, cursor = cursor }";
    let found = run(&world, &pages(sorted, "page.records")).await;
    // The plays by their numbers: 0 Sea, 1 Sea, 2 Sky, 0 Sea, 1 Sun, 2 Sea, 0 Sea, 1 Seaside.
    let expected = json!(["Sea2", "Sky2", "Sea1", "Seaside1", "Sun1", "Sea0", "Sea0", "Sea0"]);
    assert_eq!(found["found"], expected);
    let searched = "db.search{ collection = collection, fields = { 'title', 'artists[0]' }, query = 's', limit = 2, cursor = cursor }";
    let found = run(&world, &pages(searched, "page.records")).await;
    assert_eq!(found["found"], json!(["Sea0", "Sea1", "Sea0", "Sea2", "Sea0", "Seaside1", "Sky2", "Sun1"]));
    let sql = "db.page([[SELECT uri, record ->> 'title' AS title, CAST(record ->> 'n' AS integer) AS n FROM records \
                   WHERE collection = $1 AND matches(record, 'title', 'sea')]], { collection }, \
                   { order = { 'n', '-uri' }, limit = 2, cursor = cursor })";
    let found = run(&world, &pages(sql, "page.rows")).await;
    assert_eq!(found["found"], json!(["Sea0", "Sea0", "Sea0", "Seaside1", "Sea1", "Sea2"]));
}
