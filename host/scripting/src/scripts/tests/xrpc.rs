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
