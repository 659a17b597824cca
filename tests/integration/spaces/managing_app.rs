//! Spaces whose members a managing app decides about.

use serde_json::json;

use super::notifications::{OK, Service};
use super::{Group, error, in_query};
use crate::fixtures::{ALICE, BOB, World};

crate::in_both_worlds!(an_answer_counts_for_a_moment, without_an_answer_a_user_is_refused);

const APP: &str = "did:plc:managingmanagingmanaging";

fn answer(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

impl Group {
    /// A managing app, and a space that it manages.
    async fn managed(&self, skey: &str) -> String {
        let policy = json!({ "$type": "com.atproto.simplespace.defs#managingAppPolicy", "managingApp": APP });
        self.space(skey, json!({ "readPolicy": policy, "writePolicy": policy })).await
    }
}

async fn an_answer_counts_for_a_moment(world: World) {
    let group = Group::exposed(world).await;
    let app = Service::start().await;
    group.world.plc.host(APP, &app.url);
    app.answers(&answer(r#"{"authorized":true}"#));
    let space = group.managed("main").await;
    let list = format!("space.listRecords?space={}", in_query(&space));
    let read = async || group.get(&group.bob, &list).await;
    for _ in 0..3 {
        assert_eq!(read().await.status, 200);
    }
    let (path, claims, _) = app.request(&group, 0).await;
    let encoded = space.replace('%', "%25").replace(':', "%3A").replace('/', "%2F");
    let query = format!("space={encoded}&user={}&access=read", BOB.replace(':', "%3A"));
    assert_eq!(path, format!("/xrpc/com.atproto.simplespace.checkUserAccess?{query}"));
    let issuer = group.world.server.did();
    assert_eq!((&claims["iss"], &claims["aud"]), (&json!(issuer), &json!(APP)));
    assert_eq!(claims["lxm"], "com.atproto.simplespace.checkUserAccess");
    // The right to write is another question, and so is another user.
    assert_eq!(group.note(&group.bob, &space, "b").await.status, 200);
    let (path, ..) = app.request(&group, 1).await;
    assert!(path.ends_with("&access=write"), "{path}");
    assert_eq!(group.get(&group.carol, &list).await.status, 200);
    assert_eq!(app.count(), 3);
    // The app no longer admits anyone.
    app.answers(&answer(r#"{"authorized":false}"#));
    group.world.server.eventually("Bob is refused", async |_| read().await.status == 404).await;
    let asked = app.count();
    assert_eq!((read().await.status.as_u16(), app.count()), (404, asked), "a refusal counts as long");
    // The creator knows of the space, and reads no more than others.
    let own = group.get(&group.alice, &list).await;
    assert_eq!(error(&own), (403, "NotAuthorized"));
}

async fn without_an_answer_a_user_is_refused(world: World) {
    let group = Group::exposed(world).await;
    let app = Service::start().await;
    group.world.plc.host(APP, &app.url);
    for (n, text) in [
        answer(r#"{"authorized":"yes"}"#),
        answer("{}"),
        answer("yes"),
        "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "HTTP/1.1 302 Found\r\nlocation: https://a.example\r\ncontent-length: 0\r\n\r\n".to_owned(),
        // Closes the connection.
        String::new(),
    ]
    .iter()
    .enumerate()
    {
        app.answers(text);
        let space = group.managed(&format!("s{n}")).await;
        let read = group.get(&group.bob, &format!("space.listRecords?space={}", in_query(&space))).await;
        assert_eq!(error(&read), (404, "SpaceNotFound"), "{text}");
        let written = group.note(&group.alice, &space, "a").await;
        assert_eq!(error(&written), (403, "NotAuthorized"), "{text}");
    }
    app.answers(OK);
    let space = group.managed("last").await;
    let read = group.get(&group.bob, &format!("space.listRecords?space={}", in_query(&space))).await;
    assert_eq!(error(&read), (404, "SpaceNotFound"));
    let repos =
        group.get(&group.alice, &format!("space.listRepos?space={}&repo={ALICE}", in_query(&space))).await;
    assert_eq!(repos.body["repos"], json!([]));
}
