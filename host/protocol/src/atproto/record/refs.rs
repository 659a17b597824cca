//! Collects the references of a record: its strings that address a record or an account, and where they are.

use super::super::Did;

/// Longer texts are not stored as references: no record's address is longer (a DID of 1 KiB, a collection of 317 bytes and an
/// rkey of 512 bytes), and PostgreSQL limits an index entry to about 2.7 KB.
pub const MAX_REF_BYTES: usize = 2048;

/// At most this many distinct references of a record are stored, so that one record can't create a million rows.
pub const MAX_REFS: usize = 10_000;

/// The references that one pass collects at most, duplicates included. A record of 1 MiB can't contain more.
const MAX_COLLECTED: usize = 1 << 18;

/// A longer path is left out. Those of published lexicons have up to 60 bytes.
const MAX_PATH_BYTES: usize = 256;

/// The distinct paths of one record: with more, a small record could make many long texts.
const MAX_PATHS_OF_RECORD: usize = 64;

/// The bytes of all stored paths of a record: an array of ten thousand targets has that many.
const MAX_PATHS_BYTES: usize = 256 << 10;

/// The paths of one reference. A record of a published lexicon has at most three.
pub(super) const MAX_PATHS: usize = 8;

/// A reference of a record to another record or to an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ref {
    /// The AT URI or the DID, spelled as in the record.
    pub target: String,
    /// The places of the record where it is, separated by spaces, sorted: names joined by dots, with `[]` for the items of an array
    /// (`reply.parent.uri`, `facets[].features[].did`). A place under a name with other characters than ASCII letters, digits, `_`,
    /// `-` and `$` is left out.
    pub paths: String,
}

/// A step from the record to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The name is at these bytes of the output.
    Member {
        start: u32,
        end: u32,
    },
    Item,
}

/// The references found so far: targets with the number of their path.
#[derive(Debug, Default)]
pub(super) struct Refs {
    found: Vec<(String, usize)>,
    paths: Vec<String>,
}

impl Refs {
    /// Takes the text that begins at `text` and ends the output if it is a reference. One with U+0000 is skipped: it addresses
    /// nothing, and PostgreSQL can't store it.
    #[inline]
    pub(super) fn note(&mut self, out: &[u8], text: usize, places: &[Place]) {
        let bytes = &out[text..];
        if bytes.starts_with(b"at://") || bytes.starts_with(b"did:") {
            self.note_likely(bytes, out, places);
        }
    }

    fn note_likely(&mut self, bytes: &[u8], out: &[u8], places: &[Place]) {
        if bytes.len() <= MAX_REF_BYTES
            && self.found.len() < MAX_COLLECTED
            && let Ok(text) = std::str::from_utf8(bytes)
            && !text.contains('\0')
            && (text.starts_with("at://") || Did::try_from(text).is_ok())
        {
            let path = self.number(path_of(out, places).unwrap_or_default());
            self.found.push((text.to_owned(), path));
        }
    }

    /// The number of a path, or a number without a path if there are too many.
    fn number(&mut self, path: String) -> usize {
        // Backwards, because the items of an array have the same path.
        if let Some(number) = self.paths.iter().rposition(|known| *known == path) {
            return number;
        }
        if self.paths.len() == MAX_PATHS_OF_RECORD {
            return usize::MAX;
        }
        self.paths.push(path);
        self.paths.len() - 1
    }

    /// Each target once with all its paths, sorted, at most [`MAX_REFS`].
    pub(super) fn into_sorted(self) -> Vec<Ref> {
        let Self { mut found, paths } = self;
        let path = |number: usize| paths.get(number).map_or("", String::as_str);
        found.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| path(a.1).cmp(path(b.1))));
        found.dedup();
        let mut refs: Vec<Ref> = Vec::new();
        let (mut count, mut bytes_left) = (0, MAX_PATHS_BYTES);
        for (target, number) in found {
            let path = path(number);
            let path = if path.len() < bytes_left { path } else { "" };
            bytes_left -= path.len();
            if let Some(last) = refs.last_mut().filter(|last| last.target == target) {
                if count < MAX_PATHS && !path.is_empty() {
                    add(&mut last.paths, path);
                    count += 1;
                }
            } else if refs.len() < MAX_REFS {
                count = usize::from(!path.is_empty());
                refs.push(Ref { target, paths: path.to_owned() });
            } else {
                break;
            }
        }
        refs
    }
}

fn add(paths: &mut String, path: &str) {
    if !paths.is_empty() {
        paths.push(' ');
    }
    paths.push_str(path);
}

/// `None` for a place that no path can name.
fn path_of(out: &[u8], places: &[Place]) -> Option<String> {
    let mut path = String::new();
    for place in places {
        match *place {
            Place::Item => path.push_str("[]"),
            Place::Member { start, end } => {
                let name = std::str::from_utf8(out.get(start as usize..end as usize)?).ok()?;
                if name.is_empty() || !name.bytes().all(is_plain) {
                    return None;
                }
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
        }
        if path.len() > MAX_PATH_BYTES {
            return None;
        }
    }
    Some(path)
}

/// Whether a name may have this character. Statements of SQLite make JSON of paths: a quote or a backslash would break it.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'$')
}
