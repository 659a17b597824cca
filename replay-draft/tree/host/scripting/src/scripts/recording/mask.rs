//! Replaces secrets in recorded runs before they are stored.
//!
//! A replacement has as many bytes as the secret, so that encoded arguments stay readable, and it is the same everywhere in the run, so that
//! the arguments of calls that are made from it are equal when the run is replayed.

use memchr::memmem;

use super::recorder::UnmaskedRun;
use super::run::{RecordedResult, RecordedRun};
use crate::scripts::Variables;
use crate::scripts::services::variables::mask_of;
use belvedere_instance::events::redact::{MIN_BYTES, is_secret};

/// Bytes of a name before the value that it names.
const MAX_NAME: usize = 64;

/// Texts before a token.
const SCHEMES: [&[u8]; 6] = [b"Bearer ", b"bearer ", b"Basic ", b"basic ", b"DPoP ", b"dpop "];

/// The beginnings of secrets whose form says what they are: JSON web tokens, and the keys of this server.
const SHAPES: [&[u8]; 4] = [b"eyJ", b"bva_", b"bvs_", b"bvp_"];

/// Bytes of a secret that is known by its form.
const MIN_SHAPE: usize = 16;

/// The text of addresses in spaces. Operators read no records of spaces.
const IN_SPACE: &[u8] = b"/space/";

/// A run without secrets: values of script variables, values of fields, parameters and headers with secret names, tokens. `None` for a run
/// that may have a record of a space.
pub fn mask(unmasked: UnmaskedRun, variables: &Variables) -> Option<RecordedRun> {
    let UnmaskedRun { mut run, secrets, .. } = unmasked;
    let (env, masked_env) = variables.masked();
    let at = memmem::find(&run.globals, &env)?;
    drop(run.globals.splice(at..at + env.len(), masked_env));

    let mut known: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for (name, value) in variables.pairs() {
        for secret in [value.as_bytes().to_vec(), escaped(&value)] {
            let replacement = mask_of(&name, secret.len()).into_bytes();
            known.push((secret, replacement));
        }
    }
    let mut found = secrets;
    for part in run.parts() {
        if memmem::find(part, IN_SPACE).is_some() {
            return None;
        }
        mask_named(part, &mut found);
        find_shapes(part, &mut found);
    }
    known.extend(found.into_iter().map(|secret| {
        let stars = vec![b'*'; secret.len()];
        (secret, stars)
    }));
    known.retain(|(secret, _)| secret.len() >= MIN_BYTES);
    // The longest first: one may contain another.
    known.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.len()));
    known.dedup_by(|a, b| a.0 == b.0);
    for part in run.parts() {
        replace(part, &known);
    }
    if let RecordedResult::Failed { message, .. } = &mut run.result {
        let mut bytes = mask_message(std::mem::take(message)).into_bytes();
        replace(&mut bytes, &known);
        *message = String::from_utf8_lossy(&bytes).into_owned();
    }
    Some(run)
}

/// Replaces the secrets in one part of a replayed run as [`mask`] does, so that it equals the recorded part.
pub(in crate::scripts) fn mask_alone(bytes: &mut [u8]) {
    let mut found = Vec::new();
    mask_named(bytes, &mut found);
    find_and_replace_shapes(bytes, found);
}

/// Replaces the secrets in the message of a failure.
pub(in crate::scripts) fn mask_message(message: String) -> String {
    let mut bytes = message.into_bytes();
    find_and_replace_shapes(&mut bytes, Vec::new());
    String::from_utf8_lossy(&bytes).into_owned()
}

fn find_and_replace_shapes(bytes: &mut [u8], mut found: Vec<Vec<u8>>) {
    find_shapes(bytes, &mut found);
    let known: Vec<_> = found.into_iter().map(|secret| (secret.clone(), vec![b'*'; secret.len()])).collect();
    replace(bytes, &known);
}

/// The bytes of a text in JSON, without quotes.
fn escaped(text: &str) -> Vec<u8> {
    let json = serde_json::Value::from(text).to_string();
    json.as_bytes().get(1..json.len() - 1).unwrap_or_default().to_vec()
}

