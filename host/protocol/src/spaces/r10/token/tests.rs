use belvedere_base::clock::Timestamp;
use belvedere_base::random::Random;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::crypto::Algorithm::{self, Es256, Es256k};
use crate::crypto::jwk::thumbprint;
use crate::spaces::SpaceUri;
use crate::spaces::r10::vectors;

const CLIENT: &str = "https://app.example/client.json";

fn now() -> Timestamp {
    Timestamp(vectors::NOW_SECONDS * 1_000_000)
}

fn key(algorithm: Algorithm) -> PrivateKey {
    PrivateKey::generate(algorithm, &Random::seeded(11))
}

fn space() -> SpaceUri {
    SpaceUri::parse("at://did:example:space/space/app.bsky.group/test").unwrap()
}

fn alice() -> Did {
    Did::try_from("did:example:alice").unwrap()
}

fn delegated(key: &PrivateKey) -> String {
    Delegation::issue((key, Signer::Account), &alice(), &space(), "1", now()).0
}

fn read_credential(token: &str, key: &PublicKey) -> Result<Credential, TokenError> {
    ParsedCredential::parse(token)?.verify(key, now())
}

fn read_delegation(token: &str, key: &PublicKey) -> Result<Delegation, TokenError> {
    ParsedDelegation::parse(token)?.verify(key, now())
}

fn read_attestation(token: &str, key: &PublicKey) -> Result<String, TokenError> {
    ParsedAttestation::parse(token)?.verify(key, &space().did, now())
}

/// A token with other members in its header and its claims. `null` removes one.
fn changed(token: &str, key: &PrivateKey, header: &Value, claims: &Value) -> String {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let parts: Vec<&str> = token.split('.').collect();
    let part = |n: usize, changes: &Value| {
        let mut part: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[n]).unwrap()).unwrap();
        for (name, value) in changes.as_object().unwrap() {
            part[name] = value.clone();
        }
        part.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        part
    };
    jws::sign_with(key, &part(0, header), &part(1, claims))
}

#[test]
fn vectors_hold() {
    for case in vectors::list("tokens") {
        let (token, key) = (case["jwt"].as_str().unwrap(), case["signingKey"].as_str().unwrap());
        let key = PublicKey::from_did_key(key).unwrap();
        if case["type"] == "delegation" {
            let token = read_delegation(token, &key).unwrap();
            assert_eq!((token.issuer, token.space), (alice(), space()));
            continue;
        }
        let parsed = ParsedCredential::parse(token).unwrap();
        assert_eq!(parsed.key_id().as_str(), case["kid"].as_str().unwrap_or("#atproto"));
        let credential = read_credential(token, &key).unwrap();
        assert!(matches!(credential.binding, Binding::Key(_)));
        assert_eq!(credential.times.expires_at - credential.times.issued_at, credential.binding.seconds());
    }
}

#[test]
fn issued_tokens_verify() {
    let holder = key(Es256).public();
    for algorithm in [Es256, Es256k] {
        let key = key(algorithm);
        let token = delegated(&key);
        assert_eq!(read_delegation(&token, &key.public()).unwrap().jti, "1");
        let parsed = ParsedDelegation::parse(&token).unwrap();
        assert_eq!((parsed.issuer(), parsed.signer()), (&alice(), Signer::Account));
        let (own, times) = Delegation::issue((&key, Signer::Host), &alice(), &space(), "1", now());
        assert_eq!(ParsedDelegation::parse(&own).unwrap().signer(), Signer::Host);
        assert_eq!(read_delegation(&own, &key.public()).unwrap().times, times);
        for binding in [Binding::Key(holder.clone()), Binding::Thumbprint(thumbprint(&holder).unwrap())] {
            let (token, times) = Credential::issue(&key, KeyId::AtprotoSpace, &space(), &binding, "2", now());
            let credential = read_credential(&token, &key.public()).unwrap();
            assert_eq!(credential, Credential { space: space(), binding, times, jti: "2".to_owned() });
        }
    }
    let token = attest(&key(Es256), "k1", CLIENT, &space().did, "3", now()).unwrap();
    let parsed = ParsedAttestation::parse(&token).unwrap();
    assert_eq!((parsed.client_id(), parsed.key_id()), (CLIENT, "k1"));
    assert_eq!(read_attestation(&token, &holder).as_deref(), Ok(CLIENT));
    assert_eq!(attest(&key(Es256k), "k1", CLIENT, &space().did, "3", now()), None);
}

