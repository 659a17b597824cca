//! Parses paths into a record: `a.b[0].c`.

use std::fmt;

/// Longer paths are rejected: a record has at most 64 levels, and keys are short.
const MAX_BYTES: usize = 512;
/// Both databases evaluate a path step by step for every row, so the steps are limited.
const MAX_STEPS: usize = 32;
/// The maximum number of digits of an index: it fits PostgreSQL's `integer`, and no record has more elements.
const MAX_INDEX_DIGITS: usize = 7;

/// A validated path: segments joined by `.`, each `[A-Za-z0-9_]+` followed by any number of `[digits]`. It never
/// contains `$`, quotes or other special characters of SQL or JSONPath.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A field of an object.
    Key(String),
    /// An element of an array, from 0.
    Index(u32),
}

/// The text is not a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a path into a record (a.b[0].c)")]
pub struct InvalidPath;

impl Path {
    /// # Errors
    /// For anything outside the grammar, and for paths that are too long.
    pub fn parse(text: &str) -> Result<Self, InvalidPath> {
        if text.len() > MAX_BYTES {
            return Err(InvalidPath);
        }
        let mut steps = Vec::new();
        for segment in text.split('.') {
            let (key, indexes) = segment.split_at(segment.find('[').unwrap_or(segment.len()));
            if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                return Err(InvalidPath);
            }
            steps.push(Step::Key(key.to_owned()));
            let mut rest = indexes;
            while !rest.is_empty() {
                let (index, after) =
                    rest.strip_prefix('[').and_then(|r| r.split_once(']')).ok_or(InvalidPath)?;
                let plain = (1..=MAX_INDEX_DIGITS).contains(&index.len())
                    && index.bytes().all(|b| b.is_ascii_digit());
                if !plain {
                    return Err(InvalidPath);
                }
                steps.push(Step::Index(index.parse().map_err(|_| InvalidPath)?));
                rest = after;
            }
        }
        if steps.len() > MAX_STEPS {
            return Err(InvalidPath);
        }
        Ok(Self(steps))
    }

    pub fn steps(&self) -> &[Step] {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if n == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_the_grammar() {
        for text in ["a", "a.b", "a[0]", "a.b[0].c", "a[0][12].b_1", "createdAt", "0", "_", "a.0.b"] {
            assert_eq!(Path::parse(text).map(|p| p.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn rejects_everything_else() {
        let long = "a".repeat(MAX_BYTES + 1);
        let deep = vec!["a"; MAX_STEPS + 1].join(".");
        for text in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "[0]",
            "a.[0]",
            "a[",
            "a[]",
            "a[x]",
            "a[-1]",
            "a[0",
            "a[0]b",
            "a]",
            "$type",
            "a-b",
            "a b",
            "a'b",
            "a\"b",
            "a/*",
            "ä",
            "a[00000000]",
            &long,
            &deep,
        ] {
            assert_eq!(Path::parse(text), Err(InvalidPath), "{text}");
        }
    }

    proptest! {
        #[test]
        fn parsed_paths_round_trip(text in "[a-zA-Z0-9_.\\[\\]$'\" -]{0,40}") {
            if let Ok(path) = Path::parse(&text) {
                // Indexes may have leading zeros; read again, the path is the same.
                prop_assert_eq!(Path::parse(&path.to_string()), Ok(path));
            }
        }

        #[test]
        fn never_panics(text in ".*") {
            let _ = Path::parse(&text);
        }
    }
}
