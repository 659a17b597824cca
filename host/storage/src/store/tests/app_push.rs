//! Pushed apps: all or none.

use crate::store::app_push::{self, AppPush};
use crate::store::lexicons::{self, Change, MANUAL, NewLexicon, Upserted};
use crate::store::scripts::{self, NewScript};
use crate::store::testing::TestDb;
use crate::store::{Db, StoreError};
use belvedere_base::clock::Timestamp;

on_both!(a_push_is_stored_whole_or_not_at_all, a_push_replaces_what_it_was_compared_with);

fn lexicon(id: &str) -> NewLexicon {
    NewLexicon {
        id: id.to_owned(),
        lexicon_json: format!(r#"{{"id":"{id}"}}"#),
        lexicon_type: "query".to_owned(),
        source: MANUAL.to_owned(),
        ..NewLexicon::default()
    }
}

fn script(id: &str, body: &str, based_on: i64) -> NewScript {
    NewScript { id: id.to_owned(), body: body.to_owned(), based_on: Some(based_on), ..NewScript::default() }
}

fn push(lexicons: &[&str], scripts: Vec<NewScript>, deleted_scripts: &[&str]) -> AppPush {
    AppPush {
        lexicons: lexicons.iter().map(|id| lexicon(id)).collect(),
        scripts,
        deleted_scripts: deleted_scripts.iter().map(|id| (*id).to_owned()).collect(),
        pushed_by: "did:plc:a".to_owned(),
        ..AppPush::default()
    }
}

/// The ids of the lexicons, and the bodies of the scripts.
async fn stored(db: &Db) -> (Vec<String>, Vec<String>) {
    let lexicons = lexicons::list(db).await.unwrap().into_iter().map(|row| row.id).collect();
    let scripts = scripts::list(db, None).await.unwrap().into_iter().map(|row| row.body).collect();
    (lexicons, scripts)
}

async fn a_push_is_stored_whole_or_not_at_all(db: TestDb) {
    let all = push(&["com.example.a"], vec![script("lib:a", "a", 0), script("lib:b", "b", 0)], &[]);
    let results = app_push::store(&db, &all, Timestamp(1)).await.unwrap();
    assert_eq!(results, [Upserted { change: Change::New, revision: 1 }]);
    let before = stored(&db).await;
    assert_eq!(before, (vec!["com.example.a".to_owned()], vec!["a".to_owned(), "b".to_owned()]));

    // The last script is refused: it is not new any more, or the method has a view already.
    let stale = vec![script("lib:a", "changed", 1), script("lib:b", "changed", 0)];
    let refused = app_push::store(&db, &push(&["com.example.b"], stale, &[]), Timestamp(2)).await;
    assert!(matches!(refused, Err(StoreError::Stale(_))), "{refused:?}");
    let beside = NewScript { unless: Some("lib:b".to_owned()), ..script("lib:c", "c", 0) };
    let second = push(&["com.example.b"], vec![script("lib:a", "changed", 1), beside], &[]);
    let refused = app_push::store(&db, &second, Timestamp(2)).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    assert_eq!(stored(&db).await, before);

    // A deletion makes room for it.
    let third = AppPush { deleted_scripts: vec!["lib:b".to_owned()], ..second };
    app_push::store(&db, &third, Timestamp(3)).await.unwrap();
    let ids = ["com.example.a", "com.example.b"].map(str::to_owned).to_vec();
    assert_eq!(stored(&db).await, (ids, vec!["changed".to_owned(), "c".to_owned()]));
}

async fn a_push_replaces_what_it_was_compared_with(db: TestDb) {
    let first = push(&[], vec![script("lib:a", "a", 0)], &[]);
    app_push::store(&db, &first, Timestamp(1)).await.unwrap();
    let revision = scripts::get(&db, "lib:a").await.unwrap().unwrap().revision;
    // Another admin saves it after it was compared.
    let other = NewScript { id: "lib:a".to_owned(), body: "of another".to_owned(), ..NewScript::default() };
    scripts::upsert(&db, &other, Timestamp(2)).await.unwrap();
    let late = push(&["com.example.a"], vec![script("lib:a", "late", revision)], &[]);
    let refused = app_push::store(&db, &late, Timestamp(3)).await;
    assert!(matches!(refused, Err(StoreError::Stale(_))), "{refused:?}");
    assert_eq!(stored(&db).await, (vec![], vec!["of another".to_owned()]));
}
