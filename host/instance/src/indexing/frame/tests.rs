use proptest::prelude::*;

use super::*;

const CREATE: &str = r#"{"did":"did:plc:a","time_us":7,"cursor":3,"kind":"commit","commit":{"rev":"3mptbypluud2a",
    "operation":"create","collection":"app.example.note","rkey":"k","record":{"$type":"app.example.note","n":[1, 2]},
    "cid":"bafy"},"new":{"x":1}}"#;

fn event(text: &str) -> Event<'_> {
    parse(text.as_bytes()).unwrap().into_event().unwrap()
}

fn commit(text: &str) -> Commit<'_> {
    match event(text).kind {
        EventKind::Commit(commit) => commit,
        other => panic!("not a commit: {other:?}"),
    }
}

#[test]
fn keeps_the_record_as_it_was_written() {
    let c = commit(CREATE);
    assert_eq!(c.record, Some(r#"{"$type":"app.example.note","n":[1, 2]}"#));
    assert_eq!((c.action, &*c.collection, &*c.rkey), (RecordAction::Create, "app.example.note", "k"));
    assert_eq!(c.cid, Some("\"bafy\""));
    assert!(matches!(c.rev, Cow::Borrowed(_)), "nothing is copied");
}

#[test]
fn a_null_record_is_no_record() {
    let c = commit(
        r#"{"did":"d","time_us":1,"kind":"commit","commit":{"operation":"update","record":null,"cid":null}}"#,
    );
    assert_eq!((c.record, c.cid), (None, None));
}

#[test]
fn unknown_kinds_and_operations_are_other() {
    for text in [
        r#"{"did":"d","time_us":1,"kind":"merge","merge":{}}"#,
        r#"{"did":"d","time_us":1}"#,
        r#"{"did":"d","time_us":1,"kind":"commit"}"#,
        r#"{"did":"d","time_us":1,"kind":"commit","commit":{"operation":"merge"}}"#,
        r#"{"did":"d","time_us":1,"kind":"account"}"#,
    ] {
        assert!(matches!(event(text).kind, EventKind::Other), "{text}");
    }
}

#[test]
fn account_without_active_is_inactive() {
    let event = event(r#"{"did":"d","time_us":1,"kind":"account","account":{"status":"takendown"}}"#);
    assert!(
        matches!(event.kind, EventKind::Account(Account { active: false, status: Some(s), time: None }) if s == "takendown")
    );
}

/// A message of `subscribeEvents`.
fn message(kind: &str, fields: &str) -> String {
    format!(
        r#"{{"$type":"message","payload":{{"$type":"network.bsky.jetstream.subscribeEvents#{kind}","seq":5,
        "did":"did:plc:a","time":"2026-05-01T12:00:00.123456Z"{fields}}}}}"#
    )
}

#[test]
fn messages_of_the_second_protocol_are_the_same_events() {
    let commit = r#","rev":"3mptbypluud2a","operation":"update","collection":"app.example.note","rkey":"k",
        "record":{"n":[1, 2]},"cid":"bafy""#;
    let text = message("commit", commit);
    let Event { did, time_us, kind: EventKind::Commit(c) } = event(&text) else { panic!("a commit") };
    assert_eq!((&*did, time_us), ("did:plc:a", Timestamp::parse("2026-05-01T12:00:00.123456Z").unwrap().0));
    assert_eq!(
        (c.action, &*c.rev, &*c.collection),
        (RecordAction::Update, "3mptbypluud2a", "app.example.note")
    );
    assert_eq!((c.record, c.cid), (Some(r#"{"n":[1, 2]}"#), Some("\"bafy\"")));
    let body = |kind, fields| format!("{:?}", event(&message(kind, fields)).kind);
    assert_eq!(body("identity", r#","identity":{}"#), "Identity");
    assert_eq!(body("sync", r#","sync":{"rev":"x"}"#), "Sync");
    let account = body("account", r#","account":{"active":false,"status":"deleted","time":"x"}"#);
    assert_eq!(account, r#"Account(Account { active: false, status: Some("deleted"), time: Some("x") })"#);
    for bad in [message("sync", "").replace("2026-", "x"), r#"{"$type":"message"}"#.to_owned()] {
        assert!(parse(bad.as_bytes()).is_err(), "{bad}");
    }
}

#[test]
fn what_a_server_says_of_the_stream_is_no_event_and_no_error() {
    let info = r#"{"$type":"message","payload":{"$type":"network.bsky.jetstream.subscribeEvents#info",
        "name":"OutdatedCursor","message":"the cursor was moved"}}"#;
    let error = r#"{"$type":"error","error":"ConsumerTooSlow","message":"cursor 5"}"#;
    let unknown = r##"{"$type":"message","payload":{"$type":"#progress","seq":5}}"##;
    for (text, is_error, name, message) in [
        (info, false, "OutdatedCursor", "the cursor was moved"),
        (error, true, "ConsumerTooSlow", "cursor 5"),
        (unknown, false, "#progress", ""),
        (r#"{"$type":"ping"}"#, false, "ping", ""),
    ] {
        let Frame::Remark(said) = parse(text.as_bytes()).unwrap() else { panic!("{text}") };
        assert_eq!(said, Remark { is_error, name: name.to_owned(), message: message.to_owned() });
    }
}

#[test]
fn a_sync_event_needs_no_content() {
    for text in [
        r#"{"did":"d","time_us":1,"kind":"sync","sync":{"rev":"x"}}"#,
        r#"{"did":"d","time_us":1,"kind":"sync"}"#,
    ] {
        assert!(matches!(event(text).kind, EventKind::Sync), "{text}");
    }
}

#[test]
fn bytes_that_are_no_event_are_an_error() {
    for bytes in [
        &b""[..],
        b"not json",
        b"[]",
        b"{}",
        b"{\"did\":\"d\"}",
        b"{\"did\":\"d\",\"time_us\":\"1\"}",
        b"{\"did\":\"d\",\"time_us\":1,\"kind\":\"commit\",\"commit\":5}",
        b"\xff\xfe",
        b"{\"did\":\"\xff\",\"time_us\":1}",
        b"{\"did\":\"d\",\"time_us\":99999999999999999999}",
    ] {
        assert!(parse(bytes).is_err(), "{}", String::from_utf8_lossy(bytes));
    }
}

proptest! {
    #[test]
    fn never_panics_on_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&bytes);
    }

    /// A valid frame with one byte changed, or truncated, is parsed or refused; a parsed record is always JSON.
    #[test]
    fn never_panics_on_damaged_frames(at in 0..CREATE.len(), byte in any::<u8>(), cut in any::<bool>()) {
        let mut bytes = CREATE.as_bytes().to_vec();
        if cut { bytes.truncate(at); } else { bytes[at] = byte; }
        if let Ok(Frame::Event(Event { kind: EventKind::Commit(Commit { record: Some(record), .. }), .. })) = parse(&bytes) {
            prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(record).is_ok());
        }
    }
}
