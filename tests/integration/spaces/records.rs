//! Writes to repos in spaces, and what their readers see.

use http::Method;
use serde_json::{Value, json};

use super::{CAROL, Group, error};
use crate::fixtures::{ALICE, BOB, World};

crate::in_both_worlds!(
    members_write_and_read,
    who_may_not_read_learns_nothing,
    a_member_who_reads_only_the_own_records_sees_no_others,
    writes_need_the_state_that_they_name,
    a_batch_is_written_as_a_whole,
    the_log_and_the_commit_say_the_same,
    a_space_of_another_host_has_the_own_repo_only
);

const NOTE: &str = "com.example.note";

fn uris(answer: &Value) -> Vec<String> {
    let records = answer["records"].as_array().unwrap();
    records.iter().map(|record| record["uri"].as_str().unwrap().to_owned()).collect()
}

async fn members_write_and_read(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({})).await;
    group.join(&space, BOB, true, true).await;
    for (person, rkey) in [(&group.alice, "a"), (&group.bob, "a"), (&group.bob, "b")] {
        let written = group.note(person, &space, rkey).await;
        assert_eq!(written.status, 200, "{}", written.text);
        assert_eq!(written.body["validationStatus"], "unknown");
    }
    let path = format!("space.getRecord?space={space}&collection={NOTE}&rkey=b");
    let found = group.get(&group.alice, &path).await;
    assert_eq!(found.status, 200, "{}", found.text);
    assert_eq!(found.body["value"], json!({ "$type": NOTE, "text": "b" }));
    assert_eq!(found.body["uri"], format!("{space}/{BOB}/{NOTE}/b"));
    // Two authors have a record with this key.
    let both = format!("space.getRecord?space={space}&collection={NOTE}&rkey=a");
    assert_eq!(error(&group.get(&group.alice, &both).await), (400, "InvalidRequest"));
    let one = group.get(&group.alice, &format!("{both}&repo={ALICE}")).await;
    assert_eq!(one.body["uri"], format!("{space}/{ALICE}/{NOTE}/a"));

    let all: Vec<String> = [(ALICE, "a"), (BOB, "a"), (BOB, "b")]
        .map(|(did, rkey)| format!("{space}/{did}/{NOTE}/{rkey}"))
        .into();
    let list = group.get(&group.bob, &format!("space.listRecords?space={space}")).await;
    assert_eq!(uris(&list.body), all);
    assert_eq!(list.body["records"][0]["value"]["text"], "a");
    // Page by page, in both directions.
    for (reverse, expected) in [(false, all.clone()), (true, all.iter().rev().cloned().collect())] {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!(
                "space.listRecords?space={space}&limit=1&reverse={reverse}&cursor={cursor}&excludeValues=true"
            );
            let page = group.get(&group.bob, &path).await;
            assert!(page.body["records"][0].get("value").is_none(), "{}", page.text);
            seen.extend(uris(&page.body));
            let Some(next) = page.body["cursor"].as_str() else { break };
            next.clone_into(&mut cursor);
        }
        assert_eq!(seen, expected);
    }
    let of_bob = group.get(&group.alice, &format!("space.listRecords?space={space}&repo={BOB}")).await;
    assert_eq!(uris(&of_bob.body), all[1..]);

    let delete = json!({ "space": space, "collection": NOTE, "rkey": "b" });
    assert_eq!(group.post(&group.bob, "space.deleteRecord", delete.clone()).await.status, 200);
    assert_eq!(error(&group.get(&group.bob, &path).await), (404, "RecordNotFound"));
    assert_eq!(error(&group.post(&group.bob, "space.deleteRecord", delete).await), (404, "RecordNotFound"));

    // Access ends with the membership.
    let remove = json!({ "space": space, "did": BOB });
    assert_eq!(group.post(&group.alice, "simplespace.removeMember", remove).await.status, 200);
    let list = group.get(&group.bob, &format!("space.listRecords?space={space}")).await;
    assert_eq!(error(&list), (404, "SpaceNotFound"));
    assert_eq!(error(&group.note(&group.bob, &space, "c").await), (404, "SpaceNotFound"));
}

