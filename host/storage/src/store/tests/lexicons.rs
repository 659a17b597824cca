//! Uploads of several lexicons.

use crate::store::lexicon_revisions::MAX_REVISIONS;
use crate::store::lexicons::{self, Change, Identical, LexiconSetting, NewLexicon, Upserted};
use crate::store::revisions::{self, Subject};
use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;

use super::fixtures::*;

on_both!(
    a_list_is_stored_in_its_order_and_equal_lexicons_stay,
    settings_are_kept_by_lexicons_of_the_same_type,
    each_lexicon_of_a_list_has_a_history
);

/// A query with a description.
fn query(id: &str, description: &str) -> NewLexicon {
    NewLexicon {
        id: id.to_owned(),
        lexicon_json: format!(r#"{{"id":"{id}","description":"{description}"}}"#),
        lexicon_type: "query".to_owned(),
        source: lexicons::MANUAL.to_owned(),
        saved_by: Some("did:plc:a".to_owned()),
        ..NewLexicon::default()
    }
}

fn result(change: Change, revision: i64) -> Upserted {
    Upserted { change, revision }
}

async fn a_list_is_stored_in_its_order_and_equal_lexicons_stay(db: TestDb) {
    let upload = async |list: &[NewLexicon], identical| {
        lexicons::upsert_all(&db, list, identical, Timestamp(7)).await.unwrap()
    };
    let (a, b) = (query("com.example.a", r#"é \\ \" \u0001"#), query("com.example.b", "1"));
    let new = upload(&[b.clone(), a.clone()], Identical::Stays).await;
    assert_eq!(new, [result(Change::New, 1), result(Change::New, 1)]);
    assert_eq!(lexicons::get(&db, &a.id).await.unwrap().unwrap().lexicon_json, a.lexicon_json);

    let spaced = NewLexicon { lexicon_json: b.lexicon_json.replace(',', " ,\n"), ..b.clone() };
    let changed = [query("com.example.c", "1"), query("com.example.a", "2"), spaced.clone()];
    let expected = [result(Change::New, 1), result(Change::Changed, 2), result(Change::Unchanged, 1)];
    assert_eq!(upload(&changed, Identical::Stays).await, expected);
    assert_eq!(lexicons::get(&db, &b.id).await.unwrap().unwrap().lexicon_json, b.lexicon_json);
    assert_eq!(upload(&[spaced], Identical::Revises).await, [result(Change::Changed, 2)]);
    let costly = NewLexicon { token_cost: Some(1), ..b };
    assert_eq!(upload(&[costly], Identical::Stays).await, [result(Change::Changed, 3)]);
    assert_eq!(upload(&[], Identical::Stays).await, []);
}

async fn settings_are_kept_by_lexicons_of_the_same_type(db: TestDb) {
    let with_settings = NewLexicon {
        backfill: true,
        action: Some("delete".to_owned()),
        target_collection: Some(NOTE.to_owned()),
        token_cost: Some(3),
        ..query("com.example.a", "1")
    };
    lexicons::upsert(&db, &with_settings, Timestamp(1)).await.unwrap();
    let upload = async |new: &NewLexicon| {
        lexicons::upsert(&db, new, Timestamp(2)).await.unwrap();
        let row = lexicons::get(&db, &new.id).await.unwrap().unwrap();
        (row.backfill, row.action, row.target_collection, row.token_cost)
    };
    let kept = vec![LexiconSetting::Backfill, LexiconSetting::Action, LexiconSetting::TargetCollection];
    let some = NewLexicon { kept: kept.clone(), ..query("com.example.a", "2") };
    assert_eq!(upload(&some).await, (true, Some("delete".to_owned()), Some(NOTE.to_owned()), None));
    let other_type = NewLexicon { lexicon_type: "record".to_owned(), ..some };
    assert_eq!(upload(&other_type).await, (false, None, None, None));
}

async fn each_lexicon_of_a_list_has_a_history(db: TestDb) {
    let ids = ["com.example.a", "com.example.b"];
    for n in 0..MAX_REVISIONS + 2 {
        let list = ids.map(|id| query(id, &n.to_string()));
        lexicons::upsert_all(&db, &list, Identical::Stays, Timestamp(n)).await.unwrap();
    }
    for id in ids {
        let history = revisions::list(&db, Subject::Lexicon, id).await.unwrap();
        assert_eq!((history.len() as i64, history[0].revision), (MAX_REVISIONS, MAX_REVISIONS + 2));
        let last = revisions::get(&db, Subject::Lexicon, id, MAX_REVISIONS + 2).await.unwrap().unwrap();
        assert_eq!(last.text.as_deref(), Some(&*query(id, &(MAX_REVISIONS + 1).to_string()).lexicon_json));
        assert_eq!(last.row.saved_by.as_deref(), Some("did:plc:a"));
    }
    assert!(lexicons::delete(&db, ids[0]).await.unwrap());
    assert_eq!(revisions::list(&db, Subject::Lexicon, ids[0]).await.unwrap(), []);
    assert_eq!(revisions::list(&db, Subject::Lexicon, ids[1]).await.unwrap().len() as i64, MAX_REVISIONS);
}
