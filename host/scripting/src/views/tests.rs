//! Documents are compiled and compared with lexicons; every mistake is listed with its place.

mod needs;
mod trees;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Documents, check, compile};

const METHOD: &str = "com.example.getFeed";

/// A view that uses most of the language.
fn feed() -> Value {
    json!({
        "view": 1,
        "from": "com.example.post",
        "where": {
            "did": "$actor", "reply": { "missing": true }, "createdAt": { "gte": "$since" },
            "lang": { "in": "$langs" },
            "any": [{ "text": { "contains": "$q" } }, { "title": { "prefix": "$q" } }]
        },
        "order": ["-createdAt"],
        "with": {
            "author": { "profile": "did" },
            "likeCount": { "count": "com.example.like", "path": "subject.uri" },
            "viewer.like": { "mine": "com.example.like", "path": "subject.uri" },
            "viewer.follows": { "mine": "com.example.follow", "path": "subject", "to": "did" },
            "quoted": { "follow": "embed.record", "with": { "author": { "profile": "did" } } },
            "replies": { "list": "com.example.post", "path": "reply.parent.uri", "limit": 3 }
        },
        "hide": ["labels:!takedown", "viewer:com.example.block"],
        "output": {
            "feed": [{ "uri": "@uri", "post": "@record", "author": "@author", "likeCount": "@likeCount",
                "viewer": "@viewer", "quoted": "@quoted", "replies": "@replies", "kind": "post" }],
            "cursor": "@cursor"
        }
    })
}

fn documents() -> Documents {
    let string = json!({ "type": "string" });
    let any = json!({ "type": "unknown" });
    let lexicon = json!({
        "lexicon": 1, "id": METHOD,
        "defs": {
            "main": {
                "type": "query",
                "parameters": { "type": "params", "properties": {
                    "actor": string, "since": string, "q": string, "cursor": string,
                    "langs": { "type": "array", "items": string }, "limit": { "type": "integer" } } },
                "output": { "encoding": "application/json", "schema": {
                    "type": "object", "required": ["feed"], "properties": {
                        "cursor": string,
                        "feed": { "type": "array", "items": { "type": "ref", "ref": "#item" } } } } }
            },
            "item": { "type": "object", "required": ["uri"], "properties": {
                "uri": string, "post": any, "kind": string, "likeCount": { "type": "integer" },
                "author": { "type": "ref", "ref": "com.example.defs#author" },
                "viewer": { "type": "object", "properties": { "like": string, "follows": string } },
                "quoted": any, "replies": { "type": "array", "items": any } } }
        }
    });
    let defs = json!({ "lexicon": 1, "id": "com.example.defs", "defs": {
        "author": { "type": "object", "required": ["did"], "properties": {
            "did": string, "handle": string, "displayName": string, "avatar": string } } } });
    Documents::from([(METHOD.to_owned(), lexicon), ("com.example.defs".to_owned(), defs)])
}

/// The mistakes of a document.
fn offences(document: &Value) -> String {
    let compared = compile(&document.to_string()).and_then(|view| check(&view, METHOD, &documents()));
    compared.err().map(|offences| offences.to_string()).unwrap_or_default()
}

#[test]
fn a_view_that_fits_its_lexicon_has_no_mistakes() {
    assert_eq!(offences(&feed()), "");
}

/// Changes a part of the document, named by a JSON pointer.
fn changed(pointer: &str, value: Value) -> Value {
    let mut document = feed();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    document.pointer_mut(parent).unwrap()[name] = value;
    document
}

