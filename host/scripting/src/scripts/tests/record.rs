//! Tests of `Record`: what scripts can do with it, and what is refused (lua-runtime.md §10, §15).

mod fields;
mod local;
mod objects;
mod saving;
mod validation;

use std::sync::Arc;

use belvedere_standins::postgres;
use serde_json::{Value, json};

use super::{Invocation, account};
use crate::scripts::{Index, OutboundHttp, ScriptFailure, ServerIndex};
use belvedere_base::clock::Clock;
use belvedere_instance::core::Core;
use belvedere_instance::indexing::{
    self, NoScripts, Observer, RecordScriptRunner, StreamConfig, StreamHandle, StreamReport,
};
use belvedere_instance::pds::standin::FakePds;
use belvedere_instance::pds::{SessionAuthority, Sessions};
use belvedere_instance::repos::Repos;
use belvedere_protocol::atproto::{Did, RecordUri, record};
use belvedere_protocol::trigger::Trigger;
use belvedere_storage::store::index::{Change, CheckedRecord, Validity};
use belvedere_storage::store::lexicons::{NewLexicon, upsert};
use belvedere_storage::store::records::{FullRecordRow, get_full};
use belvedere_storage::store::{self, Db};
use belvedere_web::net::testing::loopback;

pub(super) const ALICE: &str = "did:plc:alice";
pub(super) const BOB: &str = "did:plc:bob";
pub(super) const NOTE: &str = "com.example.note";
/// Its records have TIDs as keys.
pub(super) const POST: &str = "com.example.post";
/// Its records have NSIDs as keys.
pub(super) const FEATURE: &str = "com.example.feature";
pub(super) const PROCEDURE: &str = "xrpc.procedure:com.example.do";

/// A database with the collections of the tests, a writer, and a PDS where Alice lives.
pub(super) struct Stage {
    base: super::Stage,
    pub(super) db: Db,
    core: Core,
    pub(super) pds: FakePds,
    stream: StreamHandle,
    url: String,
    _directory: Option<tempfile::TempDir>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        if self.url.starts_with("postgres") {
            postgres::drop_database(&self.url);
        }
    }
}

struct IgnoreReports;

impl Observer for IgnoreReports {
    fn report(&self, _report: StreamReport) {}
    fn identity_changed(&self, _did: &Did) {}
}

/// The lexicon of a record with four properties.
fn note_lexicon(id: &str, key: &str) -> NewLexicon {
    let record = json!({ "type": "object", "required": ["text"], "properties": {
        "text": { "type": "string" },
        "n": { "type": "integer", "maximum": 9 },
        "lang": { "type": "string", "default": "en" },
        "tags": { "type": "array", "items": { "type": "string" }, "default": ["none"] } } });
    lexicon(id, key, &record)
}

fn lexicon(id: &str, key: &str, record: &Value) -> NewLexicon {
    let document = json!({ "lexicon": 1, "id": id,
        "defs": { "main": { "type": "record", "key": key, "record": record } } });
    NewLexicon {
        id: id.to_owned(),
        lexicon_json: document.to_string(),
        lexicon_type: "record".to_owned(),
        source: "manual".to_owned(),
        ..NewLexicon::default()
    }
}

fn repos(
    (core, pds, stream): (&Core, &FakePds, &StreamHandle),
    scripts: Arc<dyn RecordScriptRunner>,
) -> Repos {
    let sessions = Sessions::fixed([pds.session(ALICE)]);
    let repos = Repos::new(core, sessions);
    repos.attach(stream.writer(), scripts);
    repos
}

