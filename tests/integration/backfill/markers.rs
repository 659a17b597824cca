//! Account and identity events against every way to read the index, live and after a replay.

use std::time::Duration;

use belvedere_standins::repos::{Fault, Site};
use belvedere_storage::store::cursors;
use tokio::sync::watch;

use super::*;
use crate::support::instance::query_lexicon;

const LIST: &str = "com.example.listNotes";
const LOOK: &str = "com.example.look";

/// The name that the stream's cursor has in the database.
const STREAM: &str = "jetstream";

/// A little less than the time after which a test gives up without saying what it saw.
const PATIENCE: Duration = Duration::from_secs(50);

/// The records of an author that a script sees. Each value is a number of records.
const SCRIPT: &str = r#"function handle()
  local links = { collection = collection, uri = "at://linked" }
  local links_by = { collection = collection, uri = "at://linked", did = params.did }
  local text = { field = "text", value = params.did }
  local raw = db.raw("SELECT count(*) AS n FROM records WHERE did = $1 AND collection = $2", { params.did, collection })
  local refs = db.raw("SELECT count(*) AS n FROM record_refs WHERE source_uri = $1 AND target_uri = $2", { params.uri, "at://linked" })
  local sorted = 0
  for _, note in ipairs(db.query({ collection = collection, sort = "n", sortDirection = "asc" }).records) do
    if note.text == params.did then sorted = sorted + 1 end
  end
  local linked = 0
  for _, note in ipairs(db.backlinks(links).records) do
    if note.text == params.did then linked = linked + 1 end
  end
  return {
    get = db.get(params.uri) and 2 or 0, query = #db.query({ collection = collection, did = params.did }).records,
    filter = #db.query({ collection = collection, filter = text }).records, sort = sorted,
    search = #db.search({ collection = collection, field = "text", query = params.did }).records,
    count = db.count(collection, params.did), links = linked, links_by = #db.backlinks(links_by).records,
    raw = raw[1].n, refs = 2 * refs[1].n }
end"#;

impl Scene {
    async fn with_readers(self) -> Self {
        for (nsid, script) in [(LIST, None), (LOOK, Some(SCRIPT))] {
            self.server.upload(query_lexicon(nsid), Some(NOTES)).await;
            if let Some(script) = script {
                self.server.bind(nsid, script).await;
            }
        }
        self
    }

    /// Creates an account with two notes, and sends them on the stream.
    fn write_notes(&self, did: &str) {
        if self.network.records(NOTES).keys().all(|uri| !uri.contains(did)) {
            self.network.account(did, 0);
        }
        for n in [1, 2] {
            let note = json!({ "$type": NOTES, "text": did, "n": n, "subject": "at://linked" });
            let rev = self.network.put(did, NOTES, &format!("k{n}"), note.clone());
            self.push(did, &format!("k{n}"), &rev, Some(&note));
        }
    }

    fn push_account(&self, did: &str, status: Option<&str>) {
        self.stream.push(Frame::account(Clock::system().now().0, did, status));
    }

    /// The number of the author's records that each way to read shows.
    async fn seen(&self, did: &str) -> BTreeMap<String, u64> {
        let mut seen = BTreeMap::new();
        let uri = format!("at://{did}/{NOTES}/k1");
        let count = |list: &Value| {
            list.as_array().map_or(0, |list| {
                list.iter().filter(|one| one["text"] == did || one["did"] == did).count() as u64
            })
        };
        let list = self.server.xrpc(&format!("{LIST}?did={did}")).await;
        seen.insert("list of the author".into(), count(&list.body["records"]));
        let list = self.server.xrpc(&format!("{LIST}?limit=100")).await;
        seen.insert("list".into(), count(&list.body["records"]));
        let one = self.server.xrpc(&format!("{LIST}?uri={uri}")).await;
        seen.insert("record".into(), if one.status == 200 { 2 } else { 0 });
        let script = self.server.xrpc(&format!("{LOOK}?did={did}&uri={uri}")).await;
        assert_eq!(script.status, 200, "{}", script.text);
        for (name, number) in script.body.as_object().expect("an object") {
            seen.insert(format!("script: {name}"), number.as_f64().expect("a number") as u64);
        }
        let admin = self
            .server
            .admin(Method::GET, &format!("/admin/records?collection={NOTES}&did={did}"), None)
            .await;
        seen.insert("admin: records of the author".into(), count(&admin.body["records"]));
        let admin = self
            .server
            .admin(Method::GET, &format!("/admin/records?collection={NOTES}&limit=100"), None)
            .await;
        seen.insert("admin: records".into(), count(&admin.body["records"]));
        seen
    }

    /// The numbers of records that the statistics show: of the collection, and of the server.
    async fn totals(&self) -> (u64, u64) {
        let stats = self.server.admin(Method::GET, "/admin/stats", None).await;
        let collections = stats.body["collections"].as_array().expect("a list");
        let collection = collections.iter().find(|one| one["collection"] == NOTES);
        (collection.map_or(0, |one| one["count"].as_u64().expect("a number")), self.server.records().await)
    }