#[test]
fn each_mistake_has_its_place_and_its_remedy() {
    for (pointer, value, expected) in [
        ("/view", json!(2), "view: the version of the language is 1"),
        ("/from", json!("post"), "from: \"post\" is not the NSID of a collection"),
        ("/from", json!({ "collection": "com.example.post", "dids": 1 }), "from: unknown field `dids`"),
        ("/colour", json!(1), "unknown field `colour`"),
        ("/where/did", json!("alice"), "where.did: \"alice\" is not a DID"),
        (
            "/from",
            json!({ "collection": "com.example.post", "did": { "in": "did:plc:a" } }),
            "from.did: in takes a list",
        ),
        ("/where/created-at", json!(1), "where.created-at: \"created-at\" is not a path"),
        ("/where/x", json!({}), "where.x: it has no operator"),
        ("/where/x", json!({ "like": 1 }), "where.x: unknown field `like`"),
        ("/where/x", json!({ "eq": null }), "where.x: it has no operator"),
        ("/where/x", json!("$no-name"), "where.x: $ begins the name of a parameter"),
        ("/where/x", json!("$other"), "where: the lexicon declares no parameter other"),
        ("/where/x", json!("$langs"), "where: the lexicon declares langs as array"),
        (
            "/where/lang",
            json!({ "in": "$q" }),
            "where: the lexicon declares q as string, and here it has to be an array",
        ),
        ("/where/indexedAt", json!("$since"), "where.indexedAt: its operators are gt"),
        ("/where/indexedAt", json!({ "gt": "yesterday" }), "where.indexedAt: \"yesterday\" is not a time"),
        ("/order", json!(["a", "b", "c", "d", "e"]), "order: it has at most 4 fields"),
        ("/order", json!(["$type"]), "order: not a path"),
        ("/with/author", json!({ "profile": "did", "count": "a.b.c" }), "with.author: it has exactly one of"),
        ("/with/author", json!({ "profile": "did", "path": "x" }), "with.author.path: profile has no path"),
        ("/with/likeCount", json!({ "count": "like" }), "with.likeCount.count: \"like\" is not the NSID"),
        ("/with/replies/limit", json!(51), "with.replies.limit: it is a number from 1 to 50"),
        ("/with/uri", json!({ "profile": "did" }), "with.uri: a name has letters"),
        ("/with/viewer", json!({ "profile": "did" }), "with.viewer: a group of additions has the same name"),
        ("/hide", json!(["blocks"]), "hide: \"blocks\" is neither labels:VALUE, nor viewer:COLLECTION"),
        ("/output", json!({ "feed": [] }), "output: it has exactly one array of one element"),
        ("/output/feed/0/uri", json!("@url"), "output.feed[0].uri: @url is neither a field of the row"),
        ("/output/feed/0/uri", json!("@handle"), "output.feed[0].uri: only a profile has a @handle"),
        ("/output/feed/0/url", json!("@uri"), "output.feed[].url: the lexicon's output has no such property"),
        (
            "/output/feed/0/kind",
            json!(1),
            "output.feed[].kind: it is an integer, and the lexicon declares string",
        ),
        (
            "/output/feed/0/likeCount",
            json!(0.5),
            "output.feed[].likeCount: it is a number with a fraction, and the lexicon declares integer",
        ),
        (
            "/output/feed/0/kind",
            json!(null),
            "output.feed[].kind: it is null, and the lexicon declares string",
        ),
        (
            "/from",
            json!({ "collection": "com.example.post", "did": "$actor" }),
            "where.did: from.did names the accounts already: remove the condition",
        ),
        (
            "/from",
            json!({ "collection": "com.example.post", "did": { "linkedFrom": "$viewer", "by": "a.b.c", "path": "" } }),
            "from.did.path: \"\" is not the path of a link, such as subject.uri",
        ),
        ("/with/likeCount/path", json!("a b"), "with.likeCount.path: \"a b\" is not the path of a link"),
        (
            "/output/feed/0/likeCount",
            json!("@uri"),
            "output.feed[].likeCount: it is a string, and the lexicon declares integer",
        ),
        ("/output/cursor", json!("@uri"), "output.cursor: @uri belongs to a row"),
        (
            "/output/feed/0/author",
            json!({ "handle": "x" }),
            "output.feed[].author: it lacks did, which the lexicon requires",
        ),
    ] {
        let found = offences(&changed(pointer, value));
        assert!(found.contains(expected), "{pointer}: {found}");
    }
}

#[test]
fn all_mistakes_are_listed_at_once() {
    let mut document = changed("/hide", json!(["a", "b"]));
    document["order"] = json!(["!"]);
    document["where"]["x"] = json!({ "like": 1 });
    let found = compile(&document.to_string()).unwrap_err();
    assert_eq!(found.list().len(), 4, "{found}");
}

#[test]
fn additions_are_few_and_nested_twice() {
    let count = json!({ "count": "com.example.like" });
    let many: serde_json::Map<String, Value> = (0..11).map(|n| (format!("a{n}"), count.clone())).collect();
    let found = compile(&changed("/with", many.into()).to_string()).unwrap_err().to_string();
    assert!(found.contains("with: a view has at most 10 additions"), "{found}");
    let mut nested = json!({ "follow": "a" });
    for _ in 0..3 {
        nested = json!({ "follow": "a", "with": { "next": nested } });
    }
    let found = compile(&changed("/with/next", nested).to_string()).unwrap_err().to_string();
    assert!(found.contains("additions are nested twice at most"), "{found}");
}

#[test]
fn a_view_needs_the_lexicon_of_a_query() {
    let view = compile(&feed().to_string()).unwrap();
    let missing = check(&view, "com.example.other", &documents()).unwrap_err().to_string();
    assert!(missing.contains("com.example.other has no lexicon here: upload it first"), "{missing}");
    let other = check(&view, "com.example.defs", &documents()).unwrap_err().to_string();
    assert!(other.contains("is not that of a query"), "{other}");
}

