//! A PLC directory with the accounts that a test creates, and service tokens signed by these accounts.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use belvedere_base::random::Random;
use belvedere_protocol::crypto::{Algorithm, PrivateKey, PublicKey};
use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::plc_operations::OperationLog;

type Documents = Arc<Mutex<HashMap<String, Value>>>;

/// The running directory.
pub struct Plc {
    address: SocketAddr,
    documents: Documents,
    log: OperationLog,
    is_down: Arc<AtomicBool>,
}

/// An account: its DID and signing key.
#[derive(Clone)]
pub struct Person {
    pub did: String,
    key: Arc<PrivateKey>,
    alg: &'static str,
}

impl Plc {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let (documents, log) = (Documents::default(), OperationLog::default());
        let is_down = Arc::<AtomicBool>::default();
        let (known, operations, down) = (Arc::clone(&documents), log.clone(), Arc::clone(&is_down));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (known, operations, down) = (Arc::clone(&known), operations.clone(), Arc::clone(&down));
                let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                    let (known, operations, down) =
                        (Arc::clone(&known), operations.clone(), Arc::clone(&down));
                    async move {
                        if down.load(Ordering::Relaxed) {
                            let mut response = Response::new(Full::default());
                            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                            return Ok::<_, Infallible>(response);
                        }
                        Ok(handle(&known, &operations, request).await)
                    }
                });
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, documents, log, is_down }
    }

    /// Answers every request with 503, or not any more.
    pub fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Relaxed);
    }

    /// The operations of DIDs, and faults.
    pub fn operations(&self) -> &OperationLog {
        &self.log
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets the PDS of a DID.
    pub fn host(&self, did: &str, pds: &str) {
        let mut documents = self.documents.lock().expect("no test panics here");
        let document = documents.entry(did.to_owned()).or_insert_with(|| json!({ "id": did }));
        document["service"] = json!([{ "id": "#atproto_pds", "type": "AtprotoPersonalDataServer",
            "serviceEndpoint": pds }]);
    }

    /// Sets the names of a DID that has a document.
    pub fn also_known_as(&self, did: &str, names: &Value) {
        let mut documents = self.documents.lock().expect("no test panics here");
        documents.get_mut(did).expect("the DID has a document")["alsoKnownAs"] = names.clone();
    }

    /// Sets the address and the key of a labeler.
    pub fn labeler(&self, did: &str, endpoint: &str, key: &PublicKey) {
        let document = json!({
            "id": did,
            "verificationMethod": [{ "id": format!("{did}#atproto_label"), "type": "Multikey", "controller": did,
                "publicKeyMultibase": key.to_multikey() }],
            "service": [{ "id": "#atproto_labeler", "type": "AtprotoLabeler", "serviceEndpoint": endpoint }],
        });
        self.documents.lock().expect("no test panics here").insert(did.to_owned(), document);
    }

    /// Sets the key for the spaces of an authority in the document of a DID that has one.
    pub fn space_key(&self, did: &str, key: &PublicKey) {
        let method = json!({ "id": format!("{did}#atproto_space"), "type": "Multikey", "controller": did,
            "publicKeyMultibase": key.to_multikey() });
        let mut documents = self.documents.lock().expect("no test panics here");
        let methods = &mut documents.get_mut(did).expect("the DID has a document")["verificationMethod"];
        let methods = methods.as_array_mut().expect("a list");
        methods.retain(|known| known["id"] != method["id"]);
        methods.push(method);
    }

    /// Creates an account with a did:web that this server serves, and a new key.
    pub fn web_person(&self, algorithm: Algorithm) -> Person {
        let person = self.person(&format!("did:web:127.0.0.1%3A{}", self.address.port()), algorithm);
        let mut documents = self.documents.lock().expect("no test panics here");
        let document = documents[&person.did].clone();
        documents.insert(".well-known/did.json".to_owned(), document);
        person
    }

    /// Creates an account with this DID and a new key.
    pub fn person(&self, did: &str, algorithm: Algorithm) -> Person {
        let key = PrivateKey::generate(algorithm, &Random::system());
        let document = json!({
            "id": did,
            "verificationMethod": [{ "id": format!("{did}#atproto"), "type": "Multikey", "controller": did,
                "publicKeyMultibase": key.public().to_multikey() }],
            "service": [{ "id": "#atproto_pds", "type": "AtprotoPersonalDataServer",
                "serviceEndpoint": "https://pds.example" }],
        });
        self.documents.lock().expect("no test panics here").insert(did.to_owned(), document);
        let alg = match algorithm {
            Algorithm::Es256 => "ES256",
            Algorithm::Es256k => "ES256K",
        };
        Person { did: did.to_owned(), key: Arc::new(key), alg }
    }
}

impl Person {
    /// The signing key.
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// A service token for `audience`, valid for a minute; `change` replaces claims.
    pub fn token(&self, audience: &str, change: Value) -> String {
        let now = std::time::UNIX_EPOCH.elapsed().expect("it is later than 1970").as_secs();
        let mut claims = json!({ "iss": self.did, "aud": audience, "exp": now + 60, "iat": now,
            "jti": Random::system().hex(8) });
        claims.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let input = format!("{}.{}", part(&json!({ "alg": self.alg, "typ": "JWT" })), part(&claims));
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(input.as_bytes()));
        format!("{input}.{signature}")
    }
}

async fn handle(
    documents: &Documents,
    log: &OperationLog,
    request: http::Request<hyper::body::Incoming>,
) -> Response<Full<Bytes>> {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let is_operation = request.method() == http::Method::POST || path.ends_with("/log/last");
    if let Some(limited) = is_operation.then(|| log.limited()).flatten() {
        return limited;
    }
    if let Some(did) = path.strip_suffix("/log/last") {
        return answer(log.last(did));
    }
    if request.method() == http::Method::POST {
        let body = request.into_body().collect().await.expect("a whole request").to_bytes();
        return match log.submit(&path, &body) {
            Ok(document) => {
                documents.lock().expect("no test panics here").insert(path, document);
                Response::new(Full::new(Bytes::from_static(b"OK")))
            }
            Err(message) => {
                let body = json!({ "message": message }).to_string();
                let mut response = Response::new(Full::new(Bytes::from(body)));
                *response.status_mut() = StatusCode::BAD_REQUEST;
                response
            }
        };
    }
    let document = documents.lock().expect("no test panics here").get(&path).cloned();
    answer(document)
}

fn answer(document: Option<Value>) -> Response<Full<Bytes>> {
    let (status, body) = match document {
        Some(document) => (StatusCode::OK, document),
        None => (StatusCode::NOT_FOUND, json!({ "message": "DID not registered" })),
    };
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    response
}
