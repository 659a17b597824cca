//! Replaces secrets by texts of the same length.
//!
//! Only letters and digits are replaced. So escapes in JSON and in addresses keep their places, encoded arguments stay readable, and
//! a script that encodes a replaced value gets what encoding the secret and replacing it gives.

use std::collections::HashSet;

use memchr::memmem::Finder;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use zeroize::Zeroizing;

use super::secrets;
use crate::scripts::Variables;
use belvedere_instance::events::redact::MIN_BYTES;

/// Secrets that one run may have besides script variables. Each is searched for in the whole run, so a run with more is not kept.
const MAX_FOUND: usize = 64;

/// Characters that are not escaped in addresses.
const ADDRESS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A secret, and the text in its place.
#[derive(Clone)]
struct Mask {
    secret: Finder<'static>,
    replacement: Vec<u8>,
}

/// The replacements of the values of script variables.
pub(in crate::scripts) struct VariableMasks {
    masks: Vec<Mask>,
    /// The texts in place of values, which are no secrets.
    replacements: HashSet<Vec<u8>>,
    /// JSON of `env` with the values, and with the texts in their place.
    env: Zeroizing<Vec<u8>>,
    masked_env: Vec<u8>,
}

/// The secrets of one run that are no variables.
#[derive(Default)]
pub(in crate::scripts) struct FoundSecrets {
    secrets: HashSet<Vec<u8>>,
    masks: Vec<Mask>,
}

impl VariableMasks {
    pub(in crate::scripts) fn new(variables: &Variables) -> Self {
        let mut env = Zeroizing::new(Vec::new());
        variables.render(&mut env);
        let (mut masks, mut replacements) = (Vec::new(), HashSet::new());
        let mut masked = Vec::new();
        for (name, value) in variables.pairs() {
            let replacement = text_in_place(value.as_bytes(), &name);
            if value.len() >= MIN_BYTES {
                add_masks(&mut masks, value.as_bytes(), &replacement);
                replacements.insert(replacement.clone());
            }
            masked.push((name, String::from_utf8_lossy(&replacement).into_owned()));
        }
        let mut masked_env = Vec::new();
        let names = masked.iter().map(|(name, value)| (&**name, &**value));
        Variables::new(names).render(&mut masked_env);
        Self { masks, replacements, env, masked_env }
    }

    /// JSON of `env`, with the values or with the texts in their place.
    pub(in crate::scripts) fn env(&self, with_values: bool) -> &[u8] {
        if with_values { &self.env } else { &self.masked_env }
    }

    fn replace(&self, bytes: &mut [u8]) {
        replace(bytes, &self.masks);
    }

    /// Replaces the secrets of each part of a recorded run in all of its parts. `known`: those that were found while it was recorded.
    /// `false` when there are too many.
    pub(super) fn mask_run(&self, mut parts: Vec<&mut Vec<u8>>, known: Vec<Vec<u8>>) -> bool {
        let mut found = FoundSecrets::default();
        for mut secret in known {
            self.replace(&mut secret);
            self.add(&mut found, secret);
        }
        for part in &mut parts {
            self.replace(part);
            self.find(part, &mut found);
            if found.secrets.len() > MAX_FOUND {
                return false;
            }
        }
        for part in &mut parts {
            replace(part, &found.masks);
        }
        true
    }

    /// Replaces the secrets in a part of a replayed run as [`Self::mask_run`] does. `found` has those of earlier parts.
    pub(super) fn mask_part(&self, bytes: &mut [u8], found: &mut FoundSecrets) {
        self.replace(bytes);
        if found.secrets.len() <= MAX_FOUND {
            self.find(bytes, found);
        }
        replace(bytes, &found.masks);
    }

    fn find(&self, bytes: &mut [u8], found: &mut FoundSecrets) {
        for secret in secrets::named(bytes) {
            if !self.replacements.contains(&bytes[secret.clone()]) {
                self.add(found, bytes[secret.clone()].to_vec());
                conceal(&mut bytes[secret]);
            }
        }
        for secret in secrets::shaped(bytes) {
            self.add(found, bytes[secret].to_vec());
        }
    }

