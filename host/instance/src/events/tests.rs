//! Pins the rows of all events: `docs/events.md` shows them.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::Event;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, Nsid, RecordUri};
use belvedere_storage::store::events::Severity;

/// The head of the table.
const HEAD: &str = "| Event | Severity | Actor | Subject | Detail | Meaning |\n|---|---|---|---|---|---|\n";

#[test]
fn the_documented_table_is_current() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/events.md");
    let committed = std::fs::read_to_string(&file).unwrap();
    let (text, _) = committed.split_once(HEAD).unwrap();
    let rows = Event::samples(true).into_iter().zip(Event::samples(false));
    let rows = rows.map(|((meaning, full), (_, empty))| row(meaning, full, empty));
    let current = format!("{text}{HEAD}{}", rows.collect::<String>());
    if committed != current {
        let new = std::env::temp_dir().join("events.md");
        std::fs::write(&new, current).unwrap();
        panic!(
            "docs/events.md is not what the table of events says: cp {} docs/, look at the difference, and commit it",
            new.display()
        );
    }
}

#[test]
fn only_these_keys_are_left_out_of_a_detail() {
    let keys = |event: Event| {
        let row = event.describe();
        let keys = row.detail.as_object().into_iter().flatten();
        keys.map(|(key, _)| format!("{} {key}", row.event_type)).collect::<std::collections::BTreeSet<_>>()
    };
    let pairs = Event::samples(true).into_iter().zip(Event::samples(false));
    let missing: Vec<String> = pairs
        .flat_map(|((_, full), (_, empty))| keys(full).difference(&keys(empty)).cloned().collect::<Vec<_>>())
        .collect();
    let expected = [
        "api_client.created parent_client_id",
        "api_client.created self_service",
        "record.deleted reason",
        "plugin.log fields",
    ];
    assert_eq!(missing, expected);
}

/// A line of the table. The other sample shows whether the severity varies.
fn row(meaning: &str, full: Event, empty: Event) -> String {
    let (row, other) = (full.describe(), empty.describe());
    assert_eq!(row.event_type, other.event_type);
    let mut severities = vec![row.severity.as_str(), other.severity.as_str()];
    severities.sort_unstable();
    severities.dedup();
    let [actor, subject] = [row.actor_did, row.subject].map(|text| text.unwrap_or("–".to_owned()));
    format!(
        "| `{}` | {} | {actor} | {subject} | `{}` | {meaning} |\n",
        row.event_type,
        severities.join(", "),
        row.detail
    )
}

/// A value for the field `name` of an event. `full`: options are set and numbers are not 0.
pub(super) trait Sample {
    fn sample(name: &'static str, full: bool) -> Self;
}

impl Sample for &'static str {
    fn sample(name: &'static str, _: bool) -> Self {
        name
    }
}

impl Sample for String {
    fn sample(name: &'static str, _: bool) -> Self {
        name.to_owned()
    }
}

impl Sample for Vec<String> {
    fn sample(name: &'static str, full: bool) -> Self {
        Vec::from_iter(full.then(|| name.to_owned()))
    }
}

impl Sample for Value {
    fn sample(name: &'static str, _: bool) -> Self {
        json!({ name: 1 })
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(name: &'static str, full: bool) -> Self {
        full.then(|| T::sample(name, full))
    }
}

impl Sample for bool {
    fn sample(_: &'static str, full: bool) -> Self {
        full
    }
}

impl Sample for Did {
    fn sample(name: &'static str, _: bool) -> Self {
        Self::try_from(&*format!("did:web:{name}.example")).unwrap()
    }
}

impl Sample for Nsid {
    fn sample(name: &'static str, _: bool) -> Self {
        Self::try_from(&*format!("com.example.{name}")).unwrap()
    }
}

impl Sample for RecordUri {
    fn sample(_: &'static str, _: bool) -> Self {
        Self::parse("at://did:web:did.example/com.example.note/rkey").unwrap()
    }
}

impl Sample for Timestamp {
    fn sample(_: &'static str, _: bool) -> Self {
        Self(1_700_000_000_000_000)
    }
}

impl Sample for Duration {
    fn sample(_: &'static str, full: bool) -> Self {
        Self::from_millis(if full { 1500 } else { 0 })
    }
}

impl Sample for Severity {
    fn sample(_: &'static str, full: bool) -> Self {
        if full { Self::Warn } else { Self::Info }
    }
}

macro_rules! numbers {
    ($($number:ty),+) => {
        $(impl Sample for $number {
            fn sample(_: &'static str, full: bool) -> Self {
                full.into()
            }
        })+
    };
}

numbers!(i64, u64, u32, usize, f64);