    /// Waits until every way to read shows this many records of the author, and those of the others.
    async fn wait_until_seen(&self, what: &str, did: &str, records: u64, others: u64) {
        let all = async |_: &Instance| {
            self.seen(did).await.values().all(|number| *number == records)
                && self.totals().await == (records + others, records + others)
        };
        let wait = tokio::time::timeout(PATIENCE, self.server.eventually(what, all)).await;
        assert!(wait.is_ok(), "{what}: {:?} {:?}", self.seen(did).await, self.totals().await);
    }

    /// The rows that the table has of an author, visible or not.
    async fn rows_of(&self, did: &str) -> i64 {
        let sql = "SELECT count(*) FROM records r JOIN dids d ON d.id = r.did_id WHERE d.did = $1";
        match &self.db {
            Db::Sqlite(db) => sqlx::query_scalar(sql).bind(did).fetch_one(&db.reader).await,
            Db::Postgres(db) => sqlx::query_scalar(sql).bind(did).fetch_one(&db.pool).await,
        }
        .unwrap()
    }

    /// Waits until the server has committed all events of the stream: `last` is the time of the last one.
    async fn wait_for_cursor(&self, last: i64) {
        let reached = async |_: &Instance| cursors::get(&self.db, STREAM).await.unwrap() >= Some(last);
        self.server.eventually("the stream's events are committed", reached).await;
    }
}

in_both_scenes!(
    every_status_is_folded_into_every_read,
    a_page_in_flight_does_not_bring_back_a_deleted_account,
    a_marked_repo_is_read_again_once,
    an_account_that_moves_is_followed_at_once
);

async fn every_status_is_folded_into_every_read(scene: Scene) {
    let mut scene = scene.with_readers().await;
    let (alice, bob) = (account(1), account(2));
    let first = Clock::system().now().0;
    scene.write_notes(&alice);
    scene.write_notes(&bob);
    scene.wait_until_seen("both are indexed", &alice, 2, 2).await;
    for status in ["deactivated", "takendown", "suspended", "throttled"] {
        scene.push_account(&alice, Some(status));
        scene.wait_until_seen(status, &alice, 0, 2).await;
        assert_eq!(scene.rows_of(&alice).await, 2, "the rows stay");
        assert!(scene.seen(&bob).await.values().all(|number| *number == 2));
        scene.push_account(&alice, None);
        scene.wait_until_seen("active", &alice, 2, 2).await;
    }
    scene.push_account(&alice, Some("deleted"));
    scene.wait_until_seen("deleted", &alice, 0, 2).await;
    assert_eq!(scene.rows_of(&alice).await, 0);
    // The account is created again: what it writes has later revs than the deletion.
    scene.push_account(&alice, None);
    scene.network.advance_rev(&alice, Clock::system().now().0 as u64);
    scene.write_notes(&alice);
    scene.wait_until_seen("created again", &alice, 2, 2).await;
    scene.push_account(&bob, Some("takendown"));
    scene.wait_until_seen("both", &alice, 2, 0).await;

    // All of it again.
    assert_eq!(scene.server.stop(), Some(0));
    let sql = "UPDATE stream_cursors SET cursor = $1 WHERE source = $2";
    match &scene.db {
        Db::Sqlite(db) => drop(sqlx::query(sql).bind(first).bind(STREAM).execute(&db.writer).await.unwrap()),
        Db::Postgres(db) => drop(sqlx::query(sql).bind(first).bind(STREAM).execute(&db.pool).await.unwrap()),
    }
    let last = Clock::system().now().0;
    scene.stream.push(Frame::identity(last, &bob, "bob.test"));
    scene.server.start_again().await;
    scene.wait_for_cursor(last).await;
    scene.wait_until_seen("after the replay", &alice, 2, 0).await;
    assert!(scene.seen(&bob).await.values().all(|number| *number == 0));
    assert_eq!((scene.rows_of(&alice).await, scene.rows_of(&bob).await), (2, 2));
}

