//! Deserializes fields of request bodies by the rules that all endpoints share.

use serde::{Deserialize, Deserializer};

/// Null means the same as absence: the default (admin-api.md §1.1). Every field of a body with `#[serde(default)]` takes
/// this, except an `Option` and a [`Patch`](belvedere_storage::store::Patch), whose null clears; a test checks that.
///
/// # Errors
/// Those of the value.
pub fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Body {
        #[serde(default, deserialize_with = "or_default")]
        list: Vec<String>,
    }

    #[test]
    fn null_is_the_default() {
        let read = |text| serde_json::from_str::<Body>(text).map(|body| body.list).map_err(|_| ());
        assert_eq!(read("{}"), Ok(vec![]));
        assert_eq!(read(r#"{"list":null}"#), Ok(vec![]));
        assert_eq!(read(r#"{"list":["a"]}"#), Ok(vec!["a".to_owned()]));
        assert_eq!(read(r#"{"list":[null]}"#), Err(()));
    }

    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else {
                found.push(path);
            }
        }
    }

    #[test]
    fn every_field_with_a_default_takes_null() {
        let mut files = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api"), &mut files);
        assert!(files.len() > 50);
        let mut offences = Vec::new();
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            let mut lines = text.lines().map(str::trim);
            while let Some(line) = lines.next() {
                // The two spellings of the attribute.
                if !line.starts_with("#[serde(default)]") && !line.starts_with("#[serde(default =") {
                    continue;
                }
                let field =
                    lines.find(|line| !line.starts_with("//") && !line.starts_with('#')).unwrap_or_default();
                if !field.contains(": Option<") && !field.contains(": Patch<") {
                    offences.push(format!("{}: {field}", file.display()));
                }
            }
        }
        assert_eq!(offences, [""; 0], "add deserialize_with = \"or_default\"");
    }
}
