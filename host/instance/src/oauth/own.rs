//! The instance as an OAuth client, for logins: one client for each origin of the instance.
//!
//! Authorization servers can't fetch metadata from a loopback origin, so there the instance is a loopback client, whose
//! `client_id` contains the metadata (atproto OAuth, localhost clients). Elsewhere it is a confidential client, whose
//! key all hosts share.

use serde_json::{Value, json};
use url::Url;

use super::{ClientCredentials, OwnKeys};
use belvedere_storage::store::StoreError;

/// The scopes that the instance requests when its users log in.
pub const SCOPES: &str = "atproto transition:generic";

/// The scope that the login with an attached account requests in addition: to change the account's DID document.
pub const IDENTITY_SCOPE: &str = "identity:*";

/// The path of the redirect URI.
pub const CALLBACK: &str = "/auth/callback";

/// The path of the client metadata.
pub const METADATA: &str = "/oauth-client-metadata.json";

/// The instance, as the client of one origin.
#[derive(Clone, Debug)]
pub struct OwnClient {
    pub client_id: String,
    pub redirect_uri: String,
    /// Whether it authenticates with the instance's key.
    pub confidential: bool,
}

impl OwnClient {
    /// The client for an origin of the instance. `scopes` are those that a loopback client declares.
    pub fn of(origin: &str, scopes: &str) -> Self {
        let redirect_uri = format!("{origin}{CALLBACK}");
        let url = Url::parse(origin).ok();
        if url.as_ref().is_none_or(|url| url.scheme() == "https") {
            return Self { client_id: format!("{origin}{METADATA}"), redirect_uri, confidential: true };
        }
        // A loopback redirect URI has an IP address, not a name (RFC 8252 §8.3).
        let redirect_uri = redirect_uri.replacen("//localhost", "//127.0.0.1", 1);
        let params = [("redirect_uri", redirect_uri.as_str()), ("scope", scopes)];
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(params).finish();
        Self { client_id: format!("http://localhost?{query}"), redirect_uri, confidential: false }
    }

    /// The client's credentials for new flows and sessions.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn credentials(&self, keys: &OwnKeys) -> Result<ClientCredentials, StoreError> {
        let client_id = self.client_id.clone();
        if !self.confidential {
            return Ok(ClientCredentials { client_id, key: None });
        }
        Ok(keys.signing().await?.credentials(client_id))
    }

    /// The metadata document. `keys` are the public keys, `texts` the names and links that admins set.
    pub fn metadata(
        &self,
        origin: &str,
        scopes: &str,
        keys: &[Value],
        texts: &[(&str, Option<String>)],
    ) -> Value {
        let mut metadata = json!({
            "client_id": self.client_id,
            "client_uri": origin,
            "application_type": "web",
            "redirect_uris": [self.redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "scope": scopes,
            "dpop_bound_access_tokens": true,
            "token_endpoint_auth_method": "none",
        });
        if self.confidential {
            metadata["token_endpoint_auth_method"] = "private_key_jwt".into();
            metadata["token_endpoint_auth_signing_alg"] = "ES256".into();
            metadata["jwks"] = json!({ "keys": keys });
        }
        for (name, text) in texts {
            if let Some(text) = text {
                metadata[*name] = text.as_str().into();
            }
        }
        metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_loopback_the_client_id_contains_the_metadata() {
        let own = OwnClient::of("http://localhost:3000", SCOPES);
        assert_eq!(own.redirect_uri, "http://127.0.0.1:3000/auth/callback");
        let expected = "http://localhost?redirect_uri=http%3A%2F%2F127.0.0.1%3A3000%2Fauth%2Fcallback\
                        &scope=atproto+transition%3Ageneric";
        assert_eq!((own.client_id.as_str(), own.confidential), (expected, false));
    }

    #[test]
    fn on_other_origins_it_is_confidential_and_publishes_its_keys() {
        let own = OwnClient::of("https://a.example", SCOPES);
        let keys = [json!({ "kid": "new" }), json!({ "kid": "old" })];
        let metadata = own.metadata(
            "https://a.example",
            SCOPES,
            &keys,
            &[("client_name", Some("A".to_owned())), ("tos_uri", None)],
        );
        assert_eq!(metadata["client_id"], "https://a.example/oauth-client-metadata.json");
        assert_eq!(metadata["redirect_uris"], json!(["https://a.example/auth/callback"]));
        assert_eq!((&metadata["client_name"], metadata.get("tos_uri")), (&json!("A"), None));
        assert_eq!(metadata["jwks"]["keys"], json!(keys));
        assert_eq!(metadata["token_endpoint_auth_method"], "private_key_jwt");
    }
}
