//! An API client and its users' sessions, for tests. Each header, claim and parameter can be replaced to break a rule.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_protocol::crypto::dpop::token_hash;
use belvedere_protocol::crypto::{Algorithm, PrivateKey, jwk, jws};
use http::Method;
use serde_json::{Value, json};

use super::instance::{Answer, Instance};
use super::oauth_pds::OauthPds;

pub const SCOPES: &str = "atproto repo:com.example.note?action=create&action=update blob:*/*";

/// A registered API client, with its credentials.
pub struct App {
    pub key: String,
    pub secret: Option<String>,
    pub id: String,
}

/// A user's session on one device.
pub struct Device {
    pub id: String,
    pub token: String,
    pub provision_id: String,
    pub client_key: String,
    pub key: PrivateKey,
}

impl App {
    pub async fn confidential(server: &Instance, name: &str) -> Self {
        Self::with(
            server,
            json!({ "name": name, "client_id_url": format!("https://{name}.example/client.json"),
            "client_uri": format!("https://{name}.example"), "redirect_uris": [], "scopes": SCOPES }),
        )
        .await
    }

    pub async fn public(server: &Instance, name: &str) -> Self {
        Self::with(
            server,
            json!({ "name": name, "client_id_url": format!("https://{name}.example/client.json"),
            "client_uri": format!("https://{name}.example"), "redirect_uris": [], "scopes": SCOPES,
            "client_type": "public", "allowed_origins": [format!("https://{name}.example")] }),
        )
        .await
    }

    pub async fn with(server: &Instance, body: Value) -> Self {
        let answer = server.admin(Method::POST, "/admin/api-clients", Some(&body)).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        let text = |name: &str| answer.body[name].as_str().map(str::to_owned);
        Self {
            key: text("client_key").expect("a client key"),
            secret: text("client_secret"),
            id: text("id").expect("an id"),
        }
    }

    /// Sends a POST to `/oauth/…` with the client's own headers and `more`.
    pub async fn post(&self, server: &Instance, path: &str, more: &[(&str, &str)], body: &Value) -> Answer {
        let mut headers = vec![("x-client-key", self.key.as_str())];
        headers.extend(self.secret.iter().map(|secret| ("x-client-secret", secret.as_str())));
        headers.extend(more);
        server.request(Method::POST, path, &headers, Some(body.to_string())).await
    }

    /// Requests a new DPoP key: its provision id and the key itself.
    pub async fn provision(
        &self,
        server: &Instance,
        more: &[(&str, &str)],
        body: &Value,
    ) -> (String, PrivateKey) {
        let answer = self.post(server, "/oauth/dpop-keys", more, body).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        let scalar = URL_SAFE_NO_PAD
            .decode(answer.body["dpop_key"]["d"].as_str().unwrap_or_default())
            .expect("base64url");
        let key = PrivateKey::from_bytes(Algorithm::Es256, &scalar).expect("a key");
        (answer.body["provision_id"].as_str().expect("a provision id").to_owned(), key)
    }

    /// Registers a session of a confidential client; `change` replaces fields of the request body.
    pub async fn device(&self, server: &Instance, pds: &OauthPds, did: &str, change: Value) -> Device {
        let (provision_id, key) = self.provision(server, &[], &json!({})).await;
        let (token, refresh) = pds.grant(did);
        let mut body = json!({ "provision_id": provision_id, "did": did, "access_token": token,
            "refresh_token": refresh, "scopes": SCOPES });
        body.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
        let answer = self.post(server, "/oauth/sessions", &[], &body).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        let id = answer.body["session_id"].as_str().expect("a session id").to_owned();
        Device { id, token, provision_id, client_key: self.key.clone(), key }
    }
}

impl Device {
    /// Header and claims of a valid proof for a path, which may have a query.
    pub fn proof_parts(&self, server: &Instance, method: &Method, path: &str) -> (Value, Value) {
        let header = json!({ "typ": "dpop+jwt", "alg": "ES256", "jwk": jwk::public_jwk(&self.key.public()).expect("a key of P-256") });
        let path = path.split('?').next().unwrap_or_default();
        let claims = json!({
            "htm": method.as_str(), "htu": format!("http://{}{path}", server.address),
            "iat": Clock::system().now().as_seconds(), "jti": Random::system().hex(16),
            "ath": token_hash(&self.token),
        });
        (header, claims)
    }

    pub fn proof(&self, server: &Instance, method: &Method, path: &str) -> String {
        let (header, claims) = self.proof_parts(server, method, path);
        jws::sign_with(&self.key, &header, &claims)
    }

    /// Sends a request with a valid proof.
    pub async fn request(
        &self,
        server: &Instance,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Answer {
        let proof = self.proof(server, &method, path);
        self.send(server, method, path, &proof, body).await
    }

    /// Sends a request with the given proof.
    pub async fn send(
        &self,
        server: &Instance,
        method: Method,
        path: &str,
        proof: &str,
        body: Option<&Value>,
    ) -> Answer {
        let token = format!("DPoP {}", self.token);
        let headers =
            [("x-client-key", self.client_key.as_str()), ("authorization", &token), ("dpop", proof)];
        server.request(method, path, &headers, body.map(ToString::to_string)).await
    }
}