impl Stage {
    pub(super) async fn sqlite() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/test.db", directory.path().display());
        Self::on(&url, Some(directory)).await
    }

    pub(super) async fn postgres() -> Self {
        Self::on(&postgres::create_database().await, None).await
    }

    async fn on(url: &str, directory: Option<tempfile::TempDir>) -> Self {
        let db = Db::open(url, 4).await.unwrap();
        db.migrate().await.unwrap();
        for (id, key) in
            [(NOTE, "any"), (POST, "tid"), ("com.example.profile", "literal:self"), (FEATURE, "nsid")]
        {
            upsert(&db, &note_lexicon(id, key), super::NOW).await.unwrap();
        }
        let loose = lexicon("com.example.loose", "any", &json!({ "type": "object" }));
        upsert(&db, &loose, super::NOW).await.unwrap();
        let core = Core::testing(&db, &Clock::system());
        core.registry.reload(&db).await.unwrap();
        let pds = FakePds::start().await;
        let stream = indexing::start(
            &core,
            core.registry.subscribe(),
            Arc::new(NoScripts),
            Arc::new(IgnoreReports),
            StreamConfig::default(),
        );
        let repos = repos((&core, &pds, &stream), Arc::new(NoScripts));
        let mut base = super::Stage::set().await;
        base.services = base.services.with_repos(repos).with_web(OutboundHttp::new(loopback(), 8));
        base.services.index = Arc::new(ServerIndex::new(db.clone())) as Arc<dyn Index>;
        Self { base, db, core, pds, stream, url: url.to_owned(), _directory: directory }
    }

    /// Writes to Alice's repo, with these record scripts.
    pub(super) fn repos_with(&self, scripts: Arc<dyn RecordScriptRunner>) -> Repos {
        repos((&self.core, &self.pds, &self.stream), scripts)
    }

    pub(super) async fn run_as(
        &self,
        trigger: &str,
        caller_did: Option<&str>,
        body: &str,
    ) -> Result<Value, ScriptFailure> {
        let source = format!("function handle() {body} end");
        let script = self.base.engine.compile(Trigger::parse(trigger).unwrap(), &source).await;
        let job = trigger.starts_with("job.run").then_some(("a-job", &b"{}"[..]));
        let mut caller = caller_did.map(account).unwrap_or_default();
        caller.authority = SessionAuthority::Newest { client: None };
        let invocation = Invocation { caller: Some(&caller), job, ..Invocation::default() };
        let outcome = self.base.engine.run(&script, invocation, &self.base.services).await?;
        Ok(serde_json::from_slice(&outcome.body).unwrap())
    }

    /// As Alice, in a procedure.
    pub(super) async fn run(&self, body: &str) -> Value {
        self.run_as(PROCEDURE, Some(ALICE), body).await.unwrap_or_else(|failure| panic!("{body}: {failure}"))
    }

    pub(super) async fn failure(&self, body: &str) -> ScriptFailure {
        match self.run_as(PROCEDURE, Some(ALICE), body).await {
            Err(failure) => failure,
            Ok(value) => panic!("{body}: {value}"),
        }
    }

    /// Submits an upsert from the network, with the given rev.
    pub(super) async fn event(&self, uri: &str, value: &Value, rev_micros: u64) {
        let text = value.to_string();
        let inspected = record::inspect(text.as_bytes()).unwrap();
        let rev = belvedere_protocol::atproto::Tid::new(rev_micros, 3).unwrap();
        let (cid, refs) = (inspected.cid.ok(), inspected.refs);
        let (text, validity) = (text.into(), Validity::Unchecked);
        let record = Some(CheckedRecord { text, cid, cid_verified: true, refs, validity });
        let change = Change { uri: RecordUri::parse(uri).unwrap(), rev, record };
        self.stream.writer().submit(change).await.unwrap();
    }

    pub(super) async fn row(&self, uri: &str) -> Option<FullRecordRow> {
        get_full(&self.db, &RecordUri::parse(uri).unwrap()).await.unwrap()
    }

    pub(super) async fn value(&self, uri: &str) -> Option<Value> {
        self.row(uri).await.map(|full| serde_json::from_slice(&full.row.record).unwrap())
    }

    pub(super) async fn rev(&self, uri: &str) -> Option<u64> {
        store::records::latest_rev(&self.db, &RecordUri::parse(uri).unwrap()).await.unwrap()
    }
}

/// Makes two tests of one: `name::sqlite` and `name::postgres`.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            #[tokio::test]
            async fn sqlite() {
                super::$name(super::super::Stage::sqlite().await).await;
            }

            #[tokio::test]
            async fn postgres() {
                super::$name(super::super::Stage::postgres().await).await;
            }
        })*
    };
}
use on_both;