async fn who_may_not_read_learns_nothing(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({})).await;
    group.note(&group.alice, &space, "a").await;
    let absent = space.replace("/main", "/other");
    for path in [
        format!("simplespace.getSpace?space={space}"),
        format!("simplespace.listMembers?space={space}"),
        format!("space.listRepos?space={space}"),
        format!("space.getRecord?space={space}&repo={ALICE}&collection={NOTE}&rkey=a"),
        format!("space.listRecords?space={space}"),
        format!("space.getLatestCommit?space={space}&repo={ALICE}"),
        format!("space.listRepoOps?space={space}&repo={ALICE}"),
    ] {
        let (of_space, of_absent) = (
            group.get(&group.carol, &path).await,
            group.get(&group.carol, &path.replace(&space, &absent)).await,
        );
        assert_eq!(error(&of_space), (404, "SpaceNotFound"), "{path}");
        assert_eq!(of_space.text, of_absent.text, "{path}");
        for path in [path.clone(), path.replace(&space, &absent)] {
            let anonymous = group.anonymous(&path).await;
            assert_eq!(error(&anonymous), (401, "AuthenticationRequired"), "{path}");
        }
    }
    // A member who only writes knows of the space and reads nothing.
    group.join(&space, CAROL, false, true).await;
    let list = group.get(&group.carol, &format!("space.listRecords?space={space}")).await;
    assert_eq!(error(&list), (403, "NotAuthorized"));
    assert_eq!(group.note(&group.carol, &space, "c").await.status, 200);
    assert_eq!(group.get(&group.carol, &format!("simplespace.getSpace?space={space}")).await.status, 200);
}

async fn a_member_who_reads_only_the_own_records_sees_no_others(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({})).await;
    let body = json!({ "space": space, "did": BOB, "read": true, "write": true, "readSelf": true });
    assert_eq!(group.post(&group.alice, "simplespace.putMember", body).await.status, 200);
    group.note(&group.alice, &space, "a").await;
    group.note(&group.bob, &space, "b").await;
    let list = group.get(&group.bob, &format!("space.listRecords?space={space}")).await;
    assert_eq!(uris(&list.body), [format!("{space}/{BOB}/{NOTE}/b")]);
    let other = |method: &str| format!("space.{method}?space={space}&repo={ALICE}&collection={NOTE}&rkey=a");
    for method in ["getRecord", "listRecords", "getLatestCommit", "listRepoOps"] {
        let refused = group.get(&group.bob, &other(method)).await;
        assert_eq!(error(&refused), (404, "RepoNotFound"), "{method}");
    }
    let hidden = format!("space.getRecord?space={space}&collection={NOTE}&rkey=a");
    assert_eq!(error(&group.get(&group.bob, &hidden).await), (404, "RecordNotFound"));
}

async fn writes_need_the_state_that_they_name(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({ "config": { "allowedCollections": [NOTE] } })).await;
    let first = group.note(&group.alice, &space, "a").await;
    assert_eq!(error(&group.note(&group.alice, &space, "a").await), (409, "RecordAlreadyExists"));
    let put = async |change: Value| {
        let mut body =
            json!({ "space": space, "collection": NOTE, "rkey": "a", "record": { "text": "new" } });
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        group.post(&group.alice, "space.putRecord", body).await
    };
    let cid = first.body["cid"].clone();
    let changed = put(json!({ "swapRecord": cid })).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    assert_eq!(error(&put(json!({ "swapRecord": cid })).await), (409, "InvalidSwap"));
    assert_eq!(error(&put(json!({ "swapRecord": cid, "rkey": "b" })).await), (404, "RecordNotFound"));
    assert_eq!(put(json!({ "rkey": "b" })).await.status, 200);
    for (change, status, name) in [
        (json!({ "collection": "com.example.other" }), 400, "InvalidRequest"),
        (json!({ "repo": BOB }), 403, "NotAuthorized"),
        (json!({ "record": { "$type": "com.example.other" } }), 400, "InvalidRequest"),
        (json!({ "record": { "n": 1.5 } }), 400, "InvalidRequest"),
        (json!({ "record": 7 }), 400, "InvalidRequest"),
        (json!({ "rkey": "a/b" }), 400, "InvalidRequest"),
        (json!({ "space": "at://did:plc:x/space/a" }), 400, "InvalidRequest"),
    ] {
        let refused = put(change.clone()).await;
        assert_eq!(error(&refused), (status, name), "{change}: {}", refused.text);
    }
    // The same through an alias of the service's own namespace.
    let body = json!({ "space": space, "collection": NOTE, "record": { "text": "x" } });
    let alias =
        group.call(Some(&group.alice), Method::POST, "dev.service.space.createRecord", Some(body)).await;
    assert_eq!(alias.status, 201, "{}", alias.text);
}

