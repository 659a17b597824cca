//! The meaning of answers, missing answers and failed look-ups.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;

use super::*;

const NOW: Timestamp = Timestamp(1_700_000_000_000_000);

fn of(status: u16, headers: &[(&'static str, &'static str)], body: &'static str) -> Failure {
    let mut response = FetchedResponse {
        status: StatusCode::from_u16(status).unwrap(),
        headers: HeaderMap::new(),
        body: Bytes::from_static(body.as_bytes()),
    };
    for (name, value) in headers {
        response.headers.insert(*name, value.parse().unwrap());
    }
    Failure::of_response(&response, NOW)
}

#[test]
fn a_servers_wish_to_wait_is_read_in_every_form() {
    let waits = [
        (&[("ratelimit-reset", "1700000030")][..], Some(30)),
        (&[("ratelimit-reset", "7")], Some(7)),
        (&[("ratelimit-reset", "1699999000")], Some(1)),
        (&[("ratelimit-reset", "1700090000")], Some(300)),
        (&[("retry-after", "9")], Some(9)),
        (&[("retry-after", "999999999")], Some(300)),
        (&[("retry-after", "-4")], Some(1)),
        (&[("retry-after", "Tue, 14 Nov 2023 22:13:45 GMT")], Some(25)),
        (&[("ratelimit-reset", "3"), ("retry-after", "9")], Some(3)),
        (&[("ratelimit-reset", "soon"), ("retry-after", "9")], Some(9)),
        (&[("retry-after", "soon")], None),
        (&[], None),
    ];
    for (headers, seconds) in waits {
        let failure = of(429, headers, "");
        assert_eq!(failure.kind, ErrorKind::RateLimited);
        assert_eq!(failure.wait, seconds.map(Duration::from_secs), "{headers:?}");
    }
    assert_eq!(of(503, &[("retry-after", "9")], "").wait, Some(Duration::from_secs(9)));
    assert_eq!(of(503, &[], "").wait, None);
    assert_eq!(of(400, &[("retry-after", "9")], "").wait, None);
}

#[test]
fn responses_are_classified_by_status_and_error() {
    use ErrorKind::{Other, PdsServerError, RepoDeactivated, RepoNotFound, RepoTakendown, Timeout};
    for (status, body, kind) in [
        (500, "", PdsServerError),
        (502, "<html>", PdsServerError),
        (500, r#"{"error":"RepoNotFound"}"#, PdsServerError),
        (408, "", Timeout),
        (400, r#"{"error":"RepoNotFound"}"#, RepoNotFound),
        (400, r#"{"error":"InvalidRequest","message":"Could not find repo: did:plc:a"}"#, RepoNotFound),
        (400, r#"{"error":"RepoDeactivated"}"#, RepoDeactivated),
        (400, r#"{"error":"RepoTakendown"}"#, RepoTakendown),
        (400, r#"{"error":"RepoSuspended"}"#, RepoTakendown),
        (400, r#"{"error":"InvalidRequest"}"#, Other),
        (404, "", Other),
    ] {
        assert_eq!(of(status, &[], body).kind, kind, "{status} {body}");
    }
    let status_of = |error: &str| of(400, &[], format!(r#"{{"error":"{error}"}}"#).leak()).status;
    for (error, status) in [
        ("RepoNotFound", Some(AccountStatus::Deactivated)),
        ("RepoDeactivated", Some(AccountStatus::Deactivated)),
        ("RepoTakendown", Some(AccountStatus::TakenDown)),
        ("RepoSuspended", Some(AccountStatus::Suspended)),
        ("InvalidRequest", None),
    ] {
        assert_eq!(status_of(error), status, "{error}");
    }
    assert_eq!(of(500, &[], r#"{"error":"RepoNotFound"}"#).status, None);
    assert_eq!(of(400, &[], r#"{"error":"X","message":"y"}"#).text, "400 Bad Request X: y");
    assert_eq!(of(400, &[], "").text, "400 Bad Request");
    assert_eq!(Failure::other("é".repeat(1000)).text.chars().count(), MAX_TEXT_CHARS);
}

#[test]
fn what_a_server_lacks_is_read_from_its_words_and_its_router() {
    for (status, body, missing) in [
        (400, r#"{"error":"RecordNotFound"}"#, Some(Missing::Record)),
        (404, r#"{"error":"RecordNotFound"}"#, Some(Missing::Record)),
        (
            400,
            r#"{"error":"InvalidRequest","message":"Could not locate record: at://x"}"#,
            Some(Missing::Record),
        ),
        (501, r#"{"error":"MethodNotImplemented"}"#, Some(Missing::Method)),
        (404, r#"{"error":"XRPCNotSupported"}"#, Some(Missing::Method)),
        (404, r#"{"message":"Not Found"}"#, Some(Missing::Path)),
        (404, r#"{"statusCode":404,"error":"Not Found"}"#, Some(Missing::Path)),
        (405, "", Some(Missing::Path)),
        (501, "<html>", Some(Missing::Path)),
        (
            400,
            r#"{"error":"InvalidRequest","message":"Unknown method: com.example.x"}"#,
            Some(Missing::Method),
        ),
        (400, r#"{"error":"InvalidRequest"}"#, None),
        (404, r#"{"error":"RepoNotFound"}"#, None),
        (502, r#"{"error":"RecordNotFound"}"#, None),
        (500, "", None),
        (429, "", None),
    ] {
        assert_eq!(of(status, &[], body).missing, missing, "{status} {body}");
    }
}

#[test]
fn failed_look_ups_are_classified() {
    let unavailable = |error| IdentityError::Unavailable(Arc::new(error));
    for (error, kind) in [
        (IdentityError::NotFound, ErrorKind::DidDocNotFound),
        (IdentityError::Tombstoned, ErrorKind::DidDocNotFound),
        (IdentityError::Invalid("x"), ErrorKind::DidDocInvalid),
        (IdentityError::Unsupported, ErrorKind::DidDocInvalid),
        (unavailable(NetError::Status(StatusCode::FORBIDDEN)), ErrorKind::DidDocForbidden),
        (unavailable(NetError::Status(StatusCode::TOO_MANY_REQUESTS)), ErrorKind::RateLimited),
        (IdentityError::RateLimited(Duration::from_secs(9)), ErrorKind::RateLimited),
        (unavailable(NetError::Status(StatusCode::BAD_GATEWAY)), ErrorKind::PdsServerError),
        (unavailable(NetError::Dns("x".into())), ErrorKind::DnsFailure),
        (unavailable(NetError::Timeout), ErrorKind::Timeout),
        (unavailable(NetError::Transport("x".into())), ErrorKind::ConnectionFailed),
        (unavailable(NetError::Refused("x".into())), ErrorKind::Other),
    ] {
        assert_eq!(Failure::of_identity(&error).kind, kind, "{error}");
    }
    let limited = Failure::of_identity(&IdentityError::RateLimited(Duration::from_secs(9)));
    assert_eq!(limited.wait, Some(Duration::from_secs(9)));
}