async fn a_page_in_flight_does_not_bring_back_a_deleted_account(scene: Scene) {
    let scene = scene.with_readers().await;
    // One is indexed already, the other is not.
    let (alice, carol) = (account(1), account(3));
    scene.write_notes(&alice);
    scene.wait_until_seen("indexed", &alice, 2, 0).await;
    scene.network.account(&carol, 0);
    scene.network.fill(&carol, NOTES, 3);
    scene.network.put(&alice, NOTES, "k3", note("only listed"));
    let (open, opened) = watch::channel(false);
    scene.network.faults(Site::Pds(0), move |query| {
        query.method.ends_with("listRecords").then(|| Fault::Until(opened.clone()))
    });
    let id = scene.create(Some(NOTES), None).await;
    let lists = async |_: &Instance| {
        scene.network.queries(Site::Pds(0)).iter().filter(|query| query.is_page()).count() == 2
    };
    scene.server.eventually("both pages are in flight", lists).await;
    for did in [&alice, &carol] {
        scene.push_account(did, Some("deleted"));
    }
    let last = Clock::system().now().0;
    scene.stream.push(Frame::identity(last, &alice, "alice.test"));
    scene.wait_for_cursor(last).await;
    open.send_replace(true);
    scene.wait_for_status(&id, "completed").await;
    assert_eq!((scene.rows_of(&alice).await, scene.rows_of(&carol).await), (0, 0));
    scene.wait_until_seen("gone", &alice, 0, 0).await;

    // Created again, from a copy of its records: they have no commits in the stream.
    scene.network.repair();
    scene.network.advance_rev(&alice, Clock::system().now().0 as u64);
    scene.push_account(&alice, None);
    let read = async |_: &Instance| scene.rows_of(&alice).await == 3;
    scene.server.eventually("the repo was read", read).await;
    assert_eq!(scene.rows_of(&carol).await, 0);
}

async fn a_marked_repo_is_read_again_once(scene: Scene) {
    let (alice, bob, carol) = (account(1), account(2), account(3));
    for did in [&alice, &bob, &carol] {
        scene.network.account(did, 0);
        scene.network.fill(did, NOTES, 3);
    }
    for did in [&alice, &bob] {
        let id = scene.create(Some(NOTES), Some(did)).await;
        scene.wait_for_status(&id, "completed").await;
    }
    let before = backfill::list(&scene.db).await.unwrap().len();
    scene.network.delete(&alice, NOTES, "0001");
    let rev = scene.network.put(&alice, NOTES, "0002", note("changed"));
    scene.network.put(&bob, NOTES, "0002", note("not marked"));
    // Carol was never indexed: new accounts of the whole network are marked.
    let at = Clock::system().now().0;
    scene.stream.push_all([&alice, &alice, &carol, &alice].map(|did| Frame::sync(at, did, &rev)));
    let repaired = async |_: &Instance| {
        scene.record(&alice, "0001").await.is_none()
            && scene.record(&alice, "0002").await.is_some_and(|row| row["record"]["text"] == "changed")
    };
    scene.server.eventually("the repo is repaired", repaired).await;
    let jobs = backfill::list(&scene.db).await.unwrap();
    let repairs = &jobs[..jobs.len() - before];
    assert!(repairs.iter().all(|job| job.did.as_deref() == Some(&alice)), "{repairs:?}");
    assert_eq!(repairs.len(), 1, "{repairs:?}");
    scene.wait_for_status(&repairs[0].id, "completed").await;
    assert_eq!((scene.rows_of(&bob).await, scene.rows_of(&carol).await), (3, 0));
    assert!(scene.record(&bob, "0002").await.is_some_and(|row| row["record"]["text"] != "not marked"));
}

async fn an_account_that_moves_is_followed_at_once(scene: Scene) {
    let scene = scene.with_readers().await;
    let did = account(1);
    scene.network.account(&did, 0);
    let cid = "bafkreibme22gw2h7y2h7tg2fhqotaqjucnbc24deqo72b6mkl2egezxhvy";
    let picture = json!({ "$type": "blob", "ref": { "$link": cid }, "mimeType": "image/png", "size": 5 });
    let note = |text: &str| json!({ "$type": NOTES, "text": text, "picture": picture });
    let rev = scene.network.put(&did, NOTES, "k1", note("before"));
    scene.push(&did, "k1", &rev, Some(&note("before")));
    let path = format!("{LIST}?uri=at://{did}/{NOTES}/k1");
    let is_at = async |server: &Instance, pds: usize| {
        let url =
            server.xrpc(&path).await.body["record"]["picture"]["url"].as_str().unwrap_or_default().to_owned();
        url.starts_with(&scene.network.pds_url(pds))
    };
    scene.server.eventually("the blob has a URL", async |server: &Instance| is_at(server, 0).await).await;

    // The old server gives up the account, the new one has a copy of it with another record.
    scene.push_account(&did, Some("deactivated"));
    scene.wait_until_seen("given up", &did, 0, 0).await;
    scene.network.account(&did, 1);
    scene.network.put(&did, NOTES, "k2", note("brought along"));
    let asked = scene.network.queries(Site::Pds(0)).len();
    let at = Clock::system().now().0;
    scene.stream.push_all([Frame::identity(at, &did, "new.test"), Frame::account(at, &did, None)]);
    scene.server.eventually("the new URL", async |server: &Instance| is_at(server, 1).await).await;
    let is_read = async |_: &Instance| scene.record(&did, "k2").await.is_some();
    scene.server.eventually("the repo is read at its new PDS", is_read).await;
    assert_eq!(scene.network.queries(Site::Pds(0)).len(), asked);
    scene.assert_equal(NOTES).await;
}