    fn add(&self, found: &mut FoundSecrets, secret: Vec<u8>) {
        let is_new = secret.len() >= MIN_BYTES
            && found.secrets.len() <= MAX_FOUND
            && !self.replacements.contains(&secret)
            && !found.secrets.contains(&secret);
        if is_new {
            let mut replacement = secret.clone();
            conceal(&mut replacement);
            if replacement != secret {
                add_masks(&mut found.masks, &secret, &replacement);
            }
            found.secrets.insert(secret);
        }
    }
}

/// Adds the masks of a secret as it is, in JSON and in an address.
fn add_masks(masks: &mut Vec<Mask>, secret: &[u8], replacement: &[u8]) {
    let mut forms = vec![(secret.to_vec(), replacement.to_vec())];
    if let (Ok(secret), Ok(replacement)) = (std::str::from_utf8(secret), std::str::from_utf8(replacement)) {
        forms.push((in_json(secret), in_json(replacement)));
        forms.push((in_address(secret), in_address(replacement)));
    }
    forms.dedup();
    // A form of another length would shift what follows.
    forms.retain(|(secret, replacement)| secret.len() == replacement.len());
    let forms = forms
        .into_iter()
        .map(|(secret, replacement)| Mask { secret: Finder::new(&secret).into_owned(), replacement });
    masks.extend(forms);
    // The longest first: one may contain another.
    masks.sort_by_key(|mask| std::cmp::Reverse(mask.replacement.len()));
}

fn in_json(text: &str) -> Vec<u8> {
    let json = serde_json::Value::from(text).to_string();
    json.as_bytes().get(1..json.len() - 1).unwrap_or_default().to_vec()
}

fn in_address(text: &str) -> Vec<u8> {
    utf8_percent_encode(text, ADDRESS).to_string().into_bytes()
}

fn replace(bytes: &mut [u8], masks: &[Mask]) {
    for Mask { secret, replacement } in masks {
        let mut from = 0;
        while let Some(at) = bytes.get(from..).and_then(|rest| secret.find(rest)) {
            let start = from + at;
            from = start + replacement.len();
            if let Some(place) = bytes.get_mut(start..from) {
                place.copy_from_slice(replacement);
            }
        }
    }
}

/// Replaces the letters and digits of a secret.
pub(in crate::scripts) fn conceal(secret: &mut [u8]) {
    let replacement = text_in_place(secret, "x");
    secret.copy_from_slice(&replacement);
}

