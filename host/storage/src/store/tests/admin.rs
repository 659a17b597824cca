//! Lexicons, scripts, settings, and deleting records.

use super::fixtures::*;
use crate::store::testing::TestDb;

use crate::store::lexicons::{self, Change, NewLexicon, Upserted};
use crate::store::revisions::{self, Subject};
use crate::store::script_revisions;
use crate::store::scripts::{self, NewScript, ScriptPatch};
use crate::store::{Backend, Patch, StoreError, records, settings};
use belvedere_base::clock::Timestamp;

on_both!(
    lexicons_count_their_revisions,
    histories_of_the_last_deleted_scripts_are_kept,
    scripts_are_replaced_and_patched,
    one_of_two_kinds_that_are_saved_at_once_is_refused,
    settings_are_set_and_unset,
    a_collection_is_deleted_in_steps_with_its_references,
    one_record_is_deleted_once,
    the_database_is_described
);

async fn lexicons_count_their_revisions(db: TestDb) {
    let full = NewLexicon {
        id: "com.example.b".into(),
        lexicon_json: r#"{"lexicon":1}"#.into(),
        lexicon_type: "query".into(),
        backfill: true,
        action: Some("create".into()),
        target_collection: Some(NOTE.into()),
        source: "network".into(),
        authority_did: Some("did:plc:a".into()),
        last_fetched_at: Some(Timestamp(5)),
        token_cost: Some(3),
        ..NewLexicon::default()
    };
    let first = lexicons::upsert(&db, &full, Timestamp(10)).await.unwrap();
    assert_eq!(first, Upserted { change: Change::New, revision: 1 });
    let row = lexicons::get(&db, "com.example.b").await.unwrap().unwrap();
    assert_eq!((row.backfill, row.token_cost, row.last_fetched_at), (true, Some(3), Some(Timestamp(5))));

    // Every optional field is overwritten.
    let bare = NewLexicon {
        id: full.id.clone(),
        lexicon_type: "query".into(),
        source: "manual".into(),
        ..NewLexicon::default()
    };
    let second = lexicons::upsert(&db, &bare, Timestamp(20)).await.unwrap();
    assert_eq!(second, Upserted { change: Change::Changed, revision: 2 });
    let row = lexicons::get(&db, "com.example.b").await.unwrap().unwrap();
    assert_eq!((row.revision, row.backfill, row.token_cost, row.target_collection), (2, false, None, None));
    assert_eq!((row.created_at, row.updated_at), (Timestamp(10), Timestamp(20)));

    lexicons::upsert(&db, &NewLexicon { id: "com.example.a".into(), ..bare }, Timestamp(30)).await.unwrap();
    let ids: Vec<_> = lexicons::list(&db).await.unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(ids, ["com.example.a", "com.example.b"]);
    assert!(lexicons::delete(&db, "com.example.b").await.unwrap());
    assert!(!lexicons::delete(&db, "com.example.b").await.unwrap());
    assert_eq!(lexicons::get(&db, "com.example.b").await.unwrap(), None);
    let again = lexicons::upsert(&db, &full, Timestamp(40)).await.unwrap();
    assert_eq!(again, Upserted { change: Change::New, revision: 1 });
}

async fn histories_of_the_last_deleted_scripts_are_kept(db: TestDb) {
    let max = script_revisions::MAX_DELETED;
    for n in 0..max + 2 {
        let script = NewScript {
            id: format!("job.run:{n:04}"),
            saved_by: Some("did:plc:a".into()),
            ..NewScript::default()
        };
        scripts::upsert(&db, &script, Timestamp(n)).await.unwrap();
        assert!(scripts::delete(&db, &script.id, Some("did:plc:b"), Timestamp(1_000 + n)).await.unwrap());
    }
    let deleted = script_revisions::deleted(&db).await.unwrap();
    assert_eq!(deleted.len() as i64, max);
    assert_eq!(
        (deleted[0].script_id.as_str(), deleted[0].saved_by.as_deref()),
        ("job.run:0101", Some("did:plc:b"))
    );
    assert!(
        revisions::list(&db, Subject::Script, "job.run:0001").await.unwrap().is_empty(),
        "deleted before the others"
    );
    assert_eq!(revisions::list(&db, Subject::Script, "job.run:0002").await.unwrap().len(), 2);
}

