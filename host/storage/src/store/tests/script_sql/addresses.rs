//! Tests of addresses in spaces in scripts' SQL.

use super::*;

on_both!(an_address_in_a_space_is_no_record_but_can_be_a_reference);

async fn an_address_in_a_space_is_no_record_but_can_be_a_reference(db: TestDb) {
    fill(&db).await;
    let note = uri(1, NOTE, "a");
    let space = format!("at://{}/space/com.example.group/main", did(2));
    let in_space = format!("{space}/{}/{NOTE}/a", did(1));
    let naming = put_with_refs(&uri(2, LIKE, "names"), 1, "{}", &[&in_space]);
    apply(&db, 1_700_000_000_200_000, vec![naming]).await;
    for address in [&in_space, &space] {
        for sql in [
            "SELECT rkey FROM records WHERE uri = $1",
            "SELECT uri, cid FROM records WHERE uri = $1",
            "SELECT target_uri FROM record_refs WHERE source_uri = $1",
        ] {
            assert_eq!(rows(&db, sql, &[json!(address)]).await, json!([]), "{sql} {address}");
            let literal = sql.replace("$1", &format!("'{address}'"));
            assert_eq!(rows(&db, &literal, &[]).await, json!([]), "{literal}");
        }
    }
    let sql = "SELECT count(*) AS n FROM records WHERE NOT uri = $1";
    assert_eq!(rows(&db, sql, &[json!(in_space)]).await, json!([{ "n": 3 }]));
    let sql = "SELECT count(*) AS n FROM record_refs f JOIN records r ON r.uri = f.target_uri";
    assert_eq!(rows(&db, sql, &[]).await, json!([{ "n": 0 }]), "the public record {note} is another one");
    let sql = "SELECT source_uri FROM record_refs WHERE target_uri = $1";
    let source = uri(2, LIKE, "names").to_string();
    assert_eq!(rows(&db, sql, &[json!(in_space)]).await, json!([{ "source_uri": source }]));
}
