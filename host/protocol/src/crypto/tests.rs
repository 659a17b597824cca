use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::jws::{JwsError, MAX_TOKEN_BYTES, ServiceClaims};
use super::*;
use belvedere_base::random::Random;
use belvedere_standins::vectors;

fn vectors(name: &str) -> Vec<Value> {
    vectors::read(&format!("crypto/{name}"))
        .map(|text| serde_json::from_str(&text).unwrap())
        .unwrap_or_default()
}

fn key(algorithm: Algorithm) -> PrivateKey {
    PrivateKey::generate(algorithm, &Random::seeded(7))
}

#[test]
fn did_key_vectors() {
    for case in vectors("w3c_didkey_K256.json") {
        let secret = hex::decode(case["privateKeyBytesHex"].as_str().unwrap()).unwrap();
        let key = PrivateKey::from_bytes(Algorithm::Es256k, &secret).unwrap().public();
        assert_eq!(key.to_did_key(), case["publicDidKey"].as_str().unwrap());
        assert_eq!(PublicKey::from_did_key(&key.to_did_key()), Ok(key));
    }
    for case in vectors("w3c_didkey_P256.json") {
        let secret = bs58::decode(case["privateKeyBytesBase58"].as_str().unwrap()).into_vec().unwrap();
        let key = PrivateKey::from_bytes(Algorithm::Es256, &secret).unwrap().public();
        assert_eq!(key.to_did_key(), case["publicDidKey"].as_str().unwrap());
        assert_eq!(PublicKey::from_did_key(&key.to_did_key()), Ok(key));
    }
}

#[test]
fn signature_vectors() {
    for case in vectors("signature-fixtures.json") {
        let text = |name: &str| case[name].as_str().unwrap();
        let message = STANDARD_NO_PAD.decode(text("messageBase64")).unwrap();
        let signature = STANDARD_NO_PAD.decode(text("signatureBase64")).unwrap();
        let key = PublicKey::from_did_key(text("publicKeyDid")).unwrap();
        let algorithm = Algorithm::from_name(text("algorithm")).unwrap();
        assert_eq!(PublicKey::from_multibase(algorithm, text("publicKeyMultibase")), Ok(key.clone()));
        let valid = case["validSignature"] == true;
        assert_eq!(key.verify(&message, &signature, HighS::Refuse).is_ok(), valid, "{}", case["comment"]);
        let lenient = valid || case["tags"][0] == "high-s";
        assert_eq!(key.verify(&message, &signature, HighS::Accept).is_ok(), lenient, "{}", case["comment"]);
    }
}

#[test]
fn invalid_keys_are_rejected() {
    let good = key(Algorithm::Es256).public().to_multikey();
    // 2^256 - 1 and 5 are not x coordinates of points on these curves.
    let off = |code: [u8; 2], x: [u8; 32]| {
        format!("z{}", bs58::encode([&code[..], &[2], &x].concat()).into_string())
    };
    let mut five = [0; 32];
    five[31] = 5;
    let uncompressed = bs58::encode([&[0x80, 0x24, 4][..], &[1; 64]].concat()).into_string();
    for text in [
        "",
        "z",
        "zz",
        &good[1..],
        &format!("{good}1"),
        &format!("m{}", &good[1..]),
        "z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK",
        &off([0x80, 0x24], [0xff; 32]),
        &off([0xe7, 0x01], five),
        &format!("z{uncompressed}"),
        &format!("z{}", "1".repeat(100_000)),
    ] {
        assert!(PublicKey::from_multikey(text).is_err(), "{text:.80}");
    }
    assert!(PublicKey::from_did_key(&good).is_err());
    assert!(PrivateKey::from_bytes(Algorithm::Es256, &[0; 32]).is_err());
    assert!(PrivateKey::from_bytes(Algorithm::Es256, &[1; 31]).is_err());
}

fn claims() -> Value {
    json!({"iss": "did:plc:abc", "aud": "did:web:example.com#svc", "exp": 1_700_000_060, "iat": 1_700_000_000.5,
        "lxm": "com.example.query", "jti": "x"})
}

#[test]
fn tokens_of_both_algorithms_verify_only_with_a_key_of_their_curve() {
    for (algorithm, other) in [(Algorithm::Es256, Algorithm::Es256k), (Algorithm::Es256k, Algorithm::Es256)] {
        let token = jws::sign(&key(algorithm), &claims());
        let parsed = jws::parse(&token).unwrap();
        assert_eq!(parsed.header.typ.as_deref(), Some("JWT"));
        assert_eq!(parsed.verify(&key(algorithm).public(), HighS::Refuse), Ok(()));
        assert_eq!(parsed.verify(&key(other).public(), HighS::Accept), Err(JwsError::Signature));
        let other_key = PrivateKey::generate(algorithm, &Random::seeded(8)).public();
        assert_eq!(parsed.verify(&other_key, HighS::Accept), Err(JwsError::Signature));
        let read: ServiceClaims = parsed.claims().unwrap();
        assert_eq!((read.exp, read.iat, read.nbf), (1_700_000_060, Some(1_700_000_000), None));
    }
}

