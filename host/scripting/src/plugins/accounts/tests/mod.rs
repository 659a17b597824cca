//! Accounts on both databases, with a plugin whose answers the test chooses and a PDS that accepts writes.

mod fake;
mod flow;
mod linking;
mod sync_failures;
mod sync_turns;
mod syncing;
mod tokens;
mod unlinking;

use std::sync::Arc;

use belvedere_standins::database::Database;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{AccountUser, Accounts};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_instance::core::Core;
use belvedere_instance::events::EventLog;
use belvedere_instance::indexing::{self, NoScripts, Observer, StreamConfig, StreamHandle, StreamReport};
use belvedere_instance::keys::attestation::Attestation;
use belvedere_instance::pds::Sessions;
use belvedere_instance::pds::standin::FakePds;
use belvedere_instance::repos::Repos;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::{Algorithm, PrivateKey};
use belvedere_storage::store::events::{self, EventFilter};
use belvedere_storage::store::external_accounts::{self, AccountRow};
use belvedere_storage::store::lexicons::{NewLexicon, upsert};
use belvedere_storage::store::{Db, index};
use belvedere_web::fair_share::Tenant;
use fake::FakeService;

const ALICE: &str = "did:plc:alice";
const BOB: &str = "did:plc:bob";
/// A collection with a lexicon: `text` is a string.
const NOTE: &str = "com.example.note";
/// A collection without a lexicon, which is not indexed.
const LOOSE: &str = "com.example.loose";
const NOW: Timestamp = Timestamp(1_700_000_000_000_000);

/// Turns each test function into two tests: `name::sqlite` and `name::postgres`.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                super::$name($crate::plugins::accounts::tests::Stage::on($crate::plugins::accounts::tests::Database::sqlite()).await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                super::$name($crate::plugins::accounts::tests::Stage::on($crate::plugins::accounts::tests::Database::postgres().await).await).await;
            }
        })*
    };
}
use on_both;

struct IgnoreReports;

impl Observer for IgnoreReports {
    fn report(&self, _report: StreamReport) {}
    fn identity_changed(&self, _did: &Did) {}
}

/// One or two hosts on a database.
struct Stage {
    db: Db,
    service: Arc<FakeService>,
    pds: FakePds,
    clock: Clock,
    events: EventLog,
    accounts: Accounts,
    /// Another host on the same database.
    other: Accounts,
    /// The drain of both hosts.
    drain: CancellationToken,
    _stream: StreamHandle,
    _database: Database,
}

/// The lexicon of notes, with their key type.
fn note_lexicon(key: &str) -> NewLexicon {
    let record = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let main = json!({ "type": "record", "key": key, "record": record });
    NewLexicon {
        id: NOTE.to_owned(),
        lexicon_json: json!({ "lexicon": 1, "id": NOTE, "defs": { "main": main } }).to_string(),
        lexicon_type: "record".to_owned(),
        source: "manual".to_owned(),
        ..NewLexicon::default()
    }
}

impl Stage {
    /// Replaces the lexicon of notes.
    pub(super) async fn set_key_type(&self, key: &str) {
        upsert(&self.db, &note_lexicon(key), NOW).await.unwrap();
        self.accounts.core().registry.reload(&self.db).await.unwrap();
    }