/// Replaces each secret by the bytes of its replacement, which has the same length.
fn replace(bytes: &mut [u8], known: &[(Vec<u8>, Vec<u8>)]) {
    for (secret, replacement) in known {
        let finder = memmem::Finder::new(secret);
        let mut from = 0;
        while let Some(at) = bytes.get(from..).and_then(|rest| finder.find(rest)) {
            let (start, end) = (from + at, from + at + secret.len());
            if let Some(place) = bytes.get_mut(start..end) {
                place.copy_from_slice(replacement);
            }
            from = end;
        }
    }
}

/// Replaces the values of fields of JSON (`"token": "…"`) and of parameters (`token=…`) with secret names, and collects them.
fn mask_named(bytes: &mut [u8], found: &mut Vec<Vec<u8>>) {
    for at in 0..bytes.len() {
        let value = match bytes[at] {
            b':' => field_value(bytes, at),
            b'=' => parameter_value(bytes, at),
            _ => None,
        };
        let Some((start, end)) = value else { continue };
        let is_text = bytes[at] == b'=' || (start > 0 && bytes[start - 1] == b'"');
        let value = &mut bytes[start..end];
        if is_text {
            mask_text(value, found);
        } else {
            mask_structure(value, found);
        }
    }
}

fn mask_text(text: &mut [u8], found: &mut Vec<Vec<u8>>) {
    if text.len() >= MIN_BYTES {
        found.push(text.to_vec());
    }
    text.fill(b'*');
}

/// Replaces the texts in JSON that are no names, and the digits of its numbers.
fn mask_structure(bytes: &mut [u8], found: &mut Vec<Vec<u8>>) {
    let mut at = 0;
    while let Some(byte) = bytes.get_mut(at) {
        if byte.is_ascii_digit() {
            *byte = b'1';
        }
        let is_text = *byte == b'"';
        at += 1;
        if !is_text {
            continue;
        }
        let start = at;
        while bytes.get(at).is_some_and(|byte| *byte != b'"') {
            at += if bytes[at] == b'\\' { 2 } else { 1 };
        }
        let rest = bytes.get(at + 1..).unwrap_or_default().trim_ascii_start();
        if !rest.starts_with(b":")
            && let Some(text) = bytes.get_mut(start..at)
        {
            mask_text(text, found);
        }
        at += 1;
    }
}

/// The value of a field with a secret name, whose colon is at `at`: the text, or everything within braces or brackets.
fn field_value(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let before = bytes.get(..at)?.trim_ascii_end();
    let name = before.strip_suffix(b"\"")?;
    let tail = name.get(name.len().saturating_sub(MAX_NAME)..)?;
    let from = tail.iter().rposition(|byte| *byte == b'"')? + 1;
    if !is_secret(std::str::from_utf8(tail.get(from..)?).ok()?) {
        return None;
    }
    let rest = bytes.get(at + 1..)?;
    let start = at + 1 + rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
    if bytes.get(start..)?.starts_with(b"\\\"") {
        // JSON in a text of JSON.
        let text = start + 2;
        let length = memmem::find(bytes.get(text..)?, b"\\\"")?;
        return Some((text, text + length));
    }
    let (mut depth, mut in_text, mut is_escaped) = (0_u32, false, false);
    for (offset, byte) in bytes.get(start..)?.iter().enumerate() {
        let end = start + offset;
        if in_text {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            if !in_text && depth == 0 {
                return Some((start + 1, end));
            }
            continue;
        }
        match byte {
            b'"' => in_text = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 1 => depth -= 1,
            b'}' | b']' if depth == 1 => return Some((start, end + 1)),
            b'}' | b']' | b',' if depth == 0 => {
                let value = bytes.get(start..end)?;
                // Literals stay, so that the JSON can be read.
                return value.first()?.is_ascii_digit().then_some((start, end));
            }
            _ => {}
        }
    }
    None
}

/// The value of a parameter with a secret name, whose equals sign is at `at`.
fn parameter_value(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let before = bytes.get(at.saturating_sub(MAX_NAME)..at)?;
    let name = before.rsplit(|byte| !is_of_name(byte)).next()?;
    if !is_secret(std::str::from_utf8(name).ok()?) {
        return None;
    }
    let is_end = |byte: &u8| !byte.is_ascii_graphic() || matches!(byte, b'&' | b'#' | b'"' | b'\'' | b'<' | b'>' | b';');
    let rest = bytes.get(at + 1..)?;
    let length = rest.iter().position(is_end).unwrap_or(rest.len());
    (length >= MIN_BYTES).then_some((at + 1, at + 1 + length))
}

