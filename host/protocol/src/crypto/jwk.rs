//! P-256 keys as JSON Web Keys (RFC 7517, RFC 7518 §6.2), and their thumbprints (RFC 7638).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::did_key::{Algorithm, InvalidKey, PrivateKey, PublicKey};
use super::hash::sha256;

/// First byte of an uncompressed point in SEC1 form.
const UNCOMPRESSED: u8 = 4;

/// The P-256 public key of a JWK. Members that do not describe the point are ignored.
///
/// # Errors
/// When the JWK has another type or curve, is not a point on the curve, or contains a private key: a key that its owner
/// has sent is no longer secret.
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

/// Reads a coordinate: 32 bytes in canonical base64url, the only accepted encoding.
fn coordinate(jwk: &Value, name: &str) -> Result<[u8; 32], InvalidKey> {
    let text = jwk.get(name).and_then(Value::as_str).ok_or(InvalidKey("a coordinate is missing"))?;
    let bytes = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or(InvalidKey("a coordinate is not base64url of 32 bytes"))
}

/// The public JWK of a P-256 key; `None` for a key of the other curve.
pub fn public_jwk(key: &PublicKey) -> Option<Value> {
    let (x, y) = key.p256_coordinates()?;
    let text = |bytes: [u8; 32]| URL_SAFE_NO_PAD.encode(bytes);
    Some(json!({ "kty": "EC", "crv": "P-256", "x": text(x), "y": text(y) }))
}

/// The private JWK of a P-256 key; `None` for a key of the other curve.
pub fn private_jwk(key: &PrivateKey) -> Option<Value> {
    let mut jwk = public_jwk(&key.public())?;
    jwk["d"] = URL_SAFE_NO_PAD.encode(*key.to_bytes()).into();
    Some(jwk)
}

/// The key's thumbprint: base64url of the SHA-256 of its required members in order (RFC 7638 §3). `None` for a key of
/// the other curve.
pub fn thumbprint(key: &PublicKey) -> Option<String> {
    let (x, y) = key.p256_coordinates()?;
    let text = |bytes: [u8; 32]| URL_SAFE_NO_PAD.encode(bytes);
    let members = format!(r#"{{"crv":"P-256","kty":"EC","x":"{}","y":"{}"}}"#, text(x), text(y));
    Some(URL_SAFE_NO_PAD.encode(sha256(members.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_base::random::Random;

    fn key() -> PrivateKey {
        PrivateKey::generate(Algorithm::Es256, &Random::seeded(7))
    }

    #[test]
    fn a_key_round_trips_through_its_jwk() {
        let jwk = public_jwk(&key().public()).unwrap();
        assert_eq!(public_key(&jwk).unwrap(), key().public());
        let private = private_jwk(&key()).unwrap();
        assert!(private["d"].is_string() && private["x"] == jwk["x"]);
        // Additional members, which some libraries add, change neither key nor thumbprint.
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
    fn only_public_p256_keys_are_accepted() {
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