/// The name and the status of the error for each change of a token.
fn refusals<T: std::fmt::Debug>(
    token: &str,
    read: impl Fn(&str, &PublicKey) -> Result<T, TokenError>,
    cases: &[(Value, Value, &str, u16)],
) {
    let key = key(Es256);
    assert!(read(&changed(token, &key, &json!({}), &json!({})), &key.public()).is_ok());
    for (header, claims, name, status) in cases {
        let error = read(&changed(token, &key, header, claims), &key.public()).unwrap_err();
        assert_eq!((error.name(), error.status()), (*name, *status), "{header} {claims}: {error}");
    }
}

#[test]
fn each_check_of_a_credential_has_its_error() {
    let key = key(Es256);
    let at = vectors::NOW_SECONDS;
    let binding = Binding::Key(key.public());
    let (token, _) = Credential::issue(&key, KeyId::Atproto, &space(), &binding, "1", now());
    let none = || json!({});
    let secp = PrivateKey::generate(Es256k, &Random::seeded(1)).public().to_did_key();
    refusals(
        &token,
        read_credential,
        &[
            (json!({ "alg": "HS256" }), none(), "BadJwt", 401),
            (json!({ "alg": "ES256K" }), none(), "BadJwtSignature", 401),
            (json!({ "typ": "JWT" }), none(), "BadJwtType", 401),
            (json!({ "typ": "atproto-space-delegation+jwt" }), none(), "BadJwtType", 401),
            (json!({ "typ": null }), none(), "BadJwtType", 401),
            (json!({ "kid": "#atproto_label" }), none(), "BadJwt", 401),
            (json!({ "kid": null }), none(), "BadJwt", 401),
            (none(), json!({ "iss": "did:example:evil" }), "BadJwtIss", 401),
            (none(), json!({ "iss": null }), "BadJwt", 401),
            (none(), json!({ "sub": "at://did:example:space/app.bsky.group/test" }), "BadJwt", 401),
            (none(), json!({ "jti": null }), "BadJwt", 401),
            (none(), json!({ "jti": "" }), "BadJwt", 401),
            (none(), json!({ "jti": "x".repeat(257) }), "BadJwt", 401),
            (none(), json!({ "cnf": null }), "BadJwtCnf", 401),
            (none(), json!({ "cnf": {} }), "BadJwtCnf", 401),
            (none(), json!({ "cnf": { "kid": secp } }), "BadJwtCnf", 401),
            (none(), json!({ "cnf": { "kid": "k1" } }), "BadJwtCnf", 401),
            (none(), json!({ "cnf": { "kid": key.public().to_did_key(), "jkt": "x" } }), "BadJwtCnf", 401),
            (none(), json!({ "cnf": { "jkt": "x" } }), "BadJwtCnf", 401),
            (none(), json!({ "exp": null }), "BadJwt", 401),
            (none(), json!({ "iat": at - 600, "exp": at - 5 }), "JwtExpired", 401),
            (none(), json!({ "exp": at }), "BadJwt", 401),
            (none(), json!({ "exp": at + 3_601 }), "BadJwt", 401),
            (none(), json!({ "iat": at + 6 }), "BadJwt", 401),
        ],
    );
    for claims in [
        json!({ "iat": at - 600, "exp": at - 4 }),
        json!({ "exp": at + 3_600 }),
        json!({ "iat": at + 5 }),
        json!({ "exp": at + 7_200, "cnf": { "jkt": thumbprint(&key.public()).unwrap() } }),
    ] {
        read_credential(&changed(&token, &key, &none(), &claims), &key.public()).unwrap();
    }
}

#[test]
fn each_check_of_a_delegation_has_its_error() {
    let token = delegated(&key(Es256));
    let at = vectors::NOW_SECONDS;
    let none = || json!({});
    refusals(
        &token,
        read_delegation,
        &[
            (json!({ "alg": "none" }), none(), "BadJwt", 401),
            (json!({ "alg": "ES256K" }), none(), "BadJwtSignature", 401),
            (json!({ "typ": "JWT" }), none(), "BadJwtType", 401),
            (json!({ "kid": "#atproto_space" }), none(), "BadJwt", 401),
            (json!({ "kid": null }), none(), "BadJwt", 401),
            (none(), json!({ "iss": "alice.test" }), "BadJwtIss", 401),
            (none(), json!({ "sub": "x" }), "BadJwt", 401),
            (none(), json!({ "aud": "did:example:space" }), "BadJwtAudience", 401),
            (none(), json!({ "aud": "did:example:other#atproto_space_host" }), "BadJwtAudience", 401),
            (none(), json!({ "aud": "did:example:space#other" }), "BadJwtAudience", 401),
            (none(), json!({ "jti": null }), "BadJwt", 401),
            (none(), json!({ "exp": at + 301 }), "BadJwt", 401),
            (none(), json!({ "iat": at - 60, "exp": at - 5 }), "JwtExpired", 401),
            (none(), json!({ "iat": at + 6 }), "BadJwt", 401),
        ],
    );
    let at_pds = json!({ "aud": "did:example:space#atproto_pds" });
    let key = key(Es256);
    read_delegation(&changed(&token, &key, &none(), &at_pds), &key.public()).unwrap();
}

