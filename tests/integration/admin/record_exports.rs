//! `/admin/records/export`

use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::fixtures::{ALICE, BOB, LIST, NOTES, World};
use crate::support::instance::{Answer, OPERATOR, query_lexicon};

crate::in_both_worlds!(
    an_export_has_every_record_that_meets_the_conditions,
    a_table_has_a_column_for_each_field,
    moderated_records_are_exported_with_permission,
    bad_exports_are_refused,
    an_export_ends_with_its_key_and_its_reader
);

fn lexicon() -> Value {
    json!({ "lexicon": 1, "id": NOTES, "defs": { "main": { "type": "record", "key": "any", "record": {
        "type": "object", "required": ["text"], "properties": {
            "did": { "type": "string" }, "n": { "type": "integer" }, "tags": { "type": "array", "items": { "type": "string" } },
            "subject": { "type": "ref", "ref": "com.atproto.repo.strongRef" }, "text": { "type": "string" } } } } } })
}

async fn export(world: &World, query: &str) -> Answer {
    let path = format!("/admin/records/export?collection={NOTES}{query}");
    world.server.admin(Method::GET, &path, None).await
}

fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn an_export_has_every_record_that_meets_the_conditions(mut world: World) {
    world = world.with_notes().await;
    for n in 0..205 {
        let did = if n % 2 == 0 { ALICE } else { BOB };
        world
            .note(
                did,
                &format!("n{n:03}"),
                json!({ "text": format!("note {n}"), "n": n, "tags": ["a", "ä🦋"] }),
            )
            .await;
    }
    let answer = export(&world, "&format=jsonl&limit=5").await;
    assert_eq!(answer.headers["content-type"], "application/jsonl; charset=utf-8");
    assert_eq!(answer.headers["content-disposition"], format!("attachment; filename=\"{NOTES}.jsonl\""));
    let all = lines(&answer);
    let keys: Vec<String> = all.iter().map(|line| line["rkey"].as_str().unwrap().to_owned()).collect();
    let expected: Vec<String> = (0..205).rev().map(|n| format!("n{n:03}")).collect();
    assert_eq!(keys, expected);
    let first = &all[0];
    assert_eq!((&first["uri"], &first["did"]), (&json!(format!("at://{ALICE}/{NOTES}/n204")), &json!(ALICE)));
    assert_eq!(first["record"]["tags"][1], "ä🦋");
    assert!(
        first["cid"].as_str().unwrap().starts_with("bafy")
            && first["indexedAt"].as_str().unwrap().ends_with('Z')
    );

    let filter = url::form_urlencoded::byte_serialize(br#"{"field":"n","op":"BETWEEN","value":[10,150]}"#)
        .collect::<String>();
    let some = lines(&export(&world, &format!("&format=jsonl&filter={filter}&repo={BOB}")).await);
    assert_eq!(some.len(), 70);
    assert!(
        some.iter()
            .all(|line| line["did"] == BOB && (10..=150).contains(&line["record"]["n"].as_i64().unwrap()))
    );
    let sorted = lines(&export(&world, "&format=jsonl&sort=n").await);
    let numbers: Vec<i64> = sorted.iter().map(|line| line["record"]["n"].as_i64().unwrap()).collect();
    assert_eq!(numbers, (0..205).collect::<Vec<_>>());
    let found = lines(&export(&world, "&format=jsonl&text=NOTE%201").await);
    assert_eq!(
        (found.len(), &found[0]["record"]["text"]),
        (111, &json!("note 1")),
        "the best match comes first"
    );
    assert_eq!(export(&world, "&format=jsonl&text=nowhere").await.text, "");
}

async fn a_table_has_a_column_for_each_field(mut world: World) {
    world.server.upload(lexicon(), None).await;
    world.server.upload(query_lexicon(LIST), Some(NOTES)).await;
    world.wait_for_stream_of(NOTES).await;
    world.note(ALICE, "a", json!({ "text": "=1+1", "n": -5, "tags": ["x", "y"], "extra": 1 })).await;
    let subject = json!({ "uri": "at://did:plc:x/a.b.c/d", "cid": "bafyreib2rxk3rybk3aobmv5cjuql3bm2twh4jo5uxgf5kpqcsgz7soitae" });
    world.note(BOB, "b", json!({ "text": "say \"x\",\r\nthen 🦋", "subject": subject, "did": "mine" })).await;
    let chosen = export(&world, "&format=csv&columns=n,%20rkey,record.did").await;
    assert_eq!(chosen.text, "n,rkey,record.did\r\n,b,mine\r\n-5,a,\r\n", "in this order");
    for (query, error) in [
        ("&format=csv&columns=n,extra", "columns: \"extra\" is none of uri"),
        ("&format=csv&columns=n,n", "columns: \"n\" is named twice"),
        ("&format=jsonl&columns=n", "columns is for format=csv"),
    ] {
        let refused = export(&world, query).await;
        assert_eq!(refused.status, 400, "{query}");
        assert!(refused.error().starts_with(error), "{}", refused.text);
    }
    let answer = export(&world, "&format=csv").await;
    assert_eq!(answer.headers["content-type"], "text/csv; charset=utf-8; header=present");
    let parts: Vec<&str> = answer.text.split("\r\n").collect();
    assert_eq!(parts[0], "uri,cid,did,rkey,indexedAt,text,record.did,n,subject.uri,subject.cid,tags");
    assert!(parts[1].starts_with(&format!("at://{BOB}/{NOTES}/b,bafyrei")), "{}", parts[1]);
    assert!(parts[1].ends_with(",\"say \"\"x\"\","), "{}", parts[1]);
    assert_eq!(
        parts[2],
        format!("then 🦋\",mine,,{},{},", subject["uri"].as_str().unwrap(), subject["cid"].as_str().unwrap())
    );
    assert!(parts[3].ends_with(",'=1+1,,-5,,,\"[\"\"x\"\",\"\"y\"\"]\""), "{}", parts[3]);
    assert_eq!((parts[4], parts.len()), ("", 5));
    // Without records a table has its head.
    assert_eq!(export(&world, "&format=csv&rkey=none").await.text, format!("{}\r\n", parts[0]));

    let path = format!("/admin/records/fields?collection={NOTES}");
    let fields = world.server.admin(Method::GET, &path, None).await;
    let named: Vec<&str> =
        fields.body["fields"].as_array().unwrap().iter().map(|f| f["path"].as_str().unwrap()).collect();
    assert_eq!(named, ["text", "did", "n", "subject.uri", "subject.cid", "tags"]);
    assert_eq!(
        fields.body["fields"][3],
        json!({ "path": "subject.uri", "type": "string", "format": "at-uri", "values": [], "required": false, "indexes": [] })
    );
    let other =
        world.server.admin(Method::GET, "/admin/records/fields?collection=com.example.other", None).await;
    assert_eq!(other.body, json!({ "fields": [] }));
}

async fn moderated_records_are_exported_with_permission(mut world: World) {
    world = world.with_notes().await;
    let uri = world.note(ALICE, "a", json!({ "text": "a" })).await;
    world.note(ALICE, "b", json!({ "text": "b" })).await;
    let body = json!({ "subject": uri, "action": "hide", "reason": "spam" });
    assert_eq!(world.server.admin(Method::POST, "/admin/moderation", Some(&body)).await.status, 201);
    let hidden = lines(&export(&world, "&format=jsonl&moderated=true").await);
    assert_eq!((hidden.len(), &hidden[0]["uri"]), (1, &json!(uri)));
    assert_eq!(lines(&export(&world, "&format=jsonl").await).len(), 1);
    let key = world.server.create_key(&["--did", OPERATOR, "--permissions", "records:read"]);
    let header = format!("Bearer {}", key.trim());
    let get = async |query: &str| {
        let path = format!("/admin/records/export?collection={NOTES}&format=jsonl{query}");
        world.server.request(Method::GET, &path, &[("authorization", &header)], None).await.status
    };
    assert_eq!((get("").await.as_u16(), get("&moderated=true").await.as_u16()), (200, 403));
}

async fn bad_exports_are_refused(mut world: World) {
    world = world.with_notes().await;
    for (query, text) in [
        ("", "format must be csv or jsonl"),
        ("&format=xlsx", "format must be csv or jsonl"),
        ("&format=csv&filter=x", "filter is not JSON"),
        ("&format=csv&sort=a%20b", "sort is not a field"),
        ("&format=csv&valid=perhaps", "valid must be"),
        ("&format=csv&repo=nobody", ""),
        ("&format=csv&text=a%00", "the path or query holds a NUL"),
        ("&format=csv&cursor=x", ""),
    ] {
        let answer = export(&world, query).await;
        assert_eq!(answer.status, 400, "{query}: {}", answer.text);
        assert!(answer.error().starts_with(text), "{query}: {}", answer.text);
    }
    let long = "x".repeat(251);
    assert!(export(&world, &format!("&format=csv&text={long}")).await.error().contains("too long"));
    let path = "/admin/records/export?collection=com.example.other&format=csv&text=a";
    let answer = world.server.admin(Method::GET, path, None).await;
    assert!(answer.error().contains("declares no field of text"), "{}", answer.text);
}

/// A reader that takes little holds up the export, which reads no pages ahead. Once the key of the caller is deleted, the export
/// breaks off without the end of a chunked body.
async fn an_export_ends_with_its_key_and_its_reader(mut world: World) {
    world = world.with_notes().await;
    for n in 0..160 {
        world.note(ALICE, &format!("n{n:03}"), json!({ "text": "x".repeat(100_000) })).await;
    }
    let key = world.server.create_key(&["--did", OPERATOR, "--permissions", "records:read"]);
    let mut readers = Vec::new();
    for _ in 0..5 {
        let mut reader = TcpStream::connect(world.server.address).await.unwrap();
        let head = format!(
            "GET /admin/records/export?collection={NOTES}&format=jsonl HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n",
            key.trim()
        );
        reader.write_all(head.as_bytes()).await.unwrap();
        let mut start = [0; 12];
        reader.read_exact(&mut start).await.unwrap();
        readers.push((String::from_utf8_lossy(&start).into_owned(), reader));
    }
    let statuses: Vec<&str> = readers.iter().map(|(start, _)| &start[9..]).collect();
    assert_eq!(statuses, ["200", "200", "200", "200", "429"], "a user has four exports at a time");
    let keys = world.server.admin(Method::GET, "/admin/api-keys", None).await;
    let ids = keys.body.as_array().unwrap().clone();
    for id in ids.iter().filter(|one| one["permissions"] == json!(["records:read"])) {
        let path = format!("/admin/api-keys/{}", id["id"].as_str().unwrap());
        assert_eq!(world.server.admin(Method::DELETE, &path, None).await.status, 204);
    }
    let (_, mut reader) = readers.swap_remove(0);
    let mut bytes = Vec::new();
    let _ = reader.read_to_end(&mut bytes).await;
    assert!(!bytes.ends_with(b"0\r\n\r\n"), "the body looks complete");
    assert!(bytes.len() < 15_000_000, "{} bytes were sent", bytes.len());
    drop(readers);
    // The permits of readers that went away are free again.
    world
        .server
        .eventually("an export is possible", async |_| export(&world, "&format=csv").await.status == 200)
        .await;
}
