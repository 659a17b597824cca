//! Replaces the names of scripts in messages by the paths of their files, in the form `FILE:LINE` that editors and terminals can open.

use std::path::Path;

use super::files;

/// The paths of scripts, by trigger id.
#[derive(Debug, Default)]
pub(in crate::cli) struct Places(Vec<(String, String)>);

impl Places {
    /// The scripts of a folder.
    ///
    /// # Errors
    /// When it can't be read.
    pub(in crate::cli) fn of_folder(dir: &Path) -> anyhow::Result<Self> {
        let mut places = Self::default();
        for script in files::read_folder(dir)?.scripts {
            places.add(script.trigger.id(), &script.path);
        }
        Ok(places)
    }

    pub(in crate::cli) fn add(&mut self, trigger: &str, path: &Path) {
        self.0.push((format!("{trigger}:"), format!("{}:", path.display())));
        // So that the name of one script that is the end of another's is replaced after it.
        self.0.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    }

    /// The message with `PATH:LINE` for each `TRIGGER:LINE`.
    pub(in crate::cli) fn replace(&self, message: &str) -> String {
        let mut out = message.to_owned();
        for (trigger, path) in &self.0 {
            out = replace_before_digit(&out, trigger, path);
        }
        out
    }
}

/// Replaces a text where a digit follows.
fn replace_before_digit(text: &str, from: &str, to: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let (before, after) = (&rest[..at], &rest[at + from.len()..]);
        out.push_str(before);
        out.push_str(if after.starts_with(|c: char| c.is_ascii_digit()) { to } else { from });
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_become_paths_and_names_stay() {
        let mut places = Places::default();
        places.add("lib:a", Path::new("s/lib/a.lua"));
        places.add("xrpc.query:com.example.a", Path::new("s/xrpc.query/com.example.a.lua"));
        let message = "lib:a:3: in xrpc.query:com.example.a:12: bad, lib:a: and lib:ab:1:";
        let expected = "s/lib/a.lua:3: in s/xrpc.query/com.example.a.lua:12: bad, lib:a: and lib:ab:1:";
        assert_eq!(places.replace(message), expected);
    }
}
