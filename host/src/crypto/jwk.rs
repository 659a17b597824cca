//! P-256 keys as JSON OutboundHttp Keys (RFC 7517, RFC 7518 §6.2), and their thumbprints (RFC 7638).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::did_key::{Algorithm, InvalidKey, PrivateKey, PublicKey};
use super::hash::sha256;

/// First byte of an uncompressed point in SEC1 form.
const UNCOMPRESSED: u8 = 4;

/// The public key of a JWK: a point of P-256. Members that say nothing about the point are ignored.
///
/// # Errors
/// Another type or curve, no point of the curve, or a private key: whoever shows one has lost it.
pub fn public_key(jwk: &Value) -> Result<PublicKey, InvalidKey> {
    if jwk.get("kty").and_then(Value::as_str) != Some("EC") {
        return Err(InvalidKey("its kty is not EC"));
    }
    if jwk.get("crv").and_then(Value::as_str) != Some("P-256") {
        return Err(InvalidKey("its crv is not P-256"));
    }
    if jwk.get("d").is_some() {
        return Err(InvalidKey("it is a private key"));
    }
    let mut point = vec![UNCOMPRESSED];
    for name in ["x", "y"] {
        point.extend_from_slice(&coordinate(jwk, name)?);
    }
    PublicKey::from_sec1(Algorithm::Es256, &point)
}

/// A coordinate has one text: 32 bytes in canonical base64url.
fn coordinate(jwk: &Value, name: &str) -> Result<[u8; 32], InvalidKey> {
    let text = jwk.get(name).and_then(Value::as_str).ok_or(InvalidKey("a coordinate is missing"))?;
    let bytes = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or(InvalidKey("a coordinate is not base64url of 32 bytes"))
}

/// The public part of a P-256 key; `None` for a key of the other curve.
pub fn public_jwk(key: &PublicKey) -> Option<Value> {
    let (x, y) = key.p256_coordinates()?;
    let text = |bytes: [u8; 32]| URL_SAFE_NO_PAD.encode(bytes);
    Some(json!({ "kty": "EC", "crv": "P-256", "x": text(x), "y": text(y) }))
}

/// A P-256 key with its private part; `None` for a key of the other curve.
pub fn private_jwk(key: &PrivateKey) -> Option<Value> {
    let mut jwk = public_jwk(&key.public())?;
    jwk["d"] = URL_SAFE_NO_PAD.encode(*key.to_bytes()).into();
    Some(jwk)
}

/// base64url of the SHA-256 of the key's required members in order (RFC 7638 §3); `None` for a key of the other curve.
pub fn thumbprint(key: &PublicKey) -> Option<String> {
    let (x, y) = key.p256_coordinates()?;
    let text = |bytes: [u8; 32]| URL_SAFE_NO_PAD.encode(bytes);
    let members = format!(r#"{{"crv":"P-256","kty":"EC","x":"{}","y":"{}"}}"#, text(x), text(y));
    Some(URL_SAFE_NO_PAD.encode(sha256(members.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn key() -> PrivateKey {
        PrivateKey::generate(Algorithm::Es256, &Random::seeded(7))
    }

    #[test]
    fn a_key_survives_its_jwk() {
        let jwk = public_jwk(&key().public()).unwrap();
        assert_eq!(public_key(&jwk).unwrap(), key().public());
        let private = private_jwk(&key()).unwrap();
        assert!(private["d"].is_string() && private["x"] == jwk["x"]);
        // Libraries add members of their own; they change neither key nor thumbprint.
        let mut more = jwk;
        more["kid"] = "k".into();
        more["key_ops"] = json!(["verify"]);
        assert_eq!(thumbprint(&public_key(&more).unwrap()), thumbprint(&key().public()));
    }

    #[test]
    fn the_thumbprint_is_that_of_rfc_9449() {
        // RFC 9449 §4.1 has the key, §6.1 its thumbprint.
        let jwk = json!({
            "kty": "EC", "crv": "P-256",
            "x": "l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs",
            "y": "9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA",
        });
        let thumbprint = thumbprint(&public_key(&jwk).unwrap()).unwrap();
        assert_eq!(thumbprint, "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I");
    }

    #[test]
    fn what_is_no_public_p256_key_is_refused() {
        let good = public_jwk(&key().public()).unwrap();
        for (member, value, why) in [
            ("kty", json!("OKP"), "kty"),
            ("crv", json!("secp256k1"), "crv"),
            ("d", json!("AA"), "private"),
            ("x", json!("AAAA"), "32 bytes"),
            ("x", json!(7), "missing"),
            ("y", good["x"].clone(), "not a point"),
            ("y", json!(format!("{}=", good["y"].as_str().unwrap())), "32 bytes"),
        ] {
            let mut bad = good.clone();
            bad[member] = value;
            let error = public_key(&bad).unwrap_err().to_string();
            assert!(error.contains(why), "{member}: {error}");
        }
        assert!(public_key(&json!("text")).is_err());
        let other = PrivateKey::generate(Algorithm::Es256k, &Random::seeded(7));
        assert!(private_jwk(&other).is_none() && thumbprint(&other.public()).is_none());
    }
}
