//! Finds the lines of a JSON text that an error is about.

use std::collections::HashMap;

use serde_json::value::RawValue;

/// The line of a byte, counted from 1.
pub(super) fn line_at(text: &[u8], byte: usize) -> usize {
    text[..byte.min(text.len())].split(|byte| *byte == b'\n').count()
}

/// The line of a path, such as `defs.main.errors[0].name`. If the text has no such path, the line of the last part of it
/// that is there.
pub(super) fn line_of(text: &str, path: &str) -> Option<usize> {
    let (mut value, mut rest) = (text, path);
    while let Some((child, after)) = step(value, rest) {
        (value, rest) = (child, after);
    }
    // Every step has led to a part of the text.
    let byte = value.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    Some(line_at(text.as_bytes(), byte))
}

/// The value that the first part of a path leads to, and the rest of the path.
fn step<'a, 'b>(value: &'a str, path: &'b str) -> Option<(&'a str, &'b str)> {
    if let Some(indexed) = path.strip_prefix('[') {
        let (index, rest) = indexed.split_once(']')?;
        let items: Vec<&RawValue> = serde_json::from_str(value).ok()?;
        let item = items.get(index.parse::<usize>().ok()?)?;
        return Some((item.get(), rest.strip_prefix('.').unwrap_or(rest)));
    }
    let members: HashMap<String, &RawValue> = serde_json::from_str(value).ok()?;
    // Names may contain dots, so the longest one that fits is meant.
    let fitting = members.iter().filter_map(|(name, member)| {
        let rest = path.strip_prefix(name.as_str())?;
        let rest = if rest.is_empty() || rest.starts_with('[') { Some(rest) } else { rest.strip_prefix('.') };
        Some((name, member, rest?))
    });
    let (_, member, rest) = fitting.max_by_key(|(name, ..)| name.len())?;
    Some((member.get(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_lines() {
        let text = "{\n \"id\": 1,\n \"defs\": {\n  \"main.x\": 7, \"main\": {\n   \"errors\": [\n    {},\n    { \"name\":\n\
                    5 } ] } }\n}\n";
        for (path, line) in [
            ("id", 2),
            ("defs", 3),
            ("defs.main.x", 4),
            ("defs.main", 4),
            ("defs.main.errors", 5),
            ("defs.main.errors[1]", 7),
            ("defs.main.errors[1].name", 8),
            ("defs.main.errors[1].missing", 7),
            ("defs.main.missing[7].x", 4),
            ("missing", 1),
            ("", 1),
        ] {
            assert_eq!(line_of(text, path), Some(line), "{path}");
        }
        assert_eq!(line_at(b"a\nb\n\xff", 4), 3);
    }
}
