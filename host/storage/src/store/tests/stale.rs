//! Changes of scripts and lexicons that are based on an earlier revision.

use crate::store::lexicons::{self, Identical, NewLexicon};
use crate::store::revisions::{self, Subject};
use crate::store::scripts::{self, NewScript, ScriptPatch};
use crate::store::testing::TestDb;
use crate::store::{Patch, StoreError};
use belvedere_base::clock::Timestamp;

on_both!(
    a_script_is_changed_from_its_newest_revision_only,
    a_lexicon_is_changed_from_its_newest_revision_only,
    one_of_two_changes_of_the_same_revision_is_stored
);

const ID: &str = "xrpc.query:com.example.list";

fn script(body: &str, by: &str, based_on: Option<i64>) -> NewScript {
    NewScript {
        id: ID.to_owned(),
        body: body.to_owned(),
        saved_by: Some(by.to_owned()),
        based_on,
        ..NewScript::default()
    }
}

/// The text of a refusal.
fn stale<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Stale(stale)) => stale.to_string(),
        other => panic!("{other:?}"),
    }
}

async fn a_script_is_changed_from_its_newest_revision_only(db: TestDb) {
    let save = async |script| scripts::upsert(&db, &script, Timestamp(1_000_000)).await;
    let text = stale(save(script("1", "did:plc:a", Some(3))).await);
    assert!(text.contains("does not exist") && text.contains("revision 3"), "{text}");
    assert_eq!(scripts::get(&db, ID).await.unwrap(), None);

    assert_eq!(save(script("1", "did:plc:a", Some(0))).await.unwrap().0.revision, 1);
    let text = stale(save(script("2", "did:plc:b", Some(0))).await);
    assert!(text.contains("was created by did:plc:a at 1970-01-01T00:00:01"), "{text}");
    assert_eq!(save(script("2", "did:plc:b", Some(1))).await.unwrap().0.revision, 2);
    let text = stale(save(script("3", "did:plc:a", Some(1))).await);
    assert!(text.contains("was changed by did:plc:b") && text.contains("(revision 2)"), "{text}");

    let patch = |based_on| ScriptPatch {
        description: Patch::Set("new".to_owned()),
        based_on,
        ..ScriptPatch::default()
    };
    let change = async |patch| scripts::patch(&db, ID, &patch, Timestamp(2)).await;
    stale(change(patch(Some(1))).await);
    let row = scripts::get(&db, ID).await.unwrap().unwrap();
    assert_eq!((row.body.as_str(), row.description, row.revision), ("2", None, 2), "nothing is stored");
    assert_eq!(change(patch(Some(2))).await.unwrap().unwrap().revision, 3);
    assert_eq!(change(patch(Some(3))).await.unwrap().unwrap().revision, 3, "the same is no new revision");

    scripts::delete(&db, ID, Some("did:plc:c"), Timestamp(3)).await.unwrap();
    let text = stale(save(script("4", "did:plc:a", Some(3))).await);
    assert!(text.contains("was deleted by did:plc:c"), "{text}");
    assert_eq!(scripts::get(&db, ID).await.unwrap(), None);
    assert_eq!(save(script("4", "did:plc:a", Some(0))).await.unwrap().0.revision, 5);
    assert_eq!(save(script("5", "did:plc:a", None)).await.unwrap().0.revision, 6, "without one it replaces");
}

async fn a_lexicon_is_changed_from_its_newest_revision_only(db: TestDb) {
    let lexicon = |id: &str, text: &str, based_on| NewLexicon {
        id: id.to_owned(),
        lexicon_json: format!("{{\"description\":\"{text}\"}}"),
        lexicon_type: "query".to_owned(),
        source: lexicons::MANUAL.to_owned(),
        saved_by: Some("did:plc:a".to_owned()),
        based_on,
        ..NewLexicon::default()
    };
    let upload =
        async |list: &[NewLexicon]| lexicons::upsert_all(&db, list, Identical::Stays, Timestamp(7)).await;
    let [a, b] = ["com.example.a", "com.example.b"];
    upload(&[lexicon(a, "1", Some(0)), lexicon(b, "1", None)]).await.unwrap();
    let text = stale(upload(&[lexicon(b, "2", Some(1)), lexicon(a, "2", Some(0))]).await);
    assert!(text.contains("the lexicon com.example.a was created by did:plc:a"), "{text}");
    assert_eq!(lexicons::get(&db, b).await.unwrap().unwrap().revision, 1, "all or none");
    let saved = upload(&[lexicon(b, "2", Some(1)), lexicon(a, "2", Some(1))]).await.unwrap();
    assert_eq!([saved[0].revision, saved[1].revision], [2, 2]);
    stale(upload(&[lexicon(a, "2", Some(1))]).await);

    lexicons::delete(&db, a).await.unwrap();
    let text = stale(upload(&[lexicon(a, "3", Some(2))]).await);
    assert!(text.contains("does not exist"), "{text}");
    upload(&[lexicon(a, "3", Some(0))]).await.unwrap();
}

async fn one_of_two_changes_of_the_same_revision_is_stored(db: TestDb) {
    for n in 0..20 {
        // The first round creates the script at once.
        let (left, right) = (format!("{n} left"), format!("{n} right"));
        let (left, right) = (script(&left, "did:plc:a", Some(n)), script(&right, "did:plc:b", Some(n)));
        let (left, right) = tokio::join!(
            scripts::upsert(&db, &left, Timestamp(n)),
            scripts::upsert(&db, &right, Timestamp(n))
        );
        assert!(left.is_ok() != right.is_ok(), "{left:?} {right:?}");
        assert_eq!(scripts::get(&db, ID).await.unwrap().unwrap().revision, n + 1);
    }
    assert_eq!(revisions::list(&db, Subject::Script, ID).await.unwrap().len(), 20);
}
