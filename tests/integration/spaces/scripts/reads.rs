//! Reads of scripts, for callers with different rights.

use super::*;
use crate::fixtures::{ALICE, BOB};
use crate::spaces::{CAROL, KIND, error};

crate::in_both_worlds!(
    a_script_reads_what_its_caller_reads,
    a_space_that_the_caller_does_not_see_is_as_one_that_does_not_exist,
    the_space_of_a_request_is_a_global,
    pages_end_where_they_should
);

/// The ways to read the note of Alice, which return it to those who may read it.
pub fn paths(space: &str) -> [String; 7] {
    let uri = format!("{space}/{ALICE}/{NOTE}/a");
    [
        format!("get&uri={uri}"),
        format!("load&uri={uri}"),
        format!("load_all&uri={uri}"),
        format!("list&of={space}"),
        format!("list&of={space}&did={ALICE}"),
        format!("all&of={space}"),
        format!("count&of={space}&did={ALICE}"),
    ]
}

async fn a_script_reads_what_its_caller_reads(world: World) {
    let stage = Stage::of(world).await;
    let Stage { group, space } = &stage;
    let (alice, bob, carol) = (&group.alice, &group.bob, &group.carol);
    group.join(space, BOB, true, true).await;
    group.note(bob, space, "b").await;
    let uri = format!("{space}/{ALICE}/{NOTE}/a");
    let note = json!({ "$type": NOTE, "text": "a", "uri": uri });
    for reader in [alice, bob] {
        assert_eq!(stage.value(reader, &format!("get&uri={uri}")).await, note);
        let loaded = stage.value(reader, &format!("load&uri={uri}")).await;
        assert_eq!(loaded, json!({ "text": "a", "uri": uri }));
        assert_eq!(stage.value(reader, &format!("load_all&uri={uri}")).await, json!([loaded]));
        assert_eq!(texts(&stage.value(reader, &format!("list&of={space}")).await), ["b", "a"]);
        assert_eq!(texts(&stage.value(reader, &format!("list&of={space}&order=asc")).await), ["a", "b"]);
        assert_eq!(texts(&stage.value(reader, &format!("all&of={space}")).await), ["b", "a"]);
        assert_eq!(texts(&stage.value(reader, &format!("list&of={space}&did={BOB}")).await), ["b"]);
        assert_eq!(stage.value(reader, &format!("count&of={space}")).await, 2);
        assert_eq!(stage.value(reader, &format!("count&of={space}&did={BOB}")).await, 1);
        assert_eq!(stage.value(reader, &format!("is_member&of={space}&did={BOB}")).await, true);
        assert_eq!(stage.value(reader, &format!("is_member&of={space}&did={CAROL}")).await, false);
        assert_eq!(stage.value(reader, &format!("get_access&of={space}&did={BOB}")).await, "write");
        let nothing = stage.value(reader, &format!("get_access&of={space}&did={CAROL}")).await;
        assert_eq!(nothing, Value::Null);
        let members = json!([{ "did": ALICE, "access": "write" }, { "did": BOB, "access": "write" }]);
        assert_eq!(stage.value(reader, &format!("list_members&of={space}")).await, members);
        let missing = stage.value(reader, &format!("get&uri={space}/{BOB}/{NOTE}/a")).await;
        assert_eq!(missing, Value::Null);
    }

    // A member who reads the own records only.
    let own = json!({ "space": space, "did": BOB, "read": true, "write": true, "readSelf": true });
    assert_eq!(group.post(alice, "simplespace.putMember", own).await.status, 200);
    assert_eq!(texts(&stage.value(bob, &format!("all&of={space}")).await), ["b"]);
    assert_eq!(stage.value(bob, &format!("count&of={space}")).await, 1);
    for path in &paths(space)[..2] {
        assert_eq!(stage.value(bob, path).await, Value::Null, "{path}");
    }
    let refused = stage.read(Some(bob), &format!("list&of={space}&did={ALICE}")).await;
    assert_eq!(error(&refused), (404, "RepoNotFound"));

    // A member who only writes.
    group.join(space, CAROL, false, true).await;
    for path in paths(space) {
        let refused = stage.read(Some(carol), &path).await;
        assert_eq!(error(&refused), (403, "NotAuthorized"), "{path}");
    }
    assert_eq!(stage.value(carol, &format!("get_access&of={space}&did={CAROL}")).await, "write");
    group.join(space, CAROL, false, false).await;
    assert_eq!(stage.value(carol, &format!("is_member&of={space}&did={CAROL}")).await, true);
    let nothing = stage.value(carol, &format!("get_access&of={space}&did={CAROL}")).await;
    assert_eq!(nothing, Value::Null);
}

