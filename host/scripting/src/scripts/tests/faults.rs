//! Tests of faults: what a script sees of one, and what the host sees of one that is not caught.

use serde_json::json;

use super::Stage;
use crate::scripts::failure::FaultCode;

#[tokio::test]
async fn faults_are_objects_that_scripts_can_handle() {
    let stage = Stage::set().await;
    let seen = stage
        .handle(
            "local ok, fault = pcall(db.get, 'x')
             return { ok, fault.code, fault.message, tostring(fault), 'E: ' .. fault, getmetatable(fault) }",
        )
        .await
        .unwrap();
    assert_eq!(
        seen,
        json!([
            false,
            "bad-input",
            "xrpc.query:com.example.get:1: db.get: not the AT URI of a record (at://<did>/<collection>/<rkey>): it does not begin with at://",
            "xrpc.query:com.example.get:1: db.get: not the AT URI of a record (at://<did>/<collection>/<rkey>): it does not begin with at://",
            "E: xrpc.query:com.example.get:1: db.get: not the AT URI of a record (at://<did>/<collection>/<rkey>): it does not begin with at://",
            false
        ])
    );
}

#[tokio::test]
async fn an_uncaught_fault_says_whether_to_try_again() {
    let stage = Stage::set().await;
    for (body, fault, retryable) in [
        ("db.query{ collection = 'com.example.down' }", Some(FaultCode::Unavailable), true),
        (
            "local ok, e = pcall(db.query, { collection = 'com.example.down' }) error(e)",
            Some(FaultCode::Unavailable),
            true,
        ),
        ("db.get('x')", Some(FaultCode::BadInput), false),
        ("db.query(7)", Some(FaultCode::BadInput), false),
        ("pcall(db.query, { collection = 'com.example.down' }) error('mine')", None, false),
        ("error({ code = 'unavailable', answer = 0 })", None, false),
        ("local ok, e = pcall(db.get, 'x') e.code = 'none' e.answer = 7 error(e)", None, false),
    ] {
        let failure = stage.handle(body).await.unwrap_err();
        assert_eq!((failure.fault, failure.is_retryable()), (fault, retryable), "{body}: {failure}");
        assert_eq!(failure.answer, None, "{body}");
    }
}