async fn one_of_two_kinds_that_are_saved_at_once_is_refused(db: TestDb) {
    for n in 0..20 {
        let names = [format!("xrpc.query:com.example.m{n}"), format!("xrpc.view:com.example.m{n}")];
        let [query, view] = [0, 1].map(|at| NewScript {
            id: names[at].clone(),
            unless: Some(names[1 - at].clone()),
            ..NewScript::default()
        });
        let (query, view) = tokio::join!(
            scripts::upsert(&db, &query, Timestamp(n)),
            scripts::upsert(&db, &view, Timestamp(n))
        );
        assert!(query.is_ok() != view.is_ok(), "{query:?} {view:?}");
    }
}

async fn scripts_are_replaced_and_patched(db: TestDb) {
    let script = |id: &str, description: Option<&str>| NewScript {
        id: id.into(),
        script_type: "lua".into(),
        body: "body".into(),
        description: description.map(str::to_owned),
        outbound_xrpcs: Some(vec!["com.example.a".into()]),
        saved_by: None,
        ..NewScript::default()
    };
    let id = "xrpc.query:com.example.list";
    let (row, created) = scripts::upsert(&db, &script(id, Some("text")), Timestamp(10)).await.unwrap();
    assert!(created);
    assert_eq!(row.outbound_xrpcs, Some(vec!["com.example.a".into()]));
    let (row, created) = scripts::upsert(&db, &script(id, None), Timestamp(20)).await.unwrap();
    assert!(!created);
    assert_eq!(
        (row.description.as_deref(), row.created_at, row.updated_at),
        (None, Timestamp(10), Timestamp(20))
    );

    let view = NewScript { unless: Some(id.into()), ..script("xrpc.view:com.example.list", None) };
    let refused = scripts::upsert(&db, &view, Timestamp(25)).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    assert_eq!(scripts::get(&db, &view.id).await.unwrap(), None);

    let patch = async |patch| scripts::patch(&db, id, &patch, Timestamp(30)).await.unwrap().unwrap();
    let row = patch(ScriptPatch { description: Patch::Set("new".into()), ..ScriptPatch::default() }).await;
    assert_eq!((row.description.as_deref(), row.body.as_str()), (Some("new"), "body"));
    assert!(row.outbound_xrpcs.is_some());
    let row = patch(ScriptPatch { body: Some(("other".into(), None)), ..ScriptPatch::default() }).await;
    assert_eq!(
        (row.description.as_deref(), row.body.as_str(), row.outbound_xrpcs.clone()),
        (Some("new"), "other", None)
    );
    let row = patch(ScriptPatch { description: Patch::Clear, ..ScriptPatch::default() }).await;
    assert_eq!((row.description.as_deref(), row.body.as_str()), (None, "other"));
    assert_eq!(scripts::patch(&db, "nobody", &ScriptPatch::default(), Timestamp(1)).await.unwrap(), None);
    assert_eq!(scripts::get(&db, id).await.unwrap(), Some(row));

    scripts::upsert(&db, &script("record.index:com.example.list", None), Timestamp(1)).await.unwrap();
    scripts::upsert(&db, &script("xrpc.query:com.example.other", None), Timestamp(1)).await.unwrap();
    let ids = async |suffix| -> Vec<String> {
        scripts::list(&db, suffix).await.unwrap().into_iter().map(|row| row.id).collect()
    };
    assert_eq!(ids(None).await.len(), 3);
    assert_eq!(ids(Some("com.example.list")).await, ["record.index:com.example.list", id]);
    assert_eq!(ids(Some("example.list")).await, Vec::<String>::new());
    assert_eq!(ids(Some("%")).await, Vec::<String>::new());
    assert!(scripts::delete(&db, id, None, Timestamp(50)).await.unwrap());
    assert!(!scripts::delete(&db, id, None, Timestamp(50)).await.unwrap());
}