async fn a_space_that_the_caller_does_not_see_is_as_one_that_does_not_exist(world: World) {
    let stage = Stage::of(world).await;
    let Stage { group, space } = &stage;
    let absent = space.replace("/main", "/other");
    group.join(space, BOB, true, true).await;
    let remove = json!({ "space": space, "did": BOB });
    assert_eq!(group.post(&group.alice, "simplespace.removeMember", remove).await.status, 200);
    let members = [
        format!("list_members&of={space}"),
        format!("is_member&of={space}&did={ALICE}"),
        format!("get_access&of={space}&did={ALICE}"),
        format!("space&space={space}"),
    ];
    for path in paths(space).iter().chain(&members) {
        for outsider in [Some(&group.bob), Some(&group.carol), None] {
            let of_space = stage.read(outsider, path).await;
            let of_absent = stage.read(outsider, &path.replace(space, &absent)).await;
            assert_eq!((of_space.status, &of_space.text), (of_absent.status, &of_absent.text), "{path}");
            assert!(!of_space.text.contains("\"text\""), "{path}: {}", of_space.text);
            let is_question = ["is_member", "get_access", "space"].iter().any(|of| path.starts_with(of));
            let is_one = outsider.is_some() && (path.starts_with("get") || path.starts_with("load"));
            let expected = match outsider {
                _ if is_question || is_one => 200,
                Some(_) => 404,
                None => 401,
            };
            assert_eq!(of_space.status, expected, "{path}: {}", of_space.text);
        }
    }
    // Nothing of this is a failure of the script.
    let events = group.world.server.admin(Method::GET, "/admin/events?event_type=script.error", None).await;
    assert_eq!(events.body["events"], json!([]), "{}", events.text);
}

async fn the_space_of_a_request_is_a_global(world: World) {
    let stage = Stage::of(world).await;
    let Stage { group, space } = &stage;
    let expected = json!({ "space": space, "space_id": space, "did": ALICE, "authority_did": ALICE,
        "type_nsid": KIND, "skey": "main" });
    assert_eq!(stage.value(&group.alice, &format!("space&space={space}")).await, expected);
    for other in [
        "space".to_owned(),
        "space&space=main".to_owned(),
        format!("space&space={space}&space={space}"),
        format!("space&space={space}/{ALICE}/{NOTE}/a"),
    ] {
        assert_eq!(stage.read(Some(&group.alice), &other).await.text, "null", "{other}");
    }
    group.join(space, BOB, false, true).await;
    let path = format!("space&space={space}");
    assert_eq!(stage.value(&group.bob, &path).await, Value::Null, "it reads nothing");
    let own = json!({ "space": space, "did": BOB, "read": true, "write": true, "readSelf": true });
    assert_eq!(group.post(&group.alice, "simplespace.putMember", own).await.status, 200);
    assert_eq!(stage.value(&group.bob, &path).await, expected);
}

async fn pages_end_where_they_should(world: World) {
    let stage = Stage::of(world).await;
    let Stage { group, space } = &stage;
    for rkey in ["b", "c", "d", "e"] {
        group.note(&group.alice, space, rkey).await;
    }
    for (order, expected) in [("asc", ["a", "b", "c", "d", "e"]), ("desc", ["e", "d", "c", "b", "a"])] {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("list&of={space}&limit=2&order={order}{cursor}");
            let page = stage.value(&group.alice, &path).await;
            seen.extend(texts(&page).into_iter().map(str::to_owned));
            let Some(next) = page["cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(seen, expected);
    }
    // A page has at least one record, and at most a MiB of them.
    let large = "x".repeat(600 << 10);
    for rkey in ["x", "y"] {
        let body = json!({ "space": space, "collection": NOTE, "rkey": rkey, "record": { "text": large } });
        assert_eq!(group.post(&group.alice, "space.createRecord", body).await.status, 200);
    }
    let page = stage.value(&group.alice, &format!("list&of={space}")).await;
    assert_eq!((page["records"].as_array().map(Vec::len), page["cursor"].is_string()), (Some(1), true));
    let path = format!("all&of={space}&cursor={}", page["cursor"].as_str().unwrap());
    let rest = stage.value(&group.alice, &path).await;
    assert_eq!((rest["records"].as_array().map(Vec::len), &rest["cursor"]), (Some(6), &Value::Null));
}