#[test]
fn invalid_tokens_are_rejected() {
    let make = |header: &str, payload: &str, signature: &[u8]| {
        [header.as_bytes(), payload.as_bytes(), signature].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".")
    };
    let good = jws::sign(&key(Algorithm::Es256), &claims());
    let es256 = r#"{"alg":"ES256"}"#;
    assert!(jws::parse(&make(es256, "{}", &[1; 64])).is_ok());
    for (token, why) in [
        (String::new(), "too few parts"),
        ("a.b".to_owned(), "too few parts"),
        (format!("{good}.x"), "too many parts"),
        (format!("{good}="), "canonical"),
        (make(es256, "{}", &[1; 64]).replacen("J9", "J+", 1), "canonical"),
        // The last character of 64 bytes has four bits that must be zero.
        (format!("{}R", make(es256, "{}", &[0; 64]).strip_suffix('A').unwrap()), "canonical"),
        (make("[]", "{}", &[1; 64]), "header"),
        (make("nonsense", "{}", &[1; 64]), "header"),
        (make(r#"{"alg":"none","alg":"ES256"}"#, "{}", &[1; 64]), "unique keys"),
        (make(es256, r#"{"a":{"b":1,"b":2}}"#, &[1; 64]), "unique keys"),
        (make(es256, "[]", &[1; 64]), "payload"),
        (make(r#"{"alg":"ES256","crit":["b64"]}"#, "{}", &[1; 64]), "crit"),
        (make(r#"{"alg":"ES256","typ":1}"#, "{}", &[1; 64]), "wrong type"),
        (make("{}", "{}", &[1; 64]), "no alg"),
        (make(es256, "{}", &[1; 63]), "64 bytes"),
        (make(es256, "{}", &[]), "64 bytes"),
        (make(es256, "{}", &vec![1; MAX_TOKEN_BYTES]), "too long"),
    ] {
        let error = jws::parse(&token).unwrap_err().to_string();
        assert!(error.contains(why), "{error} should say {why}");
    }
    for alg in ["none", "None", "HS256", "RS256", "ES384", "es256", ""] {
        let token = make(&json!({"alg": alg}).to_string(), "{}", &[1; 64]);
        assert_eq!(jws::parse(&token).unwrap_err(), JwsError::Algorithm, "{alg}");
    }
    for broken in [
        json!({}),
        json!({"iss": 1, "aud": "x", "exp": 1}),
        json!({"iss": "x", "aud": "x", "exp": "1"}),
        json!({"iss": "x", "aud": ["x"], "exp": 1}),
        json!({"iss": "x", "aud": "x", "exp": -1}),
        json!({"iss": "x", "aud": "x", "exp": 1e300}),
    ] {
        let token = make(es256, &broken.to_string(), &[1; 64]);
        assert!(jws::parse(&token).unwrap().claims::<ServiceClaims>().is_err(), "{broken}");
    }
}

#[test]
fn sealed_values_open_only_with_the_same_key_and_purpose() {
    let random = Random::seeded(1);
    let key = SealingKey::from_base64(&STANDARD.encode([7; 32])).unwrap();
    let sealed = key.seal(&random, "tokens:1", b"secret");
    assert_eq!(&**key.open("tokens:1", &sealed).unwrap(), b"secret");
    assert_ne!(key.seal(&random, "tokens:1", b"secret"), sealed);
    assert!(key.open("tokens:2", &sealed).is_err());
    assert!(SealingKey::from_base64(&STANDARD.encode([8; 32])).unwrap().open("tokens:1", &sealed).is_err());
    for i in 0..sealed.len() {
        let mut damaged = sealed.clone();
        damaged[i] ^= 1;
        assert!(key.open("tokens:1", &damaged).is_err());
        assert!(key.open("tokens:1", &sealed[..i]).is_err());
    }
    assert!(SealingKey::from_base64(&STANDARD_NO_PAD.encode([7; 32])).is_ok());
    for text in ["", "not base64!", &STANDARD.encode([7; 31]), &STANDARD.encode([7; 33])] {
        assert_eq!(SealingKey::from_base64(text).unwrap_err(), seal::SealError::Key);
    }
}

#[test]
fn debug_hides_secrets() {
    let private = key(Algorithm::Es256);
    let sealing = SealingKey::from_base64(&STANDARD.encode([7; 32])).unwrap();
    assert_eq!(format!("{private:?} {sealing:?}"), "PrivateKey(ES256, …) SealingKey(…)");
}

#[test]
fn hashes() {
    assert_eq!(sha256_hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert!(ct_eq(b"same", b"same") && !ct_eq(b"same", b"sane") && !ct_eq(b"same", b"sam"));
}

proptest! {
    #[test]
    fn parsing_never_panics(token in r"[A-Za-z0-9_.=-]{0,120}", header in r#"\{("(alg|typ|crit)":("ES256"|1|\[\]),?){0,3}\}"#) {
        let _ = jws::parse(&token);
        let token = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), token);
        let _ = jws::parse(&token);
    }

    #[test]
    fn a_changed_token_does_not_verify(at in any::<prop::sample::Index>(), to in "[A-Za-z0-9_-]") {
        let key = key(Algorithm::Es256k);
        let token = jws::sign(&key, &claims());
        let mut changed = token.clone().into_bytes();
        let at = at.index(changed.len());
        prop_assume!(changed[at] != b'.' && changed[at] != to.as_bytes()[0]);
        changed[at] = to.as_bytes()[0];
        let changed = String::from_utf8(changed).unwrap();
        if let Ok(parsed) = jws::parse(&changed) {
            prop_assert!(parsed.verify(&key.public(), HighS::Accept).is_err());
        }
    }
}
