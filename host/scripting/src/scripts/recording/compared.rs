//! Compares the result of a replayed run with the recorded one.

use serde_json::Value;

use super::replay::{Difference, DifferenceKind};
use super::run::RecordedResult;
use belvedere_base::error_text::cut;

/// Bytes of a value or an error that a difference shows.
const MAX_SHOWN: usize = 160;

/// Bytes of the name of a field, and of an error by which differences are grouped.
const MAX_PLACE: usize = 120;

/// The difference between two results; `None` when they are equal to the byte.
pub(in crate::scripts) fn compare_results(
    before: &RecordedResult,
    now: &RecordedResult,
) -> Option<Difference> {
    if before == now {
        return None;
    }
    let (kind, mut place, [before, now]) = match (before, now) {
        (RecordedResult::Returned { body: before, .. }, RecordedResult::Returned { body: now, .. }) => {
            let (place, values) = compare_bodies(before, now);
            (DifferenceKind::Answer, place, values)
        }
        _ => (DifferenceKind::Error, without_numbers(&shown(now)), [shown(before), shown(now)]),
    };
    cut(&mut place, MAX_PLACE);
    let detail = format!("{} → {}", short(before), short(now));
    Some(Difference { kind, place, detail, is_write: false })
}

fn short(mut text: String) -> String {
    cut(&mut text, MAX_SHOWN);
    text
}

fn shown(result: &RecordedResult) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match result {
        RecordedResult::Returned { body, .. } => text(body),
        RecordedResult::Failed { raised: Some((status, body)), .. } => format!("{status} {}", text(body)),
        RecordedResult::Failed { message, .. } => text(message),
    }
}

/// The text without its numbers, which are other ones in each run.
fn without_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(MAX_PLACE));
    for c in text.chars().take(MAX_PLACE) {
        match c {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            c => out.push(c),
        }
    }
    out
}

/// The first field that differs, and its values.
fn compare_bodies(before: &[u8], now: &[u8]) -> (String, [String; 2]) {
    let mut place = String::new();
    let values = [before, now].map(serde_json::from_slice::<Value>);
    let [Ok(before_json), Ok(now_json)] = &values else {
        return (place, [before, now].map(|body| String::from_utf8_lossy(body).into_owned()));
    };
    let values = differing(before_json, now_json, &mut place);
    (place, values.map(|value| value.map_or_else(|| "nothing".to_owned(), Value::to_string)))
}

/// The first values that differ below two values, and where; `None` for one that is not there.
fn differing<'a>(before: &'a Value, now: &'a Value, place: &mut String) -> [Option<&'a Value>; 2] {
    match (before, now) {
        (Value::Object(before), Value::Object(now)) => {
            let names = before.keys().chain(now.keys().filter(|name| !before.contains_key(*name)));
            for name in names {
                let values = [before.get(name), now.get(name)];
                if values[0] != values[1] {
                    if !place.is_empty() {
                        place.push('.');
                    }
                    place.push_str(name);
                    return deeper(values, place);
                }
            }
        }
        (Value::Array(before), Value::Array(now)) => {
            for at in 0..before.len().max(now.len()) {
                let values = [before.get(at), now.get(at)];
                if values[0] != values[1] {
                    place.push_str("[]");
                    return deeper(values, place);
                }
            }
        }
        _ => {}
    }
    [Some(before), Some(now)]
}

fn deeper<'a>(values: [Option<&'a Value>; 2], place: &mut String) -> [Option<&'a Value>; 2] {
    match values {
        [Some(before), Some(now)] => differing(before, now, place),
        values => values,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn returned(body: &str) -> RecordedResult {
        RecordedResult::Returned { shape: 1, body: body.into() }
    }

    fn failed(message: &str, raised: Option<(u16, Vec<u8>)>) -> RecordedResult {
        RecordedResult::Failed { kind: "runtime".to_owned(), message: message.into(), raised }
    }

    #[test]
    fn answers_differ_at_a_field() {
        for (before, now, place, detail) in [
            (r#"{"a":1,"b":[{"c":1},{"c":2}]}"#, r#"{"a":1,"b":[{"c":1},{"c":3}]}"#, "b[].c", "2 → 3"),
            (r#"{"a":1}"#, r#"{"a":1,"b":2}"#, "b", "nothing → 2"),
            ("[1]", "[]", "[]", "1 → nothing"),
            ("1", "\"x\"", "", "1 → \"x\""),
            ("not JSON", "1", "", "not JSON → 1"),
            (r#"{"a":1}"#, r#"{ "a":1}"#, "", r#"{"a":1} → {"a":1}"#),
        ] {
            let difference = compare_results(&returned(before), &returned(now)).unwrap();
            assert_eq!(difference.kind, DifferenceKind::Answer);
            assert_eq!((&*difference.place, &*difference.detail), (place, detail), "{before} {now}");
        }
        assert_eq!(compare_results(&returned("1"), &returned("1")), None);
    }

    #[test]
    fn errors_are_grouped_by_their_text() {
        let difference = compare_results(&returned("1"), &failed("line 12: no note 345", None)).unwrap();
        assert_eq!((difference.kind, &*difference.place), (DifferenceKind::Error, "line #: no note #"));
        let raised = |status| failed("x", Some((status, b"{}".to_vec())));
        let difference = compare_results(&raised(400), &raised(404)).unwrap();
        assert_eq!(difference.detail, "400 {} → 404 {}");
    }
}
