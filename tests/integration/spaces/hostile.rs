//! Texts that databases and parsers treat in different ways, in each field of each method: no call fails for a reason of the
//! server, and what is not text is refused.

use belvedere_protocol::crypto::Algorithm;
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::credentials::{Holder, delegation};
use super::{Group, KIND, error};
use crate::fixtures::{ALICE, BOB, World};

crate::in_both_worlds!(no_field_of_a_body_is_an_error_of_the_server, no_parameter_is_an_error_of_the_server);

const NOTE: &str = "com.example.note";

/// Stands for a hostile text in a body.
const PLACE: &str = "@PLACE@";

/// Bytes within a JSON string, and whether every method refuses them.
fn hostile() -> Vec<(Vec<u8>, bool)> {
    let texts = [
        "\u{FFFF}\u{10FFFF}",
        "e\u{301}\u{202E}",
        "' \" \\ % _ ; --",
        "\n\t\r",
        "",
        " ",
        "9999999999999999999",
    ];
    let texts = texts.map(|text| (json!(text).to_string().trim_matches('"').as_bytes().to_vec(), false));
    let mut all = vec![
        (br"a\u0000b".to_vec(), true),
        (b"a\0b".to_vec(), true),
        (b"\xff\xfe".to_vec(), true),
        (b"\xc0\x80".to_vec(), true),
        (b"\xed\xa0\x80".to_vec(), true),
        (br"\ud800".to_vec(), true),
        (vec![b'x'; 20_000], false),
        ("\u{1F98B}".repeat(5_000).into_bytes(), false),
    ];
    all.extend(texts);
    all
}

/// The body with each of its texts, and each of its keys, replaced by the place.
fn with_places(body: &Value) -> Vec<Value> {
    match body {
        Value::String(_) => vec![json!(PLACE)],
        Value::Array(items) => {
            let replaced = |n: usize| with_places(&items[n]).into_iter().map(move |value| (n, value));
            let whole = |(n, value)| {
                let mut items = items.clone();
                items[n] = value;
                Value::Array(items)
            };
            (0..items.len()).flat_map(replaced).map(whole).collect()
        }
        Value::Object(fields) => {
            let mut all = Vec::new();
            for (key, value) in fields {
                let mut renamed = fields.clone();
                let value_of = renamed.remove(key).unwrap();
                renamed.insert(PLACE.to_owned(), value_of);
                all.push(Value::Object(renamed));
                for replaced in with_places(value) {
                    let mut fields = fields.clone();
                    fields.insert(key.clone(), replaced);
                    all.push(Value::Object(fields));
                }
            }
            all
        }
        _ => Vec::new(),
    }
}

