//! A third-party application: it gets DPoP keys from the server, creates sessions with the real PDS, and sends requests
//! with proofs.

use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_protocol::crypto::dpop::{ProofParams, prove};
use belvedere_protocol::crypto::{Algorithm, PrivateKey};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::network::Network;
use crate::pds::Account;
use crate::server::{Server, expect};

pub struct App {
    pub client_key: String,
    pub secret: String,
    pub id: String,
    pub client_id: String,
    pub redirect: String,
    scopes: &'static str,
}

const REDIRECT: &str = "http://127.0.0.1:8080/callback";

/// A user's session with the application on one device.
pub struct Device {
    pub session: String,
    pub token: String,
    /// The DPoP key as the server gave it.
    pub jwk: Value,
    key: PrivateKey,
    client_key: String,
}

/// A new loopback client: its client id, which contains its metadata, and its redirect URI.
pub fn client_id(scopes: &str) -> (String, String) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let redirect = format!("{REDIRECT}/{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let id =
        url::Url::parse_with_params("http://localhost", [("redirect_uri", &*redirect), ("scope", scopes)]);
    (id.unwrap().to_string().replace("localhost/?", "localhost?"), redirect)
}

impl App {
    /// Registers a client. Returns the server's response.
    pub async fn create(server: &Server, admin_key: &str, body: &Value) -> Value {
        let request = server.request(Method::POST, "/admin/api-clients").bearer_auth(admin_key);
        expect(201, request.json(body)).await
    }

    /// Registers a confidential app whose sessions may have these scopes. For the PDS it is a loopback client.
    pub async fn register(server: &Server, admin_key: &str, scopes: &'static str) -> Self {
        let (client_id, redirect) = client_id(scopes);
        let body = json!({
            "name": "app", "client_id_url": client_id, "client_uri": "https://app.example",
            "redirect_uris": [redirect], "scopes": scopes,
        });
        let made = Self::create(server, admin_key, &body).await;
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        let (client_key, secret, id) = (text("client_key"), text("client_secret"), text("id"));
        Self { client_key, secret, id, client_id, redirect, scopes }
    }

    /// Builds a request with the app's credentials.
    pub fn request(&self, server: &Server, method: Method, path: &str) -> RequestBuilder {
        server
            .request(method, path)
            .header("x-client-key", &self.client_key)
            .header("x-client-secret", &self.secret)
    }

    /// Logs a user in on a new device: gets a DPoP key from the server, runs the OAuth flow with the PDS, and registers
    /// the tokens with the server.
    pub async fn log_in(&self, server: &Server, network: &Network, user: &Account, more: Value) -> Device {
        let provisioned =
            expect(201, self.request(server, Method::POST, "/oauth/dpop-keys").json(&json!({}))).await;
        let jwk = &provisioned["dpop_key"];
        let options = json!({ "key": jwk, "scope": self.scopes, "clientId": self.client_id, "redirectUri": self.redirect });
        let tokens = network.oauth(user, options).await;
        let mut body = json!({
            "provision_id": provisioned["provision_id"], "did": user.did, "access_token": tokens["access_token"],
            "refresh_token": tokens["refresh_token"], "scopes": tokens["scope"], "pds_url": user.endpoint(),
            "issuer": tokens["issuer"],
        });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let registered = expect(201, self.request(server, Method::POST, "/oauth/sessions").json(&body)).await;
        assert_eq!(registered["did"], user.did.as_str());
        let scalar = URL_SAFE_NO_PAD.decode(jwk["d"].as_str().unwrap()).unwrap();
        Device {
            session: registered["session_id"].as_str().unwrap().to_owned(),
            token: tokens["access_token"].as_str().unwrap().to_owned(),
            jwk: jwk.clone(),
            key: PrivateKey::from_bytes(Algorithm::Es256, &scalar).unwrap(),
            client_key: self.client_key.clone(),
        }
    }
}

impl Device {
    /// Builds a request with the client key and a proof of the user's session.
    pub fn request(&self, server: &Server, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", server.url);
        let proof = ProofParams {
            method: method.as_str(),
            url: url.split('?').next().unwrap(),
            now: Clock::system().now().as_seconds(),
            jti: &Random::system().hex(16),
            access_token: Some(&self.token),
            nonce: None,
        };
        let proof = prove(&self.key, &proof).unwrap();
        server
            .request(method, path)
            .header("authorization", format!("DPoP {}", self.token))
            .header("dpop", proof)
            .header("x-client-key", &self.client_key)
    }
}
