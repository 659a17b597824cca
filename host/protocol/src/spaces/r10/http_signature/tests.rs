use belvedere_base::random::Random;
use proptest::prelude::*;

use super::*;
use crate::crypto::did_key::high_s;
use crate::spaces::r10::vectors;

const AUTH: &str = "Atproto-Space credential";
const REPO: &str = "did:example:repo";
const NOW: Timestamp = Timestamp(vectors::NOW_SECONDS * 1_000_000);

fn key() -> PrivateKey {
    PrivateKey::generate(Algorithm::Es256, &Random::seeded(21))
}

/// A request with a credential, with any signature input, and its signature.
fn signed(input: &str) -> (String, String) {
    let base = format!(
        "\"authorization\": {AUTH}\n\"atproto-space-audience\": {REPO}\n\"@signature-params\": {input}"
    );
    (format!("atproto-space={input}"), signature_header(&key().sign(base.as_bytes())))
}

fn signature_header(signature: &[u8]) -> String {
    use base64::Engine;
    format!("atproto-space=:{}:", base64::engine::general_purpose::STANDARD.encode(signature))
}

fn check(headers: Headers<'_>) -> Result<(), SignatureError> {
    verify(&headers, Cover::Credential(&key().public()), NOW).map(|_| ())
}

fn check_signed(input: &str, signature: &str) -> Result<(), SignatureError> {
    check(Headers {
        authorization: &[AUTH],
        audience: &[REPO],
        signature_input: &[input],
        signature: &[signature],
    })
}

#[test]
fn vectors_hold() {
    for case in vectors::list("httpsig") {
        let header = |name: &str| case["headers"][name].as_str();
        let authorization = [header("authorization").unwrap()];
        let audience: Vec<&str> = header("atproto-space-audience").into_iter().collect();
        let input = [header("signature-input").unwrap()];
        let signature = [header("signature").unwrap()];
        let headers = Headers {
            authorization: &authorization,
            audience: &audience,
            signature_input: &input,
            signature: &signature,
        };
        let bound = case["credentialKey"].as_str().map(|key| PublicKey::from_did_key(key).unwrap());
        let cover = bound.as_ref().map_or(Cover::Delegation, Cover::Credential);
        let key = verify(&headers, cover, NOW).unwrap();
        assert_eq!(
            Some(key.to_did_key().as_str()),
            case["keyDid"].as_str().or(case["credentialKey"].as_str())
        );
    }
}

#[test]
fn what_we_sign_verifies() {
    let public = key().public();
    for (audience, cover) in [(None, Cover::Delegation), (Some(REPO), Cover::Credential(&public))] {
        let (input, signature) = sign(&key(), AUTH, audience).unwrap();
        let audience: Vec<&str> = audience.into_iter().collect();
        let (input, signature) = ([input.as_str()], [signature.as_str()]);
        let headers = Headers {
            authorization: &[AUTH],
            audience: &audience,
            signature_input: &input,
            signature: &signature,
        };
        assert_eq!(verify(&headers, cover, NOW).as_ref(), Ok(&public));
        // Spaces around a value are not part of it.
        let padded = Headers { authorization: &["  Atproto-Space credential "], ..headers };
        assert_eq!(verify(&padded, cover, NOW).as_ref(), Ok(&public));
        let changed = Headers { authorization: &["Atproto-Space other"], ..headers };
        assert_eq!(verify(&changed, cover, NOW), Err(SignatureError::Signature));
    }
    let other = PrivateKey::generate(Algorithm::Es256k, &Random::seeded(1));
    assert_eq!(sign(&other, AUTH, None), None);
}

