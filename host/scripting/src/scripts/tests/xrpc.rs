//! Tests of `xrpc.*` from the script's side: what is passed on, and what is refused before that.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::StatusCode;
use serde_json::{Value, json};

use super::{Invocation, Stage, account, of_client};
use crate::scripts::failure::FaultCode;
use crate::scripts::{CallOutcome, Lineage, Xrpc, XrpcError};
use belvedere_instance::pds::SessionAuthority;
use belvedere_instance::xrpc::{Answer, Call, Caller, Verb};
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_web::fair_share::Tenant;

/// Answers every method, or fails as its name says, and records the calls.
#[derive(Default)]
struct FakeXrpc(Mutex<Vec<(Call, Lineage)>>);

impl Xrpc for FakeXrpc {
    fn call(&self, call: Call, lineage: Lineage) -> BoxFuture<'_, Result<CallOutcome, XrpcError>> {
        let answer = match call.nsid.as_str() {
            "com.example.wrong" => Err(XrpcError::Invalid("com.example.wrong is not a query".to_owned())),
            "com.example.down" => Err(XrpcError::Unavailable("timed out".to_owned())),
            "com.example.large" => Ok(Answer::json(StatusCode::OK, Bytes::from(vec![b'x'; 4 << 20]))),
            _ => Ok(Answer::json(StatusCode::IM_A_TEAPOT, Bytes::from_static(b"\"tea\""))),
        };
        self.0.lock().unwrap().push((call, lineage));
        async move { answer.map(|answer| CallOutcome { answer, is_remote: true }) }.boxed()
    }
}

fn deep(depth: u32) -> Lineage {
    let first = Lineage::root(TriggerKind::Query);
    (0..depth).fold(first, |lineage, _| lineage.nested())
}

async fn stage() -> (Stage, Arc<FakeXrpc>) {
    let mut stage = Stage::set().await;
    let fake_xrpc = Arc::new(FakeXrpc::default());
    stage.services = stage.services.with_xrpc(fake_xrpc.clone());
    (stage, fake_xrpc)
}

