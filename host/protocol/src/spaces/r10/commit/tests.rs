use belvedere_base::random::Random;

use super::*;
use crate::atproto::Did;
use crate::crypto::Algorithm;
use crate::crypto::did_key::high_s;
use crate::spaces::r10::vectors;
use crate::spaces::{SetHash, SpaceUri};

fn did(text: &str) -> Did {
    Did::try_from(text).unwrap()
}

#[test]
fn vectors_hold() {
    for case in vectors::list("commits") {
        let text = |name: &str| case["ctx"][name].as_str().unwrap();
        let (ikm, hash, sig) = (vectors::bytes(&case["ikm"]), vectors::bytes(&case["hash"]), &case["sig"]);
        let context = context(text("space"), text("author"), text("rev"), &ikm);
        assert_eq!(hex::encode(&context), case["ctxBytes"].as_str().unwrap());
        assert_eq!(mac(&context, &ikm, &hash), vectors::bytes(&case["mac"]));
        let key = PublicKey::from_did_key(case["didKey"].as_str().unwrap()).unwrap();
        key.verify(&context, &vectors::bytes::<64>(sig), HighS::Refuse).unwrap();
        let mut records = SetHash::default();
        let elements: Vec<String> = vectors::read(&case["elements"]);
        for element in &elements {
            records.add_element(element.as_bytes());
        }
        assert_eq!(records.digest(), hash);

        // The revs of the other two are not TIDs.
        let Ok(rev) = Tid::try_from(text("rev")) else { continue };
        let mac = vectors::bytes(&case["mac"]);
        let commit = Commit { rev, hash, ikm, mac, sig: vectors::bytes(sig) };
        let (space, author) = (SpaceUri::parse(text("space")).unwrap(), did(text("author")));
        commit.verify(SpaceRepo { space: &space, author: &author }, &key, &hash).unwrap();
    }
}

#[test]
fn every_check_refuses_what_it_is_for() {
    let space = SpaceUri::parse("at://did:plc:abc/space/com.example.group/main").unwrap();
    let (author, other) = (did("did:plc:alice"), did("did:plc:bob"));
    let repo = SpaceRepo { space: &space, author: &author };
    for algorithm in [Algorithm::Es256, Algorithm::Es256k] {
        let key = PrivateKey::generate(algorithm, &Random::seeded(3));
        let hash = SetHash::default().digest();
        let good = Commit::sign(repo, Tid::new(1, 2).unwrap(), hash, [7; 32], &key);
        let refused = |commit: &Commit, repo, hash| commit.verify(repo, &key.public(), hash).err();
        assert_eq!(refused(&good, repo, &hash), None);
        let with = |change: &dyn Fn(&mut Commit)| {
            let mut commit = good.clone();
            change(&mut commit);
            refused(&commit, repo, &hash)
        };
        assert_eq!(with(&|commit| commit.mac[0] ^= 1), Some(InvalidCommit::Mac));
        assert_eq!(with(&|commit| commit.hash[0] ^= 1), Some(InvalidCommit::Mac));
        assert_eq!(with(&|commit| commit.ikm[0] ^= 1), Some(InvalidCommit::Mac));
        assert_eq!(with(&|commit| commit.rev = Tid::new(2, 2).unwrap()), Some(InvalidCommit::Mac));
        assert_eq!(with(&|commit| commit.sig[40] ^= 1), Some(InvalidCommit::Signature));
        let high = high_s(algorithm, &good.sig);
        assert_eq!(with(&|commit| commit.sig = high), Some(InvalidCommit::Signature));
        assert_eq!(refused(&good, SpaceRepo { author: &other, ..repo }, &hash), Some(InvalidCommit::Mac));
        assert_eq!(refused(&good, repo, &[0; 32]), Some(InvalidCommit::Hash));
        let other_key = PrivateKey::generate(algorithm, &Random::seeded(4));
        let forged = Commit::sign(repo, good.rev, hash, [7; 32], &other_key);
        assert_eq!(refused(&forged, repo, &hash), Some(InvalidCommit::Signature));
    }
}

#[test]
fn json_and_cbor_round_trip() {
    let key = PrivateKey::generate(Algorithm::Es256, &Random::seeded(3));
    let space = SpaceUri::parse("at://did:plc:abc/space/com.example.group/main").unwrap();
    let repo = SpaceRepo { space: &space, author: &space.did };
    let commit = Commit::sign(repo, Tid::new(1, 2).unwrap(), [5; 32], [7; 32], &key);
    let json = commit.to_json();
    assert_eq!(Commit::from_json(&json), Ok(commit.clone()));
    assert_eq!(Commit::from_cbor(&commit.to_cbor()), Ok(commit));
    let mut padded = json.clone();
    padded["hash"]["$bytes"] = format!("{}=", json["hash"]["$bytes"].as_str().unwrap()).into();
    assert!(Commit::from_json(&padded).is_ok());
    for (field, value, error) in [
        ("ver", json!(2), InvalidCommit::Version),
        ("ver", json!(null), InvalidCommit::Field("ver")),
        ("rev", json!("now"), InvalidCommit::Field("rev")),
        ("ikm", json!("AA"), InvalidCommit::Field("ikm")),
        ("mac", json!({ "$bytes": "AA" }), InvalidCommit::Field("mac")),
        ("sig", json!({ "$bytes": "?" }), InvalidCommit::Field("sig")),
    ] {
        let mut wrong = json.clone();
        wrong[field] = value;
        assert_eq!(Commit::from_json(&wrong), Err(error));
    }
    assert_eq!(Commit::from_cbor(b"\xa0"), Err(InvalidCommit::Field("ver")));
}
