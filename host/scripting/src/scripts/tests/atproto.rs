//! `atproto.*`: accounts, labels, blobs and signatures (lua-runtime.md §12, §15).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::{Invocation, NOW, Stage, account};
use crate::scripts::failure::FaultCode;
use crate::scripts::services::{ActiveLabel, Labels};
use crate::scripts::{IndexError, OutboundHttp, ScriptFailure};
use belvedere_base::clock::Clock;
use belvedere_instance::identity::Resolver;
use belvedere_instance::keys::attestation::Attestation;
use belvedere_protocol::atproto::Cid;
use belvedere_protocol::crypto::{Algorithm, PrivateKey};
use belvedere_standins::recorder::recorder;
use belvedere_web::net::OutboundPolicy;
use belvedere_web::net::testing::{loopback, net};
use shrike::cbor::Codec;

const ALICE: &str = "did:plc:alice";

/// Has a label for every URI that ends in `labelled`, and records its lookups.
#[derive(Default)]
struct FakeLabels(Mutex<Vec<Vec<String>>>);

impl Labels for FakeLabels {
    fn active(
        &self,
        subjects: Vec<String>,
    ) -> BoxFuture<'_, Result<HashMap<String, Vec<ActiveLabel>>, IndexError>> {
        let label = ActiveLabel { src: "did:plc:l".to_owned(), val: "spam".to_owned(), cts: String::new() };
        let labelled = subjects.iter().filter(|uri| uri.ends_with("labelled"));
        let labels = labelled.map(|uri| (uri.clone(), vec![label.clone()])).collect();
        self.0.lock().unwrap().push(subjects);
        async move { Ok(labels) }.boxed()
    }

    fn issuer(&self) -> Option<belvedere_instance::labels::LabelIssuer> {
        None
    }
}