#[tokio::test]
async fn calls_are_passed_on_with_their_caller() {
    let (stage, fake_xrpc) = stage().await;
    let source = "function handle()
            local a = xrpc.query('com.example.get', { n = 1, list = { 'x', true }, none = json.null })
            local b = xrpc.procedure('com.example.do', { deep = toarray({}) })
            local c = xrpc.procedure('com.example.do', json.null, {})
            local d = xrpc.procedure('com.example.do')
            return { a.status, a.body, b.status }
        end";
    let lineage = deep(3);
    let authority = SessionAuthority::Session { id: "session-1".into(), client: Some("client-2".into()) };
    let caller =
        Caller { authority: authority.clone(), did: account("did:plc:a").did, ..of_client("client-1") };
    let invocation = Invocation { caller: Some(&caller), lineage: Some(&lineage), ..Invocation::default() };
    let outcome = stage.run_with(source, invocation).await.unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&outcome.body).unwrap(), json!([418, "\"tea\"", 418]));
    let calls = fake_xrpc.0.lock().unwrap().clone();
    for (Call { caller, .. }, lineage) in &calls {
        assert_eq!(
            (caller.did.as_ref(), caller.client.as_deref()),
            (account("did:plc:a").did.as_ref(), Some("client-1"))
        );
        assert_eq!((&caller.authority, &caller.tenant), (&authority, &Tenant::client("client-1")));
        assert_eq!(lineage.depth(), 4);
    }
    let calls: Vec<Call> = calls.into_iter().map(|(call, _)| call).collect();
    let mut params = calls[0].params.clone();
    params.sort();
    let expected = [("list", "x"), ("list", "true"), ("n", "1")];
    let mut expected = expected.map(|(n, v)| (n.to_owned(), v.to_owned()));
    expected.sort();
    assert_eq!((calls[0].verb, &params[..], &calls[0].input), (Verb::Query, &expected[..], &None));
    let inputs: Vec<Option<&[u8]>> = calls[1..].iter().map(|call| call.input.as_deref()).collect();
    assert_eq!(inputs, [Some(&br#"{"deep":[]}"#[..]), Some(b"null"), None]);
}

#[tokio::test]
async fn missing_and_too_large_answers_are_errors() {
    let (stage, _) = stage().await;
    for (call, code, message) in [
        (
            "xrpc.query('com.example.wrong')",
            FaultCode::BadInput,
            "xrpc.query: com.example.wrong is not a query",
        ),
        ("xrpc.query('com.example.down')", FaultCode::Unavailable, "xrpc.query: no answer: timed out"),
        ("xrpc.procedure('com.example.do')", FaultCode::Forbidden, "needs an authenticated caller"),
        (
            "for i = 1, 5 do xrpc.query('com.example.large') end",
            FaultCode::Limit,
            "too many bytes of answers",
        ),
        ("for i = 1, 51 do xrpc.query('com.example.get') end", FaultCode::Limit, "a run may have 50"),
        ("xrpc.query('com.example.get', 'x')", FaultCode::BadInput, "params: table expected"),
        ("xrpc.query('com.example.get', { 'x' })", FaultCode::BadInput, "a table with names"),
        ("xrpc.query({})", FaultCode::BadInput, "nsid: string expected"),
    ] {
        let failure = stage.handle(call).await.unwrap_err();
        assert_eq!(failure.fault, Some(code), "{call}: {failure:?}");
        assert!(failure.message.contains(message), "{call}: {failure:?}");
    }
    let deepest = deep(8);
    let invocation = Invocation { lineage: Some(&deepest), ..Invocation::default() };
    let deep = stage.run_with("function handle() xrpc.query('com.example.get') end", invocation).await;
    assert_eq!(deep.unwrap_err().fault, Some(FaultCode::Limit));
    let without = Stage::set().await.handle("xrpc.query('com.example.get')").await.unwrap_err();
    assert_eq!(without.fault, Some(FaultCode::Forbidden));
}

#[tokio::test]
async fn event_scripts_have_no_caller() {
    let (stage, _) = stage().await;
    let source =
        "function handle() return { xrpc.procedure == nil, xrpc.query('com.example.get').status } end";
    for trigger in ["record.index:com.example.note", "labeler.apply:_actor"] {
        let script = stage.engine.compile(Trigger::parse(trigger).unwrap(), source).await;
        let outcome = stage.engine.run(&script, Invocation::default(), &stage.services).await.unwrap();
        assert_eq!(&*outcome.body, b"[true,418]", "{trigger}");
    }
}

/// Answers a call when as many others have begun as it says.
struct TogetherXrpc(tokio::sync::Barrier);

impl Xrpc for TogetherXrpc {
    fn call(&self, call: Call, _lineage: Lineage) -> BoxFuture<'_, Result<CallOutcome, XrpcError>> {
        async move {
            self.0.wait().await;
            let body = json!({ "n": call.params[0].1 }).to_string();
            Ok(CallOutcome { answer: Answer::json(StatusCode::OK, body.into()), is_remote: true })
        }
        .boxed()
    }
}

#[tokio::test]
async fn queries_are_made_at_the_same_time_and_answered_in_order() {
    let mut stage = Stage::set().await;
    stage.services = stage.services.with_xrpc(Arc::new(TogetherXrpc(tokio::sync::Barrier::new(8))));
    let seen = stage
        .handle(
            "local calls = {}
             for n = 1, 16 do calls[n] = { nsid = 'com.example.get', params = { n = n } } end
             local bodies = {}
             for i, answer in ipairs(xrpc.query_all(calls)) do bodies[i] = answer.status .. answer.body end
             return bodies",
        )
        .await
        .unwrap();
    let expected: Vec<_> = (1..=16).map(|n| format!(r#"200{{"n":"{n}"}}"#)).collect();
    assert_eq!(seen, json!(expected));
}

#[tokio::test]
async fn each_call_of_several_has_its_own_outcome() {
    let (stage, fake_xrpc) = stage().await;
    let seen = stage
        .handle(
            "local all = xrpc.query_all({
               { nsid = 'com.example.get' }, { nsid = 'com.example.down' }, { nsid = 'no' },
               { nsid = 'com.example.get', params = { x = { {} } } }, { nsid = 'com.example.get', params = {} },
             })
             local seen = { #xrpc.query_all({}) }
             for i, one in ipairs(all) do seen[i + 1] = one.status or one.error.code end
             return seen",
        )
        .await
        .unwrap();
    assert_eq!(seen, json!([0, 418, "unavailable", "bad-input", "bad-input", 418]));
    assert_eq!(fake_xrpc.0.lock().unwrap().len(), 3, "calls that were refused were not made");
    for (calls, message) in [
        ("7", "xrpc.query_all: table expected, got number"),
        ("{ 'com.example.get' }", "xrpc.query_all: call 1: table expected, got string"),
        ("{ { nsid = 5 } }", "xrpc.query_all: call 1: nsid: string expected, got number"),
        (
            "{ { nsid = 'a.b.c', params = 'x' } }",
            "xrpc.query_all: call 1: params: table expected, got string",
        ),
        (
            "(function() local t = {} for i = 1, 21 do t[i] = { nsid = 'a.b.c' } end return t end)()",
            "too many calls at once: a run may have 20",
        ),
    ] {
        let error = stage.error_of(&format!("xrpc.query_all({calls})")).await;
        assert!(error.contains(message), "{calls}: {error}");
    }
}