/// The body of each procedure, with all its fields.
fn bodies(space: &str, caller: &str) -> Vec<(&'static str, Value)> {
    let policy = json!({ "$type": "com.atproto.simplespace.defs#managingAppPolicy", "managingApp": "did:web:app.example#s" });
    let apps = json!({ "$type": "com.atproto.simplespace.defs#allowList", "allowed": ["https://app.example/c.json"] });
    let settings = json!({ "displayName": "a", "description": "a", "readPolicy": policy, "writePolicy": policy,
        "appAccess": apps, "config": { "allowedCollections": [NOTE], "theme": { "deep": ["a"] } } });
    let with = |more: Value| {
        let mut settings = settings.clone();
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        settings
    };
    let record = json!({ "text": "a", "deep": [{ "more": "a" }] });
    let write = json!({ "action": "create", "collection": NOTE, "rkey": "w", "value": record });
    let typed = json!({ "$type": "com.atproto.space.applyWrites#update", "collection": NOTE, "rkey": "w",
        "value": record, "swapRecord": "bafyreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku" });
    let hash = json!({ "$bytes": "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc" });
    vec![
        ("com.atproto.simplespace.createSpace", with(json!({ "spaceType": KIND, "skey": "new" }))),
        (
            "com.atproto.simplespace.createSpace",
            json!({ "type": KIND, "mintPolicy": "managing-app", "managingAppDid": "did:web:a.example" }),
        ),
        ("com.atproto.simplespace.updateSpace", with(json!({ "space": space }))),
        (
            "com.atproto.simplespace.updateConfig",
            json!({ "space": space, "policy": "public", "managingApp": "did:web:a.example" }),
        ),
        (
            "com.atproto.simplespace.putMember",
            json!({ "space": space, "did": "did:plc:someonesomeonesomeonesome", "read": true, "write": true }),
        ),
        (
            "com.atproto.simplespace.addMember",
            json!({ "space": space, "did": "did:plc:someonesomeonesomeonesome", "access": "read" }),
        ),
        (
            "com.atproto.simplespace.removeMember",
            json!({ "space": space, "did": "did:plc:someonesomeonesomeonesome" }),
        ),
        (
            "dev.service.space.createInvite",
            json!({ "space": space, "access": "read", "expiresAt": "2099-01-01T00:00:00Z" }),
        ),
        ("dev.service.space.acceptInvite", json!({ "token": "a" })),
        ("dev.service.space.revokeInvite", json!({ "space": space, "inviteId": "a" })),
        (
            "com.atproto.space.createRecord",
            json!({ "space": space, "repo": caller, "collection": NOTE, "record": record }),
        ),
        (
            "com.atproto.space.putRecord",
            json!({ "space": space, "collection": NOTE, "rkey": "a", "record": record, "swapRecord": "bafyreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku" }),
        ),
        ("com.atproto.space.deleteRecord", json!({ "space": space, "collection": NOTE, "rkey": "a" })),
        (
            "com.atproto.space.applyWrites",
            json!({ "space": space, "writes": [write, typed], "swapCommit": "3jzfcijpj2z2a" }),
        ),
        ("com.atproto.space.registerNotify", json!({ "space": space, "service": "did:web:a.example#s" })),
        (
            "com.atproto.space.registerNotify",
            json!({ "space": space, "serviceDid": "did:web:a.example", "endpoint": "https://a.example" }),
        ),
        ("com.atproto.space.unregisterNotify", json!({ "space": space, "service": "did:web:a.example#s" })),
        (
            "com.atproto.space.notifyWrite",
            json!({ "space": space, "repo": caller, "repoRev": "3jzfcijpj2z2a", "rev": "3jzfcijpj2z2a", "hash": hash }),
        ),
        ("com.atproto.space.notifySpaceDeleted", json!({ "space": space })),
        (
            "com.atproto.space.notifyCredentialRevoked",
            json!({ "space": "at://did:plc:x/space/a.b.c/d", "credentials": ["a"] }),
        ),
    ]
}

