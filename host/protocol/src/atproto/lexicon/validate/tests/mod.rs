//! Tests of validation: each kind of definition by examples, and all of them against a model.

mod costs;
mod generate;
mod kinds;
mod model;

use belvedere_standins::vectors;
use proptest::prelude::*;
use serde_json::Value;

use self::generate::{NOTE, Tape};
use self::model::Documents;
use super::super::{LexiconDoc, Schemas};

fn schemas(documents: &Documents) -> Schemas {
    let texts: Vec<String> = documents.values().map(Value::to_string).collect();
    Schemas::new(texts.iter().map(String::as_str))
}

/// The verdict, which is the model's too.
fn agreed(documents: &Documents, schemas: &Schemas, collection: &str, record: &Value) -> bool {
    let errors = schemas.check(collection, record);
    let expected = model::is_valid(documents, collection, record);
    let lexicons = [collection, generate::DEFS].map(|id| documents.get(id));
    assert_eq!(errors.is_ok(), expected, "{errors:?}\n{record:#}\n{lexicons:?}");
    if let Err(errors) = &errors {
        assert!(errors.to_string().starts_with("at record"), "{errors}");
    }
    expected
}

/// Bytes that look random, and are the same in each run.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut byte = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 56) as u8
    };
    (0..length).map(|_| byte()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn generated_lexicons_mean_what_the_model_says(
        lexicon in prop::collection::vec(any::<u8>(), 0..400),
        records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 1..6),
    ) {
        let documents = generate::documents(&mut Tape(&lexicon));
        for document in documents.values() {
            prop_assert_eq!(LexiconDoc::parse(document).err(), None);
        }
        let schemas = schemas(&documents);
        for tape in records {
            agreed(&documents, &schemas, NOTE, &generate::record(&mut Tape(&tape), &documents, NOTE));
        }
    }

    #[test]
    fn never_panics(lexicon in prop::collection::vec(any::<u8>(), 0..200), cbor in prop::collection::vec(any::<u8>(), 0..60)) {
        let schemas = schemas(&generate::documents(&mut Tape(&lexicon)));
        let _ = schemas.validate(NOTE, &cbor);
    }
}

#[test]
fn generated_records_are_valid_and_invalid_often() {
    let (mut valid, mut all) = (0, 0);
    for seed in 0..600 {
        let documents = generate::documents(&mut Tape(&noise(seed, 400)));
        let record = generate::record(&mut Tape(&noise(!seed, 120)), &documents, NOTE);
        valid += usize::from(agreed(&documents, &schemas(&documents), NOTE, &record));
        all += 1;
    }
    assert!(valid * 5 > all && valid * 5 < all * 4, "{valid} of {all} are valid");
}

#[test]
fn real_lexicons_are_accepted_and_mean_what_the_model_says() {
    let Some(documents) = vectors::lexicons() else { return };
    let documents: Documents = documents
        .into_iter()
        .map(|document| {
            let lexicon = LexiconDoc::parse(&document).unwrap_or_else(|error| panic!("{error}: {document}"));
            (lexicon.id.as_str().to_owned(), document)
        })
        .collect();
    let schemas = schemas(&documents);
    let records = documents.iter().filter(|(_, document)| document["defs"]["main"]["type"] == "record");
    let (mut valid, mut all) = (0, 0);
    for (collection, _) in records {
        for seed in 0..50 {
            let record = generate::record(&mut Tape(&noise(seed, 400)), &documents, collection);
            valid += usize::from(agreed(&documents, &schemas, collection, &record));
            all += 1;
        }
    }
    assert!(valid * 10 > all, "{valid} of {all} are valid");
}
