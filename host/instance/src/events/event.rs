//! Makes the type of events and their rows of the event log from their table ([`super::table`]).

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use belvedere_protocol::atproto::RecordUri;
use belvedere_storage::store::events::Severity;

/// Bytes of a script's source or of a message that one event keeps: enough to find the error, without a flood of
/// failing calls filling the disk.
const MAX_TEXT_BYTES: usize = 4096;

/// The columns of an event's row that depend on its kind.
#[derive(Clone, Debug)]
pub struct EventFields {
    pub event_type: &'static str,
    pub severity: Severity,
    pub actor_did: Option<String>,
    pub subject: Option<String>,
    pub detail: Value,
}

/// Declares the events. A row has the meaning, the name, the severity and the variant; then the actor, the subject and
/// the detail. A field without a type is a `String`.
///
/// The detail is an object of fields (`reason`) and of values (`"status": status`). `"key"?: value` leaves out what is
/// `None`, `..uri` names a record, and `= value` is a detail that exists already.
macro_rules! events {
    ($(
        $(#[doc = $doc:literal])+
        $name:literal $severity:tt $variant:ident { $($field:ident $(: $ty:ty)?),* }
            $actor:expr, $subject:expr, { $($detail:tt)* };
    )+) => {
        /// Something that happened. `docs/events.md` lists the rows of all kinds.
        #[derive(Clone, Debug)]
        pub enum Event {
            $($(#[doc = $doc])+ $variant { $($field: events!(@type $($ty)?),)* },)+
        }

        impl Event {
            /// The columns of this event's row.
            pub fn describe(self) -> EventFields {
                match self {
                    $(Self::$variant { $($field),* } => {
                        // The actor and the subject may move fields that the others read.
                        let severity = events!(@severity $severity);
                        let detail = events!(@detail Detail::default(); $($detail)*);
                        let (actor_did, subject) = ($actor.into(), $subject.into());
                        EventFields { event_type: $name, severity, actor_did, subject, detail }
                    })+
                }
            }

            /// The meaning of each kind, and an event. `full`: its options are set and its numbers are not 0.
            #[cfg(test)]
            pub(super) fn samples(full: bool) -> Vec<(&'static str, Self)> {
                use super::tests::Sample;
                vec![$((
                    concat!($($doc),+).trim(),
                    Self::$variant { $($field: Sample::sample(stringify!($field), full)),* },
                )),+]
            }
        }
    };
    (@type) => { String };
    (@type $ty:ty) => { $ty };
    (@severity ($severity:expr)) => { $severity };
    (@severity $severity:ident) => { $severity };
    (@detail $built:expr;) => { $built.into() };
    (@detail $built:expr; = $detail:ident) => { $detail };
    (@detail $built:expr; ..$uri:ident $(, $($rest:tt)*)?) => {
        events!(@detail $built.record(&$uri); $($($rest)*)?)
    };
    (@detail $built:expr; $field:ident $(, $($rest:tt)*)?) => {
        events!(@detail $built.with(stringify!($field), &$field); $($($rest)*)?)
    };
    (@detail $built:expr; $key:literal: $value:expr $(, $($rest:tt)*)?) => {
        events!(@detail $built.with($key, &$value); $($($rest)*)?)
    };
    (@detail $built:expr; $key:literal?: $value:expr $(, $($rest:tt)*)?) => {
        events!(@detail $built.with_some($key, $value.as_ref()); $($($rest)*)?)
    };
}

pub(super) use events;

/// No actor, or no subject.
pub(super) const NONE: Option<String> = None;

/// The detail of a row, as it is built.
#[derive(Default)]
pub(super) struct Detail(Map<String, Value>);

impl Detail {
    pub(super) fn with(mut self, key: &str, value: impl Serialize) -> Self {
        // Texts, numbers and lists of them always serialize.
        self.0.insert(key.to_owned(), serde_json::to_value(value).unwrap_or_default());
        self
    }

    pub(super) fn with_some(self, key: &str, value: Option<impl Serialize>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    pub(super) fn record(self, uri: &RecordUri) -> Self {
        let named = self.with("collection", uri.collection.as_str()).with("did", uri.did.as_str());
        named.with("rkey", uri.rkey.as_str())
    }
}

impl From<Detail> for Value {
    fn from(detail: Detail) -> Self {
        Self::Object(detail.0)
    }
}

pub(super) fn warn_if(condition: bool) -> Severity {
    if condition { Severity::Warn } else { Severity::Info }
}

pub(super) fn error_if(condition: bool) -> Severity {
    if condition { Severity::Error } else { Severity::Info }
}

pub(super) fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// Cuts a text at [`MAX_TEXT_BYTES`], at a character boundary.
pub(super) fn truncate(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        let end = (0..=MAX_TEXT_BYTES).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Returns a value that fits unchanged; replaces a larger one with the beginning of its JSON text.
pub(super) fn truncate_json(value: Value) -> Value {
    let text = value.to_string();
    if text.len() <= MAX_TEXT_BYTES { value } else { Value::String(truncate(text)) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_texts_are_cut_at_a_character_boundary() {
        let cut = truncate("ä".repeat(MAX_TEXT_BYTES));
        assert!(cut.len() <= MAX_TEXT_BYTES + '…'.len_utf8());
        assert!(cut.ends_with("ä…"));
        assert_eq!(truncate("short".into()), "short");
    }

    #[test]
    fn a_large_input_becomes_the_beginning_of_its_text() {
        let small = json!({ "a": 1 });
        assert_eq!(truncate_json(small.clone()), small);
        let large = json!({ "a": "x".repeat(MAX_TEXT_BYTES) });
        assert!(truncate_json(large).as_str().unwrap().starts_with(r#"{"a":"xxx"#));
    }
}
