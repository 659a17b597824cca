//! Tests of the validation of records that scripts write.

use super::Stage;
use serde_json::{Value, json};

use super::{ALICE, FEATURE, NOTE, POST, on_both};
use crate::scripts::failure::{FailureAnswer, FaultCode};

const TID: &str = "3jzfcijpj2z2a";

fn note(fields: &str) -> String {
    format!("Record('{NOTE}', {{ {fields} }})")
}

on_both!(
    an_invalid_record_is_not_written_and_is_the_callers_mistake,
    keys_that_the_lexicon_allows_are_written,
    a_script_may_opt_out
);

async fn an_invalid_record_is_not_written_and_is_the_callers_mistake(stage: Stage) {
    for (record, reason) in [
        (note("text = 7"), "record.text"),
        (note("text = 'x', n = 'one'"), "record.n"),
        (note("text = 'x', n = 10"), "record.n"),
        (note("text = 'x', n = 0.5"), "record.n"),
        (note("text = 'x', tags = { 'a', 7 }"), "record.tags[1]"),
        (note("lang = 'en'"), "text: required field missing"),
        (format!("Record('{POST}', {{ text = 'x' }}):set_rkey('self')"), "\"self\" is not a TID"),
        (format!("Record('{FEATURE}', {{ text = 'x' }}):set_rkey('self')"), "\"self\" is not an NSID"),
        (
            "Record('com.example.profile', { text = 'x' }):set_rkey('other')".to_owned(),
            "have the key \"self\"",
        ),
        (format!("Record('{FEATURE}', {{ text = 'x' }}):set_key_type('any')"), "rkey) is missing"),
    ] {
        for call in [
            format!("{record}:save()"),
            format!("Record.save_all({{ {record} }})"),
            format!("{record}:save_local()"),
        ] {
            if call.contains("set_key_type") && call.contains("save_local") {
                continue;
            }
            let failure = stage.failure(&call).await;
            assert_eq!(failure.fault, Some(FaultCode::BadInput), "{call}: {failure}");
            assert!(failure.message.contains(reason), "{call}: {failure}");
            let Some(FailureAnswer::Own(answer)) = failure.answer.as_deref() else {
                panic!("{call}: {failure:?}")
            };
            let body: Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!((answer.status.as_u16(), &body["error"]), (400, &json!("InvalidRequest")), "{call}");
            assert!(body["message"].as_str().unwrap().contains(reason), "{call}: {body}");
        }
    }
    assert!(stage.pds.asked().is_empty(), "nothing was sent");
    let caught = stage
        .run(&format!(
            "local ok, e = pcall(function() {}:save() end) return {{ ok, e.code, tostring(e) }}",
            note("text = 7")
        ))
        .await;
    assert_eq!((&caught[0], &caught[1]), (&json!(false), &json!("bad-input")));
    assert!(caught[2].as_str().unwrap().contains("Record: invalid record: at record.text"), "{caught}");
    // A list names the record.
    let list = format!("Record.save_all({{ {}, {} }})", note("text = 'x'"), note("text = 7"));
    let failure = stage.failure(&list).await;
    assert!(failure.message.contains("invalid record (2 of 2): at record.text"), "{failure}");
    assert!(stage.pds.asked().is_empty(), "nothing was sent");
}

async fn keys_that_the_lexicon_allows_are_written(stage: Stage) {
    stage
        .run(&format!(
            "Record('{POST}', {{ text = 'x' }}):save()
             Record('{POST}', {{ text = 'x' }}):set_rkey('{TID}'):save()
             Record('{FEATURE}', {{ text = 'x' }}):set_rkey('com.example.one'):save()
             Record('com.example.profile', {{ text = 'x' }}):save()
             return 1"
        ))
        .await;
    let keys: Vec<_> = stage.pds.asked().into_iter().map(|(_, body)| body["rkey"].clone()).collect();
    assert_eq!(keys, [json!(null), json!(TID), json!("com.example.one"), json!("self")]);
}

async fn a_script_may_opt_out(stage: Stage) {
    let answer = stage.run(&format!(
        "local list = {{ Record('{NOTE}', {{ text = 8 }}):set_rkey('a'), Record('{NOTE}', {{ text = 9 }}):set_rkey('b') }}
             Record('{POST}', {{ text = 7 }}):set_rkey('self'):save({{ validate = false }})
             Record.save_all(list, {{ validate = false }})
             Record('{NOTE}', {{ n = 0.5 }}):set_rkey('c'):save_local({{ validate = false }})
             return {{ db.count('{POST}'), db.count('{NOTE}') }}"
    )).await;
    assert_eq!(answer, json!([1, 3]));
    let reason = stage.row(&format!("at://{ALICE}/{POST}/self")).await.unwrap().invalid_reason.unwrap();
    assert!(reason.contains("\"self\" is not a TID") && reason.contains("record.text"), "{reason}");
    // A value that no repo can store is refused in any case.
    let failure = stage.failure(&format!("{}:save({{ validate = false }})", note("text = 0.5"))).await;
    assert_eq!(failure.fault, Some(FaultCode::BadInput), "{failure}");
    for (call, message) in [
        (":save({ valid = false })", "unknown option \"valid\"; the options are validate"),
        (":save({ validate = 'no' })", "Record:save: options: validate: boolean expected, got string"),
        (":save_local(false)", "Record:save_local: options: table expected, got boolean"),
    ] {
        let failure = stage.failure(&format!("{}{call}", note("text = 'x'"))).await;
        assert!(failure.message.contains(message), "{call}: {failure}");
    }
}