/// A text of the same length, with the letters of `name` in place of letters and digits.
fn text_in_place(secret: &[u8], name: &str) -> Vec<u8> {
    let letters: Vec<u8> = name.bytes().filter(u8::is_ascii_alphanumeric).collect();
    let letters = if letters.is_empty() { b"x".as_slice() } else { &letters };
    let mut letters = letters.iter().copied().cycle();
    let mut replacement = Vec::with_capacity(secret.len());
    for chunk in secret.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c.len_utf8() {
                1 if !c.is_ascii_alphanumeric() => replacement.push(c as u8),
                1 => replacement.extend(letters.next()),
                2 => replacement.extend("ß".as_bytes()),
                3 => replacement.extend("…".as_bytes()),
                _ => replacement.extend("🔒".as_bytes()),
            }
        }
        replacement.extend(chunk.invalid().iter().filter_map(|_| letters.next()));
    }
    replacement
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MARK: &str = "m4rk3r";

    fn masked(parts: &[&str], variables: &Variables, known: &[&str]) -> Vec<String> {
        let mut parts: Vec<Vec<u8>> = parts.iter().map(|part| part.as_bytes().to_vec()).collect();
        let known = known.iter().map(|secret| secret.as_bytes().to_vec()).collect();
        assert!(VariableMasks::new(variables).mask_run(parts.iter_mut().collect(), known));
        parts.into_iter().map(|part| String::from_utf8(part).unwrap()).collect()
    }

    #[test]
    fn no_secret_is_left() {
        let variables = Variables::new([
            ("KEY", "m4rk3r-variable"),
            ("QUOTED", "m4rk3r\"quoted\n"),
            ("ESCAPED", "m4rk3r+/=é"),
        ]);
        let json = format!(
            r#"{{"password": "{MARK}1", "nested": {{"Access-Token": {{"a": ["{MARK}2"]}}}}, "n": 5, "x": "{MARK}3-header"}}"#
        );
        let args = format!(
            r#""https://a.example/?api_key={MARK}4abc&q=1 Authorization: Bearer {MARK}5.tok m4rk3r-variable m4rk3r\"quoted\n m4rk3r%2B%2F%3D%C3%A9"#
        );
        let answer = format!(
            r#"{{"refreshJwt":"{MARK}6"}} {MARK}3-header bva_{MARK}7abcdefghij "text":"{{\"token\":\"{MARK}8\"}}""#
        );
        let header = format!("{MARK}3-header");
        let stored = masked(&[&json, &args, &answer], &variables, &[&header]).concat();
        assert!(!stored.contains(MARK), "{stored}");
        assert!(
            stored.contains("KEYKEY-KEYKEYKE") && stored.contains("nested") && stored.contains("q=1"),
            "{stored}"
        );
    }

    #[test]
    fn values_are_replaced_in_the_same_way_everywhere() {
        let variables = Variables::new([("KEY", "a-secret-value")]);
        let parts = ["use a-secret-value", "got a-secret-value", r#"{"token":"a-secret-value"}"#];
        let stored = masked(&parts, &variables, &[]);
        assert_eq!(stored, ["use K-EYKEYK-EYKEY", "got K-EYKEYK-EYKEY", r#"{"token":"K-EYKEYK-EYKEY"}"#]);
    }

    #[test]
    fn parts_of_replays_are_masked_as_those_of_recordings() {
        let variables = Variables::new([("KEY", "a-secret-value"), ("URL", "https://x.example")]);
        let masks = VariableMasks::new(&variables);
        let text = r#"{"token":"abcdefgh","n":7} Bearer tok.en.tok https://x.example?q=a-secret-value"#;
        let [recorded] = &masked(&[text], &variables, &[])[..] else { panic!("one part") };
        // The script of a replay may have the texts in place of the values.
        let with_texts = text
            .replace("a-secret-value", "K-EYKEYK-EYKEY")
            .replace("https://x.example", "URLUR://L.URLURLU");
        for text in [text, &with_texts, recorded] {
            let mut part = text.as_bytes().to_vec();
            masks.mask_part(&mut part, &mut FoundSecrets::default());
            assert_eq!(String::from_utf8_lossy(&part), **recorded, "{text}");
        }
    }

    proptest! {
        #[test]
        fn masking_keeps_lengths_and_changes_nothing_the_second_time(
            pieces in proptest::collection::vec(
                prop_oneof![
                    Just("\"token\":".to_owned()), Just("\\\"jwt\\\":".to_owned()), Just("&token=".to_owned()),
                    Just("Bearer ".to_owned()), Just("a-secret-value".to_owned()), Just("{[\"".to_owned()),
                    Just("}]\"".to_owned()), Just("eyJ".to_owned()), "[a-zé0-9+%\"\\\\]{0,20}",
                ],
                0..20,
            ),
            more in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let variables = Variables::new([("KEY", "a-secret-value"), ("Ü", "a-secret")]);
            let masks = VariableMasks::new(&variables);
            let text = [pieces.concat().into_bytes(), more].concat();
            // A value that is a name as well, which no JSON has, names nothing any more when it is masked.
            let is_name = |value: &std::ops::Range<usize>| {
                let mut rest = text[value.end..].iter().filter(|byte| !matches!(byte, b'"' | b'\\' | b' '));
                rest.next() == Some(&b':')
            };
            prop_assume!(!secrets::named(&text).iter().any(is_name));
            let mut once = text.clone();
            masks.mask_part(&mut once, &mut FoundSecrets::default());
            prop_assert_eq!(once.len(), text.len());
            prop_assert!(memchr::memmem::find(&once, b"a-secret-value").is_none());
            let mut twice = once.clone();
            masks.mask_part(&mut twice, &mut FoundSecrets::default());
            prop_assert_eq!(twice, once);
        }
    }

    #[test]
    fn a_run_with_too_many_secrets_is_not_kept() {
        let texts: Vec<_> = (0..=MAX_FOUND).map(|n| format!("token=abcdef{n}")).collect();
        let mut part = texts.join(" ").into_bytes();
        assert!(!VariableMasks::new(&Variables::default()).mask_run(vec![&mut part], Vec::new()));
    }
}