/// Sends a body that may be no text. Returns the status.
async fn post(group: &Group, path: &str, headers: &[(&str, &str)], body: &[u8]) -> u16 {
    let address = group.world.server.address;
    let lines: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let headers = lines.concat();
    let length = body.len();
    let head = format!(
        "POST /xrpc/{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).split(' ').nth(1).unwrap().parse().unwrap()
}

fn filled(body: &Value, hostile: &[u8]) -> Vec<u8> {
    let text = body.to_string();
    let (before, after) = text.split_once(PLACE).unwrap();
    [before.as_bytes(), hostile, after.as_bytes()].concat()
}

async fn no_field_of_a_body_is_an_error_of_the_server(world: World) {
    let group = Group::of(world).await;
    let (server, space) = (&group.world.server, group.space("main", json!({})).await);
    // The server takes a limited number of tokens of one account in a minute.
    let mut callers = Vec::new();
    let daniel = group.world.plc.person("did:plc:danieldanieldanieldanie", Algorithm::Es256k);
    for person in [&group.alice, &group.bob, &group.carol, &daniel] {
        let made = json!({ "spaceType": KIND, "skey": "own" });
        let made = group.post(person, "simplespace.createSpace", made).await;
        let own = made.body["uri"].as_str().unwrap().to_owned();
        callers.push((person, bodies(&own, &person.did)));
    }
    for n in 0..callers[0].1.len() {
        let (person, bodies) = &callers[n % callers.len()];
        let (method, body) = &bodies[n];
        for changed in with_places(body) {
            for (bytes, is_refused) in hostile() {
                let bearer = format!("Bearer {}", person.token(&server.did(), json!({})));
                let headers = [("x-client-key", server.client_key.as_str()), ("authorization", &bearer)];
                let status = post(&group, method, &headers, &filled(&changed, &bytes)).await;
                let what =
                    format!("{method} {changed} {}", String::from_utf8_lossy(&bytes[..bytes.len().min(40)]));
                assert!(status < 500, "{status} {what}");
                assert!(!is_refused || status == 400, "{status} {what}");
            }
        }
    }
    // The exchange, whose caller is not a user.
    let body = json!({ "space": space, "clientAttestation": "a" });
    let holder = Holder::new();
    for changed in with_places(&body) {
        for (bytes, is_refused) in hostile() {
            let token = format!("Bearer {}", delegation(&group.alice, &space));
            let headers = holder.headers(&token, None);
            let headers: Vec<(&str, &str)> =
                headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let path = "com.atproto.space.getSpaceCredential";
            let status = post(&group, path, &headers, &filled(&changed, &bytes)).await;
            assert!(status < 500 && (!is_refused || status == 400), "{status} {changed}");
        }
    }
    // Nothing of it was written over what is there.
    let list = group.get(&group.alice, "space.listSpaces").await;
    assert_eq!(list.status, 200, "{}", list.text);
}

async fn no_parameter_is_an_error_of_the_server(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({})).await;
    assert_eq!(group.note(&group.alice, &space, "a").await.status, 200);
    let repo = format!("space={space}&repo={ALICE}");
    let rev = "3jzfcijpj2z2a";
    let cid = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku";
    let queries = [
        ("simplespace.getSpace", format!("space={space}")),
        ("simplespace.listMembers", format!("space={space}&limit=5&cursor={BOB}")),
        ("simplespace.getConfig", format!("space={space}")),
        ("space.listSpaces", format!("did={ALICE}&spaceType={KIND}&limit=5&cursor={space}")),
        ("space.getRecord", format!("{repo}&collection={NOTE}&rkey=a")),
        (
            "space.listRecords",
            format!(
                "{repo}&collection={NOTE}&limit=5&cursor={NOTE}/a/{ALICE}&reverse=true&excludeValues=true&includeValues=true"
            ),
        ),
        ("space.getLatestCommit", repo.clone()),
        ("space.getRepo", format!("{repo}&excludeValues=true")),
        ("space.listRepoOps", format!("{repo}&since={rev}&limit=5&excludeValues=true")),
        ("space.listRepoOps", format!("{repo}&cursor={rev}:0&limit=5")),
        ("space.listRepos", format!("space={space}&cursor={rev}&since={rev}&limit=5")),
        ("space.listBlobs", format!("{repo}&since={rev}&limit=5&cursor={cid}")),
        ("space.getBlob", format!("{repo}&cid={cid}")),
        ("space.getDelegationToken", format!("space={space}")),
    ];
    let long = "x".repeat(7_000);
    for (method, query) in queries {
        let parts: Vec<&str> = query.split('&').collect();
        for n in 0..parts.len() {
            let name = parts[n].split('=').next().unwrap();
            for (value, is_refused) in [
                ("a%00b", true),
                ("%FF%FE", false),
                ("%C0%80", false),
                ("%ED%A0%80", false),
                ("%F4%8F%BF%BF", false),
                ("'%22%5C%25_;--", false),
                ("-1", false),
                ("99999999999999999999", false),
                ("at://", false),
                (&long, false),
                ("", false),
            ] {
                let mut changed: Vec<String> = parts.iter().map(|&part| part.to_owned()).collect();
                changed[n] = format!("{name}={value}");
                let path = format!("{method}?{}", changed.join("&"));
                let answer = group.get(&group.alice, &path).await;
                let is_of_pds = method == "space.getBlob" && answer.status == 502;
                assert!(answer.status.as_u16() < 500 || is_of_pds, "{path} {}", answer.text);
                assert!(!is_refused || answer.status == 400, "{path} {}", answer.text);
            }
        }
    }
    let cursor = format!("space.listRecords?space={space}&cursor=%FF/a/{ALICE}");
    assert_eq!(error(&group.get(&group.alice, &cursor).await), (400, "InvalidRequest"));
    let invites = format!("dev.service.space.listInvites?space={space}&cursor=1:%FF");
    assert_eq!(group.call(Some(&group.alice), Method::GET, &invites, None).await.status, 200);
}
