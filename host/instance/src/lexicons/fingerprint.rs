//! Fingerprints of the lexicons that a collection's records are validated against: its own and all that it refers to.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use belvedere_protocol::crypto::sha256;

/// Part of each fingerprint. Increment it when the validation itself changes, so that all records are validated again.
const VALIDATOR_VERSION: &str = "2";

/// The fingerprints of all lexicons, by NSID. `documents`: the text of each.
pub(super) fn fingerprints<'a>(
    documents: impl Iterator<Item = (&'a str, &'a str)>,
) -> HashMap<Box<str>, i64> {
    let texts: BTreeMap<&str, &str> = documents.collect();
    let documents: HashMap<&str, Document> =
        texts.iter().map(|(nsid, text)| (*nsid, Document::of(text))).collect();
    texts.keys().map(|nsid| ((*nsid).into(), fingerprint(nsid, &documents))).collect()
}

/// The parts of a document that a fingerprint needs. Many lexicons may refer to the same one, so its text is read once.
struct Document {
    hash: [u8; 32],
    refs: BTreeSet<String>,
}

impl Document {
    fn of(text: &str) -> Self {
        Self { hash: sha256(text.as_bytes()), refs: referred(text) }
    }
}

fn fingerprint(nsid: &str, documents: &HashMap<&str, Document>) -> i64 {
    let mut found = BTreeSet::from([nsid]);
    let mut open = vec![nsid];
    while let Some(next) = open.pop() {
        for other in documents.get(next).into_iter().flat_map(|document| &document.refs) {
            if found.insert(other) {
                open.push(other);
            }
        }
    }
    // A reference to a lexicon that is missing here counts too: uploading it changes the fingerprint.
    let mut bytes = VALIDATOR_VERSION.as_bytes().to_vec();
    for nsid in found {
        let hash = documents.get(nsid).map(|document| document.hash.as_slice()).unwrap_or_default();
        for part in [nsid.as_bytes(), hash] {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part);
        }
    }
    let hash = sha256(&bytes);
    hash.first_chunk().map_or(0, |head| i64::from_le_bytes(*head))
}

/// The NSIDs that a document refers to.
fn referred(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if let Ok(document) = serde_json::from_str::<Value>(text) {
        collect(&document, &mut found);
    }
    found
}

fn collect(value: &Value, found: &mut BTreeSet<String>) {
    let mut add = |reference: &Value| {
        let nsid = reference.as_str().and_then(|text| text.split('#').next());
        found.extend(nsid.filter(|nsid| !nsid.is_empty()).map(str::to_owned));
    };
    match value {
        Value::Object(members) => {
            members.get("ref").into_iter().for_each(&mut add);
            members.get("refs").and_then(Value::as_array).into_iter().flatten().for_each(&mut add);
            members.values().for_each(|member| collect(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(documents: &[(&str, &str)], nsid: &str) -> i64 {
        fingerprints(documents.iter().copied())[nsid]
    }

    #[test]
    fn changes_with_the_lexicon_and_with_what_it_refers_to() {
        let note = ("a.b.note", r#"{"x":{"ref":"a.b.defs#thing"}}"#);
        let defs = ("a.b.defs", r##"{"refs":["a.b.deep","#own"]}"##);
        let (deep, other) = (("a.b.deep", "{}"), ("a.b.other", "{}"));
        let all = [note, defs, deep, other];
        let before = of(&all, "a.b.note");
        assert_eq!(of(&[deep, note, other, defs], "a.b.note"), before, "the order is no change");
        assert_ne!(of(&[note, defs, ("a.b.deep", "{ }"), other], "a.b.note"), before);
        assert_ne!(of(&[note, defs, other], "a.b.note"), before);
        assert_eq!(of(&[note, defs, deep, ("a.b.other", "[]")], "a.b.note"), before);
        assert_ne!(of(&all, "a.b.defs"), before);
        // Lexicons may refer to each other in a circle.
        let circle = [("a.b.x", r#"{"ref":"a.b.y"}"#), ("a.b.y", r#"{"ref":"a.b.x"}"#)];
        assert_ne!(of(&circle, "a.b.x"), of(&[circle[0]], "a.b.x"));
    }
}