#[test]
fn other_labels_other_parameters_and_a_high_s_are_accepted() {
    let cover = r#"("authorization" "atproto-space-audience")"#;
    let keyid = key().public().to_did_key();
    let at = vectors::NOW_SECONDS;
    for parameters in [
        String::new(),
        format!(";keyid=\"{keyid}\""),
        format!(
            ";created={at};nonce=\"n\";tag=\"t\";alg=\"ecdsa-p256-sha256\";keyid=\"{keyid}\";expires={}",
            at + 60
        ),
    ] {
        let (input, signature) = signed(&format!("{cover}{parameters}"));
        assert_eq!(check_signed(&input, &signature), Ok(()), "{parameters}");
        let unpadded = signature.replace('=', "").replacen("space", "space=", 1);
        assert_eq!(check_signed(&input, &unpadded), Ok(()));
        let (more_input, more) =
            (format!(r#"sig1=("@method");alg="x", {input}"#), format!("sig1=:AA==:, {signature}"));
        assert_eq!(check_signed(&more_input, &more), Ok(()));
        assert_eq!(
            check(Headers {
                authorization: &[AUTH],
                audience: &[REPO],
                signature_input: &[&input, r#"sig2=("date")"#],
                signature: &["sig2=:AA==:", &signature],
            }),
            Ok(())
        );
    }
    let base = format!(
        "\"authorization\": {AUTH}\n\"atproto-space-audience\": {REPO}\n\"@signature-params\": {cover}"
    );
    let high = high_s(Algorithm::Es256, &key().sign(base.as_bytes()));
    assert_eq!(check_signed(&format!("atproto-space={cover}"), &signature_header(&high)), Ok(()));
}

/// RFC 8941 §3.2: of members with the same key the last one counts.
#[test]
fn of_a_repeated_label_the_last_one_counts_in_both_headers() {
    let cover = r#"("authorization" "atproto-space-audience")"#;
    let (input, signature) = signed(cover);
    let (old_input, old_signature) = signed(&format!("{cover};created=1;expires=2"));
    let twice = |first: &str, last: &str| format!("{first}, {last}");
    let both = [twice(&old_input, &input), twice(&old_signature, &signature)];
    assert_eq!(check_signed(&both[0], &both[1]), Ok(()));
    let swapped = [twice(&input, &old_input), twice(&signature, &old_signature)];
    assert_eq!(check_signed(&swapped[0], &swapped[1]), Err(SignatureError::Time));
    // The first signature does not count for the last input, and over several lines the same holds.
    assert_eq!(check_signed(&both[0], &swapped[1]), Err(SignatureError::Signature));
    let headers = Headers {
        authorization: &[AUTH],
        audience: &[REPO],
        signature_input: &[&old_input, &input],
        signature: &[&old_signature, &signature],
    };
    assert_eq!(check(headers), Ok(()));
}

#[test]
fn each_check_has_its_error() {
    const BOTH: SignatureError = SignatureError::Cover(r#"("authorization" "atproto-space-audience")"#);
    let other = PrivateKey::generate(Algorithm::Es256, &Random::seeded(22)).public().to_did_key();
    let k256 = PrivateKey::generate(Algorithm::Es256k, &Random::seeded(22)).public().to_did_key();
    let cover = r#"("authorization" "atproto-space-audience")"#;
    let at = vectors::NOW_SECONDS;
    for (input, error) in [
        (r#"("atproto-space-audience" "authorization")"#.to_owned(), BOTH),
        (r#"("authorization")"#.to_owned(), BOTH),
        (r#"("authorization" "atproto-space-audience" "date")"#.to_owned(), BOTH),
        (r#"("authorization" "atproto-space-audience";req)"#.to_owned(), BOTH),
        ("(authorization atproto-space-audience)".to_owned(), BOTH),
        ("()".to_owned(), BOTH),
        (format!("{cover};alg=\"ecdsa-p384-sha384\""), SignatureError::Algorithm),
        (format!("{cover};alg=ecdsa-p256-sha256"), SignatureError::Algorithm),
        (format!("{cover};keyid=\"{other}\""), SignatureError::OtherKey),
        (format!("{cover};keyid=\"{k256}\""), SignatureError::Key),
        (format!("{cover};keyid=\"key-1\""), SignatureError::Key),
        (format!("{cover};keyid=1"), SignatureError::Key),
        (format!("{cover};created={}", at + 6), SignatureError::Time),
        (format!("{cover};expires={}", at - 5), SignatureError::Time),
        (format!("{cover};created=now"), SignatureError::Malformed("signature-input")),
        ("\"authorization\"".to_owned(), SignatureError::Malformed("signature-input")),
        ("(\"authorization\"".to_owned(), SignatureError::Malformed("signature-input")),
    ] {
        let (header, signature) = signed(&input);
        assert_eq!(check_signed(&header, &signature), Err(error), "{input}");
    }
    let (input, good) = signed(cover);
    let (_, of_other) = signed(&format!("{cover};tag=\"t\""));
    for (signature, error) in [
        (of_other.as_str(), SignatureError::Signature),
        ("sig1=:AA==:", SignatureError::Label("signature")),
        ("atproto-space=:AA==:", SignatureError::Malformed("signature")),
        ("atproto-space=\"AA\"", SignatureError::Malformed("signature")),
        (&format!("{good};a=1"), SignatureError::Malformed("signature")),
        ("atproto-space=:?:", SignatureError::Malformed("signature")),
    ] {
        assert_eq!(check_signed(&input, signature), Err(error), "{signature}");
    }
    let unlabeled = check_signed(r#"sig1=("authorization")"#, &good);
    assert_eq!(unlabeled, Err(SignatureError::Label("signature-input")));
}

#[test]
fn missing_and_repeated_headers_are_refused() {
    let (input, signature) = signed(r#"("authorization" "atproto-space-audience")"#);
    let (input, signature) = ([input.as_str()], [signature.as_str()]);
    let good =
        Headers { authorization: &[AUTH], audience: &[REPO], signature_input: &input, signature: &signature };
    assert_eq!(check(good), Ok(()));
    let long = "x".repeat(MAX_HEADER_BYTES + 1);
    for (headers, name) in [
        (Headers { authorization: &[], ..good }, "authorization"),
        (Headers { authorization: &[AUTH, AUTH], ..good }, "authorization"),
        (Headers { authorization: &[&long], ..good }, "authorization"),
        (Headers { audience: &[], ..good }, AUDIENCE),
        (Headers { audience: &[REPO, REPO], ..good }, AUDIENCE),
        (Headers { signature_input: &[], ..good }, "signature-input"),
        (Headers { signature: &[], ..good }, "signature"),
        (Headers { signature: &[&long], ..good }, "signature"),
    ] {
        assert_eq!(check(headers), Err(SignatureError::Header(name)));
    }
    let two_lines = Headers { authorization: &["a\n\"atproto-space-audience\": b"], ..good };
    assert_eq!(check(two_lines), Err(SignatureError::Malformed("authorization")));
    // The request for a credential has no audience, but must name its key.
    let delegation = verify(
        &Headers { signature_input: &[r#"atproto-space=("authorization")"#], ..good },
        Cover::Delegation,
        NOW,
    );
    assert_eq!(delegation, Err(SignatureError::NoKey));
    let wrong_cover = verify(&good, Cover::Delegation, NOW);
    assert_eq!(wrong_cover, Err(SignatureError::Cover(r#"("authorization")"#)));
}

proptest! {
    #[test]
    fn never_panics(input in ".{0,60}", signature in ".{0,60}", form in r#"atproto-space=\(["a-z; =]{0,30}\)[;a-z="0-9]{0,20}"#) {
        for input in [&input, &form] {
            prop_assert!(check_signed(input, &signature).is_err());
            let _ = check_signed(input, &signature_header(&[7; 64]));
        }
    }
}
