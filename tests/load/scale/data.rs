//! The records of the large index: twenty collections of very different size over 200,000 accounts, all determined by
//! their number.

use std::sync::Arc;

use belvedere_standins::jetstream::{Frame, Place, synthetic_did, tid};
use serde_json::{Value, json};

/// The number of accounts.
pub const ACCOUNTS: usize = 200_000;

/// The collection with four fifths of the records.
pub const LARGE: &str = "com.example.scale.c00";
/// The collection with one record in five thousand.
pub const SMALL: &str = "com.example.scale.c01";

const COLLECTIONS: usize = 20;

/// Records of 10,000 that belong to [`LARGE`] and [`SMALL`].
const LARGE_SHARE: u64 = 8_000;
const SMALL_SHARE: u64 = 2;

/// One record in this many begins with the same words.
const COMMON_EVERY: u64 = 50;

/// The number of posts that records link to.
const TARGETS: u64 = 100_000;

/// A word that one record in a million has.
pub const RARE_WORD: &str = "quixotry";

/// A well-mixed number for a record and a purpose (splitmix64), so that neighbours have nothing in common.
fn mixed(i: usize, purpose: u64) -> u64 {
    let mut z = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(purpose << 32);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// All collections.
pub fn collections() -> impl Iterator<Item = String> {
    (0..COLLECTIONS).map(name)
}

fn name(collection: usize) -> String {
    format!("com.example.scale.c{collection:02}")
}

/// The collection of a record. The 18 that are neither large nor small have shares of 1, 1/2, 1/3 and so on.
pub fn collection(i: usize) -> usize {
    let at = mixed(i, 1) % 10_000;
    if at < LARGE_SHARE {
        return 0;
    }
    if at < LARGE_SHARE + SMALL_SHARE {
        return 1;
    }
    let weights = (1..=COLLECTIONS - 2).map(|rank| 1.0 / rank as f64);
    let total: f64 = weights.clone().sum();
    let mut rest = (mixed(i, 2) % 1_000_000) as f64 / 1e6 * total;
    for (rank, weight) in weights.enumerate() {
        rest -= weight;
        if rest <= 0.0 {
            return rank + 2;
        }
    }
    COLLECTIONS - 1
}

/// The account of a record.
pub fn did(i: usize) -> String {
    synthetic_did((mixed(i, 3) % ACCOUNTS as u64) as usize)
}

pub fn rkey(i: usize) -> String {
    tid(i as u64 + 1_000_000_000_000, 0)
}

/// The URI of a record.
pub fn uri(i: usize) -> String {
    format!("at://{}/{}/{}", did(i), name(collection(i)), rkey(i))
}

/// A post that records link to.
pub fn target(n: u64) -> String {
    format!("at://{}/com.example.post/{}", synthetic_did(n as usize % ACCOUNTS), tid(n + 1, 3))
}

fn word(n: u64) -> String {
    let letters = b"abcdefghijklmnoprstuvwy";
    let mut rest = n * 2_654_435_761 % 5_000_000_029;
    (0..4 + n % 4)
        .map(|_| {
            let letter = letters[(rest % letters.len() as u64) as usize];
            rest /= letters.len() as u64;
            char::from(letter)
        })
        .collect()
}

/// The text of a record: ten words of ten thousand, of which low numbers are frequent.
fn text(i: usize) -> String {
    let words = (0..10).map(|n| {
        let uniform = (mixed(i, 10 + n) % 1_000_000) as f64 / 1e6;
        word((10_000f64.powf(uniform)) as u64)
    });
    let mut text = words.collect::<Vec<_>>().join(" ");
    if mixed(i, 4).is_multiple_of(COMMON_EVERY) {
        text.insert_str(0, "Good morning ");
    }
    if mixed(i, 5).is_multiple_of(1_000_000) {
        text.push(' ');
        text.push_str(RARE_WORD);
    }
    text
}

/// The number of values of `likes`.
pub const LIKES: u64 = 100_000;

fn record(i: usize) -> Value {
    json!({
        "$type": name(collection(i)),
        "createdAt": format!("2026-01-01T{:02}:{:02}:{:02}.000Z", i / 3600 % 24, i / 60 % 60, i % 60),
        "langs": ["en"],
        "likes": mixed(i, 6) % LIKES,
        "score": mixed(i, 7) % 1_000_000_007,
        "subject": { "uri": target(mixed(i, 8) % TARGETS) },
        "text": text(i),
    })
}

/// The events that create the records of a range, one microsecond apart.
pub fn frames(range: std::ops::Range<usize>, first_time_us: i64) -> impl Iterator<Item = Frame> {
    let names: Vec<Arc<str>> = collections().map(Arc::from).collect();
    range.map(move |i| {
        let (time_us, did, rkey) = (first_time_us + i as i64, did(i), rkey(i));
        let rev = tid(time_us as u64, 0);
        let place = Place { did: &did, collection: &names[collection(i)], rkey: &rkey, rev: &rev };
        Frame::create(time_us, place, &record(i))
    })
}

/// Distinct numbers below `end` in an order without a pattern, of records in a collection.
pub fn sample(end: usize, of: usize) -> impl Iterator<Item = usize> {
    (0..).map(move |n| (mixed(n, 99) % end as u64) as usize).filter(move |i| collection(*i) == of)
}

/// A word that the record has.
pub fn some_word(i: usize) -> String {
    text(i).split(' ').nth(3).unwrap_or_default().to_owned()
}