/// A PLC directory and a PDS in one, at the address that the DID documents name.
async fn network(blob: &'static str) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let own = Arc::new(Mutex::new(String::new()));
    let named = Arc::clone(&own);
    let (address, seen) = recorder(move |request| {
        let path = request.split(' ').nth(1).unwrap();
        let (status, kind, body) = match path {
            "/did:plc:alice" => {
                let endpoint = named.lock().unwrap().clone();
                let document = json!({ "id": ALICE, "service": [{ "id": "#atproto_pds",
                    "type": "AtprotoPersonalDataServer", "serviceEndpoint": endpoint }] });
                ("200 OK", "application/json", document.to_string())
            }
            "/did:plc:homeless" => ("200 OK", "application/json", r#"{"id":"did:plc:homeless"}"#.to_owned()),
            "/did:plc:broken" => ("500 Oh", "text/plain", String::new()),
            path if path.contains("getBlob")
                && path.contains("bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku") =>
            {
                ("404 Not Found", "text/plain", String::new())
            }
            path if path.contains("getBlob") => ("200 OK", "image/png", blob.to_owned()),
            _ => ("404 Not Found", "application/json", "{}".to_owned()),
        };
        format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    })
    .await;
    *own.lock().unwrap() = format!("http://{address}");
    (address, seen)
}

/// A stage on that network, with a signing key.
async fn stage(plc: SocketAddr) -> (Stage, Arc<FakeLabels>) {
    let mut stage = Stage::set().await;
    let plc = url::Url::parse(&format!("http://{plc}")).unwrap();
    let resolver = Resolver::new(loopback(), plc, Clock::fixed(NOW));
    let key = PrivateKey::from_bytes(Algorithm::Es256k, &[9; 32]).unwrap();
    let attestation =
        Attestation::new(key, "did:web:x.test#attestation".to_owned(), "com.example.sig".to_owned());
    let fake_labels = Arc::new(FakeLabels::default());
    stage.services = stage.services.with_web(OutboundHttp::new(loopback(), 8)).with_atproto(
        resolver,
        fake_labels.clone(),
        Arc::new(attestation),
    );
    (stage, fake_labels)
}

fn codes(failure: &ScriptFailure) -> (Option<FaultCode>, &str) {
    (failure.fault, failure.message.as_str())
}

#[tokio::test]
async fn the_service_endpoint_comes_from_the_did_document() {
    let (plc, _) = network("").await;
    let (stage, _) = stage(plc).await;
    let source = "local function at(did)
            local ok, value = pcall(atproto.resolve_service_endpoint, did)
            if not ok then return value.code end
            return value == nil and 'nil' or value
        end
        return { at('did:plc:alice'), at('did:plc:homeless'), at('did:plc:nobody'), at('did:plc:broken'),
            at('alice.test'), at('did:example:x') }";
    let answer = stage.handle(source).await.unwrap();
    assert_eq!(answer, json!([format!("http://{plc}"), "nil", "nil", "unavailable", "bad-input", "nil"]));
}

#[tokio::test]
async fn labels_are_read_in_one_lookup() {
    let (plc, _) = network("").await;
    let (stage, fake_labels) = stage(plc).await;
    let label = |uri: &str| json!({ "src": "did:plc:l", "uri": uri, "val": "spam", "cts": "" });
    let uri = "at://did:plc:a/com.example.note/labelled";
    assert_eq!(stage.eval(&format!("atproto.get_labels('{uri}')")).await, json!([label(uri)]));
    assert_eq!(stage.eval("atproto.get_labels('did:plc:a')").await, json!([]));
    fake_labels.0.lock().unwrap().clear();
    let batch = stage.eval(&format!("atproto.get_labels_batch {{ '{uri}', 'did:plc:a', '{uri}' }}")).await;
    assert_eq!(batch, json!({ uri: [label(uri)], "did:plc:a": [] }));
    assert_eq!(*fake_labels.0.lock().unwrap(), [[uri.to_owned(), "did:plc:a".to_owned()]]);
    assert_eq!(stage.eval("atproto.get_labels_batch {}").await, json!({}));
    fake_labels.0.lock().unwrap().clear();
    let in_space = "at://did:plc:a/space/a.b.c/main/did:plc:b/a.b.d/1";
    assert_eq!(stage.eval(&format!("atproto.get_labels '{in_space}'")).await, json!([]));
    assert_eq!(*fake_labels.0.lock().unwrap(), [Vec::<String>::new()], "it is not looked up");
    for (call, code) in [
        ("atproto.get_labels()", FaultCode::BadInput),
        ("atproto.get_labels('alice.test')", FaultCode::BadInput),
        ("atproto.get_labels_batch('did:plc:a')", FaultCode::BadInput),
        ("atproto.get_labels_batch { 1 }", FaultCode::BadInput),
        (
            "local l = {} for i = 1, 101 do l[i] = 'did:plc:a' .. i end atproto.get_labels_batch(l)",
            FaultCode::Limit,
        ),
    ] {
        let failure = stage.handle(call).await.unwrap_err();
        assert_eq!(failure.fault, Some(code), "{call}: {failure:?}");
    }
}

#[tokio::test]
async fn a_blob_is_fetched_checked_and_kept_on_the_host() {
    let (plc, seen) = network("picture").await;
    let (stage, _) = stage(plc).await;
    let cid = Cid::compute(Codec::Raw, b"picture");
    let source = format!(
        "local blob = atproto.blob_download('{ALICE}', '{cid}')
         local ok = pcall(function() blob.handle.size = 7 end)
         return {{ blob.mimeType, blob.size, blob.handle:size(), blob.handle:mime_type(), ok,
             getmetatable(blob.handle) == false, next(blob.handle) == nil }}"
    );
    let answer = stage.handle(&source).await.unwrap();
    assert_eq!(answer, json!(["image/png", 7, 7, "image/png", false, true, true]));
    let path = format!("GET /xrpc/com.atproto.sync.getBlob?did=did%3Aplc%3Aalice&cid={cid} ");
    assert!(seen.lock().unwrap().iter().any(|request| request.starts_with(&path)), "{:?}", seen.lock());

    let source = format!(
        "function handle(input, ctx)
            local blob = require('happyview.atproto').blob_download('{ALICE}', '{cid}')
            local ok, e = pcall(require('happyview.atproto').blob_download, '{ALICE}', 'x')
            return {{ blob.bytes, blob.mime_type, blob.size, e.code, e.message }}
        end"
    );
    let message = "xrpc.query:com.example.get:3: happyview-atproto.blob_download: \"x\" is not a CID";
    assert_eq!(stage.run(&source).await.unwrap(), json!(["picture", "image/png", 7, "BAD_INPUT", message]));

    let other = Cid::compute(Codec::Raw, b"another");
    for (did, cid, code, message) in [
        (ALICE, other.to_string(), FaultCode::Upstream, "does not match its CID"),
        (
            ALICE,
            "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku".to_owned(),
            FaultCode::Upstream,
            "the PDS answered 404",
        ),
        (ALICE, "nonsense".to_owned(), FaultCode::BadInput, "is not a CID"),
        ("alice", cid.to_string(), FaultCode::BadInput, "is not a DID"),
        ("did:plc:nobody", cid.to_string(), FaultCode::Upstream, "there is no"),
        ("did:plc:homeless", cid.to_string(), FaultCode::Upstream, "has no PDS"),
        ("did:plc:broken", cid.to_string(), FaultCode::Unavailable, "can't be resolved"),
    ] {
        let failure = stage.handle(&format!("atproto.blob_download('{did}', '{cid}')")).await.unwrap_err();
        let (got, text) = codes(&failure);
        assert_eq!(got, Some(code), "{failure:?}");
        assert!(text.contains(message), "{failure:?}");
    }
}

#[tokio::test]
async fn signatures_are_for_the_callers_repo_and_need_a_caller() {
    let (plc, _) = network("").await;
    let (stage, _) = stage(plc).await;
    let source = "function handle()
            local note = { ['$type'] = 'com.example.note', text = 'hi', tags = toarray({}) }
            local sig = atproto.sign(note)
            note.signatures = { sig }
            return { sig, atproto.verify_signature(note, sig, caller_did),
                atproto.verify_signature(note, sig, 'did:plc:other'),
                atproto.verify_signature({ text = 'ho' }, sig, caller_did),
                atproto.verify_signature(note, {}, caller_did), atproto.verify_signature(note, 'x', caller_did),
                atproto.verify_signature(note, sig) }
        end";
    let caller = account(ALICE);
    let invocation = Invocation { caller: Some(&caller), ..Invocation::default() };
    let outcome = stage.run_with(source, invocation).await.unwrap();
    let answer: Value = serde_json::from_slice(&outcome.body).unwrap();
    assert_eq!(answer[0]["$type"], "com.example.sig");
    assert_eq!(answer[0]["key"], "did:web:x.test#attestation");
    assert_eq!(
        answer.as_array().unwrap()[1..],
        json!([true, false, false, false, false, false]).as_array().unwrap()[..]
    );

    let failure = stage.handle("atproto.sign({ text = 'hi' })").await.unwrap_err();
    assert_eq!(failure.fault, Some(FaultCode::Forbidden), "{failure:?}");
    let source = "function handle() atproto.sign({ n = 1.5 }) end";
    let failure = stage.run_with(source, invocation).await.unwrap_err();
    assert_eq!(failure.fault, Some(FaultCode::BadInput), "{failure:?}");
}

#[tokio::test]
async fn what_others_publish_leads_to_no_internal_address() {
    // The client may reach the configured PLC directory, and no other address of this machine.
    let (plc, seen) = recorder(|request| {
        let endpoint = if request.starts_with("GET /did:plc:metadata ") {
            "http://169.254.169.254"
        } else {
            "https://10.0.0.1"
        };
        let did = request.split(' ').nth(1).unwrap().trim_start_matches('/');
        let document = json!({ "id": did, "service": [{ "id": "#atproto_pds",
            "type": "AtprotoPersonalDataServer", "serviceEndpoint": endpoint }] });
        let document = document.to_string();
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{document}", document.len())
    })
    .await;
    let directory = url::Url::parse(&format!("http://{plc}")).unwrap();
    let client = net(OutboundPolicy { trusted: vec![directory.clone()], ..OutboundPolicy::default() });
    let mut stage = stage(plc).await.0;
    stage.services.resolver = Some(Resolver::new(client.clone(), directory, Clock::fixed(NOW)));
    stage.services.web = Some(OutboundHttp::new(client, 8));
    for did in ["did:plc:metadata", "did:plc:private"] {
        let call = format!(
            "atproto.blob_download('{did}', 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku')"
        );
        let failure = stage.handle(&call).await.unwrap_err();
        assert_eq!(failure.fault, Some(FaultCode::Forbidden), "{did}: {failure:?}");
    }
    assert_eq!(seen.lock().unwrap().len(), 2);
    for did in ["did:web:127.0.0.1", "did:web:localhost%3A80", "did:web:10.0.0.1", "did:web:2130706433"] {
        let call = format!("return atproto.resolve_service_endpoint('{did}')");
        match stage.handle(&call).await {
            Ok(endpoint) => assert_eq!(endpoint, Value::Null, "{did}"),
            Err(failure) => assert_eq!(failure.fault, Some(FaultCode::Unavailable), "{did}: {failure:?}"),
        }
    }
}

#[tokio::test]
async fn missing_functions_are_nil() {
    let stage = Stage::set().await;
    let absent =
        stage.eval("{ atproto.sign == nil, atproto.verify_signature == nil, atproto.blob_upload == nil }");
    assert_eq!(absent.await, json!([true, true, true]));
    let refused =
        stage.error_of("atproto.spaces.is_member('at://did:plc:a/space/a.b.c/main', 'did:plc:a')").await;
    assert!(refused.ends_with("atproto.spaces.get_access is not available here"), "{refused}");
}
