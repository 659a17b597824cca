//! Spaces of another host: two servers, one of which hosts a space, while a member uses the other one.

use belvedere_standins::database::sqlite_url;
use belvedere_standins::postgres;
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{CAROL, Group, call_at, error, expose, in_query, switch_on};
use crate::fixtures::{ALICE, BOB, World};
use crate::support::app::App;
use crate::support::instance::{Answer, Instance};
use crate::support::oauth_pds::OauthPds;
use crate::support::plc::Person;

crate::in_both_worlds!(
    members_of_two_servers_read_each_other,
    a_lost_notice_is_repaired,
    only_a_member_with_a_session_follows,
    a_copy_is_read_by_its_users_only,
    access_ends_elsewhere_too
);

const NOTE: &str = "com.example.note";

/// Alice's server, which hosts her space, and the server of Bob, a member.
pub struct Pair {
    pub host: Group,
    pub other: Instance,
    pub space: String,
    pub pds: OauthPds,
    _directory: Option<TempDir>,
}

impl Pair {
    pub async fn of(world: World) -> Self {
        let host = Group::exposed(world).await;
        let (url, directory) = if host.world.is_postgres() {
            (postgres::create_database().await, None)
        } else {
            let (url, directory) = sqlite_url();
            (url, Some(directory))
        };
        let (plc, relay) = (host.world.plc.url(), host.world.network.url());
        let own = [("PLC_URL", plc.as_str()), ("RELAY_URL", relay.as_str())];
        let other = Instance::start_with(&url, &host.world.stream.url(), &own).await;
        switch_on(&other).await;
        expose(&other).await;
        let pds = OauthPds::start().await;
        for did in [BOB, CAROL] {
            host.world.plc.host(did, &pds.url());
        }
        let space = host.space("main", json!({})).await;
        host.join(&space, BOB, true, true).await;
        let pair = Self { host, other, space, pds, _directory: directory };
        pair.log_in(&pair.host.bob).await;
        let followed = pair.follow(&pair.host.bob).await;
        assert_eq!(followed.status, 200, "{}", followed.text);
        pair
    }

    /// A session of a person at the other server, whose PDS signs service tokens.
    async fn log_in(&self, person: &Person) {
        self.pds.sign_for(person);
        let app = App::confidential(&self.other, &format!("app-{}", &person.did[8..13])).await;
        app.device(&self.other, &self.pds, &person.did, json!({})).await;
    }

    /// A procedure at the other server.
    async fn post(&self, person: &Person, method: &str, body: Value) -> Answer {
        call_at(&self.other, Some(person), Method::POST, method, Some(body)).await
    }

    /// A query at the other server.
    async fn get(&self, person: &Person, method: &str) -> Answer {
        call_at(&self.other, Some(person), Method::GET, method, None).await
    }

    async fn follow(&self, person: &Person) -> Answer {
        self.post(person, "dev.service.space.follow", json!({ "space": self.space })).await
    }

    /// Writes a note of Bob's at the other server.
    async fn note(&self, rkey: &str) -> Answer {
        let body =
            json!({ "space": self.space, "collection": NOTE, "rkey": rkey, "record": { "text": rkey } });
        self.post(&self.host.bob, "com.atproto.space.createRecord", body).await
    }

    fn list(&self) -> String {
        format!("com.atproto.space.listRecords?space={}&includeValues=true", in_query(&self.space))
    }

    /// The texts of all notes that a person reads at a server, sorted.
    async fn texts(&self, server: &Instance, person: &Person) -> Vec<String> {
        let answer = call_at(server, Some(person), Method::GET, &self.list(), None).await;
        let records = answer.body["records"].as_array().cloned().unwrap_or_default();
        let text = |record: &Value| record["value"]["text"].as_str().unwrap_or_default().to_owned();
        let mut texts: Vec<String> = records.iter().map(text).collect();
        texts.sort();
        texts
    }

    async fn eventually_reads(&self, server: &Instance, person: &Person, expected: &[&str]) {
        let reads = async |server: &Instance| self.texts(server, person).await == expected;
        server.eventually(&format!("{} reads {expected:?}", person.did), reads).await;
    }
}

async fn members_of_two_servers_read_each_other(world: World) {
    let pair = Pair::of(world).await;
    let (host, Group { alice, bob, .. }) = (&pair.host.world.server, &pair.host);
    pair.host.note(alice, &pair.space, "a").await;
    assert_eq!(pair.note("b").await.status, 200);
    pair.eventually_reads(&pair.other, bob, &["a", "b"]).await;
    pair.eventually_reads(host, alice, &["a", "b"]).await;
    // The list names the hosts, so that a third server finds both repos.
    let repos = pair.host.get(alice, &format!("space.listRepos?space={}", in_query(&pair.space))).await.body;
    let host_of = |did: &str| {
        let mut repos = repos["repos"].as_array().unwrap().iter();
        repos.find(|repo| repo["did"] == did).unwrap()["host"].as_str().unwrap().to_owned()
    };
    assert_eq!((host_of(ALICE), host_of(BOB)), (host.did(), pair.other.did()));
    let change =
        json!({ "space": pair.space, "collection": NOTE, "rkey": "a", "record": { "text": "changed" } });
    pair.host.post(alice, "space.putRecord", change).await;
    pair.host.note(alice, &pair.space, "c").await;
    pair.eventually_reads(&pair.other, bob, &["b", "c", "changed"]).await;
    let gone = json!({ "space": pair.space, "collection": NOTE, "rkey": "b" });
    pair.post(bob, "com.atproto.space.deleteRecord", gone).await;
    pair.eventually_reads(host, alice, &["c", "changed"]).await;
    pair.eventually_reads(&pair.other, bob, &["c", "changed"]).await;
    let spaces = pair.get(bob, "com.atproto.space.listSpaces").await;
    assert_eq!(spaces.body["spaces"][0]["uri"], json!(pair.space), "{}", spaces.text);
}

