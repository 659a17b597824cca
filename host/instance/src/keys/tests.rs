//! The key that signs records: generated once, stored encrypted, the same for every host.

use super::attestation::Attestation;
use super::instance::InstanceKeyError;
use crate::config::Args;
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_protocol::crypto::SealingKey;
use belvedere_storage::store::{Db, instance_keys, testing};

async fn load(db: &Db, sealing: [u8; 32], given: Option<&str>) -> Result<Attestation, InstanceKeyError> {
    let mut args = Args::default();
    args.attestation.private_key = given.map(str::to_owned);
    let config = args.check().unwrap().attestation;
    let names = ("did:web:x.test#attestation".to_owned(), "com.example.sig".to_owned());
    Attestation::load(
        &config,
        names,
        db,
        &SealingKey::new(sealing),
        &Random::system(),
        &Clock::fixed(Timestamp(1)),
    )
    .await
}

#[tokio::test]
async fn the_signing_key_is_generated_once_and_stored_encrypted() {
    for db in testing::both().await {
        let (first, second) = tokio::join!(load(&db, [1; 32], None), load(&db, [1; 32], None));
        let key = first.unwrap().public_key();
        assert_eq!(second.unwrap().public_key(), key, "hosts that start together agree");
        assert_eq!(load(&db, [1; 32], None).await.unwrap().public_key(), key);
        let kept = instance_keys::get(&db, "attestation").await.unwrap().unwrap();
        assert!(kept.len() > 32, "it is sealed");
        assert!(matches!(load(&db, [2; 32], None).await, Err(InstanceKeyError::Sealed(_))));
        // A configured key is used without reading the stored one, which stays unchanged.
        let given = load(&db, [2; 32], Some(&"01".repeat(32))).await.unwrap();
        assert_ne!(given.public_key(), key);
        assert_eq!(load(&db, [1; 32], None).await.unwrap().public_key(), key);
    }
}
