//! Tests of the answers that scripts end with: `error({ status = …, error = …, message = … })`.

use http::StatusCode;
use serde_json::{Value, json};

use super::{FailureKind, Stage};
use crate::scripts::{FailureAnswer, ScriptFailure};

/// Status and body of the answer that a failure has, if the script raised one.
fn raised(failure: &ScriptFailure) -> Option<(StatusCode, Value)> {
    match failure.answer.as_deref() {
        Some(FailureAnswer::Raised(answer)) => {
            Some((answer.status, serde_json::from_slice(&answer.body).unwrap()))
        }
        _ => None,
    }
}

const NOT_FOUND: &str = "{ status = 404, error = 'NotFound', message = 'no such list' }";

#[tokio::test]
async fn a_script_ends_with_a_status_wherever_it_raises_it() {
    let stage = Stage::set().await;
    let expected = (StatusCode::NOT_FOUND, json!({ "error": "NotFound", "message": "no such list" }));
    for body in [
        format!("error({NOT_FOUND})"),
        format!("return error({NOT_FOUND}, 2)"),
        format!("local function deep(n) if n == 0 then error({NOT_FOUND}) end deep(n - 1) end deep(50)"),
        format!("coroutine.wrap(function() error({NOT_FOUND}) end)()"),
        format!(
            "local ok, e = coroutine.resume(coroutine.create(function() error({NOT_FOUND}) end)) error(e)"
        ),
        format!("local ok, e = pcall(error, {NOT_FOUND}) error(e)"),
        format!("local ok, e = pcall(error, {NOT_FOUND}) assert(ok, e)"),
        format!("table.sort({{ 2, 1 }}, function() error({NOT_FOUND}) end)"),
        format!("return setmetatable({{}}, {{ __index = function() error({NOT_FOUND}) end }}).x"),
        format!(
            "do local x <close> = setmetatable({{}}, {{ __close = function() end }}) error({NOT_FOUND}) end"
        ),
        "error({ status = 404.0, error = 'NotFound', message = 'no such list', more = print })".to_owned(),
        format!("error(setmetatable({NOT_FOUND}, {{ __tostring = function() return 'x' end }}))"),
    ] {
        let failure = stage.handle(&body).await.unwrap_err();
        assert_eq!(raised(&failure).as_ref(), Some(&expected), "{body}: {failure}");
        assert!(failure.is_intended() && !failure.is_retryable(), "{body}");
        assert_eq!(
            (failure.kind, failure.line, failure.fault),
            (FailureKind::Runtime, Some(1), None),
            "{body}"
        );
    }
    let at_load = stage.run(&format!("error({NOT_FOUND})")).await.unwrap_err();
    assert_eq!(raised(&at_load), Some(expected));
    let without = stage.handle("error({ status = 429, error = 'RateLimited' })").await.unwrap_err();
    assert_eq!(raised(&without), Some((StatusCode::TOO_MANY_REQUESTS, json!({ "error": "RateLimited" }))));
}

#[tokio::test]
async fn a_caught_status_is_an_ordinary_table() {
    let stage = Stage::set().await;
    let seen = stage
        .handle(&format!("local ok, e = pcall(error, {NOT_FOUND}) return {{ ok, e.status, e.error }}"))
        .await;
    assert_eq!(seen.unwrap(), json!([false, 404, "NotFound"]));
    let later = stage.handle(&format!("pcall(error, {NOT_FOUND}) error('mine')")).await.unwrap_err();
    assert_eq!((raised(&later), later.message.ends_with("mine")), (None, true));
}

#[tokio::test]
async fn other_tables_are_failures_that_say_why() {
    let stage = Stage::set().await;
    for (error, reason) in [
        ("{ status = 500, error = 'X' }", "status must be an integer from 400 to 499"),
        ("{ status = 200, error = 'X' }", "status must be an integer from 400 to 499"),
        ("{ status = '404', error = 'X' }", "status must be an integer from 400 to 499"),
        ("{ status = 404.5, error = 'X' }", "status must be an integer from 400 to 499"),
        ("{ status = 0/0, error = 'X' }", "status must be an integer from 400 to 499"),
        ("{ status = 404 }", "error must be a string"),
        ("{ status = 404, error = 7 }", "error must be a string"),
        ("{ status = 404, error = '' }", "error must have 1 to 128 bytes"),
        ("{ status = 404, error = ('x'):rep(200) }", "error must have 1 to 128 bytes"),
        ("{ status = 404, error = 'a\\0b' }", "error must not contain control characters"),
        ("{ status = 404, error = 'X', message = {} }", "message must be a string"),
    ] {
        let failure = stage.handle(&format!("error({error})")).await.unwrap_err();
        assert_eq!((raised(&failure), failure.is_intended()), (None, false), "{error}");
        assert!(failure.message.contains(&format!("is no answer: {reason}")), "{error}: {failure}");
        assert!(failure.message.starts_with(super::TRIGGER) && failure.line == Some(1), "{error}: {failure}");
    }
    for error in
        ["{ error = 'X', message = 'y' }", "setmetatable({}, { __index = { status = 404, error = 'X' } })"]
    {
        let failure = stage.handle(&format!("error({error})")).await.unwrap_err();
        assert!(raised(&failure).is_none() && !failure.message.contains("no answer"), "{error}: {failure}");
    }
}

#[tokio::test]
async fn a_fault_with_a_status_is_none() {
    let stage = Stage::set().await;
    let failure = stage
        .handle("local ok, e = pcall(db.get, 'x') e.status, e.error = 404, 'X' error(e)")
        .await
        .unwrap_err();
    assert_eq!((raised(&failure), failure.answer), (None, None));
}

#[tokio::test]
async fn a_message_of_megabytes_is_cut() {
    let stage = Stage::set().await;
    let failure = stage
        .handle("error({ status = 400, error = 'InvalidRequest', message = ('é'):rep(1 << 20) })")
        .await
        .unwrap_err();
    let (status, body) = raised(&failure).unwrap();
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let message = body["message"].as_str().unwrap();
    assert!(message.len() < 2_100 && message.ends_with("é…"), "{} bytes", message.len());
}