async fn a_lost_notice_is_repaired(world: World) {
    let pair = Pair::of(world).await;
    let Group { alice, bob, .. } = &pair.host;
    pair.host.note(alice, &pair.space, "a").await;
    pair.eventually_reads(&pair.other, bob, &["a"]).await;
    pair.host.world.execute("DELETE FROM space_registrations").await;
    pair.host.note(alice, &pair.space, "b").await;
    pair.eventually_reads(&pair.other, bob, &["a", "b"]).await;
    // A copy that differs from its repo is replaced.
    pair.host.world.execute("DELETE FROM space_ops").await;
    pair.host.note(alice, &pair.space, "c").await;
    pair.eventually_reads(&pair.other, bob, &["a", "b", "c"]).await;
}

async fn only_a_member_with_a_session_follows(world: World) {
    let pair = Pair::of(world).await;
    let Group { alice, bob, carol, .. } = &pair.host;
    assert_eq!(error(&pair.follow(carol).await), (403, "NotAuthorized"), "she has no session here");
    pair.log_in(carol).await;
    assert_eq!(error(&pair.follow(carol).await), (403, "NotAuthorized"), "she is no member");
    let body = || json!({ "space": pair.space });
    let hosted = pair.host.call(Some(alice), Method::POST, "dev.service.space.follow", Some(body())).await;
    assert_eq!(error(&hosted), (400, "InvalidRequest"), "{}", hosted.text);
    let nowhere = json!({ "space": "at://did:web:127.0.0.1%3A9/space/com.example.group/x" });
    let failed = pair.post(bob, "dev.service.space.follow", nowhere).await;
    assert_eq!(error(&failed), (502, "UpstreamFailure"), "{}", failed.text);
    let anonymous = call_at(&pair.other, None, Method::POST, "dev.service.space.follow", Some(body())).await;
    assert_eq!(anonymous.status, 401, "{}", anonymous.text);
    assert_eq!(pair.follow(bob).await.status, 200, "again");
    let unfollow =
        async || pair.post(bob, "dev.service.space.unfollow", body()).await.body["removed"].clone();
    assert_eq!((unfollow().await, unfollow().await), (json!(1), json!(0)));
    assert_eq!(pair.get(bob, &pair.list()).await.body["records"], json!([]));
}

async fn a_copy_is_read_by_its_users_only(world: World) {
    let pair = Pair::of(world).await;
    let Group { alice, bob, carol, .. } = &pair.host;
    pair.host.note(alice, &pair.space, "a").await;
    pair.note("b").await;
    pair.eventually_reads(&pair.other, bob, &["a", "b"]).await;
    pair.log_in(carol).await;
    assert_eq!(pair.texts(&pair.other, alice).await, ["a"], "the copy of her own repo");
    assert!(pair.texts(&pair.other, carol).await.is_empty());
    let space = in_query(&pair.space);
    let record = format!("com.atproto.space.getRecord?space={space}&repo={ALICE}&collection={NOTE}&rkey=a");
    assert_eq!(pair.get(bob, &record).await.status, 200);
    assert_eq!(pair.get(carol, &record).await.status, 404);
    // The host of a repo signs its commits, and takes its writes.
    for method in ["getLatestCommit", "getRepo", "listRepoOps"] {
        let answer = pair.get(bob, &format!("com.atproto.space.{method}?space={space}&repo={ALICE}")).await;
        assert_eq!(error(&answer), (404, "RepoNotFound"), "{method}: {}", answer.text);
        let own = pair.get(bob, &format!("com.atproto.space.{method}?space={space}&repo={BOB}")).await;
        assert_eq!(own.status, 200, "{method}: {}", own.text);
    }
    let at_host = pair.host.note(bob, &pair.space, "x").await;
    assert_eq!(error(&at_host), (409, "Conflict"), "{}", at_host.text);
}

async fn access_ends_elsewhere_too(world: World) {
    let pair = Pair::of(world).await;
    let Group { alice, bob, .. } = &pair.host;
    pair.host.note(alice, &pair.space, "a").await;
    pair.note("b").await;
    pair.eventually_reads(&pair.other, bob, &["a", "b"]).await;
    let removed = json!({ "space": pair.space, "did": BOB });
    assert_eq!(pair.host.post(alice, "simplespace.removeMember", removed).await.status, 200);
    assert_eq!(pair.host.get(bob, &pair.list().replace("com.atproto.", "")).await.status, 404);
    pair.eventually_reads(&pair.other, bob, &["b"]).await;
}