async fn a_batch_is_written_as_a_whole(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({})).await;
    let apply = async |writes: Value, swap: Option<&str>| {
        let body = json!({ "space": space, "writes": writes, "swapCommit": swap });
        group.post(&group.alice, "space.applyWrites", body).await
    };
    let write = |action: &str, rkey: &str| json!({ "action": action, "collection": NOTE, "rkey": rkey, "value": { "text": rkey } });
    let done = apply(json!([write("create", "a"), write("create", "b"), write("delete", "a")]), None).await;
    assert_eq!(done.status, 200, "{}", done.text);
    assert_eq!(done.body["results"][0]["$type"], "com.atproto.space.applyWrites#createResult");
    assert_eq!(done.body["results"][1]["uri"], format!("{space}/{ALICE}/{NOTE}/b"));
    let failed = apply(json!([write("create", "c"), write("update", "missing")]), None).await;
    assert_eq!(error(&failed), (404, "RecordNotFound"));
    assert_eq!(
        error(&apply(json!([write("create", "c")]), Some("3jzfcijpj2z2a")).await),
        (409, "InvalidSwap")
    );
    let list = group.get(&group.alice, &format!("space.listRecords?space={space}")).await;
    assert_eq!(uris(&list.body), [format!("{space}/{ALICE}/{NOTE}/b")]);
    let state = group.get(&group.alice, &format!("simplespace.getSpace?space={space}")).await;
    let rev = state.body["space"]["revision"].as_str().unwrap().to_owned();
    assert_eq!(apply(json!([write("create", "c")]), Some(&rev)).await.status, 200);
    let many: Vec<Value> = (0..201).map(|n| write("create", &format!("n{n}"))).collect();
    assert_eq!(error(&apply(json!(many), None).await), (400, "InvalidRequest"));
}

async fn the_log_and_the_commit_say_the_same(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({})).await;
    let missing = group.get(&group.alice, &format!("space.getLatestCommit?space={space}&repo={ALICE}")).await;
    assert_eq!(error(&missing), (404, "RepoNotFound"));
    for rkey in ["a", "b"] {
        group.note(&group.alice, &space, rkey).await;
    }
    let latest = group.get(&group.alice, &format!("space.getLatestCommit?space={space}&did={ALICE}")).await;
    let rev = latest.body["rev"].clone();
    assert_eq!(latest.body["commit"]["rev"], rev);
    let ops = group.get(&group.alice, &format!("space.listRepoOps?space={space}&repo={ALICE}&limit=1")).await;
    assert!(ops.body.get("commit").is_none(), "{}", ops.text);
    let cursor = ops.body["cursor"].as_str().unwrap();
    let rest = format!("space.listRepoOps?space={space}&repo={ALICE}&cursor={cursor}");
    let rest = group.get(&group.alice, &rest).await;
    assert_eq!(rest.body["commit"]["rev"], rev);
    assert_eq!(rest.body["commit"]["hash"], latest.body["commit"]["hash"]);
    assert_eq!(rest.body["ops"][0]["rkey"], "b");
    assert_eq!(rest.body["ops"][0]["value"]["text"], "b");
    let since = format!("space.listRepoOps?space={space}&repo={ALICE}&since={}", rev.as_str().unwrap());
    assert_eq!(group.get(&group.alice, &since).await.body["ops"], json!([]));
    let repos = group.get(&group.alice, &format!("space.listRepos?space={space}")).await;
    assert_eq!(repos.body["repos"][0]["did"], ALICE);
    assert_eq!(repos.body["repos"][0]["repoRev"], rev);
    assert_eq!(repos.body["repos"][0]["hash"], latest.body["commit"]["hash"]);
    let cursor = repos.body["cursor"].as_str().unwrap();
    let later = group.get(&group.alice, &format!("space.listRepos?space={space}&cursor={cursor}")).await;
    assert_eq!(later.body["repos"], json!([]));
}

async fn a_space_of_another_host_has_the_own_repo_only(world: World) {
    let group = Group::of(world).await;
    let space = "at://did:plc:elsewhereelsewhereelsewh/space/com.example.group/main".to_owned();
    let missing = json!({ "space": space, "collection": NOTE, "rkey": "a" });
    assert_eq!(error(&group.post(&group.bob, "space.deleteRecord", missing).await), (404, "RecordNotFound"));
    for person in [&group.alice, &group.bob] {
        assert_eq!(group.note(person, &space, "a").await.status, 200);
    }
    let list = group.get(&group.alice, &format!("space.listRecords?space={space}")).await;
    assert_eq!(uris(&list.body), [format!("{space}/{ALICE}/{NOTE}/a")]);
    let other = group.get(&group.alice, &format!("space.listRecords?space={space}&repo={BOB}")).await;
    assert_eq!(error(&other), (404, "RepoNotFound"));
    // Only its host knows its settings and its members.
    for method in ["simplespace.getSpace", "simplespace.listMembers", "space.listRepos"] {
        let refused = group.get(&group.alice, &format!("{method}?space={space}")).await;
        assert_eq!(error(&refused), (404, "SpaceNotFound"), "{method}");
    }
    // A space of this server's own DID that is not here is nowhere.
    let own = format!("at://{}/space/com.example.group/main", group.world.server.did());
    assert_eq!(error(&group.note(&group.alice, &own, "a").await), (404, "SpaceNotFound"));
}
