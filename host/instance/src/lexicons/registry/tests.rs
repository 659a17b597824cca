use belvedere_standins::database::Database;

use belvedere_base::clock::Timestamp;

use super::*;

fn lexicon(id: &str, kind: LexiconKind) -> Lexicon {
    Lexicon {
        id: Nsid::try_from(id).unwrap(),
        kind,
        target_collection: None,
        action: ProcedureAction::default(),
        token_cost: None,
    }
}

#[test]
fn only_record_lexicons_are_tracked_and_in_order() {
    let registry = Registry::with([
        lexicon("com.example.note", LexiconKind::Record),
        lexicon("com.example.list", LexiconKind::Query),
        lexicon("com.example.like", LexiconKind::Record),
    ]);
    let snapshot = registry.snapshot();
    let tracked: Vec<&str> = snapshot.tracked().iter().map(Nsid::as_str).collect();
    assert_eq!(tracked, ["com.example.like", "com.example.note"]);
    assert!(snapshot.is_tracked("com.example.note"));
    assert!(!snapshot.is_tracked("com.example.list"));
    assert!(registry.get("com.example.list").is_some());
    assert!(registry.get("com.example.other").is_none());
}

#[test]
fn subscribers_are_notified_only_when_collections_change() {
    let registry = Registry::with([lexicon("com.example.note", LexiconKind::Record)]);
    let mut subscriber = registry.subscribe();
    subscriber.mark_unchanged();
    registry.replace(Snapshot::new([
        lexicon("com.example.note", LexiconKind::Record),
        lexicon("com.example.list", LexiconKind::Query),
    ]));
    assert!(!subscriber.has_changed().unwrap());
    registry.replace(Snapshot::default());
    assert!(subscriber.has_changed().unwrap());
    assert!(subscriber.borrow().is_nothing());
}

#[tokio::test]
async fn lexicons_are_compiled_only_after_a_change() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let db = Db::open(&database.url, 4).await.unwrap();
        db.migrate().await.unwrap();
        let registry = Registry::default();
        let mut compiled = registry.snapshot();
        let mut has_changed = async || {
            registry.reload(&db).await.unwrap();
            !Arc::ptr_eq(&registry.snapshot(), &std::mem::replace(&mut compiled, registry.snapshot()))
        };
        assert!(!has_changed().await, "there is none");
        let mut lexicon = NewLexicon {
            id: "com.example.list".to_owned(),
            lexicon_json: r#"{"lexicon":1,"id":"com.example.list","defs":{}}"#.to_owned(),
            lexicon_type: "query".to_owned(),
            source: store::lexicons::NETWORK.to_owned(),
            ..NewLexicon::default()
        };
        store::lexicons::upsert(&db, &lexicon, Timestamp(1)).await.unwrap();
        assert!(has_changed().await && !has_changed().await);
        lexicon.token_cost = Some(3);
        store::lexicons::upsert(&db, &lexicon, Timestamp(1)).await.unwrap();
        assert!(has_changed().await && !has_changed().await);
        let mut fetched = store::lexicons::Refreshed {
            id: &lexicon.id,
            revision: 2,
            authority_did: "did:plc:a",
            document: None,
        };
        store::lexicons::refresh(&db, &fetched, Timestamp(2)).await.unwrap();
        assert!(has_changed().await, "another publisher");
        store::lexicons::refresh(&db, &fetched, Timestamp(3)).await.unwrap();
        assert!(!has_changed().await, "only the time of the fetch");
        fetched.document = Some((&lexicon.lexicon_json, "query"));
        store::lexicons::refresh(&db, &fetched, Timestamp(4)).await.unwrap();
        assert!(has_changed().await);
        store::lexicons::delete(&db, &lexicon.id).await.unwrap();
        assert!(has_changed().await);
    }
}