async fn settings_are_set_and_unset(db: TestDb) {
    assert_eq!(settings::get(&db, "app_name").await.unwrap(), None);
    settings::set(&db, "app_name", "One", Timestamp(1)).await.unwrap();
    settings::set(&db, "app_name", "Two", Timestamp(2)).await.unwrap();
    settings::set(&db, "a", "", Timestamp(2)).await.unwrap();
    assert_eq!(settings::get(&db, "app_name").await.unwrap().as_deref(), Some("Two"));
    let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
    let costs =
        ["procedure", "proxy", "query"].map(|kind| pair(&format!("rate_limit.default_{kind}_cost"), "1"));
    let mut expected = vec![pair("a", ""), pair("app_name", "Two")];
    expected.extend(costs);
    assert_eq!(settings::list(&db, "").await.unwrap(), expected);
    assert_eq!(settings::list(&db, "a").await.unwrap(), expected[1..]);
    assert_eq!(settings::stored_at(&db, "app_name").await.unwrap(), Some(Timestamp(2)));
    assert_eq!(settings::stored_at(&db, "none").await.unwrap(), None);
    assert!(settings::delete(&db, "app_name").await.unwrap());
    assert!(!settings::delete(&db, "app_name").await.unwrap());
}

async fn a_collection_is_deleted_in_steps_with_its_references(db: TestDb) {
    let all: Vec<_> = (0..4_500)
        .map(|n| put_with_refs(&uri(n % 9, NOTE, &format!("r{n}")), 1, "{}", &["at://x"]))
        .collect();
    apply(&db, 1, all).await;
    apply(&db, 1, vec![put_with_refs(&uri(1, LIKE, "a"), 1, "{}", &["at://x"])]).await;
    assert_eq!(counts(&db).await, [(LIKE.to_owned(), 1), (NOTE.to_owned(), 4_500)]);
    assert_eq!(records::count(&db, &nsid(NOTE), Some(&did(1)), &US).await.unwrap(), 500);
    for (collection, expected) in [(NOTE, 4_500), (NOTE, 0), ("com.example.unknown", 0)] {
        let deleted = records::delete_collection(&db, &nsid(collection)).await;
        assert!(deleted.records == expected && deleted.end.is_ok(), "{deleted:?}");
    }
    assert_eq!(counts(&db).await, [(LIKE.to_owned(), 1)]);
    assert_eq!(refs(&db).await.len(), 1);
    // Deleting leaves no tombstones, so a backfill can restore the records.
    assert_eq!(apply(&db, 2, vec![put(&uri(1, NOTE, "r1"), 1, "{}")]).await.inserted, 1);
}

async fn one_record_is_deleted_once(db: TestDb) {
    let a = uri(1, NOTE, "a");
    assert!(!records::delete(&db, &a).await.unwrap());
    apply(&db, 1, vec![put(&a, 1, "{}")]).await;
    assert!(records::delete(&db, &a).await.unwrap());
    assert!(!records::delete(&db, &a).await.unwrap());
    assert_eq!(get(&db, &a).await, None);
}

async fn the_database_is_described(db: TestDb) {
    db.ping().await.unwrap();
    assert_eq!(db.max_connections(), 4);
    let server = db.server_max_connections().await.unwrap();
    assert_eq!(server.is_some(), db.backend() == Backend::Postgres);
    assert_eq!(db.pending_migrations().await.unwrap(), 0);
    db.migrate().await.unwrap();
    db.close().await;
    assert!(matches!(db.ping().await, Err(StoreError::Unavailable(_))));
}
