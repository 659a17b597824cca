//! Delegation tokens and credentials, as an app gets and presents them.

mod attestation;
mod exchange;
mod presenting;

use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::{Algorithm, PrivateKey, jws};
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::r10::http_signature;
use belvedere_protocol::spaces::r10::token::{Delegation, Signer};
use http::Method;
use serde_json::{Value, json};

use super::Group;
use crate::support::instance::Answer;
use crate::support::plc::Person;

/// An app with a key of its own, and no API client.
pub struct Holder {
    pub key: PrivateKey,
}

impl Holder {
    pub fn new() -> Self {
        Self { key: PrivateKey::generate(Algorithm::Es256, &Random::system()) }
    }

    /// The headers with which it presents a token. `audience`: `None` for a delegation token.
    pub fn headers(&self, authorization: &str, audience: Option<&str>) -> Vec<(&'static str, String)> {
        let (input, signature) = http_signature::sign(&self.key, authorization, audience).unwrap();
        let mut headers = vec![
            ("authorization", authorization.to_owned()),
            ("signature-input", input),
            ("signature", signature),
        ];
        headers.extend(audience.map(|audience| (http_signature::AUDIENCE, audience.to_owned())));
        headers
    }

    pub async fn exchange(&self, group: &Group, token: &str, body: Value) -> Answer {
        let headers = self.headers(&format!("Bearer {token}"), None);
        send(group, Method::POST, "space.getSpaceCredential", headers, Some(body)).await
    }

    /// Gets a credential with a delegation token of an account.
    pub async fn credential(&self, group: &Group, person: &Person, space: &str) -> String {
        let answer = self.exchange(group, &delegation(person, space), json!({ "space": space })).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert!(answer.body["expiresAt"].is_string());
        answer.body["credential"].as_str().unwrap().to_owned()
    }

    /// Calls a query with a credential.
    pub async fn get(&self, group: &Group, credential: &str, audience: &str, query: &str) -> Answer {
        let headers = self.headers(&format!("Atproto-Space {credential}"), Some(audience));
        send(group, Method::GET, query, headers, None).await
    }
}

async fn send(
    group: &Group,
    method: Method,
    path: &str,
    headers: Vec<(&'static str, String)>,
    body: Option<Value>,
) -> Answer {
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let path = format!("/xrpc/com.atproto.{path}");
    group.world.server.request(method, &path, &headers, body.map(|body| body.to_string())).await
}

/// A delegation token that the PDS of an account issues.
pub fn delegation(person: &Person, space: &str) -> String {
    let (did, space) = (Did::try_from(person.did.as_str()).unwrap(), SpaceUri::parse(space).unwrap());
    let jti = Random::system().hex(16);
    Delegation::issue((person.key(), Signer::Account), &did, &space, &jti, Clock::system().now()).0
}

/// A token with other members in its header and its claims, signed again. `null` removes one.
pub fn changed(token: &str, key: &PrivateKey, header: &Value, claims: &Value) -> String {
    let jws = jws::parse(token).unwrap();
    let mut parts = [
        json!({ "alg": jws.header.alg.as_str(), "typ": jws.header.typ, "kid": jws.header.kid }),
        jws.claims::<Value>().unwrap(),
    ];
    for (part, changes) in parts.iter_mut().zip([header, claims]) {
        let part = part.as_object_mut().unwrap();
        part.extend(changes.as_object().unwrap().clone());
        part.retain(|_, value| !value.is_null());
    }
    jws::sign_with(key, &parts[0], &parts[1])
}
