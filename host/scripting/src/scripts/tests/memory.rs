//! The memory of all runs together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use shrike::cbor::Codec;

use super::pool::Gate;
use super::{EngineConfig, FailureKind, Invocation, NOW, Stage, TRIGGER, cache_dir, of_client};
use crate::scripts::{Engine, OutboundHttp, Outcome, ScriptFailure, Services, limits};
use belvedere_base::clock::Clock;
use belvedere_instance::identity::Resolver;
use belvedere_protocol::atproto::Cid;
use belvedere_protocol::trigger::Trigger;
use belvedere_standins::recorder::recorder;
use belvedere_standins::trickle::Trickle;
use belvedere_web::net::testing::loopback;

const MIB: usize = 1 << 20;

/// A reserve and half as much again, of which a tenant may have half: ten runs that do not grow.
const MEMORY: usize = 96 * MIB;

struct Small {
    engine: Engine,
    services: Services,
    gate: Arc<Gate>,
}

impl Small {
    async fn open() -> Self {
        let config = EngineConfig { memory: MEMORY, ..EngineConfig::new(cache_dir()) };
        let (engine, gate) = (Engine::open(config).await.unwrap(), Gate::closed());
        let services = Services { index: gate.index(), ..Stage::set().await.services };
        Self { engine, services, gate }
    }

    async fn run(&self, client: &str, body: &str) -> Result<Outcome, ScriptFailure> {
        let source = format!("function handle() {body} end");
        let script = self.engine.compile(Trigger::parse(TRIGGER).unwrap(), &source).await;
        let caller = of_client(client);
        let invocation = Invocation { caller: Some(&caller), ..Invocation::default() };
        self.engine.run(&script, invocation, &self.services).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_that_need_more_than_there_is_end_one_after_the_other() {
    let small = Small::open().await;
    let large = "local kept = {} for i = 1, 25 do kept[i] = ('x'):rep(1 << 20) .. i end return #kept";
    let ended = join_all((0..4).map(|n| small.run(if n % 2 == 0 { "a" } else { "b" }, large))).await;
    for ended in ended {
        assert_eq!(&ended.unwrap().body[..], b"25");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_without_memory_is_busy_whatever_its_script_catches() {
    let small = Small::open().await;
    // It has ten of the sixteen MiB of its tenant's share, and the reserve.
    let large = "local kept = ('x'):rep(10 << 20) db.count('a.b.c') return #kept";
    let beside = async {
        small.gate.wait_for_runs(1).await;
        let greedy = "while true do pcall(string.rep, 'x', 8 << 20) end";
        let failure = small.run("a", greedy).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Busy, "{failure:?}");
        assert!(failure.message.contains("no memory for the run"), "{failure}");
        assert!(failure.is_retryable());
        let other = tokio::time::timeout(Duration::from_secs(2), small.run("b", "return 1")).await;
        assert_eq!(&other.expect("it does not wait").unwrap().body[..], b"1");
        small.gate.open();
    };
    let (large, ()) = tokio::join!(small.run("a", large), beside);
    assert_eq!(&large.unwrap().body[..], b"10485760");
    let after = small.run("a", "return #('x'):rep(15 << 20)").await.unwrap();
    assert_eq!(&after.body[..], b"15728640", "all of it was released");
}

const ALICE: &str = "did:plc:alice";

/// The directory of DIDs with an account whose PDS is `pds`.
async fn resolver(pds: SocketAddr) -> Resolver {
    let service = json!({ "id": "#atproto_pds", "type": "AtprotoPersonalDataServer",
        "serviceEndpoint": format!("http://{pds}") });
    let document = json!({ "id": ALICE, "service": [service] }).to_string();
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{document}", document.len());
    let (directory, _) = recorder(move |_| answer.clone()).await;
    let directory = url::Url::parse(&format!("http://{directory}")).unwrap();
    Resolver::new(loopback(), directory, Clock::fixed(NOW))
}

/// A server may announce as much as a run may have, and send a byte a second.
#[tokio::test]
async fn responses_and_blobs_take_memory_as_they_arrive() {
    let Small { engine, mut services, gate } = Small::open().await;
    let cid = Cid::compute(Codec::Raw, b"never complete");
    for (announced, of_the_url) in [
        (limits::BLOB_BYTES, format!("atproto.blob_download('{ALICE}', '{cid}')")),
        (limits::HTTP_BODY_BYTES, "http.get('URL')".to_owned()),
    ] {
        let mut trickle = Trickle::start(announced).await;
        services.web = Some(OutboundHttp::new(loopback(), 8));
        services.resolver = Some(resolver(trickle.address()).await);
        let small = Small { engine: engine.clone(), services: services.clone(), gate: gate.clone() };
        let call = of_the_url.replace("URL", &format!("http://{}/", trickle.address()));
        let body =
            format!("local ok, fault = pcall(function() return {call} end) return {{ ok, fault.code }}");
        let memory = engine.memory();
        let trickles = async {
            trickle.requested().await;
            let before = memory.used();
            assert!(before < 2 * MIB, "{call}: {before} bytes before anything has arrived");
            for arrived in 1..=2 {
                trickle.send(MIB).await;
                // A part of it needs no memory.
                memory.until_used(before + arrived * MIB - MIB / 2).await;
                let held = memory.used() - before;
                assert!(held <= arrived * MIB + MIB / 2, "{call}: {held} bytes for {arrived} MiB");
            }
            trickle.end();
        };
        let (ended, ()) = tokio::join!(small.run("a", &body), trickles);
        let ended: Value = serde_json::from_slice(&ended.unwrap().body).unwrap();
        assert_eq!(ended, json!([false, "unavailable"]), "{call}");
        assert_eq!(memory.used(), 0, "{call}");
    }
}