/// Collects tokens that their form, or the name of a scheme before them, makes known.
fn find_shapes(bytes: &[u8], found: &mut Vec<Vec<u8>>) {
    let is_of_token =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'~' | b'+' | b'/' | b'=');
    let token = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        &rest[..rest.iter().position(|byte| !is_of_token(byte)).unwrap_or(rest.len())]
    };
    for scheme in SCHEMES {
        let ends = memmem::find_iter(bytes, scheme).map(|at| at + scheme.len());
        found.extend(ends.map(token).filter(|token| token.len() >= MIN_BYTES).map(<[u8]>::to_vec));
    }
    for shape in SHAPES {
        let tokens = memmem::find_iter(bytes, shape).map(token);
        found.extend(tokens.filter(|token| token.len() >= MIN_SHAPE).map(<[u8]>::to_vec));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripts::recording::run::RecordedCall;
    use belvedere_base::clock::Timestamp;

    fn masked(globals: &str, args: &str, answer: &str, variables: &Variables, secrets: &[&str]) -> Option<String> {
        let mut env = b"{\"env\":".to_vec();
        variables.render(&mut env);
        env.extend_from_slice(globals.as_bytes());
        let call = RecordedCall {
            name: "http.send".to_owned(),
            args: args.as_bytes().to_vec(),
            answer: answer.as_bytes().to_vec(),
        };
        let result = RecordedResult::Failed { kind: "runtime".to_owned(), message: args.to_owned() };
        let run = RecordedRun { globals: env, calls: vec![call], result, ..RecordedRun::default() };
        let secrets = secrets.iter().map(|secret| secret.as_bytes().to_vec()).collect();
        let (trigger, at) = ("xrpc.query:a.b.c".into(), Timestamp(0));
        let run = mask(UnmaskedRun { trigger, started_at: at, at, run, secrets }, variables)?;
        Some(format!("{:?}", String::from_utf8_lossy(&run.encode().unwrap())))
    }

    #[test]
    fn no_secret_is_left() {
        const MARK: &str = "m4rk3r";
        let secret = format!("{MARK}-variable");
        let variables = Variables::new([("KEY", &*secret), ("PIN", "7x"), ("QUOTED", "m4rk3r\"quoted")]);
        let json = format!(
            "{{\"password\": \"{MARK}1\", \"nested\": {{\"Access-Token\": {{\"a\": [\"{MARK}2\"]}}}}, \"n\": 5, \"x\": \"{MARK}3-header\"}}"
        );
        let args = format!(
            "\"\"https://a.example/?api_key={MARK}4abc&q=1 Authorization: Bearer {MARK}5.tok {secret} m4rk3r\\\"quoted"
        );
        let answer = format!("\u{22}{{\"refreshJwt\":\"{MARK}6\"}} cookie {MARK}3-header bva_{MARK}7abcdefghij");
        let header = format!("{MARK}3-header");
        let stored = masked(&format!(",\"input\":{json}}}"), &args, &answer, &variables, &[&header]).unwrap();
        assert!(!stored.contains(MARK), "{stored}");
        assert!(!stored.contains("7x"), "{stored}");
        assert!(stored.contains("[env.KEY]") && stored.contains("nested") && stored.contains("q=1"), "{stored}");
    }

    #[test]
    fn values_are_replaced_in_the_same_way_everywhere() {
        let variables = Variables::new([("KEY", "a-secret-value")]);
        let stored = masked("}", "use a-secret-value", "got a-secret-value", &variables, &[]).unwrap();
        let count = stored.matches("[env.KEY]*****").count();
        assert_eq!(count, 3, "{stored}: the arguments, the answer and the failure");
    }

    #[test]
    fn runs_about_spaces_are_not_kept() {
        let variables = Variables::default();
        assert!(masked("}", "ats://did:plc:a/space/x", "", &variables, &[]).is_none());
        assert!(masked("}", "plain", "", &variables, &[]).is_some());
    }
}