#[test]
fn the_main_definition_may_be_a_local_variant() {
    let mut documents = documents();
    let lexicon = documents.get_mut(METHOD).unwrap();
    lexicon["defs"]["item"] = json!({ "type": "union", "closed": true, "refs": ["com.example.thing"] });
    let thing = json!({ "lexicon": 1, "id": "com.example.thing", "defs": { "main": { "type": "object",
        "properties": { "next": { "type": "union", "closed": true, "refs": ["#main"] } } } } });
    documents.insert("com.example.thing".to_owned(), thing);
    let form = json!({ "$type": "com.example.thing", "next": { "$type": "com.example.thing" } });
    let document = json!({ "view": 1, "from": "com.example.post", "output": { "feed": [form] } });
    let view = compile(&document.to_string()).unwrap();
    assert_eq!(check(&view, METHOD, &documents), Ok(()));
}

#[test]
fn groups_are_of_fields_and_their_additions_about_them() {
    let view = |group: Value, with: Value| {
        json!({
            "view": 1, "from": "com.example.play", "group": group, "with": with,
            "output": { "feed": [{ "plays": "@count", "artist": "@field:artist" }] }
        })
    };
    let compiled = |group: Value, with: Value| {
        compile(&view(group, with).to_string()).map(drop).map_err(|offences| offences.to_string())
    };
    let none = json!({});
    assert_eq!(
        compiled(json!({ "by": ["artist", { "day": "playedAt" }], "order": ["-playedAt"] }), none.clone()),
        Ok(())
    );
    for (group, with, expected) in [
        (json!({ "by": [] }), none.clone(), "group: by takes 1 to 5 keys"),
        (json!({ "by": ["artist", { "year": "at" }] }), none.clone(), "group.by[1]: invalid bucket \"year\""),
        (json!({ "by": ["artist", { "day": "did" }] }), none.clone(), "group.by[1]: did is not a time"),
        (json!({ "by": ["artist", "a b"] }), none.clone(), "group.by[1]: \"a b\" is not a path"),
        (json!({ "by": ["artist", 5] }), none.clone(), "group.by[1]: it is a field, did or indexedAt"),
        (
            json!({ "by": ["artist", "rkey"] }),
            none.clone(),
            "group.by[1]: records are counted by their fields",
        ),
        (
            json!({ "by": ["artist", { "day": "at" }, { "month": "at" }] }),
            none.clone(),
            "group.by: at is named twice",
        ),
        (json!({ "by": ["artist"], "order": ["-plays"] }), none.clone(), "group: invalid order \"plays\""),
        (
            json!({ "by": ["artist"], "limit": 1_001 }),
            none.clone(),
            "group.limit: it is a number from 0 to 1000",
        ),
        (json!({ "by": ["artist"], "of": 1 }), none.clone(), "group: unknown field `of`"),
        (json!({ "by": ["title"] }), none, "output.feed[0].artist: @field:artist is neither @count"),
        (
            json!({ "by": ["artist"] }),
            json!({ "author": { "profile": "did" } }),
            "with.author: it is about a part of a record that group.by does not name",
        ),
        (
            json!({ "by": ["artist"] }),
            json!({ "count": { "count": "com.example.like", "to": "artist" } }),
            "with.count: @count is the number of records",
        ),
    ] {
        let found = compiled(group.clone(), with).unwrap_err();
        assert!(found.contains(expected), "{group}: {found}");
    }
    let mut ordered = view(json!({ "by": ["artist"] }), json!({}));
    ordered["order"] = json!(["artist"]);
    let found = compile(&ordered.to_string()).unwrap_err().to_string();
    assert!(found.contains("order: the order of groups is that of group"), "{found}");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "(\\$a|\\$viewer|@uri|@a|@children|did|a\\.b|com\\.example\\.post|labels:x|.{0,5})"
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 5, |inner| {
        let key = "(view|from|where|order|with|hide|output|group|day|by|collection|did|linkedFrom|path|uri|tree|depth|limit|eq|in|\
                   any|all|missing|follow|list|count|mine|profile|record|labels|to|of|rkey|a)";
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn never_panics(parts in prop::collection::vec((0..7_usize, any_json()), 0..6)) {
        let names = ["from", "where", "order", "with", "hide", "output", "group"];
        let mut document = feed();
        for (part, value) in parts {
            document[names[part]] = value;
        }
        if let Ok(view) = compile(&document.to_string()) {
            let _ = check(&view, METHOD, &documents());
            let _ = view.parameters();
        }
    }

    #[test]
    fn never_panics_on_text(text in ".*") {
        let _ = compile(&text);
    }
}
