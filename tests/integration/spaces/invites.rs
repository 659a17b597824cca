//! Members, and invites to become one.

use http::Method;
use serde_json::{Value, json};

use super::{CAROL, Group, error};
use crate::fixtures::{ALICE, BOB, World};
use crate::support::instance::Answer;
use crate::support::plc::Person;

crate::in_both_worlds!(
    the_token_of_an_invite_makes_a_member,
    invites_end,
    only_administrators_change_members,
    a_space_includes_the_members_of_another
);

impl Group {
    async fn invite(&self, person: &Person, method: &str, body: Value) -> Answer {
        let path = format!("dev.service.space.{method}");
        self.call(Some(person), Method::POST, &path, Some(body)).await
    }

    /// The token of a new invite.
    async fn token(&self, space: &str, more: Value) -> String {
        let mut body = json!({ "space": space });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let made = self.invite(&self.alice, "createInvite", body).await;
        assert_eq!(made.status, 201, "{}", made.text);
        made.body["token"].as_str().unwrap().to_owned()
    }
}

async fn the_token_of_an_invite_makes_a_member(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({})).await;
    let token = group.token(&space, json!({ "access": "write", "maxUses": 1 })).await;
    let accepted = group.invite(&group.bob, "acceptInvite", json!({ "token": token })).await;
    assert_eq!(
        (accepted.status.as_u16(), &accepted.body),
        (201, &json!({ "uri": space, "access": "write" }))
    );
    assert_eq!(group.note(&group.bob, &space, "b").await.status, 200);
    let again = group.invite(&group.bob, "acceptInvite", json!({ "token": token })).await;
    assert_eq!(error(&again), (400, "InvalidRequest"));
    let other = group.invite(&group.carol, "acceptInvite", json!({ "token": token })).await;
    assert_eq!(other.body["message"], "maximum uses reached");
    let members = group.get(&group.bob, &format!("simplespace.listMembers?space={space}")).await;
    let dids: Vec<&str> =
        members.body["members"].as_array().unwrap().iter().map(|m| m["did"].as_str().unwrap()).collect();
    assert_eq!(dids, [ALICE, BOB]);
    let mine = group.get(&group.bob, "space.listSpaces").await;
    assert_eq!(mine.body, json!({ "spaces": [{ "uri": space, "isOwner": false }] }));
    assert_eq!(group.get(&group.carol, "space.listSpaces").await.body, json!({ "spaces": [] }));
}

async fn invites_end(world: World) {
    let group = Group::of(world).await;
    let (space, other) = (group.space("main", json!({})).await, group.space("other", json!({})).await);
    for (more, message) in [
        (json!({ "maxUses": 0 }), "maxUses must be at least 1"),
        (json!({ "expiresAt": "2020-01-01T00:00:00Z" }), "expiresAt must be in the future"),
        (json!({ "access": "admin" }), "access must be read, read_self, write or none"),
    ] {
        let mut body = json!({ "space": space });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(group.invite(&group.alice, "createInvite", body).await.body["message"], message);
    }
    let token = group.token(&space, json!({})).await;
    let path = format!("dev.service.space.listInvites?space={space}");
    let list = group.call(Some(&group.alice), Method::GET, &path, None).await;
    let id = list.body["invites"][0]["id"].clone();
    // Not through another space of the same administrator.
    let elsewhere =
        group.invite(&group.alice, "revokeInvite", json!({ "space": other, "inviteId": id })).await;
    assert_eq!(error(&elsewhere), (404, "NotFound"));
    let revoked = group.invite(&group.alice, "revokeInvite", json!({ "space": space, "inviteId": id })).await;
    assert_eq!(revoked.status, 200, "{}", revoked.text);
    let accepted = group.invite(&group.bob, "acceptInvite", json!({ "token": token })).await;
    assert_eq!(accepted.body["message"], "the invite was revoked");
    // Guessing is bounded.
    for n in 0..10 {
        let guessed = group.invite(&group.carol, "acceptInvite", json!({ "token": format!("{n}") })).await;
        assert_eq!(guessed.status, 404, "{}", guessed.text);
    }
    let guessed = group.invite(&group.carol, "acceptInvite", json!({ "token": "x" })).await;
    assert_eq!(error(&guessed), (429, "RateLimitExceeded"));
}

async fn only_administrators_change_members(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({})).await;
    group.join(&space, BOB, true, true).await;
    let add = json!({ "space": space, "did": CAROL, "read": true, "write": true });
    let refused = group.post(&group.bob, "simplespace.putMember", add.clone()).await;
    assert_eq!(error(&refused), (403, "NotSpaceOwner"));
    assert_eq!(error(&group.post(&group.carol, "simplespace.putMember", add).await), (404, "SpaceNotFound"));
    let creator = json!({ "space": space, "did": ALICE, "read": false, "write": false });
    assert_eq!(
        error(&group.post(&group.alice, "simplespace.putMember", creator).await),
        (400, "InvalidRequest")
    );
    let add = json!({ "space": space, "did": BOB, "access": "read" });
    assert_eq!(error(&group.post(&group.alice, "simplespace.addMember", add).await), (409, "Conflict"));
    let remove = json!({ "space": space, "did": CAROL });
    assert_eq!(error(&group.post(&group.alice, "simplespace.removeMember", remove).await), (404, "NotFound"));
}

async fn a_space_includes_the_members_of_another(world: World) {
    let group = Group::of(world).await;
    let (team, space) = (group.space("team", json!({})).await, group.space("main", json!({})).await);
    group.join(&team, BOB, true, false).await;
    group.join(&space, &team, true, true).await;
    let list = group.get(&group.bob, &format!("space.listRecords?space={space}")).await;
    assert_eq!(list.status, 200, "{}", list.text);
    // The team may only read, so no right to write comes through it.
    assert_eq!(error(&group.note(&group.bob, &space, "b").await), (403, "NotAuthorized"));
    let members = group.get(&group.bob, &format!("simplespace.listMembers?space={space}")).await;
    assert_eq!(members.body["members"][1]["did"], BOB);
    // Including a space needs the right to see it, because its members become known.
    let made = json!({ "spaceType": super::KIND, "skey": "spy" });
    let spy = group.post(&group.carol, "simplespace.createSpace", made).await.body["uri"].clone();
    let include = json!({ "space": spy, "did": team, "read": true, "write": true });
    assert_eq!(
        error(&group.post(&group.carol, "simplespace.putMember", include).await),
        (404, "SpaceNotFound")
    );
    let remove = json!({ "space": space, "did": team });
    assert_eq!(group.post(&group.alice, "simplespace.removeMember", remove).await.status, 200);
    let list = group.get(&group.bob, &format!("space.listRecords?space={space}")).await;
    assert_eq!(error(&list), (404, "SpaceNotFound"));
}
