//! Tests that JSON from a script is measured before the host parses it.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::{Invocation, Stage, account};
use crate::scripts::services::{ActiveLabel, Labels};
use crate::scripts::{CallOutcome, IndexError, Lineage, Xrpc, XrpcError};
use belvedere_base::clock::Clock;
use belvedere_instance::identity::Resolver;
use belvedere_instance::keys::attestation::Attestation;
use belvedere_instance::xrpc::Call;
use belvedere_protocol::crypto::{Algorithm, PrivateKey};
use belvedere_protocol::trigger::Trigger;
use belvedere_web::net::testing::loopback;

/// Panics when a method is called: every call in these tests is refused before that.
struct NoCalls;

impl Xrpc for NoCalls {
    fn call(&self, call: Call, _lineage: Lineage) -> BoxFuture<'_, Result<CallOutcome, XrpcError>> {
        async move { panic!("{} was called with {:?} bytes", call.nsid, call.input.map(|input| input.len())) }
            .boxed()
    }
}

impl Labels for NoCalls {
    fn active(
        &self,
        _subjects: Vec<String>,
    ) -> BoxFuture<'_, Result<HashMap<String, Vec<ActiveLabel>>, IndexError>> {
        async { Ok(HashMap::default()) }.boxed()
    }

    fn issuer(&self) -> Option<belvedere_instance::labels::LabelIssuer> {
        None
    }
}

async fn stage() -> Stage {
    let mut stage = Stage::set().await;
    let key = PrivateKey::from_bytes(Algorithm::Es256k, &[9; 32]).unwrap();
    let attestation = Attestation::new(key, "did:web:x.test#a".to_owned(), "com.example.sig".to_owned());
    let plc = url::Url::parse("http://127.0.0.1:9").unwrap();
    let resolver = Resolver::new(loopback(), plc, Clock::fixed(super::NOW));
    stage.services = stage.services.with_xrpc(Arc::new(NoCalls)).with_atproto(
        resolver,
        Arc::new(NoCalls),
        Arc::new(attestation),
    );
    stage
}

/// 6 MB of `[],` from a few kilobytes of Lua: lists of the same list. At 16 MiB the guest itself is out of memory.
const MANY: &str = "local e, a, many = toarray({}), toarray({}), toarray({})
    for i = 1, 2000 do a[i] = e end
    for i = 1, 1000 do many[i] = a end\n";

/// The most memory that the process has taken so far.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[tokio::test]
async fn megabytes_of_empty_lists_are_refused_everywhere() {
    let stage = stage().await;
    let run = async |body: &str| {
        let source = format!("function handle() {MANY} {body} end");
        let script =
            stage.engine.compile(Trigger::parse("xrpc.procedure:com.example.do").unwrap(), &source).await;
        let caller = account("did:plc:a");
        let invocation = Invocation { caller: Some(&caller), ..Invocation::default() };
        stage.engine.run(&script, invocation, &stage.services).await
    };
    // Warms up with a run that does everything but the call.
    run("return #json.encode(many)").await.unwrap();
    let before = peak();
    for (call, expected) in [
        (
            "db.query{ collection = 'a.b.c', filter = { field = 'x', value = many } }",
            "filter: larger than 65536 bytes",
        ),
        ("db.raw('SELECT 1', { many })", "params: larger than 1048576 bytes"),
        ("xrpc.query('com.example.get', { x = many })", "params: larger than 65536 bytes"),
        ("xrpc.procedure('com.example.do', many)", "input: larger than 1048576 bytes"),
        ("xrpc.procedure('com.example.do', {}, { x = many })", "params: larger than 65536 bytes"),
        ("atproto.sign({ x = many })", "atproto.sign: larger than 1048576 bytes"),
        ("atproto.verify_signature({ x = many }, {}, 'did:plc:a')", "larger than 1048576 bytes"),
        ("atproto.verify_signature({}, { x = many }, 'did:plc:a')", "larger than 4096 bytes"),
    ] {
        let failure = run(&format!("return {call}")).await.unwrap_err();
        assert!(failure.message.contains(expected), "{call}: {failure}");
        let caught = run(&format!("local ok = pcall(function() return {call} end) return ok")).await;
        assert_eq!(&caught.unwrap().body[..], b"false", "{call}: a script can catch the error");
    }
    let grown = peak().saturating_sub(before);
    // A parsed tree would take 64 MB and more.
    assert!(grown < 40 << 20, "{} MB", grown >> 20);
}

#[tokio::test]
async fn the_json_of_all_calls_together_is_bounded() {
    let stage = stage().await;
    let failure = stage
        .handle(
            "local e, a = toarray({}), toarray({})
             for i = 1, 15000 do a[i] = e end
             for i = 1, 100 do pcall(db.raw, 'SELECT 1', { a }) end
             return db.raw('SELECT 1', { a })",
        )
        .await
        .unwrap_err();
    assert!(failure.message.contains("too much JSON handed over"), "{failure}");
}

#[tokio::test]
async fn names_are_bounded() {
    let stage = stage().await;
    for call in [
        "db.get(long)",
        "db.count(long)",
        "db.count('a.b.c', long)",
        "db.query{ collection = long }",
        "db.query{ collection = 'a.b.c', cursor = long }",
        "db.query{ collection = 'a.b.c', sort = long }",
        "db.backlinks{ collection = 'a.b.c', uri = long }",
        "db.search{ collection = 'a.b.c', field = 'x', query = long }",
        "xrpc.query(long)",
    ] {
        let error =
            stage.handle(&format!("local long = ('x'):rep(1 << 22) return {call}")).await.unwrap_err();
        assert!(error.message.contains("long") && error.message.len() < 1_000, "{call}: {error}");
    }
}