#[test]
fn each_check_of_an_attestation_has_its_error() {
    let key = key(Es256);
    let token = attest(&key, "k1", CLIENT, &space().did, "1", now()).unwrap();
    let at = vectors::NOW_SECONDS;
    for (header, claims, why) in [
        (json!({ "alg": "ES256K" }), json!({}), "algorithm"),
        (json!({ "alg": "RS256" }), json!({}), "algorithm"),
        (json!({ "typ": "JWT" }), json!({}), "another class"),
        (json!({ "kid": null }), json!({}), "no kid"),
        (json!({}), json!({ "sub": "https://other.example" }), "issuer is not its subject"),
        (json!({}), json!({ "iss": "http://app.example/", "sub": "http://app.example/" }), "https URL"),
        (json!({}), json!({ "iss": "app", "sub": "app" }), "https URL"),
        (json!({}), json!({ "aud": "did:example:other#atproto_space_host" }), "another service"),
        (json!({}), json!({ "exp": at - 5 }), "expired"),
        (json!({}), json!({ "exp": at + 3_606 }), "too long"),
        (json!({}), json!({ "exp": null }), "claim is missing"),
    ] {
        let error = read_attestation(&changed(&token, &key, &header, &claims), &key.public()).unwrap_err();
        assert_eq!((error.name(), error.status()), ("InvalidClientAttestation", 400));
        assert!(error.to_string().contains(why), "{header} {claims}: {error}");
    }
    let other = PrivateKey::generate(Es256, &Random::seeded(12)).public();
    assert!(read_attestation(&token, &other).unwrap_err().to_string().contains("signature"));
    let high = with_high_s(&token, Es256);
    assert!(read_attestation(&high, &key.public()).unwrap_err().to_string().contains("signature"));
}

#[test]
fn only_the_named_key_and_a_low_s_verify() {
    let binding = Binding::Key(key(Es256).public());
    for algorithm in [Es256, Es256k] {
        let key = key(algorithm);
        let (credential, _) = Credential::issue(&key, KeyId::Atproto, &space(), &binding, "1", now());
        let delegation = delegated(&key);
        let other = PrivateKey::generate(algorithm, &Random::seeded(12)).public();
        assert_eq!(read_credential(&credential, &other), Err(TokenError::Signature));
        assert_eq!(read_delegation(&delegation, &other), Err(TokenError::Signature));
        let public = key.public();
        assert_eq!(
            read_credential(&with_high_s(&credential, algorithm), &public),
            Err(TokenError::Signature)
        );
        assert_eq!(
            read_delegation(&with_high_s(&delegation, algorithm), &public),
            Err(TokenError::Signature)
        );
    }
}

/// The same token with the other signature for it, whose `s` is high.
fn with_high_s(token: &str, algorithm: Algorithm) -> String {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let (input, signature) = token.rsplit_once('.').unwrap();
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    let high = crate::crypto::did_key::high_s(algorithm, &signature);
    format!("{input}.{}", URL_SAFE_NO_PAD.encode(high))
}

proptest! {
    #[test]
    fn never_panics(text in "[a-zA-Z0-9_.-]{0,80}", at in any::<prop::sample::Index>(), with in "[a-zA-Z0-9_.-]") {
        let _ = (ParsedCredential::parse(&text), ParsedDelegation::parse(&text), ParsedAttestation::parse(&text));
        let key = key(Es256);
        let mut token = delegated(&key);
        let at = at.index(token.len());
        let is_same = token[at..=at] == with;
        token.replace_range(at..=at, &with);
        prop_assert!(is_same || read_delegation(&token, &key.public()).is_err());
    }
}