    async fn on(database: Database) -> Self {
        let db = Db::open(&database.url, 8).await.unwrap();
        db.migrate().await.unwrap();
        upsert(&db, &note_lexicon("any"), NOW).await.unwrap();
        external_accounts::testing::add_plugin(&db, "fake").await;
        let core = Core::testing(&db, &Clock::system());
        core.registry.reload(&db).await.unwrap();
        let (clock, drain) = (Clock::fixed(NOW), core.drain.clone());
        let stream = indexing::start(
            &core,
            core.registry.subscribe(),
            Arc::new(NoScripts),
            Arc::new(IgnoreReports),
            StreamConfig::default(),
        );
        let pds = FakePds::start().await;
        let sessions = Sessions::fixed([pds.session(ALICE), pds.session(BOB)]);
        let repos = Repos::new(&core, sessions);
        repos.attach(stream.writer(), Arc::new(NoScripts));
        let service = Arc::new(FakeService::new("fake", "oauth2"));
        let key = PrivateKey::from_bytes(Algorithm::Es256k, &[7; 32]).unwrap();
        let names = ("did:web:x.test#attestation".to_owned(), "com.example.sig".to_owned());
        let attestation = Arc::new(Attestation::new(key, names.0, names.1));
        let host = || {
            let core = Core { clock: clock.clone(), tasks: TaskTracker::new(), ..core.clone() };
            let (linkers, attestation) = (Arc::clone(&service) as _, Arc::clone(&attestation));
            Accounts::new(core, linkers, repos.clone(), attestation, true)
        };
        Self {
            accounts: host(),
            other: host(),
            db,
            service,
            pds,
            clock,
            events: core.events.clone(),
            drain,
            _stream: stream,
            _database: database,
        }
    }

    /// Moves the clock.
    fn pass(&self, seconds: i64) {
        self.clock.set(self.clock.now().plus_seconds(seconds));
    }

    /// Links an account of Alice's by signing in.
    async fn link(&self, account: &str) {
        self.link_as(&user(ALICE), account, None).await;
    }

    async fn link_as(&self, user: &AccountUser, account: &str, collections: Option<&[&str]>) {
        let collections = collections.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        self.service.sign_in_as(account);
        let back = "https://app.example/back".to_owned();
        let state = self.accounts.begin(user, "fake", back, collections).await.unwrap();
        self.accounts.consent("fake", &state, "browser", "https://own.example/cb".to_owned()).await.unwrap();
        let params = vec![("state".to_owned(), state), ("code".to_owned(), "good".to_owned())];
        let done =
            self.accounts.complete("fake", "browser", "https://own.example/cb".to_owned(), params).await;
        assert_eq!(done.unwrap().outcome, Ok(()));
    }

    /// The row of Alice's account.
    async fn row(&self) -> AccountRow {
        self.found().await.expect("an account is linked")
    }

    async fn found(&self) -> Option<AccountRow> {
        external_accounts::get(&self.db, ALICE, "fake").await.unwrap()
    }

    /// The number of accounts, with those whose tokens are being revoked.
    async fn count(&self) -> i64 {
        external_accounts::testing::count(&self.db, "fake").await
    }

    /// The details of the events of a type, oldest first.
    async fn events_of(&self, kind: &str) -> Vec<Value> {
        self.events.flush().await;
        let filter =
            EventFilter { event_type: Some(format!("external_account.{kind}")), ..EventFilter::default() };
        let mut rows = events::list(&self.db, &filter, 100).await.unwrap();
        rows.reverse();
        rows.iter().map(|row| serde_json::from_str(&row.detail).unwrap()).collect()
    }

    /// The keys of what a plugin keeps.
    async fn values(&self) -> Vec<String> {
        external_accounts::testing::values(&self.db).await
    }

    async fn keep_value(&self, scope: &str, owner: &str, expires_at: Option<Timestamp>) {
        external_accounts::testing::keep(&self.db, "fake", scope, owner, expires_at).await;
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.drain.cancel();
    }
}

/// A user whose session has their DID as id, as those of [`Sessions::fixed`] have.
fn user(did: &str) -> AccountUser {
    AccountUser { did: Did::try_from(did).unwrap(), session: did.into(), tenant: Tenant::client("app") }
}

/// Marks an account as deleted on the network.
async fn delete_on_network(db: &Db, did: &str) {
    let change = index::AccountChange {
        did: Did::try_from(did).unwrap(),
        status: index::AccountStatus::Deleted,
        rev: belvedere_protocol::atproto::rev::highest_at(NOW).unwrap(),
    };
    let batch = index::Batch { accounts: vec![change], ..index::Batch::default() };
    index::apply(db, &batch).await.unwrap();
}
